/* SPDX-License-Identifier: Apache-2.0 */
/* Tree of function names and its level form; see flame.h. */
#include "test/pyroscope/flame.h"

#include <inttypes.h>
#include <stdio.h>

#include "test/pyroscope/codec.h"

struct pd_flame_node {
	struct pd_bytes name;
	int64_t total;
	int64_t self;
	struct pd_flame_node *child; /* sorted by name */
	struct pd_flame_node *next;  /* sibling */
};

/* A node of the level being written. */
struct place {
	const struct pd_flame_node *node;
	int64_t x;
};

static struct pd_flame_node *child_of(struct pd_flame *f, struct pd_flame_node *parent,
				      struct pd_bytes name)
{
	struct pd_flame_node **at = &parent->child;
	struct pd_flame_node *n = NULL;

	while (*at != NULL && pd_bytes_compare((*at)->name, name) < 0)
		at = &(*at)->next;
	if (*at != NULL && pd_bytes_equal((*at)->name, name))
		return *at;
	n = pd_arena_calloc(&f->arena, 1, sizeof(*n));
	n->name = pd_arena_copy(&f->arena, name);
	n->next = *at;
	*at = n;
	f->nodes++;
	return n;
}

/* A stack without a frame is left out: the server loses its value, too. */
void pd_flame_add(struct pd_flame *f, const struct pd_record *r, const struct pd_row *row,
		  size_t sample_type)
{
	const struct pd_profile *p = &r->profile;
	int64_t value = row->value[sample_type];
	struct pd_flame_node *n = NULL;

	if (f->root == NULL) {
		f->root = pd_arena_calloc(&f->arena, 1, sizeof(*f->root));
		f->root->name = pd_bytes_of("total");
		f->nodes = 1;
	}
	n = f->root;
	for (size_t i = row->locations; i-- > 0;) {
		const struct pd_location *l = pd_profile_location(p, row->location_id[i]);

		for (size_t j = l != NULL ? l->lines : 0; j-- > 0;) {
			const struct pd_function *fn =
				pd_profile_function(p, l->line[j].function_id);

			if (fn == NULL)
				continue;
			n = child_of(f, n, pd_profile_string(p, fn->name));
			n->total += value;
		}
	}
	if (n == f->root)
		return;
	n->self += value;
	f->root->total += value;
	f->total += value;
}

static json_t *number_text(int64_t n)
{
	return json_sprintf("%" PRId64, n);
}

static json_int_t name_index(json_t *names, json_t *index, struct pd_bytes name)
{
	struct pd_arena a = {0};
	const char *key = pd_arena_string(&a, name);
	json_t *known = json_object_get(index, key);
	json_int_t i = json_integer_value(known);

	if (known == NULL) {
		i = (json_int_t)json_array_size(names);
		json_array_append_new(names, pd_json_bytes(name));
		json_object_set_new(index, key, json_integer(i));
	}
	pd_arena_fini(&a);
	return i;
}

/* Each node has four numbers: distance from the node before it, total, self, name. */
static json_t *level_json(const struct place *level, size_t count, json_t *names, json_t *index)
{
	json_t *values = json_array();
	int64_t end = 0;

	for (size_t i = 0; i < count; i++) {
		const struct pd_flame_node *n = level[i].node;

		json_array_append_new(values, number_text(level[i].x - end));
		json_array_append_new(values, number_text(n->total));
		json_array_append_new(values, number_text(n->self));
		json_array_append_new(values, number_text(name_index(names, index, n->name)));
		end = level[i].x + n->total;
	}
	return json_pack("{s:o}", "values", values);
}

static size_t next_level(const struct place *level, size_t count, struct place *below)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		int64_t x = level[i].x + level[i].node->self;

		for (const struct pd_flame_node *c = level[i].node->child; c != NULL; c = c->next) {
			below[n++] = (struct place){c, x};
			x += c->total;
		}
	}
	return n;
}

static int64_t max_self(const struct place *level, size_t count, int64_t max)
{
	for (size_t i = 0; i < count; i++)
		if (level[i].node->self > max)
			max = level[i].node->self;
	return max;
}

json_t *pd_flame_json(const struct pd_flame *f)
{
	struct pd_arena a = {0};
	struct place *level = pd_arena_calloc(&a, f->nodes, sizeof(*level));
	struct place *below = pd_arena_calloc(&a, f->nodes, sizeof(*below));
	json_t *names = json_array();
	json_t *levels = json_array();
	json_t *index = json_object();
	json_t *graph = json_pack("{s:o,s:o}", "names", names, "levels", levels);
	size_t count = f->root != NULL ? 1 : 0;
	int64_t max = 0;

	if (count > 0)
		level[0] = (struct place){f->root, 0};
	while (count > 0) {
		struct place *swap = level;

		json_array_append_new(levels, level_json(level, count, names, index));
		max = max_self(level, count, max);
		count = next_level(level, count, below);
		level = below;
		below = swap;
	}
	/* protojson leaves out fields that are zero. */
	if (f->total != 0) {
		json_object_set_new(graph, "total", number_text(f->total));
		json_object_set_new(graph, "maxSelf", number_text(max));
	}
	json_decref(index);
	pd_arena_fini(&a);
	return graph;
}

void pd_flame_fini(struct pd_flame *f)
{
	pd_arena_fini(&f->arena);
	*f = (struct pd_flame){0};
}
