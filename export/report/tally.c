/* SPDX-License-Identifier: Apache-2.0 */
/* Selects samples and sums them up (tally.h). Context: the report tool. */
#define _GNU_SOURCE
#include "export/report/tally.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/report/load.h"
#include "export/report/roots.h"
#include "export/util/containers.h"
#include "sampler/base/text.h"

/* The options --span, --span-name, --trace and --diff. */

#define SP_SELECTION_NAMES_MAX 4096U

int sp_slow_ids_add(struct sp_slow_ids *s, uint64_t id)
{
	if (!SP_GROW(s->id, s->cap, s->n + 1, UINT32_MAX) ||
	    !sp_hash_index_put(&s->by_id, (uint32_t)sp_hash_add(0, id), (uint32_t)s->n))
		return -1;
	s->id[s->n++] = id;
	return 0;
}

void sp_slow_ids_fini(struct sp_slow_ids *s)
{
	sp_hash_index_fini(&s->by_id);
	free(s->id);
	memset(s, 0, sizeof(*s));
}

static bool is_listed(const struct sp_slow_ids *s, const char *span_id)
{
	uint64_t id;
	uint32_t i;

	if (s == NULL || !sp_report_id_read(span_id, &id))
		return false;
	for (uint32_t step = 0;
	     sp_hash_index_next(&s->by_id, (uint32_t)sp_hash_add(0, id), &step, &i);)
		if (s->id[i] == id)
			return true;
	return false;
}

static bool has_latency(const struct sp_selection *x, const struct sp_report_sample *s,
			const char *latency)
{
	bool is_slow = x->has_latency ? strcmp(s->latency, SP_REPORT_SLOW) == 0
				      : is_listed(x->slow_ids, s->span_id);
	/* The latency is unknown if the root had not ended, and for time outside of spans. */
	bool is_known = x->has_latency ? s->latency[0] != '\0'
				       : s->span_id[0] != '\0' || s->span_name[0] != '\0';

	if (strcmp(latency, SP_REPORT_SLOW) == 0)
		return is_slow;
	if (strcmp(latency, SP_REPORT_REST) == 0)
		return is_known && !is_slow;
	return strcmp(s->latency, latency) == 0;
}

static bool selected_but_for_latency(const struct sp_selection *x, const struct sp_report_sample *s)
{
	return (x->span_id == NULL || strcasecmp(x->span_id, s->span_id) == 0) &&
	       (x->span_name == NULL || strcmp(x->span_name, s->span_name) == 0) &&
	       (x->trace_id == NULL || strcasecmp(x->trace_id, s->trace_id) == 0);
}

static bool selected(const struct sp_selection *x, const struct sp_report_sample *s)
{
	return selected_but_for_latency(x, s) &&
	       (x->latency == NULL || has_latency(x, s, x->latency));
}

/*
 * Whether a selected span has this name. There may be several names, because a trace may be
 * selected, but only few.
 */
static bool known(const struct sp_selection *x, const char *name)
{
	for (size_t i = 0; i < x->names; i++)
		if (strcmp(x->name[i], name) == 0)
			return true;
	return false;
}

void sp_selection_learn(void *arg, const struct sp_report_sample *s)
{
	struct sp_selection *x = arg;

	if (s->span_name[0] == '\0' || !selected(x, s) || known(x, s->span_name))
		return;
	if (x->names == SP_SELECTION_NAMES_MAX) {
		x->too_many = true;
		return;
	}
	if (!SP_GROW(x->name, x->cap, x->names + 1, SP_SELECTION_NAMES_MAX)) {
		x->nomem = true;
		return;
	}
	x->name[x->names] = strdup(s->span_name);
	if (x->name[x->names] == NULL)
		x->nomem = true;
	else
		x->names++;
}

void sp_selection_fini(struct sp_selection *x)
{
	for (size_t i = 0; i < x->names; i++)
		free(x->name[i]);
	free(x->name);
}

enum sp_side sp_selection_side(const struct sp_selection *x, const struct sp_report_sample *s)
{
	if (selected(x, s))
		return SP_SIDE_SELECTED;
	if (x->base_latency != NULL)
		return selected_but_for_latency(x, s) && has_latency(x, s, x->base_latency)
			       ? SP_SIDE_BASELINE
			       : SP_SIDE_NONE;
	return x->diff && known(x, s->span_name) ? SP_SIDE_BASELINE : SP_SIDE_NONE;
}

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

/*
 * Adds a sample to the row whose number is in *slot; makes a zeroed row if there is none. NULL when
 * out of memory.
 */
