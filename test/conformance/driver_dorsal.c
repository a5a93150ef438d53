/* SPDX-License-Identifier: Apache-2.0 */
/* The stories' SDK: dorsal-lab/opentelemetry-c, which test/sdk builds over Debian's opentelemetry-cpp. */
#include <stdlib.h>
#include <string.h>

#include "test/conformance/byname.h"
#include "test/conformance/driver.h"
#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

/* An end frees the SDK's handle, so the driver wraps it in its own. */
struct handle {
	void *span; /* NULL = ended */
};

static void *tracer;

static void set_up(enum driver_provider provider)
{
	if (provider == PROVIDER_UNSAMPLED)
		setenv("OTEL_TRACES_SAMPLER", "always_off", 1);
	setenv("OTELC_PROCESSOR", "simple", 1);
	if (provider != PROVIDER_NONE)
		SDK(otelc_init_tracer_provider)("conformance", "1", "", "");
	tracer = SDK(otelc_get_tracer)();
}

static void shut_down(void)
{
	SDK(otelc_destroy_tracer_provider)();
}

static void *start_with(const char *name, const char *context)
{
	struct handle *h = calloc(1, sizeof(*h));

	HOST_CHECK(h != NULL);
	h->span = SDK(otelc_start_span)(tracer, name, OTELC_SPAN_KIND_INTERNAL, context);
	HOST_CHECK(h->span != NULL);
	return h;
}

static void *start(const char *name, const void *parent)
{
	const struct handle *p = parent;
	char *context = NULL;
	void *h;

	if (p != NULL)
		context = SDK(otelc_extract_context_from_current_span)(p->span);
	h = start_with(name, context);
	free(context);
	return h;
}

static void *start_ambient(const char *name)
{
	return start_with(name, NULL);
}

static void hex(const uint8_t *bytes, size_t len, char *out)
{
	for (size_t i = 0; i < len; i++)
		snprintf(out + 2 * i, 3, "%02x", (unsigned)bytes[i]);
}

static void *start_remote(const char *name, const struct driver_ids *parent)
{
	char context[128];
	char trace_id[33];
	char span_id[17];

	hex(parent->trace_id, sizeof(parent->trace_id), trace_id);
	hex(parent->span_id, sizeof(parent->span_id), span_id);
	snprintf(context, sizeof(context), "1 11 traceparent 55 00-%s-%s-01", trace_id, span_id);
	return start_with(name, context);
}

static bool ids(const void *span, struct driver_ids *out)
{
	const struct handle *h = span;
	char *context = SDK(otelc_extract_context_from_current_span)(h->span);
	const char *at = strstr(context, " 00-");
	unsigned byte = 0;
	bool ok = at != NULL;

	for (int i = 0; ok && i < 16; i++) {
		ok = sscanf(at + 4 + 2 * i, "%2x", &byte) == 1;
		out->trace_id[i] = (uint8_t)byte;
	}
	for (int i = 0; ok && i < 8; i++) {
		ok = sscanf(at + 37 + 2 * i, "%2x", &byte) == 1;
		out->span_id[i] = (uint8_t)byte;
	}
	free(context);
	return ok;
}

static void set_attribute(void *span, const char *key, const char *value)
{
	const struct handle *h = span;
	void *map = SDK(otelc_create_attr_map)();

	SDK(otelc_set_str_attr)(map, key, value);
	SDK(otelc_set_span_attrs)(h->span, map);
	SDK(otelc_destroy_attr_map)(map);
}

static void set_status(void *span, bool is_error)
{
	const struct handle *h = span;

	SDK(otelc_set_span_status)
	(h->span, is_error ? OTELC_SPAN_STATUS_CODE_ERROR : OTELC_SPAN_STATUS_CODE_OK, "why");
}

static void end(void *span)
{
	struct handle *h = span;

	SDK(otelc_end_span)(h->span);
	h->span = NULL;
}

static void destroy(void *span)
{
	free(span);
}

static const struct driver driver = {
	.lacks =
		{
			[NEED_ROOT] = "b-implicit-parent",
			[NEED_SCOPE] = "b-no-scope",
			[NEED_END_TWICE] = "b-end-frees",
			[NEED_DESTROY] = "b-end-frees",
			[NEED_RENAME] = "b-no-rename",
			[NEED_NO_SCOPE] = "b-start-attaches",
			[NEED_HELD] = "b-no-scope",
			[NEED_CALLBACK] = "no-callback",
			[NEED_LINKS] = "no-links",
			[NEED_STORAGE] = "no-storage",
			[NEED_ODD] = "b-aborts",
		},
	.end_goes_through = true,
	.records_after_shutdown = true,
	.set_up = set_up,
	.shut_down = shut_down,
	.start = start,
	.start_ambient = start_ambient,
	.start_remote = start_remote,
	.ids = ids,
	.set_attribute = set_attribute,
	.set_status = set_status,
	.end = end,
	.destroy = destroy,
};

const struct driver *conformance_driver(void)
{
	return &driver;
}
