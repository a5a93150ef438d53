/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Providers, tracers and spans of the stand-in SDK, with the original's rules: a start makes no
 * span current, an end works once, a destroy ends an open span, and failures return NULL or a
 * status and set the thread's last error. FIXTURE_FIRST_RELEASE gives the interface of the first
 * release, which does not show the ids of spans.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/otelc/record.h"

#define ATTRIBUTES_MAX 8
#define TEXT_MAX 512

struct attribute {
	char key[64];
	char value[TEXT_MAX];
	bool is_number;
};

struct otel_tracer_provider {
	enum kind kind;
};

struct otel_tracer {
	enum kind kind;
};

struct otel_span {
	enum kind kind;
	unsigned number; /* 0 = a span without effect */
	bool ended;
	bool after_shutdown;
	struct span_ids ids;
	char parent[17];
	char name[TEXT_MAX];
	int used;
	struct attribute attribute[ATTRIBUTES_MAX];
};

static struct otel_tracer_provider the_provider = {KIND_PROVIDER};
static struct otel_tracer the_tracer = {KIND_TRACER};
/* All spans of a process without an SDK are this one. */
static struct otel_span the_noop = {.kind = KIND_SPAN};
static _Atomic unsigned spans;
static _Atomic bool is_shut_down;

API otel_string_view_t otel_version_string(void)
{
	otel_string_view_t view = {"0.1.0", 5};

	return view;
}

API otel_status_t otel_api_register_global_provider(const void *vtable, void *context)
{
	(void)vtable;
	(void)context;
	return failed(OTEL_INVALID_CONFIG, "the stand-in is its own provider");
}

API otel_status_t otel_sdk_shutdown(void *sdk, uint64_t timeout_ms)
{
	int after = errno_after();

	(void)sdk;
	clear_error();
	atomic_store(&is_shut_down, true);
	record(OURS, "shutdown %" PRIu64 "\n", timeout_ms);
	errno = after;
	return OTEL_OK;
}

API otel_tracer_provider_t *otel_global_tracer_provider(void)
{
	return &the_provider;
}

API otel_tracer_t *otel_tracer_provider_get_tracer(const otel_tracer_provider_t *provider,
						   otel_string_view_t name,
						   otel_string_view_t version,
						   otel_string_view_t schema_url)
{
	int after = errno_after();

	clear_error();
	record(OURS, "get_tracer %.*s %.*s %.*s\n", (int)name.len, name.ptr, (int)version.len,
	       version.ptr, (int)schema_url.len, schema_url.ptr);
	errno = after;
	return handle_ok(provider, KIND_PROVIDER) ? &the_tracer : NULL;
}

static void set_ids(struct otel_span *s, const struct span_ids *parent)
{
	uint64_t own = fixture_scrambled(3 * s->number);
	uint64_t trace[2] = {fixture_scrambled(3 * s->number + 1),
			     fixture_scrambled(3 * s->number + 2)};

	memcpy(s->ids.span_id, &own, sizeof(own));
	memcpy(s->ids.trace_id, parent != NULL ? (const void *)parent->trace_id : trace,
	       sizeof(s->ids.trace_id));
	s->ids.flags = fixture_mode_is("unsampled") ? 0 : 1;
	if (parent != NULL)
		shown_id(parent, s->parent);
}

/* The common part of all starts, after their options have been read. */
static otel_span_t *start(const otel_tracer_t *tracer, otel_string_view_t name,
			  const struct span_ids *parent)
{
	struct otel_span *s;

	if (!handle_ok(tracer, KIND_TRACER))
		return NULL;
	if (fixture_mode_is("noop"))
		return &the_noop;
	if (name.ptr == NULL && name.len != 0) {
		(void)failed(OTEL_INVALID_ARGUMENT, "malformed name");
		return NULL;
	}
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		abort();
	s->kind = KIND_SPAN;
	s->number = atomic_fetch_add(&spans, 1) + 1;
	s->after_shutdown = atomic_load(&is_shut_down);
	snprintf(s->name, sizeof(s->name), "%.*s", (int)name.len, name.ptr);
	set_ids(s, parent);
	return s;
}