static struct sp_row *add_row(struct sp_rows *rows, uint32_t *slot, uint32_t text,
			      const struct sp_report_sample *s)
{
	struct sp_row *row;

	if (*slot == 0) {
		if (!SP_GROW(rows->row, rows->cap, rows->n + 1, UINT32_MAX))
			return NULL;
		rows->row[rows->n++] = (struct sp_row){.text = text};
		*slot = (uint32_t)rows->n;
	}
	row = &rows->row[*slot - 1];
	add_sum(&row->sum, s);
	return row;
}

/* Interns an id in lower case, because ids are compared without case. */
static int intern_id(struct sp_tally *t, const char *span_id, uint32_t *id)
{
	char lower[64];
	size_t len = strnlen(span_id, sizeof(lower));

	/* A text that is no id may be longer, and is cut between two characters. */
	if (len == sizeof(lower))
		len = sp_text_boundary(span_id, len - 1);
	for (size_t i = 0; i < len; i++)
		lower[i] = (char)tolower((unsigned char)span_id[i]);
	lower[len] = '\0';
	return intern(t, lower, id);
}

static int add_span(struct sp_tally *t, const struct sp_report_sample *s, uint32_t name)
{
	struct sp_row *row;
	bool is_new;
	uint32_t id;

	if (intern_id(t, s->span_id, &id) != 0)
		return -1;
	is_new = t->row[id].span == 0;
	row = add_row(&t->span, &t->row[id].span, id, s);
	if (row == NULL)
		return -1;
	if (is_new || s->ns > row->name_ns) {
		if (!is_new)
			t->name.row[t->row[row->name].name - 1].spans--;
		t->name.row[t->row[name].name - 1].spans++;
		row->name = name;
		row->name_ns = s->ns;
	}
	return row->trace == 0 ? intern(t, s->trace_id, &row->trace) : 0;
}

static int add_labels(struct sp_tally *t, const struct sp_report_sample *s)
{
	static const struct sp_report_sample nothing;
	uint32_t text;

	if (s->thread_name[0] != '\0' &&
	    (intern(t, s->thread_name, &text) != 0 ||
	     add_row(&t->thread, &t->row[text].thread, text, s) == NULL))
		return -1;
	if (s->by[0] != '\0' &&
	    (intern(t, s->by, &text) != 0 || add_row(&t->by, &t->row[text].by, text, s) == NULL))
		return -1;
	if (s->span_id[0] == '\0' && s->span_name[0] == '\0')
		return 0;
	add_sum(&t->labelled, s);
	if (intern(t, s->span_name, &text) != 0 ||
	    add_row(&t->name, &t->row[text].name, text,
		    t->left_behind && s->span_id[0] != '\0' ? &nothing : s) == NULL)
		return -1;
	return s->span_id[0] != '\0' ? add_span(t, s, text) : 0;
}

/* Adds a wait for a lock whose holder the leaf names. */
static int add_wait(struct sp_tally *t, const struct sp_report_sample *s)
{
	static const char held_by[] = "held by ";
	char text[2 * SP_REPORT_TEXT_MAX + 3];
	struct sp_row *row;
	const char *owner;
	uint32_t id;

	if (s->blocked_by_span_id[0] == '\0' || s->frames == 0 ||
	    strncmp(s->frame[0].name, held_by, strlen(held_by)) != 0)
		return 0;
	owner = s->frame[0].name + strlen(held_by);
	(void)snprintf(text, sizeof(text), "%.*s: %.*s", (int)SP_REPORT_TEXT_MAX, s->span_name,
		       (int)SP_REPORT_TEXT_MAX, owner);
	add_sum(&t->locks, s);
	if (intern(t, text, &id) != 0)
		return -1;
	row = add_row(&t->wait, &t->row[id].wait, id, s);
	if (row == NULL || intern(t, s->span_name, &row->name) != 0 ||
	    intern(t, owner, &row->owner) != 0)
		return -1;
	if (s->ns < row->name_ns)
		return 0;
	row->name_ns = s->ns;
	return intern_id(t, s->blocked_by_span_id, &row->owner_id);
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

/* Finds or makes the row of a frame. NULL when out of memory. */
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
	if (t->row[key].function == 0) {
		if (!SP_GROW(t->function, t->function_cap, t->functions + 1, UINT32_MAX))
			return NULL;
		t->function[t->functions++] = (struct sp_function_row){.key = key};
		t->row[key].function = (uint32_t)t->functions;
	}
	frame->memo->function = t->row[key].function;
	row = &t->function[t->row[key].function - 1];
	if (row->seen != 0)
		return row;
	row->line = t->lines ? frame->line : 0;
	row->kind = frame->kind;
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
			err = add_wait(t, s);
	}
	if (err != 0 || add_functions(t, s, side == SP_SIDE_BASELINE) != 0)
		t->nomem = true;
}

