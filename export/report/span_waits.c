/* SPDX-License-Identifier: Apache-2.0 */
/* Adds up where the time of spans went (span_waits.h). Context: the report tool. */
#define _GNU_SOURCE
#include "export/report/span_waits.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/report/frame.h"
#include "export/util/grow.h"
#include "export/util/text_out.h"
#include "sampler/base/text.h"

#define LEAF_PROCESSOR "[waiting for a CPU]"
#define NAME_MAX_SHOWN 256U

const char *const sp_waits_state_words[SP_WAITS_STATES] = {"CPU", "runnable", "blocked"};

int sp_span_waits_init(struct sp_span_waits *w)
{
	memset(w, 0, sizeof(*w));
	return sp_strtab_init(&w->text);
}

void sp_span_waits_fini(struct sp_span_waits *w)
{
	sp_strtab_fini(&w->text);
	free(w->row);
	free(w->name);
	free(w->stack);
	sp_hash_index_fini(&w->by_frames);
	memset(w, 0, sizeof(*w));
}

size_t sp_span_waits_bytes(const struct sp_span_waits *w)
{
	return sp_strtab_bytes(&w->text) + w->row_cap * sizeof(*w->row) +
	       w->name_cap * sizeof(*w->name) + w->stack_cap * sizeof(*w->stack) +
	       sp_hash_index_bytes(&w->by_frames);
}

const char *sp_span_waits_text(const struct sp_span_waits *w, uint32_t id)
{
	size_t len;

	/* Behind the letter of its kind. */
	return sp_strtab_get(&w->text, id, &len) + 1;
}

void sp_span_waits_begin(struct sp_span_waits *w, const char *type)
{
	w->source = strcmp(type, "off_cpu") == 0 ? SP_WAITS_OFF_CPU
		    : strcmp(type, "wall") == 0  ? SP_WAITS_WALL
						 : SP_WAITS_CPU;
	w->seen[w->source] = true;
}

/* The row of a text; texts of different kinds begin with different letters. NULL when out of memory. */
static uint32_t *row_of(struct sp_span_waits *w, const char *text, uint32_t *id)
{
	size_t had = w->row_cap;

	if (sp_strtab_put(&w->text, text, strlen(text), id) != 0 ||
	    !SP_GROW(w->row, w->row_cap, (size_t)*id + 1, SIZE_MAX))
		return NULL;
	memset(w->row + had, 0, (w->row_cap - had) * sizeof(*w->row));
	return &w->row[*id];
}

static uint32_t name_row(struct sp_span_waits *w, const struct sp_report_sample *s)
{
	char text[SP_REPORT_TEXT_MAX + 2] = "n";
	uint32_t *row;
	uint32_t id;

	(void)snprintf(text + 1, sizeof(text) - 1, "%s", s->span_name);
	row = row_of(w, text, &id);
	if (row == NULL || *row != 0)
		return row != NULL ? *row : 0;
	if (!SP_GROW(w->name, w->name_cap, w->names + 1, UINT32_MAX))
		return 0;
	w->name[w->names] = (struct sp_waits_name){.name = id};
	*row = (uint32_t)++w->names;
	return *row;
}

/* A span counts once, for the name that it was seen with first. */
static bool count_span(struct sp_span_waits *w, const struct sp_report_sample *s, uint32_t name)
{
	char text[64] = "i";
	uint32_t *row;
	uint32_t id;

	for (size_t i = 0; i < sizeof(text) - 2 && s->span_id[i] != '\0'; i++)
		text[i + 1] = (char)tolower((unsigned char)s->span_id[i]);
	row = row_of(w, text, &id);
	if (row == NULL)
		return false;
	if (*row == 0 && text[1] != '\0')
		w->name[name - 1].spans++;
	*row = 1;
	return true;
}

static enum sp_waits_state state_of(const struct sp_span_waits *w, const struct sp_report_sample *s)
{
	if (w->source == SP_WAITS_CPU || s->frames == 0 ||
	    (w->source == SP_WAITS_WALL && s->frame[0].kind != SP_FRAME_WAITING))
		return SP_WAITS_ON_CPU;
	return strcmp(s->frame[0].name, LEAF_PROCESSOR) == 0 ? SP_WAITS_RUNNABLE : SP_WAITS_BLOCKED;
}

