/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes local roots of two names that compute for known times. Each "checkout" takes another time, and every 50th is much
 * slower; all "steady" take the same time. Each root gets an attribute before its end. Slow roots end with an error. The
 * SDK writes how long each root took.
 * Usage: latencies [roots of each name]
 */
#define _GNU_SOURCE
#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define LEAST_MS 2
#define KINDS 7
#define SLOW_EACH 50
#define SLOW_MS 40
#define STEADY_MS 3

static void *tracer;

static void root(const char *name, int ms, const char *route, int fails)
{
	void *span = otelc_start_span(tracer, name, OTELC_SPAN_KIND_SERVER, NULL);
	void *attributes = otelc_create_attr_map();

	host_burn_ms(ms);
	otelc_set_str_attr(attributes, "http.route", route);
	otelc_set_span_attrs(span, attributes);
	otelc_destroy_attr_map(attributes);
	if (fails)
		otelc_set_span_status(span, OTELC_SPAN_STATUS_CODE_ERROR, "too slow");
	otelc_end_span(span);
}

int main(int argc, char **argv)
{
	int roots = argc > 1 ? atoi(argv[1]) : 300;

	otelc_init_tracer_provider("latencies", "1.0", "test", "");
	tracer = otelc_get_tracer();
	for (int i = 0; i < roots; i++) {
		int is_slow = i % SLOW_EACH == SLOW_EACH - 1;

		root("checkout", is_slow ? SLOW_MS + i / SLOW_EACH : LEAST_MS + i % KINDS,
		     is_slow ? "/slow" : "/usual", is_slow);
		root("steady", STEADY_MS, "/steady", 0);
	}
	otelc_destroy_tracer_provider();
	return 0;
}