size_t sp_tally_bytes(const struct sp_tally *t)
{
	return sp_strtab_bytes(&t->text) + t->row_cap * sizeof(*t->row) +
	       (t->name.cap + t->span.cap + t->thread.cap + t->wait.cap + t->by.cap) *
		       sizeof(struct sp_row) +
	       t->function_cap * sizeof(*t->function);
}

static double share(uint64_t part, uint64_t whole)
{
	return whole != 0 ? (double)part / (double)whole : 0.0;
}

double sp_tally_error(const struct sp_tally *t, const struct sp_sum *s)
{
	double n = (double)s->samples;

	if (s->samples == 0 || (!t->by_looks && s->samples >= t->read))
		return 0;
	return sqrt(t->by_looks ? 2 / n : (1 - n / (double)t->read) / n);
}

bool sp_tally_has_too_few(const struct sp_tally *t, const struct sp_sum *s)
{
	return s->samples != 0 && s->samples <= (t->by_looks ? 8 : 4);
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

static int compare_rows(const void *a, const void *b, void *t)
{
	const struct sp_row *x = a;
	const struct sp_row *y = b;

	return by_ns(t, x->sum.ns, y->sum.ns, x->text, y->text);
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
	struct sp_rows *const rows[] = {&t->name, &t->span, &t->thread, &t->wait, &t->by};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i]->n != 0)
			qsort_r(rows[i]->row, rows[i]->n, sizeof(struct sp_row), compare_rows, t);
	if (t->functions != 0)
		qsort_r(t->function, t->functions, sizeof(*t->function),
			t->diff ? compare_changes : compare_functions, t);
	/* Samples that are added after this must find the rows at their new indices. */
	for (uint32_t i = 0; i < t->name.n; i++)
		t->row[t->name.row[i].text].name = i + 1;
	for (uint32_t i = 0; i < t->span.n; i++)
		t->row[t->span.row[i].text].span = i + 1;
	for (uint32_t i = 0; i < t->thread.n; i++)
		t->row[t->thread.row[i].text].thread = i + 1;
	for (uint32_t i = 0; i < t->wait.n; i++)
		t->row[t->wait.row[i].text].wait = i + 1;
	for (uint32_t i = 0; i < t->by.n; i++)
		t->row[t->by.row[i].text].by = i + 1;
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
	free(t->name.row);
	free(t->span.row);
	free(t->thread.row);
	free(t->wait.row);
	free(t->by.row);
	free(t->function);
	memset(t, 0, sizeof(*t));
}

/* The number of hash slots, twice as many, must fit into 32 bits. */
#define SP_TREE_NODES_MAX (UINT32_MAX / 2)

/* Finds or makes a child. Returns its index; 0 when out of memory. */
static uint32_t child(struct sp_tree *t, uint32_t parent, const struct sp_report_frame *f)
{
	char name[SP_REPORT_TEXT_MAX + 1];
	struct sp_tree_node *n;
	uint32_t text = f->memo->node;
	uint32_t hash, i;

	if (text == 0) {
		size_t len = sp_report_frame_text(f, t->lines, name);

		if (sp_strtab_put(&t->text, name, len, &text) != 0)
			return 0;
		f->memo->node = text;
	}
	/*
	 * The child that was used last is tried first: mostly it is the same again, and the hash
	 * table is larger than any cache.
	 */
	i = t->node[parent].first;
	if (i != 0 && t->node[i].text == text)
		return i;
	hash = (uint32_t)sp_hash_add(0, (uint64_t)parent << 32 | text);
	for (uint32_t step = 0; sp_hash_index_next(&t->children, hash, &step, &i);)
		if (t->node[i].parent == parent && t->node[i].text == text)
			return t->node[parent].first = i;
	if (!SP_GROW(t->node, t->cap, (size_t)t->nodes + 1, SP_TREE_NODES_MAX) ||
	    !sp_hash_index_put(&t->children, hash, t->nodes))
		return 0;
	n = &t->node[t->nodes];
	*n = (struct sp_tree_node){.parent = parent,
				   .text = text,
				   .depth = t->node[parent].depth + 1,
				   .kind = f->kind};
	if (n->depth > t->depth)
		t->depth = n->depth;
	return t->node[parent].first = t->nodes++;
}

/* Adds a sample to a node. */
static void pass(struct sp_tree_node *n, const struct sp_report_sample *s, enum sp_side side)
{
	if (side == SP_SIDE_BASELINE) {
		n->base_ns += s->ns;
		n->base_samples += s->samples;
	} else {
		n->ns += s->ns;
		n->samples += s->samples;
	}
}

