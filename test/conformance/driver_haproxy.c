/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stories' SDK: haproxytech/opentelemetry-c-wrapper, as test/haproxy stands in for it over
 * opentelemetry-cpp, in the generation that FIXTURE_API names.
 */
#include <stdlib.h>
#include <string.h>

#include "test/conformance/byname.h"
#include "test/conformance/driver.h"
#include "test/haproxy/wrapper.h"
#include "test/hosts/host.h"

/* An end frees the SDK's span and clears the pointer to it. */
struct handle {
	struct otelc_span *span;
};

static struct otelc_tracer *tracer;

static void set_up(enum driver_provider provider)
{
	char *error = NULL;

	if (provider == PROVIDER_UNSAMPLED)
		setenv("FIXTURE_MODE", "unsampled", 1);
	if (provider == PROVIDER_NONE)
		setenv("FIXTURE_MODE", "noop", 1);
#if FIXTURE_API >= 10
	tracer = SDK(otelc_tracer_create)(SDK(otelc_init)("config", &error), &error);
#else
	HOST_CHECK(SDK(otelc_init)("config", &error) == OTELC_RET_OK);
	tracer = SDK(otelc_tracer_create)(&error);
#endif
	HOST_CHECK(tracer != NULL);
	if (tracer->ops->start != NULL)
		(void)tracer->ops->start(tracer);
}

static void shut_down(void)
{
	HOST_CHECK(tracer->ops->shutdown(tracer, NULL) == OTELC_RET_OK);
}

static void *handle_of(struct otelc_span *span)
{
	struct handle *h;

	if (span == NULL)
		return NULL;
	h = calloc(1, sizeof(*h));
	HOST_CHECK(h != NULL);
	h->span = span;
	return h;
}

static void *start_from(const char *name, const struct otelc_span *parent,
			const struct otelc_span_context *context)
{
	return handle_of(tracer->ops->start_span_with_options(tracer, name, parent, context, NULL,
							      NULL, 0, NULL, 0));
}

static void *start(const char *name, const void *parent)
{
	const struct handle *p = parent;

	if (p != NULL)
		return start_from(name, p->span, NULL);
	return handle_of(tracer->ops->start_span(tracer, name));
}

static void *start_remote(const char *name, const struct driver_ids *parent)
{
	struct otelc_carrier carrier;
	struct otelc_span_context *context;
	void *h;

	memcpy(carrier.trace_id, parent->trace_id, sizeof(carrier.trace_id));
	memcpy(carrier.span_id, parent->span_id, sizeof(carrier.span_id));
	context = tracer->ops->extract_http_headers(tracer, &carrier);
	HOST_CHECK(context != NULL);
	h = start_from(name, NULL, context);
	context->ops->destroy(&context);
	return h;
}

static bool ids(const void *span, struct driver_ids *out)
{
	const struct handle *h = span;
	uint8_t flags;

	return h->span->ops->get_id(h->span, out->span_id, sizeof(out->span_id), out->trace_id,
				    sizeof(out->trace_id), &flags) >= 0;
}

static void rename_span(void *span, const char *name)
{
	const struct handle *h = span;

	h->span->ops->set_operation_name(h->span, name);
}

static void end(void *span)
{
	struct handle *h = span;

	if (h == NULL)
		return;
	h->span->ops->end(&h->span);
	HOST_CHECK(h->span == NULL);
}

static void destroy(void *span)
{
	struct handle *h = span;

	if (h != NULL && h->span != NULL)
		h->span->ops->destroy(&h->span);
	free(h);
}

static const struct driver driver = {
	.lacks =
		{
			[NEED_AMBIENT] = "c-explicit-parent",
			[NEED_SCOPE] = "c-no-scope",
			[NEED_END_TWICE] = "c-end-clears",
		},
	.set_up = set_up,
	.shut_down = shut_down,
	.start = start,
	.start_remote = start_remote,
	.ids = ids,
	.rename = rename_span,
	.end = end,
	.destroy = destroy,
};

const struct driver *conformance_driver(void)
{
	return &driver;
}
