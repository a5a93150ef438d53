/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks merged from the root on: what a flame graph draws and folded stacks print. */
#ifndef SP_REPORT_TREE_H
#define SP_REPORT_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/report/load.h"
#include "export/report/select.h"
#include "export/util/containers.h"

/* Frames further from the root are left out, and their time is that of the last one kept. */
#define SP_TREE_DEPTH 1024U

/* At the root of what is in no span, where the root is the name of the span. */
#define SP_TREE_NO_SPAN "(no span)"

struct sp_tree_node {
	uint32_t parent;
	uint32_t text; /* in tree.text */
	uint32_t depth;
	uint32_t first; /* child, 0 = none */
	uint32_t next;  /* sibling, 0 = none */
	enum sp_frame_kind kind;
	uint64_t ns; /* with everything above it */
	uint64_t base_ns;
	uint64_t self_ns;
	uint64_t base_self_ns;
	uint64_t samples; /* with everything above it, as ns */
	uint64_t base_samples;
};

struct sp_tree {
	bool lines;   /* frames are lines, not functions */
	bool by_span; /* at the root is the name of the span */
	struct sp_strtab text;
	struct sp_tree_node *node; /* 0 is the root: all samples */
	uint32_t nodes;
	size_t cap;
	struct sp_hash_index children; /* by parent and text */
	uint32_t depth;                /* of the deepest node */
	bool nomem;
};

/* 0 or -1 when out of memory. The flags are set afterwards. */
int sp_tree_init(struct sp_tree *t);
void sp_tree_fini(struct sp_tree *t);

/* When memory runs out, nomem is set. */
void sp_tree_add(struct sp_tree *t, const struct sp_report_sample *s, enum sp_side side);

/* Memory in use. */
size_t sp_tree_bytes(const struct sp_tree *t);

/* Links the children: largest first, then by text, so that the order of the files does not matter. */
int sp_tree_sort(struct sp_tree *t);

const char *sp_tree_text(const struct sp_tree *t, const struct sp_tree_node *n);

/* The node after n in the order of drawing, 0 = that was the last. Only after sorting. */
uint32_t sp_tree_after(const struct sp_tree *t, uint32_t n, bool children);

/* How much of the width a node takes, 0..1: its share, or the mean of both shares. */
double sp_tree_share(const struct sp_tree *t, const struct sp_tree_node *n);

#endif
