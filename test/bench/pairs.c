/* SPDX-License-Identifier: Apache-2.0 */
/* Spans through the C wrapper over opentelemetry-cpp: a started span is current until it ends. */
#include <stddef.h>

#include "test/bench/loop.h"
#include "test/sdk/opentelemetry_c.h"

static void *tracer;

static void pairs(long n)
{
	while (n-- > 0)
		otelc_end_span(otelc_start_span(tracer, "pair", OTELC_SPAN_KIND_INTERNAL, ""));
}

static void open_spans(long n)
{
	while (n-- > 0)
		(void)otelc_start_span(tracer, "open", OTELC_SPAN_KIND_INTERNAL, "");
}

int main(int argc, char **argv)
{
	static const struct loop loop = {.pairs = pairs, .open = open_spans};

	otelc_init_tracer_provider("bench", "1", "", "1");
	tracer = otelc_get_tracer();
	return loop_main(argc, argv, &loop);
}
