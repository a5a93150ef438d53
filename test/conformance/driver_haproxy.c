/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stories' SDK: haproxytech/opentelemetry-c-wrapper, for which test/haproxy stands with opentelemetry-cpp, in the
 * generation that FIXTURE_API names.
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

#define NAME_MAX_BYTES 64
#define KIND_SERVER 2
#define STATUS_OK 1
#define STATUS_ERROR 2
#define TRACERS 100

static struct otelc_tracer *tracer;

static struct otelc_tracer *new_tracer(void)
{
	char *error = NULL;

#if FIXTURE_API >= 10
	return SDK(otelc_tracer_create)(SDK(otelc_init)("config", &error), &error);
#else
	HOST_CHECK(SDK(otelc_init)("config", &error) == OTELC_RET_OK);
	return SDK(otelc_tracer_create)(&error);
#endif
}

static void set_up(enum driver_provider provider)
{
	if (provider == PROVIDER_UNSAMPLED)
		setenv("FIXTURE_MODE", "unsampled", 1);
	if (provider == PROVIDER_NONE)
		setenv("FIXTURE_MODE", "noop", 1);
	tracer = new_tracer();
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
			const struct otelc_span_context *context,
			const struct otelc_span_link *links, size_t count)
{
	struct timespec steady = {1, 2};
	struct timespec system = {3, 4};

	return handle_of(tracer->ops->start_span_with_options(
		tracer, name, parent, context, &steady, &system, KIND_SERVER, links, count));
}

static void *start(const char *name, const void *parent)
{
	static __thread unsigned turn;
	const struct handle *p = parent;
	struct otelc_carrier carrier;
	struct otelc_span_context *context;
	char lent[NAME_MAX_BYTES];
	void *h;

	/* The buffer changes later: code that stored the pointer instead of the name would find another text. */
	snprintf(lent, sizeof(lent), "%s", name);
	if (p == NULL && turn++ % 2 == 0) {
		h = handle_of(tracer->ops->start_span(tracer, lent));
	} else if (p == NULL || turn++ % 2 == 0 ||
		   p->span->ops->inject_text_map(p->span, &carrier) != OTELC_RET_OK) {
		h = start_from(lent, p != NULL ? p->span : NULL, NULL, NULL, 0);
	} else {
		context = tracer->ops->extract_text_map(tracer, &carrier);
		h = start_from(lent, NULL, context, NULL, 0);
		context->ops->destroy(&context);
	}
	memset(lent, 'x', sizeof(lent) - 1);
	return h;
}

static struct otelc_span_context *remote(const struct driver_ids *far)
{
	struct otelc_carrier carrier;
	struct otelc_span_context *context;

	memcpy(carrier.trace_id, far->trace_id, sizeof(carrier.trace_id));
	memcpy(carrier.span_id, far->span_id, sizeof(carrier.span_id));
	context = tracer->ops->extract_http_headers(tracer, &carrier);
	HOST_CHECK(context != NULL);
	return context;
}

static void *start_remote(const char *name, const struct driver_ids *parent)
{
	struct otelc_span_context *context = remote(parent);
	void *h = start_from(name, NULL, context, NULL, 0);

	context->ops->destroy(&context);
	return h;
}

static void *start_linked(const char *name, const void *other, const struct driver_ids *far,
			  bool is_remote)
{
	const struct handle *o = other;
	struct otelc_span_context *context = remote(far);
	const struct otelc_span_link links[] = {{.context = context}, {.span = o->span}};
	void *h = start_from(name, NULL, is_remote ? context : NULL, links, 2);

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
	/* refused, with a message */
	h->span->ops->set_operation_name(h->span, "");
}

static void set_attribute(void *span, const char *key, const char *value)
{
	const struct handle *h = span;
	char own_key[NAME_MAX_BYTES];
	const struct otelc_kv pair = {.key = own_key,
				      .value = {OTELC_VALUE_STRING, {.value_string = value}}};

	snprintf(own_key, sizeof(own_key), "%s", key);
	HOST_CHECK(h->span->ops->set_attribute_kv_n(h->span, &pair, 1) == 1);
}