static const struct span_ids *ids_of(const otel_span_t *span)
{
	return span != NULL && span->number != 0 ? &span->ids : NULL;
}

static unsigned shown_span(const otel_span_t *span)
{
	return span != NULL ? span->number : 9999U;
}

static const char *shown_tracer(const otel_tracer_t *tracer)
{
	return tracer == &the_tracer ? "tracer" : "(null)";
}

API otel_span_t *otel_tracer_start_span(const otel_tracer_t *tracer, otel_string_view_t name,
					const otel_span_start_options_t *options)
{
	int after = errno_after();
	const otel_span_t *parent = options != NULL ? options->parent : NULL;
	otel_span_t *span = NULL;

	clear_error();
	if (parent == NULL || handle_ok(parent, KIND_SPAN))
		span = start(tracer, name, ids_of(parent));
	record(OURS, "start %s %.*s/%zu %s %u parent %u -> %u\n", shown_tracer(tracer),
	       name.ptr != NULL ? (int)name.len : 0, name.ptr, name.len,
	       options != NULL ? "options" : "(null)", options != NULL ? options->kind : 0,
	       shown_span(parent), shown_span(span));
	errno = after;
	return span;
}

static void write_span(const struct otel_span *s)
{
	char line[(ATTRIBUTES_MAX + 1) * (TEXT_MAX + 80)];
	char id[17];
	int len;

	len = snprintf(line, sizeof(line), "{\"name\":\"%s\",\"span_id\":\"%s\",\"trace_id\":\"",
		       s->name, shown_id(&s->ids, id));
	for (int i = 0; i < 16; i++)
		len += snprintf(line + len, sizeof(line) - (size_t)len, "%02x",
				(unsigned)s->ids.trace_id[i]);
	len += snprintf(line + len, sizeof(line) - (size_t)len,
			"\",\"parent_span_id\":\"%s\",\"attributes\":{", s->parent);
	for (int i = 0; i < s->used; i++)
		len += snprintf(line + len, sizeof(line) - (size_t)len, "%s\"%s\":%s%s%s",
				i > 0 ? "," : "", s->attribute[i].key,
				s->attribute[i].is_number ? "" : "\"", s->attribute[i].value,
				s->attribute[i].is_number ? "" : "\"");
	len += snprintf(line + len, sizeof(line) - (size_t)len, "}}\n");
	fixture_append("FIXTURE_SPANS", line, (size_t)len);
}

static void end_once(otel_span_t *span)
{
	if (span->number == 0 || span->ended)
		return;
	span->ended = true;
	if (!span->after_shutdown && (span->ids.flags & 1) != 0)
		write_span(span);
}

API otel_status_t otel_span_end(otel_span_t *span)
{
	int after = errno_after();
	otel_status_t status = OTEL_INVALID_ARGUMENT;

	clear_error();
	if (handle_ok(span, KIND_SPAN)) {
		end_once(span);
		status = OTEL_OK;
	}
	record(OURS, "end %u -> %u\n", shown_span(span), status);
	errno = after;
	return status;
}

API void otel_span_destroy(otel_span_t *span)
{
	int after = errno_after();

	record(OURS, "destroy %u\n", shown_span(span));
	/* a null handle sets the last error; nothing here clears it */
	if (handle_ok(span, KIND_SPAN)) {
		end_once(span);
		if (span->number != 0) {
			span->kind = KIND_DEAD;
			free(span);
		}
	}
	errno = after;
}

static void keep_text(otel_span_t *span, otel_string_view_t key, otel_string_view_t value)
{
	struct attribute *a = &span->attribute[span->used];

	if (span->number == 0 || span->ended || span->used == ATTRIBUTES_MAX)
		return;
	snprintf(a->key, sizeof(a->key), "%.*s", (int)key.len, key.ptr);
	snprintf(a->value, sizeof(a->value), "%.*s", (int)value.len, value.ptr);
	span->used++;
}

/* Whether the span exists; only a failure of this call sets the last error. */
static otel_status_t status_of(const otel_span_t *span)
{
	clear_error();
	return handle_ok(span, KIND_SPAN) ? OTEL_OK : OTEL_INVALID_ARGUMENT;
}

