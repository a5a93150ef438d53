/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads spans in OTLP's JSON (trace_spans.h).
 *
 * A file is one document if its first line is not a whole one. Context: the report tool.
 */
#define _GNU_SOURCE
#include "export/report/trace_spans.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/report/otlp_json.h"
#include "export/report/roots.h"

/* Of all files together: 100 MiB. */
#define SPANS_MAX ((size_t)1 << 20)
#define TEXT_MAX_BYTES ((size_t)64 << 20)

static int refuse(char *why, const char *text)
{
	(void)snprintf(why, SP_REPORT_ERROR, "%s", text);
	return -1;
}

/* Spans */

bool sp_trace_id_read(const char *text, struct sp_trace_id *id)
{
	char half[17];

	if (strlen(text) != 32)
		return false;
	memcpy(half, text, 16);
	half[16] = '\0';
	return sp_report_id_read(half, &id->high) && sp_report_id_read(text + 16, &id->low) &&
	       (id->high | id->low) != 0;
}

int sp_trace_id_compare(const struct sp_trace_id *a, const struct sp_trace_id *b)
{
	const uint64_t x = a->high != b->high ? a->high : a->low;
	const uint64_t y = a->high != b->high ? b->high : b->low;

	return (x > y) - (x < y);
}

static uint32_t hash_of(const struct sp_trace_span *span)
{
	return (uint32_t)sp_hash_add(sp_hash_add(sp_hash_add(0, span->trace.high), span->trace.low),
				     span->id);
}

static bool is_known(const struct sp_trace_spans *s, const struct sp_trace_span *span)
{
	uint32_t i;

	for (uint32_t step = 0; sp_hash_index_next(&s->by_id, hash_of(span), &step, &i);)
		if (s->span[i].id == span->id &&
		    sp_trace_id_compare(&s->span[i].trace, &span->trace) == 0)
			return true;
	return false;
}

/* Texts become printable; NULL is an empty one. False: there is no room. */
static bool put_text(struct sp_trace_spans *s, const char *text, uint32_t *id)
{
	char clean[SP_REPORT_TEXT_MAX + 1];
	size_t len = sp_report_clean(text != NULL ? text : "", clean);

	*id = 0;
	if (sp_strtab_bytes(&s->text) > TEXT_MAX_BYTES)
		return false;
	s->nomem |= sp_strtab_put(&s->text, clean, len, id) != 0;
	return !s->nomem;
}

static void read_attributes(const json_t *attributes, struct sp_trace_span *span)
{
	const struct {
		const char *key;
		uint64_t *value;
	} known[] = {
		{"spanprof.cpu_time_ns", &span->cpu_ns},
		{"spanprof.off_cpu_time_ns", &span->off_cpu_ns},
		{"spanprof.runnable_time_ns", &span->runnable_ns},
		{"spanprof.allocated_bytes", &span->allocated_bytes},
	};

	span->is_profiled =
		sp_otlp_json_attribute(attributes, "pyroscope.profile.id", "stringValue") != NULL;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (sp_otlp_json_number(
			    sp_otlp_json_attribute(attributes, known[i].key, "intValue"),
			    known[i].value))
			span->is_profiled = true;
		else
			*known[i].value = SP_ROOT_VALUE_UNKNOWN;
}

/* An id of that many digits as a number; all 0 is none. */
static bool read_id(const json_t *value, uint64_t *id)
{
	char text[17];

	return sp_otlp_json_id(value, text, 16) && sp_report_id_read(text, id) && *id != 0;
}

static bool read_trace_id(const json_t *value, struct sp_trace_id *id)
{
	char text[33];

	return sp_otlp_json_id(value, text, 32) && sp_trace_id_read(text, id);
}

/* The code is 2 or, as some write it, its name. */
static bool has_failed(const json_t *span)
{
	const json_t *code = json_object_get(json_object_get(span, "status"), "code");
	const char *name = json_string_value(code);

	return json_integer_value(code) == 2 ||
	       (name != NULL && strcmp(name, "STATUS_CODE_ERROR") == 0);
}

static void add_span(struct sp_trace_spans *s, struct sp_trace_span *span, const char *name)
{
	if (is_known(s, span)) {
		s->twice++;
		return;
	}
	if (s->n == SPANS_MAX || !put_text(s, name, &span->name)) {
		s->too_many++;
		return;
	}
	if (!SP_GROW(s->span, s->cap, s->n + 1, SPANS_MAX)) {
		s->nomem = true;
		return;
	}
	/*
	 * Thousands of spans with one hash are made on purpose, and then one that is there twice
	 * may be shown twice.
	 */
	(void)sp_hash_index_put(&s->by_id, hash_of(span), (uint32_t)s->n);
	s->span[s->n++] = *span;
}

