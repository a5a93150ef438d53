/* SPDX-License-Identifier: Apache-2.0 */
/* The report as JSON, by jansson; its keys are stable. Context: the report tool. */
#include <jansson.h>
#include <string.h>

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

static json_t *span_name(const struct sp_tally *t, size_t i)
{
	const struct sp_name_row *n = &t->name[i];

	return json_pack("{s:o, s:o, s:o, s:o, s:f}", "span_name", json_text(t, n->name), "spans",
			 number(n->spans), "samples", number(n->sum.samples), "ns",
			 number(n->sum.ns), "share", share(n->sum.ns, t->labelled.ns));
}

static json_t *span(const struct sp_tally *t, size_t i)
{
	const struct sp_span_row *s = &t->span[i];

	return json_pack("{s:o, s:o, s:o, s:o, s:o}", "span_id", json_text(t, s->id), "span_name",
			 json_text(t, s->name), "trace_id", json_text(t, s->trace), "samples",
			 number(s->sum.samples), "ns", number(s->sum.ns));
}

static json_t *thread(const struct sp_tally *t, size_t i)
{
	const struct sp_thread_row *r = &t->thread[i];

	return json_pack("{s:o, s:o, s:o, s:f}", "thread_name", json_text(t, r->name), "samples",
			 number(r->sum.samples), "ns", number(r->sum.ns), "share",
			 share(r->sum.ns, t->total.ns));
}

static json_t *sums(const struct sp_sum *self, const struct sp_sum *total)
{
	return json_pack("{s:o, s:o, s:o, s:o}", "self_samples", number(self->samples), "self_ns",
			 number(self->ns), "total_samples", number(total->samples), "total_ns",
			 number(total->ns));
}

static json_t *function(const struct sp_tally *t, size_t i)
{
	const struct sp_function_row *f = &t->function[i];
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

/* A sum with one number more. */
static json_t *sum_with(const struct sp_sum *s, const char *key, uint64_t n)
{
	json_t *sum = json_sum(s);

	json_object_set_new(sum, key, number(n));
	return sum;
}

struct writer {
	FILE *out;
	const char *before; /* the next key */
	int err;
};

static void put_value(struct writer *w, json_t *value)
{
	if (value == NULL || json_dumpf(value, w->out, JSON_PRESERVE_ORDER | JSON_ENCODE_ANY) != 0)
		w->err = -1;
	json_decref(value);
}

static void put_key(struct writer *w, const char *key)
{
	(void)fprintf(w->out, "%s \"%s\": ", w->before, key);
	w->before = ",\n";
}

static void put(struct writer *w, const char *key, json_t *value)
{
	put_key(w, key);
	put_value(w, value);
}

/* A row at a time: as objects of jansson all of them would take many times the memory of the tally. */
static void put_rows(struct writer *w, const char *key, const struct sp_tally *t, size_t n,
		     json_t *(*row)(const struct sp_tally *t, size_t i))
{
	put_key(w, key);
	(void)fputc('[', w->out);
	for (size_t i = 0; i < n; i++) {
		(void)fputs(i != 0 ? ",\n  " : "\n  ", w->out);
		put_value(w, row(t, i));
	}
	(void)fputc(']', w->out);
}

int sp_report_print_json(FILE *out, const struct sp_tally *t, const struct sp_print *p)
{
	struct writer w = {.out = out, .before = "{\n"};

	put(&w, "profiles", number(p->files));
	put(&w, "total", json_sum(&t->total));
	put(&w, "labelled", sum_with(&t->labelled, "spans", t->spans));
	put(&w, "residual", json_sum(&t->unsampled));
	if (t->diff)
		put(&w, "baseline", sum_with(&t->base, "spans", t->base_spans));
	put_rows(&w, "span_names", t, t->names, span_name);
	put_rows(&w, "spans", t, t->spans, span);
	put_rows(&w, "threads", t, t->threads, thread);
	put_rows(&w, "functions", t, p->top != 0 && p->top < t->functions ? p->top : t->functions,
		 function);
	(void)fputs("\n}\n", out);
	return w.err != 0 || ferror(out) != 0 ? -1 : 0;
}

/* So many spans are listed on the page. */
#define SP_JSON_LISTED 200U

void sp_report_print_lists(FILE *out, const struct sp_tally *t, const char *name)
{
	struct writer w = {.out = out, .before = ","};
	const char *before = "";
	unsigned listed = 0;

	put(&w, "labelled", sum_with(&t->labelled, "spans", t->spans));
	put_rows(&w, "span_names", t, t->names, span_name);
	put_key(&w, "spans");
	(void)fputc('[', out);
	for (size_t i = 0; i < t->spans && listed < SP_JSON_LISTED; i++) {
		if (name != NULL && strcmp(sp_tally_text(t, t->span[i].name), name) != 0)
			continue;
		(void)fputs(before, out);
		put_value(&w, span(t, i));
		before = ",\n  ";
		listed++;
	}
	(void)fputc(']', out);
}