API otel_status_t otel_span_set_string_attribute(otel_span_t *span, otel_string_view_t key,
						 otel_string_view_t value)
{
	/* A hook passes the host's calls on; its own value for a key of the stories is this word. */
	bool ours = OURS && key.len > 10 && strncmp(key.ptr, "pyroscope.", 10) == 0 &&
		    strncmp(value.ptr, HOSTS_WORD, value.len) != 0;
	int after = fixture_errno_after(ours);
	otel_status_t status = OTEL_INVALID_ARGUMENT;

	clear_error();
	if (handle_ok(span, KIND_SPAN)) {
		status = OTEL_OK;
		keep_text(span, key, value);
	}
	record(ours, "set_string_attribute %u %.*s -> %u\n", shown_span(span), (int)key.len,
	       key.ptr, status);
	errno = after;
	return status;
}

API otel_status_t otel_span_set_int64_attribute(otel_span_t *span, otel_string_view_t key,
						int64_t value)
{
	/* A hook passes the host's calls on; our own calls have a key of ours. */
	bool ours = OURS && key.len > 9 && strncmp(key.ptr, "spanprof.", 9) == 0;
	int after = fixture_errno_after(ours);
	otel_status_t status = status_of(span);

	if (status == OTEL_OK && span->number != 0 && !span->ended && span->used < ATTRIBUTES_MAX) {
		struct attribute *a = &span->attribute[span->used++];

		a->is_number = true;
		snprintf(a->key, sizeof(a->key), "%.*s", (int)key.len, key.ptr);
		snprintf(a->value, sizeof(a->value), "%" PRId64, value);
	}
	record(ours, "set_int64_attribute %u %.*s -> %u\n", shown_span(span), (int)key.len, key.ptr,
	       status);
	errno = after;
	return status;
}

API otel_status_t otel_span_set_bool_attribute(otel_span_t *span, otel_string_view_t key,
					       uint32_t value)
{
	int after = errno_after();
	otel_status_t status = status_of(span);

	record(OURS, "set_bool_attribute %u %.*s %u -> %u\n", shown_span(span), (int)key.len,
	       key.ptr, value, status);
	errno = after;
	return status;
}

API otel_status_t otel_span_set_double_attribute(otel_span_t *span, otel_string_view_t key,
						 double value)
{
	int after = errno_after();
	otel_status_t status = status_of(span);

	record(OURS, "set_double_attribute %u %.*s %g -> %u\n", shown_span(span), (int)key.len,
	       key.ptr, value, status);
	errno = after;
	return status;
}

API otel_status_t otel_span_set_attribute(otel_span_t *span, otel_key_value_t attribute)
{
	int after = errno_after();
	otel_status_t status = status_of(span);
	int64_t shown = attribute.value.i;

	if (status == OTEL_OK && attribute.value_type == OTEL_STRING)
		keep_text(span, attribute.key, attribute.value.s);
	/* For a text its length, because its address differs from run to run. */
	if (attribute.value_type == OTEL_STRING)
		shown = (int64_t)attribute.value.s.len;
	record(OURS, "set_attribute %u %.*s type %u %" PRId64 " -> %u\n", shown_span(span),
	       (int)attribute.key.len, attribute.key.ptr, attribute.value_type, shown, status);
	errno = after;
	return status;
}

API otel_status_t otel_span_set_status(otel_span_t *span, uint32_t code,
				       otel_string_view_t description)
{
	int after = errno_after();
	otel_status_t status = code <= 2 ? status_of(span) : OTEL_INVALID_ARGUMENT;

	record(OURS, "set_status %u %u %.*s -> %u\n", shown_span(span), code, (int)description.len,
	       description.ptr, status);
	errno = after;
	return status;
}

API otel_status_t otel_span_update_name(otel_span_t *span, otel_string_view_t name)
{
	int after = errno_after();
	otel_status_t status = OTEL_INVALID_ARGUMENT;

	clear_error();
	if (handle_ok(span, KIND_SPAN)) {
		status = OTEL_OK;
		if (span->number != 0)
			snprintf(span->name, sizeof(span->name), "%.*s", (int)name.len, name.ptr);
	}
	record(OURS, "update_name %u %.*s -> %u\n", shown_span(span), (int)name.len, name.ptr,
	       status);
	errno = after;
	return status;
}

