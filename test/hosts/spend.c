/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simplest host: one span that uses CPU time, after it has read its environment like any program. Usage: spend
 * <milliseconds> [span name]. Prints "done".
 */
#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

int main(int argc, char **argv)
{
	void *tracer;
	void *span;

	otelc_init_tracer_provider("spend", "1.0", "test", "");
	tracer = otelc_get_tracer();
	span = otelc_start_span(tracer, argc > 2 ? argv[2] : "spend", OTELC_SPAN_KIND_INTERNAL,
				NULL);
	host_burn_ms(argc > 1 ? atoi(argv[1]) : 200);
	otelc_end_span(span);
	otelc_destroy_tracer(tracer);
	otelc_destroy_tracer_provider();
	printf("done\n");
	return 7;
}
