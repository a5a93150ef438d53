/* SPDX-License-Identifier: Apache-2.0 */
/* Prints whole traces as waterfalls (traces.h). Context: the report tool. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <string.h>

#include "export/report/short_name.h"
#include "export/report/traces.h"
#include "export/util/log.h"

/* The columns of the bar, and the deepest indentation, of two columns a level. */
#define BAR 20U
#define INDENT_MAX 24U

#define ROW_TEXT (2 * SP_REPORT_TEXT_MAX + 128)

/* When the span was, of the whole trace: "[    =====           ]" */
static void put_bar(char out[BAR + 1], const struct sp_trace *trace,
		    const struct sp_trace_span *span)
{
	double whole = (double)(trace->end_ns - trace->start_ns);
	double from = (double)(span->start_ns - trace->start_ns);
	double to = (double)(span->end_ns - trace->start_ns);
	unsigned first = whole > 0 ? (unsigned)(from / whole * BAR) : 0;
	unsigned behind = whole > 0 ? (unsigned)(to / whole * BAR) : BAR;

	first = first < BAR ? first : BAR - 1;
	behind = behind > first ? behind : first + 1;
	memset(out, ' ', BAR);
	memset(out + first, '=', behind - first);
	out[BAR] = '\0';
}

static void put_remarks(struct sp_text_out *t, const struct sp_trace_row *row,
			const struct sp_trace_span *span)
{
	if (span->has_failed)
		sp_text_out_put(t, " (error)");
	if (row->lacks_parent)
		sp_text_out_put(t, " (its parent is not in these files)");
	if (row->is_own_parent)
		sp_text_out_put(t, " (below its own child)");
}

/* What the profiles know of a span: a line below it. */
static void print_where(FILE *out, const struct sp_traces *t, const struct sp_print *p,
			const struct sp_trace_row *row, const struct sp_slowest_request *q,
			unsigned indent)
{
	const struct sp_slowest_group *g = &t->x.group[q->group];
	char where[SP_REPORT_TEXT_MAX + 1], text[ROW_TEXT], time[SP_SLOWEST_TIME];
	struct sp_text_out line = {text, sizeof(text), 0};

	sp_slowest_put_where(where, &t->x, q, p->width != 0);
	sp_text_out_put(&line, "span %016" PRIx64, sp_trace_row_span(t, row)->id);
	if (where[0] != '\0')
		sp_text_out_put(&line, ": %s", where);
	if (!q->is_added && q->slower_by_ns != 0 && g->p50_ns != SP_ROOT_VALUE_UNKNOWN)
		sp_text_out_put(&line, "; slow, %s more than the median",
				sp_slowest_put_time(time, (double)q->slower_by_ns));
	sp_print_last(out, p, text, fprintf(out, "%*s", (int)indent, ""));
}

static void print_row(FILE *out, const struct sp_traces *t, const struct sp_print *p,
		      const struct sp_trace *trace, const struct sp_trace_row *row)
{
	const struct sp_trace_span *span = sp_trace_row_span(t, row);
	const struct sp_slowest_request *q = sp_trace_row_request(t, row);
	unsigned indent = 2 * (row->depth < INDENT_MAX ? row->depth : INDENT_MAX);
	const char *service = sp_trace_spans_text(&t->spans, span->service);
	const char *name = sp_trace_spans_text(&t->spans, span->name);
	char text[ROW_TEXT], bar[BAR + 1], time[4][SP_SLOWEST_TIME];
	struct sp_text_out line = {text, sizeof(text), 0};
	int taken;

	put_bar(bar, trace, span);
	taken = fprintf(out, "%9s %9s %9s %9s  [%s]  %*s",
			sp_slowest_put_time(time[0], (double)(span->start_ns - trace->start_ns)),
			sp_slowest_put_time(time[1], (double)(span->end_ns - span->start_ns)),
			q != NULL ? sp_slowest_put_part(time[2], &q->cpu) : "",
			q != NULL ? sp_slowest_put_part(time[3], &q->off_cpu) : "", bar,
			(int)indent, "");
	sp_text_out_put(&line, "%s: %s", service[0] != '\0' ? service : "(no service)",
			name[0] != '\0' ? name : "(no name)");
	put_remarks(&line, row, span);
	sp_print_last(out, p, text, taken);
	if (q != NULL)
		print_where(out, t, p, row, q, (unsigned)taken);
}

static void print_trace(FILE *out, const struct sp_traces *t, const struct sp_print *p,
			const struct sp_trace *trace)
{
	char text[256], id[SP_TRACE_ID_TEXT], time[SP_SLOWEST_TIME], when[SP_SLOWEST_TIME];

	sp_trace_id_put(id, &trace->id);
	(void)snprintf(text, sizeof(text),
		       "trace %s: %" PRIu32 " %s of %" PRIu32 " %s, %s from %s UTC; %" PRIu32
		       " in profiles",
		       id, trace->n, trace->n == 1 ? "span" : "spans", trace->services,
		       trace->services == 1 ? "service" : "services",
		       sp_slowest_put_time(time, (double)(trace->end_ns - trace->start_ns)),
		       sp_slowest_put_when(when, trace->start_ns, true), trace->profiled);
	sp_print_heading(out, p, text);
	sp_print_heading(out, p,
			 "   starts      took  on a CPU off a CPU  when                    "
			 "service: span, and where its time was");
	for (uint32_t i = 0; i < trace->rows; i++)
		print_row(out, t, p, trace, &t->row[trace->first_row + i]);
}

void sp_traces_print(FILE *out, const struct sp_traces *t, const struct sp_print *p)
{
	char passed[SP_DESCRIBE_TEXT];

	if (sp_traces_put_passed(t, passed))
		(void)fprintf(out, "passed over: %s\n\n", passed);
	for (size_t i = 0; i < t->n; i++) {
		if (i != 0)
			(void)fputc('\n', out);
		print_trace(out, t, p, &t->trace[t->shown[i]]);
	}
}
