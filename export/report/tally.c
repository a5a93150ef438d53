/* SPDX-License-Identifier: Apache-2.0 */
/* Sums samples for the report (tally.h). Context: the report tool. */
#define _GNU_SOURCE
#include "export/report/tally.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export/report/frame.h"
#include "export/util/containers.h"
#include "sampler/base/text.h"

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

static int intern(struct sp_tally *t, const char *s, uint32_t *id)
{
	size_t had = t->row_cap;

	if (sp_strtab_put(&t->text, s, strlen(s), id) != 0 ||
	    !SP_GROW(t->row, t->row_cap, (size_t)*id + 1, SIZE_MAX))
		return -1;
	memset(t->row + had, 0, (t->row_cap - had) * sizeof(*t->row));
	return 0;
}

/* The row of a text in *rows, a new and zeroed one if needed. NULL when out of memory. */
static void *row_of(uint32_t *slot, void *rows, size_t *n, size_t *cap, size_t size)
{
	char *first;

	if (*slot == 0 && !sp_grow(rows, cap, *n + 1, UINT32_MAX, size))
		return NULL;
	memcpy(&first, rows, sizeof(first));
	if (*slot == 0) {
		memset(first + *n * size, 0, size);
		*slot = (uint32_t)++ * n;
	}
	return first + (*slot - 1) * size;
}

/* Ids are compared without regard to case. */
static int intern_id(struct sp_tally *t, const char *span_id, uint32_t *id)
{
	char lower[64];
	size_t len = strnlen(span_id, sizeof(lower));

	/* What is no id may be longer, and is cut between two characters. */
	if (len == sizeof(lower))
		len = sp_text_boundary(span_id, len - 1);
	for (size_t i = 0; i < len; i++)
		lower[i] = (char)tolower((unsigned char)span_id[i]);
	lower[len] = '\0';
	return intern(t, lower, id);
}

