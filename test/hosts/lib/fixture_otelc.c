/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for the test SDK (test/sdk) with the same exported names: no exporter, no threads, no C++.
 * Hosts that only need spans link with it. Like the test SDK, which wraps opentelemetry-cpp, this is a
 * wrapper: around the C SDK of fixture_spans.c. A started span becomes the parent of spans that the
 * thread starts before it ends. Variables:
 *
 *   FIXTURE_CALLS=file   one line for each start, end and query of a span's context; spans are
 *                        numbered, so that two runs can be compared
 *   FIXTURE_SPANS=file   one JSON line per ended span: name, trace_id, span_id, pid, attributes
 *   FIXTURE_SEED=n       ids from n alone; otherwise from the process id, so that a forked child's
 *                        spans have ids of their own
 *   FIXTURE_UNSAMPLED=1  spans carry the flags of an unsampled one
 *
 * A span named "(none)" is refused: start returns NULL, as an SDK out of memory would.
 */
#include <stdlib.h>
#include <string.h>

#include "test/otelc/otelc.h"
#include "test/sdk/opentelemetry_c.h"

#define API __attribute__((visibility("default")))

struct handle {
	otel_span_t *span;
	struct handle *previous;
};

static __thread struct handle *current;

API void otelc_init_tracer_provider(const char *service_name, const char *service_version,
				    const char *service_namespace, const char *service_instance_id)
{
	(void)service_name;
	(void)service_version;
	(void)service_namespace;
	(void)service_instance_id;
}

API void otelc_destroy_tracer_provider(void)
{
}

API void *otelc_get_tracer(void)
{
	otel_string_view_t none = {"", 0};

	return otel_tracer_provider_get_tracer(NULL, none, none, none);
}

API void otelc_destroy_tracer(void *tracer)
{
	(void)tracer;
}

API void *otelc_start_span(void *tracer, const char *span_name, otelc_span_kind_t span_kind,
			   const char *remote_context)
{
	otel_span_start_options_t options = {
		.kind = span_kind,
		.parent = current != NULL ? current->span : NULL,
	};
	otel_string_view_t name = {span_name, strlen(span_name)};
	struct handle *h;
	otel_span_t *span = otel_tracer_start_span(tracer, name, &options);

	(void)remote_context;
	h = span != NULL ? malloc(sizeof(*h)) : NULL;
	if (h == NULL)
		return NULL;
	h->span = span;
	h->previous = current;
	current = h;
	return h;
}

API void otelc_end_span(void *span)
{
	struct handle *h = span;

	if (h == NULL)
		return;
	if (current == h)
		current = h->previous;
	(void)otel_span_end(h->span);
	otel_span_destroy(h->span);
	free(h);
}