static const char *set_value(void *span, unsigned way)
{
	static char key[] = "test.value";
	const struct otelc_kv pair = {.key = key,
				      .value = {OTELC_VALUE_INT64, {.value_int64 = 42}}};
	const struct handle *h = span;

	if (way > 0)
		return NULL;
	HOST_CHECK(h->span->ops->set_attribute_kv_n(h->span, &pair, 1) == 1);
	return "42";
}

static void set_status(void *span, bool is_error)
{
	const struct handle *h = span;

	HOST_CHECK(h->span->ops->set_status(h->span, is_error ? STATUS_ERROR : STATUS_OK, "why") ==
		   OTELC_RET_OK);
}

static void end(void *span)
{
	static __thread unsigned turn;
	struct timespec steady = {5, 6};
	struct handle *h = span;

	if (h == NULL)
		return;
	if (turn++ % 2 == 0)
		h->span->ops->end(&h->span);
	else
		h->span->ops->end_with_options(&h->span, &steady, STATUS_OK, "fine");
	HOST_CHECK(h->span == NULL);
}

static void destroy(void *span)
{
	struct handle *h = span;

	if (h != NULL && h->span != NULL)
		h->span->ops->destroy(&h->span);
	free(h);
}

static void refused(struct otelc_span *span)
{
	printf("refused %d: %s\n", span == NULL, tracer->err != NULL ? tracer->err : "");
}

/* Calls that the wrapper refuses or passes straight through, and far more tracers than any program has. */
static void odd(void *of_span)
{
	const struct handle *h = of_span;
	const struct otelc_span_ops *ops = h->span->ops;
	struct otelc_span *none = NULL;
	struct otelc_span_context *far =
		tracer->ops->extract_http_headers(tracer, &(struct otelc_carrier){{1}, {1}});

	refused(tracer->ops->start_span(tracer, NULL));
	refused(tracer->ops->start_span(tracer, ""));
	refused(tracer->ops->start_span_with_options(tracer, "x", h->span, far, NULL, NULL, 1, NULL,
						     0));
	refused(tracer->ops->start_span_with_options(tracer, "x", NULL, NULL, NULL, NULL, 17, NULL,
						     0));
	ops->end(&none);
	ops->end(NULL);
	ops->end_with_options(&none, NULL, -1, NULL);
	ops->destroy(&none);
	ops->destroy(NULL);
	far->ops->destroy(&far);
#if FIXTURE_API >= 10
	tracer->ops->set_enabled(tracer, false);
	refused(tracer->ops->start_span(tracer, "x"));
	tracer->ops->set_enabled(tracer, true);
#endif
	HOST_CHECK(ops->is_recording(h->span) == 1);
	HOST_CHECK(ops->set_status(h->span, STATUS_OK, NULL) == OTELC_RET_OK);
	HOST_CHECK(h->span->tracer == tracer);
	for (int i = 0; i < TRACERS; i++) {
		struct otelc_tracer *other = new_tracer();

		/* a tracer that was not started starts no span */
		refused(other->ops->start_span(other, "x"));
		(void)other->ops->start(other);
		HOST_CHECK(other->ops == tracer->ops);
		other->ops->destroy(&other);
		HOST_CHECK(other == NULL);
	}
}

static const struct driver driver = {
	.lacks =
		{
			[NEED_AMBIENT] = "c-explicit-parent",
			[NEED_SCOPE] = "c-no-scope",
			[NEED_END_TWICE] = "c-end-clears",
			[NEED_HELD] = "c-no-scope",
			[NEED_CALLBACK] = "no-callback",
			[NEED_STORAGE] = "no-storage",
		},
	.set_up = set_up,
	.shut_down = shut_down,
	.start = start,
	.start_remote = start_remote,
	.start_linked = start_linked,
	.ids = ids,
	.rename = rename_span,
	.set_attribute = set_attribute,
	.set_value = set_value,
	.set_status = set_status,
	.odd = odd,
	.needs_name = true,
	.end = end,
	.destroy = destroy,
};

const struct driver *conformance_driver(void)
{
	return &driver;
}
