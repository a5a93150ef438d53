/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The spans of fixture_otelc.c, behind the names of otap-labs/opentelemetry-c (test/otelc/otelc.h) that such an SDK
 * must have. In a separate file, so that each call goes through the function's name, as from another library.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test/common/fixture.h"
#include "test/otelc/otelc.h"

#define API __attribute__((visibility("default")))

/* Written before each call, if several copies of this are in one process. */
#ifndef FIXTURE_COPY
#define FIXTURE_COPY ""
#endif

#define ATTRIBUTES_MAX 8
#define TEXT_MAX 512

struct attribute {
	char key[64];
	char value[TEXT_MAX]; /* in JSON form */
};

struct otel_span_context {
	uint8_t trace_id[16];
	uint8_t span_id[8];
};

struct otel_span {
	unsigned number;
	bool ended;
	struct otel_span_context ids;
	char name[TEXT_MAX];
	int used;
	struct attribute attribute[ATTRIBUTES_MAX];
};

static _Atomic unsigned spans;

__attribute__((format(printf, 1, 2))) static void record(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	fixture_record(FIXTURE_COPY, format, args, "");
	va_end(args);
}

API otel_string_view_t otel_version_string(void)
{
	return (otel_string_view_t){"0.1.0", 5};
}

API otel_status_t otel_api_register_global_provider(const void *vtable, void *context)
{
	(void)vtable;
	(void)context;
	return OTEL_INVALID_CONFIG;
}

API otel_tracer_t *otel_tracer_provider_get_tracer(const otel_tracer_provider_t *provider,
						   otel_string_view_t name,
						   otel_string_view_t version,
						   otel_string_view_t schema_url)
{
	static int the_tracer;

	(void)provider;
	(void)name;
	(void)version;
	(void)schema_url;
	return (void *)&the_tracer;
}

/* The first byte is the highest byte of the number: test/context/reader.c relies on it. */
static void set_id(uint8_t *bytes, unsigned number, uint64_t kind)
{
	const char *seed = getenv("FIXTURE_SEED");
	uint64_t base = seed != NULL ? (uint64_t)atoi(seed) : (uint64_t)getpid();
	uint64_t id = fixture_scrambled(base << 34 ^ (uint64_t)number << 2 ^ kind);

	id = id != 0 ? id : 1;
	for (int i = 0; i < 8; i++)
		bytes[i] = (uint8_t)(id >> 8 * (7 - i));
}

API otel_span_t *otel_tracer_start_span(const otel_tracer_t *tracer, otel_string_view_t name,
					const otel_span_start_options_t *options)
{
	const otel_span_t *parent = options != NULL ? options->parent : NULL;
	otel_span_t *s;

	(void)tracer;
	if (name.len == 6 && memcmp(name.ptr, "(none)", 6) == 0)
		return NULL;
	s = calloc(1, sizeof(*s));
	if (s == NULL)
		return NULL;
	s->number = atomic_fetch_add(&spans, 1) + 1;
	snprintf(s->name, sizeof(s->name), "%.*s", (int)name.len, name.ptr);
	set_id(s->ids.span_id, s->number, 3);
	set_id(s->ids.trace_id, s->number, 1);
	set_id(s->ids.trace_id + 8, s->number, 2);
	if (parent != NULL)
		memcpy(s->ids.trace_id, parent->ids.trace_id, sizeof(s->ids.trace_id));
	record("start %.*s -> %u\n", (int)name.len, name.ptr, s->number);
	return s;
}

static void set(otel_span_t *span, otel_string_view_t key, const char *format, ...)
{
	struct attribute *a = &span->attribute[span->used];
	va_list args;

	if (span->used == ATTRIBUTES_MAX)
		return;
	span->used++;
	snprintf(a->key, sizeof(a->key), "%.*s", (int)key.len, key.ptr);
	va_start(args, format);
	vsnprintf(a->value, sizeof(a->value), format, args);
	va_end(args);
}

API otel_status_t otel_span_set_string_attribute(otel_span_t *span, otel_string_view_t key,
						 otel_string_view_t value)
{
	set(span, key, "\"%.*s\"", (int)value.len, value.ptr);
	return OTEL_OK;
}

API otel_status_t otel_span_set_int64_attribute(otel_span_t *span, otel_string_view_t key,
						int64_t value)
{
	set(span, key, "%" PRId64, value);
	return OTEL_OK;
}

static void print_hex(char *out, const uint8_t *bytes, int count)
{
	for (int i = 0; i < count; i++)
		snprintf(out + 2 * i, 3, "%02x", (unsigned)bytes[i]);
}

/* Names and values in tests contain no character that JSON would have to escape. */
static void write_span(const otel_span_t *s)
{
	char line[(ATTRIBUTES_MAX + 1) * (TEXT_MAX + 80)];
	char trace_id[33];
	char span_id[17];
	int len;

	/* A host may have forbidden itself the system call below. */
	if (getenv("FIXTURE_SPANS") == NULL)
		return;
	print_hex(trace_id, s->ids.trace_id, 16);
	print_hex(span_id, s->ids.span_id, 8);
	len = snprintf(line, sizeof(line),
		       "{\"name\":\"%s\",\"trace_id\":\"%s\",\"span_id\":\"%s\",\"pid\":%d,"
		       "\"attributes\":{",
		       s->name, trace_id, span_id, (int)getpid());
	for (int i = 0; i < s->used; i++)
		len += snprintf(line + len, sizeof(line) - (size_t)len, "%s\"%s\":%s",
				i > 0 ? "," : "", s->attribute[i].key, s->attribute[i].value);
	len += snprintf(line + len, sizeof(line) - (size_t)len, "}}\n");
	fixture_append("FIXTURE_SPANS", line, (size_t)len);
}

API otel_status_t otel_span_end(otel_span_t *span)
{
	record("end %u\n", span->number);
	if (!span->ended)
		write_span(span);
	span->ended = true;
	return OTEL_OK;
}

API void otel_span_destroy(otel_span_t *span)
{
	free(span);
}

API otel_status_t otel_span_get_context(const otel_span_t *span, otel_span_context_t **out)
{
	record("get_context %u\n", span->number);
	*out = (void *)(uintptr_t)&span->ids;
	return OTEL_OK;
}

API otel_status_t otel_span_context_trace_id(const otel_span_context_t *context, uint8_t out[16])
{
	memcpy(out, context->trace_id, sizeof(context->trace_id));
	return OTEL_OK;
}

API otel_status_t otel_span_context_span_id(const otel_span_context_t *context, uint8_t out[8])
{
	memcpy(out, context->span_id, sizeof(context->span_id));
	return OTEL_OK;
}

API otel_status_t otel_span_context_trace_flags(const otel_span_context_t *context, uint8_t *out)
{
	(void)context;
	*out = getenv("FIXTURE_UNSAMPLED") == NULL;
	return OTEL_OK;
}

/* The result of otel_span_get_context() is a part of the span. */
API void otel_span_context_destroy(otel_span_context_t *context)
{
	(void)context;
}
