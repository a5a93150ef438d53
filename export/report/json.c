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

static json_t *threads(const struct sp_tally *t)
{
	json_t *list = json_array();

	for (size_t i = 0; i < t->threads; i++) {
		const struct sp_thread_row *r = &t->thread[i];

		json_array_append_new(list,
				      json_pack("{s:o, s:o, s:o, s:f}", "thread_name",
						json_text(t, r->name), "samples",
						number(r->sum.samples), "ns", number(r->sum.ns),
						"share", share(r->sum.ns, t->total.ns)));
	}
	return list;
}

static json_t *sums(const struct sp_sum *self, const struct sp_sum *total)
{
	return json_pack("{s:o, s:o, s:o, s:o}", "self_samples", number(self->samples), "self_ns",
			 number(self->ns), "total_samples", number(total->samples), "total_ns",
			 number(total->ns));
}

static json_t *function(const struct sp_tally *t, const struct sp_function_row *f)
{
	json_t *row = json_pack("{s:o, s:o}", "function", json_text(t, f->name), "file",
				json_text(t, f->file));
	json_t *now = sums(&f->self, &f->total);
	json_t *base;

	if (t->lines)
		json_object_set_new(row, "line", number(f->line));
	json_object_update(row, now);
	json_decref(now);
	if (!t->diff)
		return row;
	base = sums(&f->base_self, &f->base_total);
	json_object_set_new(base, "self_change", json_real(sp_tally_self_change(t, f)));
	json_object_set_new(base, "total_change", json_real(sp_tally_total_change(t, f)));
	json_object_set_new(row, "baseline", base);
	return row;
}

static json_t *functions(const struct sp_tally *t, size_t top)
{
	json_t *list = json_array();

	for (size_t i = 0; i < t->functions && (top == 0 || i < top); i++)
		json_array_append_new(list, function(t, &t->function[i]));
	return list;
}

/* A sum with one number more. */
static json_t *sum_with(const struct sp_sum *s, const char *key, uint64_t n)
{
	json_t *sum = json_sum(s);

	json_object_set_new(sum, key, number(n));
	return sum;
}

int sp_report_print_json(FILE *out, const struct sp_tally *t, const struct sp_print *p)
{
	json_t *root = json_object();
	int err;

	json_object_set_new(root, "profiles", number(p->files));
	json_object_set_new(root, "total", json_sum(&t->total));
	json_object_set_new(root, "labelled", sum_with(&t->labelled, "spans", t->spans));
	json_object_set_new(root, "residual", json_sum(&t->residual));
	if (t->diff)
		json_object_set_new(root, "baseline", sum_with(&t->base, "spans", t->base_spans));
	json_object_set_new(root, "span_names", span_names(t));
	json_object_set_new(root, "spans", spans(t));
	json_object_set_new(root, "threads", threads(t));
	/* The last, so that it is only there if all the others could be. */
	err = json_object_set_new(root, "functions", functions(t, p->top));
	if (err == 0)
		err = json_dumpf(root, out, JSON_INDENT(1) | JSON_PRESERVE_ORDER);
	json_decref(root);
	return err != 0 || fputc('\n', out) == EOF ? -1 : 0;
}