/* Finds the child for a frame and adds the sample to it. 0 when out of memory. */
static uint32_t step(struct sp_tree *t, uint32_t at, const struct sp_report_frame *f,
		     const struct sp_report_sample *s, enum sp_side side)
{
	at = child(t, at, f);
	if (at == 0)
		t->nomem = true;
	else
		pass(&t->node[at], s, side);
	return at;
}

uint32_t sp_tree_add(struct sp_tree *t, const struct sp_report_sample *s, enum sp_side side)
{
	struct sp_report_memo memo = {0};
	const char *name = t->by_label ? s->by : s->span_name;
	const struct sp_report_frame span = {
		.memo = &memo,
		.name = name[0] != '\0' ? name
			: t->by_label   ? SP_TREE_NO_VALUE
					: SP_TREE_NO_SPAN,
		.file = "",
		.kind = SP_FRAME_SPAN,
	};
	uint32_t at = 0;
	size_t left = s->frames;

	if (side == SP_SIDE_NONE)
		return 0;
	pass(&t->node[0], s, side);
	if (t->by_span)
		at = step(t, at, &span, s, side);
	while (left != 0 && t->node[at].depth < SP_TREE_DEPTH && !t->nomem)
		at = step(t, at, &s->frame[--left], s, side);
	if (t->nomem)
		return 0;
	if (side == SP_SIDE_BASELINE)
		t->node[at].base_self_ns += s->ns;
	else
		t->node[at].self_ns += s->ns;
	return at;
}

size_t sp_tree_bytes(const struct sp_tree *t)
{
	return sp_strtab_bytes(&t->text) + t->cap * sizeof(*t->node) +
	       sp_hash_index_bytes(&t->children);
}

const char *sp_tree_text(const struct sp_tree *t, const struct sp_tree_node *n)
{
	size_t len;

	return sp_strtab_get(&t->text, n->text, &len);
}

double sp_tree_share(const struct sp_tree *t, const struct sp_tree_node *n)
{
	const struct sp_tree_node *root = &t->node[0];

	if (root->base_ns == 0)
		return share(n->ns, root->ns);
	return (share(n->ns, root->ns) + share(n->base_ns, root->base_ns)) / 2;
}

/* Sorts siblings together, in reverse order. */
static int compare(const void *a, const void *b, void *arg)
{
	const struct sp_tree *t = arg;
	const struct sp_tree_node *x = &t->node[*(const uint32_t *)a];
	const struct sp_tree_node *y = &t->node[*(const uint32_t *)b];
	double x_share = sp_tree_share(t, x);
	double y_share = sp_tree_share(t, y);

	if (x->parent != y->parent)
		return x->parent < y->parent ? -1 : 1;
	if (x_share != y_share)
		return x_share < y_share ? -1 : 1;
	return strcmp(sp_tree_text(t, y), sp_tree_text(t, x));
}

int sp_tree_sort(struct sp_tree *t)
{
	uint32_t *order = calloc(t->nodes, sizeof(*order));

	if (order == NULL)
		return -1;
	for (uint32_t i = 1; i < t->nodes; i++)
		order[i] = i;
	/* So far `first` is the child that was used last. */
	for (uint32_t i = 0; i < t->nodes; i++)
		t->node[i].first = 0;
	qsort_r(order + 1, t->nodes - 1, sizeof(*order), compare, t);
	for (uint32_t i = 1; i < t->nodes; i++) {
		struct sp_tree_node *n = &t->node[order[i]];
		struct sp_tree_node *parent = &t->node[n->parent];

		n->next = parent->first;
		parent->first = order[i];
	}
	free(order);
	return 0;
}

uint32_t sp_tree_after(const struct sp_tree *t, uint32_t n, bool children)
{
	if (children && t->node[n].first != 0)
		return t->node[n].first;
	while (n != 0 && t->node[n].next == 0)
		n = t->node[n].parent;
	return n != 0 ? t->node[n].next : 0;
}

int sp_tree_init(struct sp_tree *t)
{
	memset(t, 0, sizeof(*t));
	if (sp_strtab_init(&t->text) != 0 || !SP_GROW(t->node, t->cap, 1, SP_TREE_NODES_MAX))
		return -1;
	t->node[0] = (struct sp_tree_node){0};
	t->nodes = 1;
	return 0;
}

void sp_tree_fini(struct sp_tree *t)
{
	sp_strtab_fini(&t->text);
	free(t->node);
	sp_hash_index_fini(&t->children);
}