#ifndef FIXTURE_FIRST_RELEASE

API otel_span_t *otel_tracer_start_span_with_context(const otel_tracer_t *tracer,
						     otel_string_view_t name,
						     const otel_span_start_options_t *options,
						     const otel_span_context_t *parent)
{
	int after = errno_after();
	otel_span_t *span = NULL;
	char id[17];

	clear_error();
	if (options != NULL && options->parent != NULL)
		(void)failed(OTEL_INVALID_ARGUMENT, "two parents");
	else if (handle_ok(parent, KIND_SPAN_CONTEXT))
		span = start(tracer, name, &parent->ids);
	record(OURS, "start_with_context %s %.*s %s parent %s -> %u\n", shown_tracer(tracer),
	       (int)name.len, name.ptr, options != NULL ? "options" : "(null)",
	       shown_id(parent != NULL ? &parent->ids : NULL, id), shown_span(span));
	errno = after;
	return span;
}

/* Whether the caller's struct includes that field. */
#define COVERS(o, field)                                                                           \
	((o)->struct_size >= offsetof(otel_span_start_options_ex_t, field) + sizeof((o)->field))

static otel_span_t *start_ex(const otel_tracer_t *tracer, otel_string_view_t name,
			     const otel_span_start_options_ex_t *o)
{
	uint32_t mode = OTEL_PARENT_EXPLICIT;
	const struct span_ids *parent = NULL;

	if (o == NULL || !COVERS(o, start_time_unix_nanos)) {
		(void)failed(OTEL_INVALID_CONFIG, "options are missing or too small");
		return NULL;
	}
	if (COVERS(o, reserved2))
		mode = o->parent_mode;
	if (o->reserved != 0 || mode > OTEL_PARENT_ROOT ||
	    (o->parent != NULL) + (o->parent_context != NULL) + (mode != 0) > 1) {
		(void)failed(OTEL_INVALID_ARGUMENT, "options contradict each other");
		return NULL;
	}
	if ((o->parent != NULL && !handle_ok(o->parent, KIND_SPAN)) ||
	    (o->parent_context != NULL && !handle_ok(o->parent_context, KIND_SPAN_CONTEXT)))
		return NULL;
	if (o->parent != NULL)
		parent = ids_of(o->parent);
	else if (o->parent_context != NULL)
		parent = &o->parent_context->ids;
	else if (mode == OTEL_PARENT_AMBIENT)
		parent = ambient_ids();
	return start(tracer, name, parent);
}

API otel_span_t *otel_tracer_start_span_ex(const otel_tracer_t *tracer, otel_string_view_t name,
					   const otel_span_start_options_ex_t *options)
{
	int after = errno_after();
	otel_span_t *span;

	clear_error();
	span = start_ex(tracer, name, options);
	for (size_t i = 0;
	     span != NULL && COVERS(options, attribute_count) && i < options->attribute_count;
	     i++) {
		if (options->attributes[i].value_type == OTEL_STRING)
			keep_text(span, options->attributes[i].key, options->attributes[i].value.s);
	}
	record(OURS, "start_ex %s %.*s options %zu -> %u\n", shown_tracer(tracer), (int)name.len,
	       name.ptr, options != NULL ? options->struct_size : 0, shown_span(span));
	errno = after;
	return span;
}

API otel_status_t otel_span_get_context(const otel_span_t *span, otel_span_context_t **out)
{
	int after = errno_after();
	otel_status_t status = OTEL_OK;

	clear_error();
	*out = NULL;
	if (!handle_ok(span, KIND_SPAN))
		status = OTEL_INVALID_ARGUMENT;
	else if (span->number == 0)
		status = failed(OTEL_INVALID_CONFIG, "a no-op span has no context");
	else if (span->after_shutdown)
		status = failed(OTEL_INTERNAL_ERROR, "the SDK returned an invalid context");
	else
		*out = span_context_new(&span->ids);
	record(OURS, "get_context %u -> %u\n", shown_span(span), status);
	errno = after;
	return status;
}

#endif
