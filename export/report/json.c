/* SPDX-License-Identifier: Apache-2.0 */
/* The report as JSON, by jansson; its keys are stable. Context: the report tool. */
#include <jansson.h>

#include "export/report/print.h"

static json_t *number(uint64_t n)
{
	return json_integer(n <= INT64_MAX ? (json_int_t)n : INT64_MAX);
}

static json_t *json_text(const struct sp_tally *t, uint32_t id)
{
	return json_string(sp_tally_text(t, id));
}

static json_t *json_sum(const struct sp_sum *s)
{
	return json_pack("{s:o, s:o}", "samples", number(s->samples), "ns", number(s->ns));
}

static double share(uint64_t part, uint64_t whole)
{
	return whole != 0 ? (double)part / (double)whole : 0.0;
}

static json_t *span_names(const struct sp_tally *t)
{
	json_t *list = json_array();

	for (size_t i = 0; i < t->names; i++) {
		const struct sp_name_row *n = &t->name[i];

		json_array_append_new(
			list, json_pack("{s:o, s:o, s:o, s:o, s:f}", "span_name",
					json_text(t, n->name), "spans", number(n->spans), "samples",
					number(n->sum.samples), "ns", number(n->sum.ns), "share",
					share(n->sum.ns, t->labelled.ns)));
	}
	return list;
}

static json_t *spans(const struct sp_tally *t)
{
	json_t *list = json_array();

	for (size_t i = 0; i < t->spans; i++) {
		const struct sp_span_row *s = &t->span[i];

		json_array_append_new(
			list, json_pack("{s:o, s:o, s:o, s:o, s:o}", "span_id", json_text(t, s->id),
					"span_name", json_text(t, s->name), "trace_id",
					json_text(t, s->trace), "samples", number(s->sum.samples),
					"ns", number(s->sum.ns)));
	}
	return list;
}

static json_t *functions(const struct sp_tally *t, size_t top)
{
	json_t *list = json_array();

	for (size_t i = 0; i < t->functions && (top == 0 || i < top); i++) {
		const struct sp_function_row *f = &t->function[i];

		json_array_append_new(list, json_pack("{s:o, s:o, s:o, s:o, s:o}", "function",
						      json_text(t, f->name), "self_samples",
						      number(f->self.samples), "self_ns",
						      number(f->self.ns), "total_samples",
						      number(f->total.samples), "total_ns",
						      number(f->total.ns)));
	}
	return list;
}

int sp_report_print_json(FILE *out, const struct sp_tally *t, size_t files, size_t top)
{
	json_t *labelled = json_sum(&t->labelled);
	json_t *root;
	int err;

	if (labelled != NULL)
		json_object_set_new(labelled, "spans", number(t->spans));
	root = json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "profiles", number(files), "total",
			 json_sum(&t->total), "labelled", labelled, "span_names", span_names(t),
			 "spans", spans(t), "functions", functions(t, top));
	if (root == NULL)
		return -1;
	err = json_dumpf(root, out, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
	json_decref(root);
	return err != 0 || fputc('\n', out) == EOF ? -1 : 0;
}