/* The text of a frame, 0 when out of memory. */
static uint32_t frame_text(struct sp_span_waits *w, const struct sp_report_frame *f)
{
	char text[NAME_MAX_SHOWN + 2] = "f";
	size_t len = strnlen(f->name, NAME_MAX_SHOWN + 1);

	if (f->memo->wait != 0)
		return f->memo->wait;
	if (len > NAME_MAX_SHOWN)
		len = sp_text_boundary(f->name, NAME_MAX_SHOWN);
	memcpy(text + 1, f->name, len);
	text[len + 1] = '\0';
	return row_of(w, text, &f->memo->wait) != NULL ? f->memo->wait : 0;
}

static bool has(const uint32_t *frame, size_t n, uint32_t wanted)
{
	for (size_t i = 0; i < n; i++)
		if (frame[i] == wanted)
			return true;
	return false;
}

/*
 * The frames by which a stack is told from others. A function that calls itself is shown once, so that
 * recursion of any depth is one stack. False when out of memory.
 */
static bool frames_of(struct sp_span_waits *w, const struct sp_report_sample *s,
		      uint32_t frame[SP_WAITS_FRAMES])
{
	size_t shown = 0;

	memset(frame, 0, SP_WAITS_FRAMES * sizeof(*frame));
	for (size_t i = 0; i < s->frames && shown < SP_WAITS_FRAMES; i++) {
		uint32_t text = frame_text(w, &s->frame[i]);

		if (text == 0)
			return false;
		if (!has(frame, shown, text))
			frame[shown++] = text;
	}
	return true;
}

static bool add_stack(struct sp_span_waits *w, const struct sp_report_sample *s, uint32_t name,
		      enum sp_waits_state state)
{
	struct sp_waits_stack new = {.name = name - 1,
				     .state = (uint8_t)state,
				     .source = (uint8_t)w->source,
				     .ns = s->ns};
	uint32_t hash, i;

	if (!frames_of(w, s, new.frame))
		return false;
	hash = (uint32_t)sp_hash_add(sp_hash_add_bytes(name, new.frame, sizeof(new.frame)),
				     (uint64_t)w->source * SP_WAITS_STATES + state);
	for (uint32_t step = 0; sp_hash_index_next(&w->by_frames, hash, &step, &i);) {
		struct sp_waits_stack *old = &w->stack[i];

		if (old->name == new.name && old->state == new.state &&
		    old->source == new.source &&memcmp(old->frame, new.frame, sizeof(new.frame)) ==
			    0) {
			old->ns += s->ns;
			return true;
		}
	}
	if (!SP_GROW(w->stack, w->stack_cap, w->stacks + 1, UINT32_MAX / 2) ||
	    !sp_hash_index_put(&w->by_frames, hash, (uint32_t)w->stacks))
		return false;
	w->stack[w->stacks++] = new;
	return true;
}

void sp_span_waits_add(struct sp_span_waits *w, const struct sp_report_sample *s)
{
	enum sp_waits_state state = state_of(w, s);
	struct sp_waits_name *n;
	uint32_t name;

	if (s->span_id[0] == '\0' && s->span_name[0] == '\0')
		return;
	name = name_row(w, s);
	if (name == 0 || !count_span(w, s, name)) {
		w->nomem = true;
		return;
	}
	n = &w->name[name - 1];
	n->all_ns[w->source] += s->ns;
	if (state == SP_WAITS_RUNNABLE)
		n->runnable_ns[w->source] += s->ns;
	/* CPU time of such profiles is in the others, too. */
	if ((w->source != SP_WAITS_WALL || state != SP_WAITS_ON_CPU) &&
	    !add_stack(w, s, name, state))
		w->nomem = true;
}

static enum sp_waits_source waits_of(const struct sp_span_waits *w)
{
	return w->seen[SP_WAITS_OFF_CPU] ? SP_WAITS_OFF_CPU : SP_WAITS_WALL;
}

