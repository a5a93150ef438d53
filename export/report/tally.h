/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which samples a report is about, and which ones they are compared with; and sums over these: in all, per span name,
 * per span, per thread name, per function, and per stack.
 */
#ifndef SP_REPORT_TALLY_H
#define SP_REPORT_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/report/load.h"
#include "export/util/containers.h"

enum sp_side {
	SP_SIDE_NONE,
	SP_SIDE_SELECTED,
	SP_SIDE_BASELINE, /* other spans of the same name */
};

/* NULL = everything. */
struct sp_selection {
	const char *span_id;
	const char *span_name;
	const char *trace_id;
	bool diff;   /* there is a baseline */
	char **name; /* of the selected spans, by learn */
	size_t names, cap;
	bool nomem;
	bool too_many; /* too many names to compare all of them for each sample */
};

/*
 * For sp_report_sink, with the selection: remembers the names of the selected spans. If there is to
 * be a baseline, all samples have to pass here before the first one is classified.
 */
void sp_selection_learn(void *arg, const struct sp_report_sample *s);
void sp_selection_fini(struct sp_selection *x);

enum sp_side sp_selection_side(const struct sp_selection *x, const struct sp_report_sample *s);

struct sp_sum {
	uint64_t samples;
	uint64_t ns;
};

/*
 * What samples of one span name, of one span, or of one thread name sum up to; or waits of one span name for locks that
 * are held by spans of one name, in one function.
 */
struct sp_row {
	uint32_t
		text; /* in tally.text: that name, the span's id, or "GET /pay: GET /checkout in bank_charge" */
	uint32_t spans; /* of a span name: distinct ids */
	uint32_t
		name; /* of a span's largest sample: it may be renamed while it is open; of who waits */
	uint32_t trace;    /* of a span */
	uint32_t owner;    /* of a lock: "GET /checkout in bank_charge" */
	uint32_t owner_id; /* the id of that span in the largest sample */
	uint64_t name_ns;  /* of the largest sample */
	struct sp_sum sum;
};

struct sp_rows {
	struct sp_row *row;
	size_t n, cap;
};

/* A function, or a line of it. */
struct sp_function_row {
	uint32_t key; /* what tells rows apart, and orders those of equal time */
	uint32_t name;
	uint32_t file;
	uint64_t line;       /* 0 = unknown, or not asked for */
	struct sp_sum self;  /* it was executing */
	struct sp_sum total; /* it was on the stack */
	struct sp_sum base_self;
	struct sp_sum base_total;
	uint64_t seen; /* last sample it was counted for: recursion counts once */
};

/* The rows of a text, plus 1; 0 = it has none. */
struct sp_tally_rows {
	uint32_t name, span, thread, wait, by, function;
	uint32_t base; /* counts spans of the baseline, which have no rows */
};

struct sp_tally {
	bool lines; /* a row per line, not per function */
	bool diff;  /* functions are sorted by their difference to the baseline */
	/*
	 * Of memory in use: the sums of names are what spans have left behind, without those that are open. They alone
	 * have an id.
	 */
	bool left_behind;
	struct sp_strtab text;
	struct sp_tally_rows *row; /* by text */
	size_t row_cap;
	struct sp_rows name, span, thread, wait, by;
	struct sp_function_row *function;
	size_t functions, function_cap;
	struct sp_sum total;
	struct sp_sum labelled;  /* with span id or span name */
	struct sp_sum unsampled; /* under SP_REPORT_UNSAMPLED */
	struct sp_sum locks;     /* waits for locks whose holders are known */
	struct sp_sum base;      /* of the baseline */
	uint32_t base_spans;
	uint64_t serial;
	bool nomem;
};

/* 0 or -1 when out of memory. The flags are set afterwards. */
int sp_tally_init(struct sp_tally *t);
void sp_tally_fini(struct sp_tally *t);

/* When memory runs out, nomem is set. */
void sp_tally_add(struct sp_tally *t, const struct sp_report_sample *s, enum sp_side side);

/* Memory in use. */
size_t sp_tally_bytes(const struct sp_tally *t);

/* Rows in the order of the report: largest CPU time or difference first, then by text. More may be added afterwards. */
void sp_tally_sort(struct sp_tally *t);

const char *sp_tally_text(const struct sp_tally *t, uint32_t id);

/* Difference of the shares of the CPU time, selected minus baseline, -1..1. */
double sp_tally_self_change(const struct sp_tally *t, const struct sp_function_row *f);
double sp_tally_total_change(const struct sp_tally *t, const struct sp_function_row *f);

/* Stacks merged from the root on: what a flame graph draws and folded stacks print. */

/* Frames further from the root are left out, and their time is that of the last one kept. */
#define SP_TREE_DEPTH 1024U

/* At the root of what is in no span, where the root is the name of the span. */
#define SP_TREE_NO_SPAN "(no span)"
/* The same where it is the value of a label. */
#define SP_TREE_NO_VALUE "(no value)"

struct sp_tree_node {
	uint32_t parent;
	uint32_t text; /* in tree.text */
	uint32_t depth;
	uint32_t first; /* child, 0 = none; the one that was added to last, until they are sorted */
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
	bool lines;    /* frames are lines, not functions */
	bool by_span;  /* at the root is the name of the span */
	bool by_label; /* or, in its place, the value of the label that was asked for */
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