static void read_span(struct sp_trace_spans *s, const json_t *json, uint32_t service)
{
	struct sp_trace_span span = {.service = service};

	if (!read_trace_id(json_object_get(json, "traceId"), &span.trace) ||
	    !read_id(json_object_get(json, "spanId"), &span.id) ||
	    !sp_otlp_json_number(json_object_get(json, "startTimeUnixNano"), &span.start_ns) ||
	    !sp_otlp_json_number(json_object_get(json, "endTimeUnixNano"), &span.end_ns) ||
	    span.end_ns < span.start_ns) {
		s->bad_spans++;
		return;
	}
	if (s->only != NULL && sp_trace_id_compare(&span.trace, s->only) != 0)
		return;
	/* A root has no parent, or an empty one, or zeroes. */
	if (!read_id(json_object_get(json, "parentSpanId"), &span.parent))
		span.parent = 0;
	read_attributes(json_object_get(json, "attributes"), &span);
	span.has_failed = has_failed(json);
	add_span(s, &span, json_string_value(json_object_get(json, "name")));
}

static void read_resource(struct sp_trace_spans *s, const json_t *of_resource)
{
	const json_t *attributes =
		json_object_get(json_object_get(of_resource, "resource"), "attributes");
	const char *service = json_string_value(
		sp_otlp_json_attribute(attributes, "service.name", "stringValue"));
	const json_t *scope, *span;
	uint32_t id;
	size_t i, k;

	/* Where there is no room for its name, there is none for its spans. */
	(void)put_text(s, service, &id);
	json_array_foreach(json_object_get(of_resource, "scopeSpans"), i, scope)
	{
		json_array_foreach(json_object_get(scope, "spans"), k, span)
		{
			read_span(s, span, id);
		}
	}
}

/* Files */

/* Takes over the message. False: it is none of OTLP. */
static bool read_message(struct sp_trace_spans *s, json_t *message)
{
	const json_t *all = json_object_get(message, "resourceSpans");
	const json_t *of_resource;
	size_t i;

	json_array_foreach(all, i, of_resource)
	{
		read_resource(s, of_resource);
	}
	json_decref(message);
	return all != NULL;
}

static bool is_blank(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (strchr(" \t\r\n", text[i]) == NULL || text[i] == '\0')
			return false;
	return true;
}

/* The next line that is not empty; 0 = there is none. Moves *at behind it. */
static size_t next_line(const char **at, const char *end, const char **line)
{
	while (*at < end) {
		const char *newline = memchr(*at, '\n', (size_t)(end - *at));
		size_t len = (size_t)((newline != NULL ? newline : end) - *at);

		*line = *at;
		*at = newline != NULL ? newline + 1 : end;
		if (!is_blank(*line, len))
			return len;
	}
	return 0;
}

/* Each line is a message. False: none is; a line that took too much memory is told in why. */
static bool read_lines(struct sp_trace_spans *s, const char *at, const char *end, char *why)
{
	char why_line[SP_REPORT_ERROR];
	bool is_otlp = false, too_large;
	size_t bad = 0, large = 0;
	const char *line;
	size_t len;

	while ((len = next_line(&at, end, &line)) != 0) {
		json_t *message =
			sp_otlp_json_load(line, len, JSON_ALLOW_NUL, why_line, &too_large);

		large += too_large;
		bad += message == NULL && !too_large;
		is_otlp |= message != NULL && read_message(s, message);
	}
	if (is_otlp) {
		s->bad_lines += bad;
		s->large_lines += large;
	} else if (large != 0) {
		(void)refuse(why, SP_OTLP_JSON_TOO_LARGE);
	}
	return is_otlp;
}

/* A line that ends within a document is no JSON. */
static bool is_of_lines(const char *at, const char *end)
{
	char why[SP_REPORT_ERROR];
	const char *line;
	size_t len = next_line(&at, end, &line);
	bool too_large;
	json_t *message =
		len != 0 ? sp_otlp_json_load(line, len, JSON_ALLOW_NUL, why, &too_large) : NULL;

	json_decref(message);
	return message != NULL;
}

int sp_trace_spans_read(struct sp_trace_spans *s, const struct sp_bytes *file,
			char why[SP_REPORT_ERROR])
{
	const char *at = (const char *)file->data;
	const char *end = at + file->len;
	json_t *message = NULL;
	bool too_large;

	if (s->text.n == 0 && sp_strtab_init(&s->text) != 0)
		return refuse(why, SP_REPORT_NO_MEMORY);
	if (!is_of_lines(at, end))
		message = sp_otlp_json_load(at, file->len, JSON_ALLOW_NUL, why, &too_large);
	else
		(void)refuse(why, "it has no traces in OTLP's JSON (resourceSpans)");
	if (message != NULL)
		return read_message(s, message)
			       ? 0
			       : refuse(why, "it has no traces in OTLP's JSON (resourceSpans)");
	/* The first line may be damaged, and the others be messages. */
	return read_lines(s, at, end, why) ? 0 : -1;
}

void sp_trace_spans_fini(struct sp_trace_spans *s)
{
	sp_strtab_fini(&s->text);
	sp_hash_index_fini(&s->by_id);
	free(s->span);
	memset(s, 0, sizeof(*s));
}