bool sp_span_waits_any(const struct sp_span_waits *w)
{
	return (w->seen[SP_WAITS_OFF_CPU] || w->seen[SP_WAITS_WALL]) && w->names != 0;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

static uint64_t wall_of(const struct sp_waits_name *n)
{
	return n->ns[SP_WAITS_ON_CPU] + n->ns[SP_WAITS_RUNNABLE] + n->ns[SP_WAITS_BLOCKED];
}

static int compare_names(const void *a, const void *b, void *waits)
{
	const struct sp_waits_name *x = a;
	const struct sp_waits_name *y = b;

	if (wall_of(x) != wall_of(y))
		return wall_of(x) > wall_of(y) ? -1 : 1;
	return strcmp(sp_span_waits_text(waits, x->name), sp_span_waits_text(waits, y->name));
}

static int compare_stacks(const void *a, const void *b, void *waits)
{
	const struct sp_waits_stack *x = a;
	const struct sp_waits_stack *y = b;

	if (x->name != y->name)
		return x->name < y->name ? -1 : 1;
	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	for (size_t i = 0; i < SP_WAITS_FRAMES; i++) {
		int order = x->frame[i] == 0 || y->frame[i] == 0
				    ? (x->frame[i] != 0) - (y->frame[i] != 0)
				    : strcmp(sp_span_waits_text(waits, x->frame[i]),
					     sp_span_waits_text(waits, y->frame[i]));

		if (order != 0)
			return order;
	}
	return (int)x->state - (int)y->state;
}

/* Rows of names change their places: the stacks follow. */
static bool renumber(struct sp_span_waits *w)
{
	uint32_t *place = calloc(w->names + 1, sizeof(*place));

	if (place == NULL)
		return false;
	for (uint32_t i = 0; i < w->names; i++)
		place[w->name[i].order] = i;
	for (size_t i = 0; i < w->stacks; i++)
		w->stack[i].name = place[w->stack[i].name];
	free(place);
	return true;
}

void sp_span_waits_sort(struct sp_span_waits *w)
{
	enum sp_waits_source from = waits_of(w);
	size_t kept = 0;

	for (uint32_t i = 0; i < w->names; i++) {
		struct sp_waits_name *n = &w->name[i];
		uint64_t waiting = from == SP_WAITS_OFF_CPU
					   ? n->all_ns[from]
					   : less(n->all_ns[from], n->all_ns[SP_WAITS_CPU]);

		n->order = i;
		n->ns[SP_WAITS_ON_CPU] = n->all_ns[SP_WAITS_CPU];
		n->ns[SP_WAITS_RUNNABLE] = n->runnable_ns[from];
		n->ns[SP_WAITS_BLOCKED] = less(waiting, n->runnable_ns[from]);
	}
	if (w->names != 0)
		qsort_r(w->name, w->names, sizeof(*w->name), compare_names, w);
	for (size_t i = 0; i < w->stacks; i++)
		if (w->stack[i].source == SP_WAITS_CPU || w->stack[i].source == from)
			w->stack[kept++] = w->stack[i];
	w->stacks = kept;
	sp_hash_index_fini(&w->by_frames);
	if (!renumber(w))
		w->nomem = true;
	else if (w->stacks != 0)
		qsort_r(w->stack, w->stacks, sizeof(*w->stack), compare_stacks, w);
}

const struct sp_waits_stack *sp_span_waits_next(const struct sp_span_waits *w, uint32_t name_row,
						size_t *at)
{
	while (*at < w->stacks && w->stack[*at].name < name_row)
		(*at)++;
	return *at < w->stacks && w->stack[*at].name == name_row ? &w->stack[(*at)++] : NULL;
}

void sp_span_waits_describe(const struct sp_span_waits *w, const struct sp_waits_stack *s,
			    char out[SP_WAITS_STACK_TEXT])
{
	struct sp_text_out all = {out, SP_WAITS_STACK_TEXT, 0};

	out[0] = '\0';
	for (size_t i = 0; i < SP_WAITS_FRAMES && s->frame[i] != 0; i++)
		sp_text_out_put(&all, "%s%s", i != 0 ? " < " : "",
				sp_span_waits_text(w, s->frame[i]));
}
