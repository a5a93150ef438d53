/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads files of slow roots (roots.h). A file may be from anybody. A line has a maximum length,
 * which also limits jansson's memory for it. If a file has one bad line, none of its roots is
 * added. Context: the report tool.
 */
#define _GNU_SOURCE
#include "export/report/roots.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/report/otlp_json.h"
#include "sampler/base/text.h"

/*
 * The exporter writes at most 4 MiB. jansson needs up to a hundred bytes for each byte of a line
 * that has only "{},".
 */
#define LINE_MAX_BYTES ((size_t)5 << 20)
/* Limits for all files together: 256 MiB. */
#define ROOTS_MAX ((size_t)1 << 20)
#define TEXT_MAX_BYTES ((size_t)64 << 20)

static int refuse(char *why, const char *text)
{
	(void)snprintf(why, SP_REPORT_ERROR, "%s", text);
	return -1;
}

bool sp_report_id_read(const char *text, uint64_t *id)
{
	const char *at = text;

	return strspn(text, "0123456789abcdefABCDEF") == 16 && text[16] == '\0' &&
	       sp_text_number(&at, 16, id);
}

static void read_attributes(const json_t *attributes, struct sp_report_root *root)
{
	const struct {
		const char *key;
		uint64_t *value;
	} known[] = {
		{"spanprof.cpu_time_ns", &root->cpu_ns},
		{"spanprof.off_cpu_time_ns", &root->off_cpu_ns},
		{"spanprof.runnable_time_ns", &root->runnable_ns},
		{"spanprof.page_faults.major", &root->major_faults},
		{"spanprof.allocated_bytes", &root->allocated_bytes},
		{"spanprof.thread.id", &root->thread_id},
		{"spanprof.roots.count", &root->count},
		{"spanprof.duration.p50_ns", &root->p50_ns},
		{"spanprof.duration.p90_ns", &root->p90_ns},
		{"spanprof.duration.p99_ns", &root->p99_ns},
	};

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!sp_otlp_json_number(
			    sp_otlp_json_attribute(attributes, known[i].key, "intValue"),
			    known[i].value))
			*known[i].value = SP_ROOT_VALUE_UNKNOWN;
}

/* Adds a text, made printable; NULL counts as an empty one. 0, or -1 with a reason. */
static int put_text(struct sp_report_roots *s, const char *text, uint32_t *id, char *why)
{
	char clean[SP_REPORT_TEXT_MAX + 1];
	size_t len = sp_report_clean(text != NULL ? text : "", clean);

	if (sp_strtab_bytes(&s->text) > TEXT_MAX_BYTES)
		return refuse(why, "there are too many names of slow requests; name fewer files");
	return sp_strtab_put(&s->text, clean, len, id) == 0 ? 0 : refuse(why, SP_REPORT_NO_MEMORY);
}

static int read_span(struct sp_report_roots *s, const json_t *span,
		     const struct sp_report_root *process, char *why)
{
	struct sp_report_root root = *process;
	const char *name = json_string_value(json_object_get(span, "name"));

	if (!sp_otlp_json_id(json_object_get(span, "traceId"), root.trace_id, 32) ||
	    !sp_otlp_json_id(json_object_get(span, "spanId"), root.span_id, 16) ||
	    !sp_report_id_read(root.span_id, &root.id))
		return refuse(why, "a slow request has no ids");
	if (!sp_otlp_json_number(json_object_get(span, "startTimeUnixNano"), &root.start_ns) ||
	    !sp_otlp_json_number(json_object_get(span, "endTimeUnixNano"), &root.end_ns) ||
	    root.end_ns < root.start_ns)
		return refuse(why, "a slow request has no times");
	read_attributes(json_object_get(span, "attributes"), &root);
	if (put_text(s, name, &root.name, why) != 0)
		return -1;
	if (s->n == ROOTS_MAX)
		return refuse(why, "there are too many slow requests; name fewer files");
	if (!SP_GROW(s->root, s->cap, s->n + 1, ROOTS_MAX))
		return refuse(why, SP_REPORT_NO_MEMORY);
	s->root[s->n++] = root;
	return 0;
}

/*
 * Whether our exporter wrote the spans. Spans of other writers need not be roots, and lack our
 * attributes.
 */
static bool is_ours(const json_t *scope_spans)
{
	const json_t *scope = json_object_get(scope_spans, "scope");
	const char *name = json_string_value(json_object_get(scope, "name"));

	return name != NULL && strcmp(name, "spanprof") == 0;
}

static int read_resource(struct sp_report_roots *s, const json_t *of_resource, char *why)
{
	const json_t *attributes =
		json_object_get(json_object_get(of_resource, "resource"), "attributes");
	const char *service = json_string_value(
		sp_otlp_json_attribute(attributes, "service.name", "stringValue"));
	char process[SP_REPORT_TEXT_MAX + 32];
	struct sp_report_root root = {.start_ns = 0};
	const json_t *scope, *span;
	uint64_t pid = 0;
	size_t i, k;

	(void)sp_otlp_json_number(sp_otlp_json_attribute(attributes, "process.pid", "intValue"),
				  &pid);
	(void)snprintf(process, sizeof(process), "%llu %s", (unsigned long long)pid,
		       service != NULL ? service : "");
	if (put_text(s, service, &root.service, why) != 0 ||
	    put_text(s, process, &root.process, why) != 0)
		return -1;
	json_array_foreach(json_object_get(of_resource, "scopeSpans"), i, scope)
	{
		if (!is_ours(scope))
			continue;
		json_array_foreach(json_object_get(scope, "spans"), k, span)
		{
			if (read_span(s, span, &root, why) != 0)
				return -1;
		}
	}
	return 0;
}

static int read_line(struct sp_report_roots *s, const char *line, size_t len, char *why)
{
	const json_t *of_resource;
	json_t *message;
	bool too_large;
	int err = 0;
	size_t i;

	if (len > LINE_MAX_BYTES)
		return refuse(why, "a line of it is too long");
	message = sp_otlp_json_load(line, len, 0, why, &too_large);
	if (too_large)
		return refuse(why, SP_REPORT_NO_MEMORY);
	if (!json_is_object(message))
		err = refuse(why, "a line of it is no object in JSON");
	json_array_foreach(json_object_get(message, "resourceSpans"), i, of_resource)
	{
		if (err == 0)
			err = read_resource(s, of_resource, why);
	}
	json_decref(message);
	return err;
}

/*
 * Whether the line is empty: files from other systems have a carriage return before each newline.
 */
static bool is_empty(const char *line, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (strchr(" \t\r", line[i]) == NULL)
			return false;
	return true;
}

int sp_report_roots_read(struct sp_report_roots *s, const struct sp_bytes *file,
			 char why[SP_REPORT_ERROR])
{
	const char *at = (const char *)file->data;
	const char *end = at + file->len;
	const size_t had = s->n;
	int err = 0;

	if (s->text.n == 0 && sp_strtab_init(&s->text) != 0)
		return refuse(why, SP_REPORT_NO_MEMORY);
	while (err == 0 && at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t len = (size_t)((newline != NULL ? newline : end) - at);

		if (!is_empty(at, len))
			err = read_line(s, at, len, why);
		at = newline != NULL ? newline + 1 : end;
	}
	if (err != 0)
		s->n = had;
	return err;
}

void sp_report_roots_fini(struct sp_report_roots *s)
{
	sp_strtab_fini(&s->text);
	free(s->root);
	memset(s, 0, sizeof(*s));
}
