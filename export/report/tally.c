/* SPDX-License-Identifier: Apache-2.0 */
/* The report's arithmetic. Context: the report tool. Callers: report/main.c, table.c, json.c. */
#define _GNU_SOURCE
#include "export/report/tally.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "export/utf8.h"

#define SP_TEXT_MAX 4096

const char *sp_tally_text(const struct sp_tally *t, uint32_t id)
{
	size_t len;

	return sp_strtab_get(&t->text, id, &len);
}

static void add_sum(struct sp_sum *sum, const struct sp_report_sample *s)
{
	sum->samples += s->samples;
	sum->ns += s->ns;
}

static int grow_rows(uint32_t **rows, size_t from, size_t to)
{
	uint32_t *more = realloc(*rows, to * sizeof(*more));

	if (more == NULL)
		return -1;
	memset(more + from, 0, (to - from) * sizeof(*more));
	*rows = more;
	return 0;
}

static int intern(struct sp_tally *t, const char *s, uint32_t *id)
{
	char clean[SP_TEXT_MAX];
	size_t len = sp_utf8_clean(clean, sizeof(clean), s, strlen(s));
	size_t cap = t->row_cap;

	if (sp_strtab_put(&t->text, clean, len, id) != 0)
		return -1;
	if (*id < cap)
		return 0;
	cap = cap * 2 + 1024;
	if (grow_rows(&t->name_row, t->row_cap, cap) != 0 ||
	    grow_rows(&t->span_row, t->row_cap, cap) != 0 ||
	    grow_rows(&t->function_row, t->row_cap, cap) != 0)
		return -1;
	t->row_cap = cap;
	return 0;
}

/* The row for a text, a zeroed new one if need be. NULL when out of memory. */
static void *row_of(uint32_t *slot, void **rows, size_t *n, size_t *cap, size_t size)
{
	if (*slot != 0)
		return (char *)*rows + (*slot - 1) * size;
	if (*n == *cap) {
		size_t bigger = *cap * 2 + 64;
		void *more = realloc(*rows, bigger * size);

		if (more == NULL)
			return NULL;
		*rows = more;
		*cap = bigger;
	}
	memset((char *)*rows + *n * size, 0, size);
	*slot = (uint32_t)++ * n;
	return (char *)*rows + (*n - 1) * size;
}

static int add_span(struct sp_tally *t, const struct sp_report_sample *s, uint32_t name)
{
	struct sp_span_row *row;
	struct sp_name_row *n;
	char lower[64] = "";
	uint32_t id;

	for (size_t i = 0; i < sizeof(lower) - 1 && s->span_id[i] != '\0'; i++)
		lower[i] = (char)tolower((unsigned char)s->span_id[i]);
	if (intern(t, lower, &id) != 0)
		return -1;
	row = row_of(&t->span_row[id], (void **)&t->span, &t->spans, &t->span_cap, sizeof(*row));
	if (row == NULL)
		return -1;
	if (row->id == 0) {
		row->id = id;
		row->name = name;
		n = &t->name[t->name_row[name] - 1];
		n->spans++;
	}
	if (row->trace == 0 && intern(t, s->trace_id, &row->trace) != 0)
		return -1;
	add_sum(&row->sum, s);
	return 0;
}

static int add_labels(struct sp_tally *t, const struct sp_report_sample *s)
{
	struct sp_name_row *row;
	uint32_t name;

	if (s->span_id[0] == '\0' && s->span_name[0] == '\0')
		return 0;
	add_sum(&t->labelled, s);
	if (intern(t, s->span_name, &name) != 0)
		return -1;
	row = row_of(&t->name_row[name], (void **)&t->name, &t->names, &t->name_cap, sizeof(*row));
	if (row == NULL)
		return -1;
	row->name = name;
	add_sum(&row->sum, s);
	return s->span_id[0] != '\0' ? add_span(t, s, name) : 0;
}

static int add_functions(struct sp_tally *t, const struct sp_report_sample *s)
{
	t->serial++;
	for (size_t i = 0; i < s->frames; i++) {
		struct sp_function_row *row;
		uint32_t name;

		if (intern(t, s->frame[i], &name) != 0)
			return -1;
		row = row_of(&t->function_row[name], (void **)&t->function, &t->functions,
			     &t->function_cap, sizeof(*row));
		if (row == NULL)
			return -1;
		row->name = name;
		if (i == 0)
			add_sum(&row->self, s);
		if (row->seen != t->serial)
			add_sum(&row->total, s);
		row->seen = t->serial;
	}
	return 0;
}

static int wanted(const struct sp_filter *f, const struct sp_report_sample *s)
{
	return (f->span_id == NULL || strcasecmp(f->span_id, s->span_id) == 0) &&
	       (f->span_name == NULL || strcmp(f->span_name, s->span_name) == 0) &&
	       (f->trace_id == NULL || strcasecmp(f->trace_id, s->trace_id) == 0);
}

void sp_tally_add(void *arg, const struct sp_report_sample *s)
{
	struct sp_tally *t = arg;

	if (!wanted(&t->filter, s))
		return;
	add_sum(&t->total, s);
	if (add_labels(t, s) != 0 || add_functions(t, s) != 0)
		t->nomem = 1;
}

static int by_ns(const struct sp_tally *t, uint64_t a, uint64_t b, uint32_t x, uint32_t y)
{
	if (a != b)
		return a > b ? -1 : 1;
	return strcmp(sp_tally_text(t, x), sp_tally_text(t, y));
}

static int compare_names(const void *a, const void *b, void *t)
{
	const struct sp_name_row *x = a;
	const struct sp_name_row *y = b;

	return by_ns(t, x->sum.ns, y->sum.ns, x->name, y->name);
}

static int compare_spans(const void *a, const void *b, void *t)
{
	const struct sp_span_row *x = a;
	const struct sp_span_row *y = b;

	return by_ns(t, x->sum.ns, y->sum.ns, x->id, y->id);
}

static int compare_functions(const void *a, const void *b, void *t)
{
	const struct sp_function_row *x = a;
	const struct sp_function_row *y = b;

	if (x->self.ns == y->self.ns && x->total.ns != y->total.ns)
		return x->total.ns > y->total.ns ? -1 : 1;
	return by_ns(t, x->self.ns, y->self.ns, x->name, y->name);
}

void sp_tally_sort(struct sp_tally *t)
{
	if (t->names != 0)
		qsort_r(t->name, t->names, sizeof(*t->name), compare_names, t);
	if (t->spans != 0)
		qsort_r(t->span, t->spans, sizeof(*t->span), compare_spans, t);
	if (t->functions != 0)
		qsort_r(t->function, t->functions, sizeof(*t->function), compare_functions, t);
}

int sp_tally_init(struct sp_tally *t, const struct sp_filter *filter)
{
	uint32_t empty;

	memset(t, 0, sizeof(*t));
	t->filter = *filter;
	if (sp_strtab_init(&t->text) != 0)
		return -1;
	return intern(t, "", &empty);
}

void sp_tally_fini(struct sp_tally *t)
{
	sp_strtab_fini(&t->text);
	free(t->name_row);
	free(t->span_row);
	free(t->function_row);
	free(t->name);
	free(t->span);
	free(t->function);
	memset(t, 0, sizeof(*t));
}
