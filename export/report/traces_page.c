/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes whole traces as the data of a page (page/traces.js draws them, and page/slow.js each of
 * our spans). Names are of others: sp_page_put_json() cleans and escapes each. Context: the report
 * tool.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/report/page.h"
#include "export/report/traces.h"

/* Remarks of a span, as bits. */
#define HAS_FAILED 1U
#define LACKS_PARENT 2U
#define IS_OWN_PARENT 4U

struct writer {
	FILE *out;
	const struct sp_traces *t;
	uint32_t *name; /* by text: its number on the page, plus 1; 0 = it has none */
	uint32_t names;
};

static void put_names(struct writer *w)
{
	(void)fputs("\"names\":[", w->out);
	for (size_t i = 0; i < w->t->rows; i++) {
		const struct sp_trace_span *span = sp_trace_row_span(w->t, &w->t->row[i]);
		const uint32_t text[] = {span->service, span->name};

		for (size_t k = 0; k < 2; k++) {
			if (w->name[text[k]] != 0)
				continue;
			(void)fputs(w->names != 0 ? ",\n" : "", w->out);
			sp_page_put_json(w->out, sp_trace_spans_text(&w->t->spans, text[k]));
			w->name[text[k]] = ++w->names;
		}
	}
	(void)fputs("]", w->out);
}

/*
 * id, depth, start in us since the trace began, duration in ns, service, name, request or -1,
 * remarks
 */
static void put_row(struct writer *w, const struct sp_trace *trace, const struct sp_trace_row *row)
{
	const struct sp_trace_span *span = sp_trace_row_span(w->t, row);

	(void)fprintf(w->out,
		      "[\"%016" PRIx64 "\",%" PRIu32 ",%" PRIu64 ",%" PRIu64 ",%" PRIu32 ",%" PRIu32
		      ",%" PRId64 ",%u]",
		      span->id, row->depth, (span->start_ns - trace->start_ns) / 1000,
		      span->end_ns - span->start_ns, w->name[span->service] - 1,
		      w->name[span->name] - 1, (int64_t)row->request - 1,
		      (span->has_failed ? HAS_FAILED : 0) | (row->lacks_parent ? LACKS_PARENT : 0) |
			      (row->is_own_parent ? IS_OWN_PARENT : 0));
}

static void put_trace(struct writer *w, const struct sp_trace *trace)
{
	char id[SP_TRACE_ID_TEXT];

	sp_trace_id_put(id, &trace->id);
	(void)fprintf(w->out,
		      "{\"id\":\"%s\",\"start_us\":%" PRIu64 ",\"ns\":%" PRIu64 ",\"all\":%" PRIu32
		      ",\"services\":%" PRIu32 ",\"profiled\":%" PRIu32 ",\"spans\":[",
		      id, trace->start_ns / 1000, trace->end_ns - trace->start_ns, trace->n,
		      trace->services, trace->profiled);
	for (uint32_t i = 0; i < trace->rows; i++) {
		(void)fputs(i != 0 ? ",\n" : "\n", w->out);
		put_row(w, trace, &w->t->row[trace->first_row + i]);
	}
	(void)fputs("]}", w->out);
}

static int put_traces(FILE *out, const void *arg)
{
	const struct sp_traces *t = arg;
	struct writer w = {.out = out, .t = t};
	char passed[SP_DESCRIBE_TEXT];

	w.name = calloc(t->spans.text.n, sizeof(*w.name));
	if (w.name == NULL)
		return -1;
	(void)sp_traces_put_passed(t, passed);
	(void)fputs("{\"passed\":", out);
	sp_page_put_json(out, passed);
	(void)fputs(",\n", out);
	put_names(&w);
	(void)fputs(",\n\"traces\":[", out);
	for (size_t i = 0; i < t->n; i++) {
		(void)fputs(i != 0 ? ",\n" : "\n", out);
		put_trace(&w, &t->trace[t->shown[i]]);
	}
	(void)fputs("]}\n", out);
	free(w.name);
	return 0;
}

static int put_requests(FILE *out, const void *arg)
{
	const struct sp_traces *t = arg;

	return sp_slowest_print_data(out, &t->x);
}

int sp_traces_print_page(FILE *out, const void *traces)
{
	const struct sp_traces *t = traces;
	char id[SP_TRACE_ID_TEXT], title[64];

	sp_trace_id_put(id, &t->trace[t->shown[0]].id);
	if (t->n == 1)
		(void)snprintf(title, sizeof(title), "trace %s", id);
	else
		(void)snprintf(title, sizeof(title), "%zu traces", t->n);
	return sp_page_print_traces(out, title, put_requests, put_traces, t);
}
