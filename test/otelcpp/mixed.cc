/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A span of opentelemetry-cpp itself inside a span of its C wrapper: it does all the work, and its parent is current
 * only because of the wrapper. The SDK's first own start comes late on purpose.
 */
#include <opentelemetry/trace/provider.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

int main()
{
	otelc_init_tracer_provider("mixed", "1", "", "1");
	void *tracer = otelc_get_tracer();
	void *outer = otelc_start_span(tracer, "outer", OTELC_SPAN_KIND_INTERNAL, "");
	auto inner =
		opentelemetry::trace::Provider::GetTracerProvider()->GetTracer("mixed")->StartSpan(
			"inner");

	/* the program's own attribute, in place of our link to the profile */
	void *own = otelc_create_attr_map();

	otelc_set_str_attr(own, "pyroscope.profile.id", "mine");
	otelc_set_span_attrs(outer, own);
	otelc_destroy_attr_map(own);
	host_burn_ms(500);
	inner->End();
	otelc_end_span(outer);
	otelc_destroy_tracer_provider();
	return 0;
}
