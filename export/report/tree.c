/* SPDX-License-Identifier: Apache-2.0 */
/* Merges stacks into a call tree (tree.h). Context: the report tool. */
#define _GNU_SOURCE
#include "export/report/tree.h"

#include <stdlib.h>
#include <string.h>

#include "export/report/frame.h"
#include "export/util/containers.h"

/* The number of hash slots, twice as many, must fit into 32 bits. */
#define SP_TREE_NODES_MAX (UINT32_MAX / 2)

/* The child's index, made if need be; 0 when out of memory. */
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
	hash = (uint32_t)sp_hash_add(0, (uint64_t)parent << 32 | text);
	for (uint32_t step = 0; sp_hash_index_next(&t->children, hash, &step, &i);)
		if (t->node[i].parent == parent && t->node[i].text == text)
			return i;
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
	return t->nodes++;
}

/* A sample passes through a node. */
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

/* Goes on to a child. 0 when out of memory. */
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

void sp_tree_add(struct sp_tree *t, const struct sp_report_sample *s, enum sp_side side)
{
	struct sp_report_memo memo = {0};
	const struct sp_report_frame span = {
		.memo = &memo,
		.name = s->span_name[0] != '\0' ? s->span_name : SP_TREE_NO_SPAN,
		.file = "",
		.kind = SP_FRAME_SPAN,
	};
	uint32_t at = 0;
	size_t left = s->frames;

	if (side == SP_SIDE_NONE)
		return;
	pass(&t->node[0], s, side);
	if (t->by_span)
		at = step(t, at, &span, s, side);
	while (left != 0 && t->node[at].depth < SP_TREE_DEPTH && !t->nomem)
		at = step(t, at, &s->frame[--left], s, side);
	if (t->nomem)
		return;
	if (side == SP_SIDE_BASELINE)
		t->node[at].base_self_ns += s->ns;
	else
		t->node[at].self_ns += s->ns;
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

static double part(uint64_t ns, uint64_t whole)
{
	return whole != 0 ? (double)ns / (double)whole : 0.0;
}

double sp_tree_share(const struct sp_tree *t, const struct sp_tree_node *n)
{
	const struct sp_tree_node *root = &t->node[0];

	if (root->base_ns == 0)
		return part(n->ns, root->ns);
	return (part(n->ns, root->ns) + part(n->base_ns, root->base_ns)) / 2;
}

/* Siblings together, in the reverse of their order. */
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
	/* More may have been added since they were linked. */
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
