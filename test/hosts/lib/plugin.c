/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin that contains the SDK: neither is in the global scope of the process that opens it with RTLD_LOCAL. Called
 * by test/hosts/plugin_host.c.
 */
#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

__attribute__((visibility("default"))) void plugin_run(const char *span_name, int cpu_ms);

__attribute__((visibility("default"))) void plugin_run(const char *span_name, int cpu_ms)
{
	void *tracer;
	void *span;

	otelc_init_tracer_provider("plugin", "1.0", "test", "");
	tracer = otelc_get_tracer();
	span = otelc_start_span(tracer, span_name, OTELC_SPAN_KIND_INTERNAL, NULL);
	host_burn_ms(cpu_ms);
	otelc_end_span(span);
	otelc_destroy_tracer(tracer);
	otelc_destroy_tracer_provider();
}
