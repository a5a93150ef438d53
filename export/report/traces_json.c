/* SPDX-License-Identifier: Apache-2.0 */
/* Prints whole traces as JSON (traces.h). Context: the report tool. */
#include <inttypes.h>
#include <stdio.h>

#include "export/report/slowest_json.h"
#include "export/report/traces.h"

static json_t *json_id(uint64_t id)
{
	char text[17];

	if (id == 0)
		return json_null();
	(void)snprintf(text, sizeof(text), "%016" PRIx64, id);
	return json_string(text);
}

static json_t *json_row(const struct sp_traces *t, const struct sp_trace_row *row)
{
	const struct sp_trace_span *span = sp_trace_row_span(t, row);
	const struct sp_slowest_request *q = sp_trace_row_request(t, row);
	char where[SP_REPORT_TEXT_MAX + 1] = "";

	if (q != NULL)
		sp_slowest_put_where(where, &t->x, q, false);
	return json_pack("{s:o, s:o, s:i, s:s, s:s, s:o, s:o, s:b, s:b, s:b, s:o, s:o}", "span_id",
			 json_id(span->id), "parent_id", json_id(span->parent), "depth",
			 (int)row->depth, "service", sp_trace_spans_text(&t->spans, span->service),
			 "span_name", sp_trace_spans_text(&t->spans, span->name), "start_ns",
			 sp_json_number(span->start_ns), "ns",
			 sp_json_number(span->end_ns - span->start_ns), "error",
			 (int)span->has_failed, "lacks_parent", (int)row->lacks_parent,
			 "is_own_parent", (int)row->is_own_parent, "profile",
			 q != NULL ? sp_slowest_json_profile(&t->x, q) : json_null(), "where",
			 sp_json_text(where));
}

static int print_trace(FILE *out, const struct sp_traces *t, const struct sp_trace *trace)
{
	char id[SP_TRACE_ID_TEXT];
	int err = 0;

	sp_trace_id_put(id, &trace->id);
	(void)fprintf(out,
		      "{\"trace_id\": \"%s\", \"start_ns\": %" PRIu64 ", \"ns\": %" PRIu64
		      ", \"spans\": %" PRIu32 ", \"services\": %" PRIu32
		      ", \"spans_in_profiles\": %" PRIu32 ", \"rows\": [",
		      id, trace->start_ns, trace->end_ns - trace->start_ns, trace->n,
		      trace->services, trace->profiled);
	for (uint32_t i = 0; i < trace->rows; i++)
		err |= sp_json_print(out, i != 0 ? ",\n   " : "\n   ",
				     json_row(t, &t->row[trace->first_row + i]));
	(void)fputs("]}", out);
	return err;
}

int sp_traces_print_json(FILE *out, const struct sp_traces *t)
{
	char passed[SP_DESCRIBE_TEXT];
	int err;

	(void)sp_traces_put_passed(t, passed);
	err = sp_json_print(out, "{\n \"passed_over_text\": ", sp_json_text(passed));
	(void)fputs(",\n \"traces\": [", out);
	for (size_t i = 0; i < t->n; i++) {
		(void)fputs(i != 0 ? ",\n  " : "\n  ", out);
		err |= print_trace(out, t, &t->trace[t->shown[i]]);
	}
	(void)fputs("]\n}\n", out);
	return err != 0 || ferror(out) != 0 ? -1 : 0;
}
