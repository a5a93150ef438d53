/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host with many shared objects: opens the named ones, and spends 5 ms in each, in a span. Usage: modules OBJECT...
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define SPEND_MS 5

typedef unsigned (*work)(unsigned);

int main(int argc, char **argv)
{
	void *tracer;

	otelc_init_tracer_provider("modules", "1.0", "test", "");
	tracer = otelc_get_tracer();
	for (int i = 1; i < argc; i++) {
		void *object = dlopen(argv[i], RTLD_NOW);
		work fn = object != NULL ? (work)dlsym(object, "work_0") : NULL;
		void *span = otelc_start_span(tracer, "modules", OTELC_SPAN_KIND_INTERNAL, NULL);
		int64_t end = host_cpu_ns() + (int64_t)SPEND_MS * 1000000;

		HOST_CHECK(fn != NULL);
		while (host_cpu_ns() < end)
			(void)fn(10000);
		otelc_end_span(span);
	}
	otelc_destroy_tracer(tracer);
	otelc_destroy_tracer_provider();
	return 0;
}
