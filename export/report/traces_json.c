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
			 where[0] != '\0' ? json_string(where) : json_null());
}

/* Prints the spans one by one, because all of them as objects would take much memory. */
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
	for (uint32_t i = 0; i < trace->rows; i++) {
		json_t *one = json_row(t, &t->row[trace->first_row + i]);

		(void)fputs(i != 0 ? ",\n   " : "\n   ", out);
		if (one == NULL || json_dumpf(one, out, JSON_PRESERVE_ORDER) != 0)
			err = -1;
		json_decref(one);
	}
	(void)fputs("]}", out);
	return err;
}

int sp_traces_print_json(FILE *out, const struct sp_traces *t)
{
	char passed[SP_DESCRIBE_TEXT];
	json_t *text = sp_traces_put_passed(t, passed) ? json_string(passed) : json_null();
	int err = 0;

	(void)fputs("{\n \"passed_over_text\": ", out);
	if (json_dumpf(text, out, JSON_ENCODE_ANY) != 0)
		err = -1;
	json_decref(text);
	(void)fputs(",\n \"traces\": [", out);
	for (size_t i = 0; i < t->n; i++) {
		(void)fputs(i != 0 ? ",\n  " : "\n  ", out);
		err |= print_trace(out, t, &t->trace[t->shown[i]]);
	}
	(void)fputs("]\n}\n", out);
	return err != 0 || ferror(out) != 0 ? -1 : 0;
}
