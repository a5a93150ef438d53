/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of a sample counts for the object of its innermost function, so all shares together are at most the whole.
 * An object through which calls only pass has no time, but is listed too. If there are too many objects, those with
 * the least time are forgotten. Each place of an interval is searched once, however many samples are in it. Context:
 * the exporter.
 */
#include "export/profile/missing.h"

#include <stdlib.h>
#include <string.h>

#include "export/profile/encode.h"
#include "export/util/containers.h"

/* An interval that is added, and the indexes of its places in the list, plus 1; 0 = not searched yet. */
struct adding {
	struct sp_missing *m;
	const struct sp_interval *i;
	uint32_t *at; /* by index of the place; NULL = memory is short, or there are no places */
};

/* A value of at[]. */
#define NOTHING_MISSING UINT32_MAX

static bool is_same(const struct sp_missing_object *o, const struct sp_named_place *p,
		    const char *file)
{
	return o->build_id_len == p->place.build_id_len &&
	       memcmp(o->build_id, p->build_id, o->build_id_len) == 0 && strcmp(o->file, file) == 0;
}

static int by_time(const void *a, const void *b)
{
	const struct sp_missing_object *x = a;
	const struct sp_missing_object *y = b;

	if (x->ns != y->ns)
		return x->ns > y->ns ? -1 : 1;
	return strcmp(x->file, y->file);
}

/* The object will be replaced: its places have no object any more. */
static void forget(const struct adding *a, uint32_t at)
{
	for (size_t k = 0; k < a->i->place_n; k++)
		if (a->at[k] == at + 1)
			a->at[k] = 0;
}

/* A new object, which replaces the one with the least time if there are too many. NULL when out of memory. */
static struct sp_missing_object *put(const struct adding *a, const struct sp_named_place *p,
				     const char *file)
{
	struct sp_missing *m = a->m;
	char *copy = strdup(file);
	struct sp_missing_object *o;

	if (copy == NULL || !SP_GROW(m->object, m->cap, m->n + 1, SP_MISSING_MAX + 1)) {
		free(copy);
		return NULL;
	}
	if (m->n == SP_MISSING_MAX) {
		o = &m->object[0];
		for (size_t k = 1; k < m->n; k++)
			if (m->object[k].ns <= o->ns)
				o = &m->object[k];
		m->other_ns += o->ns;
		free(o->file);
		forget(a, (uint32_t)(o - m->object));
	} else {
		o = &m->object[m->n++];
	}
	*o = (struct sp_missing_object){.file = copy, .build_id_len = p->place.build_id_len};
	memcpy(o->build_id, p->build_id, o->build_id_len);
	return o;
}

static struct sp_missing_object *find(const struct adding *a, const struct sp_named_place *p)
{
	const char *file = sp_interval_text(a->i, p->file);

	for (size_t k = 0; k < a->m->n; k++)
		if (is_same(&a->m->object[k], p, file))
			return &a->m->object[k];
	return p->place.lack != SP_LACK_NOTHING ? put(a, p, file) : NULL;
}

/*
 * The object of that place; it is made if its functions lack names or lines. NULL = nothing is lacking, or memory is
 * short.
 */
static struct sp_missing_object *object_of(const struct adding *a, const struct sp_named_place *p)
{
	uint32_t *at = a->at != NULL ? &a->at[p - a->i->place] : NULL;
	struct sp_missing_object *o;

	if (at == NULL || *at == NOTHING_MISSING)
		return NULL;
	if (*at != 0)
		return &a->m->object[*at - 1];
	o = find(a, p);
	*at = o != NULL ? (uint32_t)(o - a->m->object) + 1 : NOTHING_MISSING;
	return o;
}

/* The innermost function that profiles show. NULL = none. */
static const struct sp_named *leaf_of(const struct sp_interval *i, uint32_t stack)
{
	const struct sp_named *n;
	struct sp_stack s;

	if (stack == SP_STACK_OTHER)
		return NULL;
	sp_stack_map_stack(i->map[SP_MAP_SAMPLES], stack, &s);
	for (unsigned k = 0; !s.unsampled && k < s.depth; k++) {
		n = &i->named[s.pc[k]];
		if (!i->place[n->place].place.own)
			return n;
	}
	return NULL;
}

static void add_time(const struct adding *a, const struct sp_stack_entry *e)
{
	struct sp_missing *m = a->m;
	const struct sp_interval *i = a->i;
	const struct sp_named *leaf = leaf_of(i, e->stack);
	uint64_t ns = sp_encode_cpu_ns(i->ops->config, e);
	const struct sp_named_place *p = leaf != NULL ? &i->place[leaf->place] : NULL;
	struct sp_missing_object *o = p != NULL ? object_of(a, p) : NULL;

	m->ns += ns;
	if (o == NULL) {
		m->other_ns += p != NULL && p->place.lack != SP_LACK_NOTHING ? ns : 0;
		return;
	}
	o->lack = p->place.lack;
	o->ns += ns;
	o->unnamed_ns += leaf->is_unnamed ? ns : 0;
	o->has_unnamed = o->has_unnamed || leaf->is_unnamed;
}

/* Functions that only call others have no time of their own, and may have no name. */
static void add_callers(const struct adding *a)
{
	const struct sp_interval *i = a->i;
	const struct sp_stack_map *map = i->map[SP_MAP_SAMPLES];
	struct sp_missing_object *o;
	struct sp_stack s;

	for (uint32_t n = SP_STACK_OTHER + 1; n < sp_stack_map_stacks(map); n++) {
		sp_stack_map_stack(map, n, &s);
		for (unsigned k = 0; k < s.depth; k++) {
			const struct sp_named *f = &i->named[s.pc[k]];
			const struct sp_named_place *p = &i->place[f->place];

			if (!f->is_unnamed || p->place.own || p->place.lack == SP_LACK_NOTHING)
				continue;
			o = object_of(a, p);
			if (o == NULL)
				continue;
			o->lack = p->place.lack;
			o->has_unnamed = true;
		}
	}
}

void sp_missing_add(struct sp_missing *m, const struct sp_interval *i)
{
	const struct sp_stack_map *map = i->map[SP_MAP_SAMPLES];
	struct adding a = {.m = m, .i = i};

	if (map == NULL)
		return;
	if (i->place_n != 0)
		a.at = calloc(i->place_n, sizeof(*a.at));
	m->changes++;
	for (uint32_t n = 0; n < sp_stack_map_entries(map); n++)
		add_time(&a, sp_stack_map_entry(map, n));
	add_callers(&a);
	free(a.at);
	if (m->n != 0)
		qsort(m->object, m->n, sizeof(*m->object), by_time);
}

void sp_missing_fini(struct sp_missing *m)
{
	for (size_t k = 0; k < m->n; k++)
		free(m->object[k].file);
	free(m->object);
	memset(m, 0, sizeof(*m));
}