static int add_span(struct sp_tally *t, const struct sp_report_sample *s, uint32_t name)
{
	struct sp_span_row *row;
	uint32_t id;

	if (intern_id(t, s->span_id, &id) != 0)
		return -1;
	row = row_of(&t->row[id].span, &t->span, &t->spans, &t->span_cap, sizeof(*row));
	if (row == NULL)
		return -1;
	if (row->id == 0 || s->ns > row->name_ns) {
		if (row->id != 0)
			t->name[t->row[row->name].name - 1].spans--;
		t->name[t->row[name].name - 1].spans++;
		row->id = id;
		row->name = name;
		row->name_ns = s->ns;
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
	row = row_of(&t->row[name].name, &t->name, &t->names, &t->name_cap, sizeof(*row));
	if (row == NULL)
		return -1;
	row->name = name;
	add_sum(&row->sum, s);
	return s->span_id[0] != '\0' ? add_span(t, s, name) : 0;
}

static int add_thread(struct sp_tally *t, const struct sp_report_sample *s)
{
	struct sp_thread_row *row;
	uint32_t name;

	if (s->thread_name[0] == '\0')
		return 0;
	if (intern(t, s->thread_name, &name) != 0)
		return -1;
	row = row_of(&t->row[name].thread, &t->thread, &t->threads, &t->thread_cap, sizeof(*row));
	if (row == NULL)
		return -1;
	row->name = name;
	add_sum(&row->sum, s);
	return 0;
}

static int add_base_span(struct sp_tally *t, const struct sp_report_sample *s)
{
	uint32_t id;

	if (s->span_id[0] == '\0')
		return 0;
	if (intern_id(t, s->span_id, &id) != 0)
		return -1;
	if (t->row[id].base == 0)
		t->row[id].base = ++t->base_spans;
	return 0;
}

/* The row of a frame. NULL when out of memory. */
static struct sp_function_row *function_of(struct sp_tally *t, const struct sp_report_frame *frame)
{
	char text[SP_REPORT_TEXT_MAX + 1];
	struct sp_function_row *row;
	uint32_t key;

	if (frame->memo->function != 0)
		return &t->function[frame->memo->function - 1];
	(void)sp_report_frame_text(frame, t->lines, text);
	if (intern(t, text, &key) != 0)
		return NULL;
	row = row_of(&t->row[key].function, &t->function, &t->functions, &t->function_cap,
		     sizeof(*row));
	frame->memo->function = t->row[key].function;
	if (row == NULL || row->seen != 0)
		return row;
	row->key = key;
	row->line = t->lines ? frame->line : 0;
	return intern(t, frame->name, &row->name) == 0 && intern(t, frame->file, &row->file) == 0
		       ? row
		       : NULL;
}

static int add_functions(struct sp_tally *t, const struct sp_report_sample *s, bool base)
{
	t->serial++;
	for (size_t i = 0; i < s->frames; i++) {
		struct sp_function_row *row = function_of(t, &s->frame[i]);

		if (row == NULL)
			return -1;
		if (i == 0)
			add_sum(base ? &row->base_self : &row->self, s);
		if (row->seen != t->serial)
			add_sum(base ? &row->base_total : &row->total, s);
		row->seen = t->serial;
	}
	return 0;
}

void sp_tally_add(struct sp_tally *t, const struct sp_report_sample *s, enum sp_side side)
{
	int err;

	if (side == SP_SIDE_NONE)
		return;
	if (side == SP_SIDE_BASELINE) {
		add_sum(&t->base, s);
		err = add_base_span(t, s);
	} else {
		add_sum(&t->total, s);
		if (s->frames != 0 && strcmp(s->frame[0].name, SP_REPORT_UNSAMPLED) == 0)
			add_sum(&t->unsampled, s);
		err = add_labels(t, s);
		if (err == 0)
			err = add_thread(t, s);
	}
	if (err != 0 || add_functions(t, s, side == SP_SIDE_BASELINE) != 0)
		t->nomem = true;
}

size_t sp_tally_bytes(const struct sp_tally *t)
{
	return sp_strtab_bytes(&t->text) + t->row_cap * sizeof(*t->row) +
	       t->name_cap * sizeof(*t->name) + t->span_cap * sizeof(*t->span) +
	       t->thread_cap * sizeof(*t->thread) + t->function_cap * sizeof(*t->function);
}

static double share(uint64_t part, uint64_t whole)
{
	return whole != 0 ? (double)part / (double)whole : 0.0;
}

double sp_tally_self_change(const struct sp_tally *t, const struct sp_function_row *f)
{
	return share(f->self.ns, t->total.ns) - share(f->base_self.ns, t->base.ns);
}

double sp_tally_total_change(const struct sp_tally *t, const struct sp_function_row *f)
{
	return share(f->total.ns, t->total.ns) - share(f->base_total.ns, t->base.ns);
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

static int compare_threads(const void *a, const void *b, void *t)
{
	const struct sp_thread_row *x = a;
	const struct sp_thread_row *y = b;

	return by_ns(t, x->sum.ns, y->sum.ns, x->name, y->name);
}

static int compare_functions(const void *a, const void *b, void *t)
{
	const struct sp_function_row *x = a;
	const struct sp_function_row *y = b;

	if (x->self.ns == y->self.ns && x->total.ns != y->total.ns)
		return x->total.ns > y->total.ns ? -1 : 1;
	return by_ns(t, x->self.ns, y->self.ns, x->key, y->key);
}

/* Functions whose own share changed come first: their callers changed by as much. */
static int compare_changes(const void *a, const void *b, void *t)
{
	double x = fabs(sp_tally_self_change(t, a));
	double y = fabs(sp_tally_self_change(t, b));

	if (x != y)
		return x > y ? -1 : 1;
	x = fabs(sp_tally_total_change(t, a));
	y = fabs(sp_tally_total_change(t, b));
	if (x != y)
		return x > y ? -1 : 1;
	return compare_functions(a, b, t);
}

void sp_tally_sort(struct sp_tally *t)
{
	if (t->names != 0)
		qsort_r(t->name, t->names, sizeof(*t->name), compare_names, t);
	if (t->spans != 0)
		qsort_r(t->span, t->spans, sizeof(*t->span), compare_spans, t);
	if (t->threads != 0)
		qsort_r(t->thread, t->threads, sizeof(*t->thread), compare_threads, t);
	if (t->functions != 0)
		qsort_r(t->function, t->functions, sizeof(*t->function),
			t->diff ? compare_changes : compare_functions, t);
	/* What is added after this has to find the rows in their new places. */
	for (uint32_t i = 0; i < t->names; i++)
		t->row[t->name[i].name].name = i + 1;
	for (uint32_t i = 0; i < t->spans; i++)
		t->row[t->span[i].id].span = i + 1;
	for (uint32_t i = 0; i < t->threads; i++)
		t->row[t->thread[i].name].thread = i + 1;
	for (uint32_t i = 0; i < t->functions; i++)
		t->row[t->function[i].key].function = i + 1;
}

int sp_tally_init(struct sp_tally *t)
{
	uint32_t empty;

	memset(t, 0, sizeof(*t));
	if (sp_strtab_init(&t->text) != 0)
		return -1;
	return intern(t, "", &empty);
}

void sp_tally_fini(struct sp_tally *t)
{
	sp_strtab_fini(&t->text);
	free(t->row);
	free(t->name);
	free(t->span);
	free(t->thread);
	free(t->function);
	memset(t, 0, sizeof(*t));
}
