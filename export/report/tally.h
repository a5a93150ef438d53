/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Selects the samples of a report and of its baseline, and sums them: in all, per span name, per
 * span, per thread name, per function, and per stack.
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
	/*
	 * the baseline: other spans of the same name, slower or faster requests, or other profiles
	 */
	SP_SIDE_BASELINE,
};

/* The span ids of slow requests. Initially zero. */
struct sp_slow_ids {
	struct sp_hash_index by_id;
	uint64_t *id;
	size_t n, cap;
};
/* 0, or -1 when out of memory. */
int sp_slow_ids_add(struct sp_slow_ids *s, uint64_t id);
void sp_slow_ids_fini(struct sp_slow_ids *s);

/* The selected samples. A NULL member selects all. */
struct sp_selection {
	const char *span_id;
	const char *span_name;
	const char *trace_id;
	/*
	 * Latency class of the roots: a value of the label `latency`, or "rest" for all but "slow".
	 * NULL = any. If no sample has the label, those with a span id in slow_ids are slow.
	 */
	const char *latency;
	/* class of the baseline; NULL = the baseline is not by latency */
	const char *base_latency;
	const struct sp_slow_ids *slow_ids;
	bool has_latency; /* some samples have the label */
	bool diff;        /* the baseline is other spans of the same names */
	char **name;      /* names of the selected spans, from sp_selection_learn() */
	size_t names, cap;
	bool nomem;
	bool too_many; /* too many names to compare all of them for each sample */
};

/*
 * For sp_report_sink, with the selection as argument: remembers the names of the selected spans.
 * For a baseline, all samples must pass here before the first one is classified.
 */
void sp_selection_learn(void *arg, const struct sp_report_sample *s);
void sp_selection_fini(struct sp_selection *x);

enum sp_side sp_selection_side(const struct sp_selection *x, const struct sp_report_sample *s);

struct sp_sum {
	uint64_t samples;
	uint64_t ns;
};

/*
 * The sum of samples of one span name, of one span, or of one thread name; or of waits of one span
 * name for locks that are held by spans of one name, in one function.
 */
struct sp_row {
	/*
	 * a text of the tally: that name, the span's id, or "GET /pay: GET /checkout in
	 * bank_charge"
	 */
	uint32_t text;
	uint32_t spans; /* span name: number of distinct ids */
	/*
	 * span: name in its largest sample, because it may be renamed while it is open; wait: who
	 * waits
	 */
	uint32_t name;
	uint32_t trace;    /* span: its trace */
	uint32_t owner;    /* wait: holder of the lock, "GET /checkout in bank_charge" */
	uint32_t owner_id; /* wait: id of the holding span in the largest sample */
	uint64_t name_ns;  /* time of the largest sample */
	struct sp_sum sum;
};

struct sp_rows {
	struct sp_row *row;
	size_t n, cap;
};

/* A function, or a line of it. */
struct sp_function_row {
	uint32_t key; /* text that identifies the row, and orders rows of equal time */
	uint32_t name;
	uint32_t file;
	uint64_t line; /* 0 = unknown, or not wanted */
	enum sp_frame_kind kind;
	struct sp_sum self;  /* samples in which it was executing */
	struct sp_sum total; /* samples in which it was on the stack */
	struct sp_sum base_self;
	struct sp_sum base_total;
	uint64_t seen; /* the last sample that it counted, so that recursion counts once */
};

/* The index of each row of a text, plus 1; 0 = none. */
struct sp_tally_rows {
	uint32_t name, span, thread, wait, by, function;
	uint32_t base; /* counts spans of the baseline, which have no rows */
};

struct sp_tally {
	bool lines; /* a row per line, not per function */
	bool diff;  /* functions are sorted by their difference to the baseline */
	/*
	 * For memory in use: a sum of a name has only blocks of spans that have ended. Samples of
	 * open spans have an id.
	 */
	bool left_behind;
	/* samples are looks at random moments, each of which stands for a different time */
	bool by_looks;
	uint64_t read; /* number of all samples that were read, also of unselected ones */
	struct sp_strtab text;
	struct sp_tally_rows *row; /* of each text */
	size_t row_cap;
	struct sp_rows name, span, thread, wait, by;
	struct sp_function_row *function;
	size_t functions, function_cap;
	struct sp_sum total;
	struct sp_sum labelled;  /* sum of samples with span id or span name */
	struct sp_sum unsampled; /* sum of samples with the frame SP_REPORT_UNSAMPLED */
	struct sp_sum locks;     /* waits for locks whose holders are known */
	struct sp_sum base;      /* sum of the baseline */
	uint32_t base_spans;
	uint64_t serial;
	bool nomem;
};

/* 0 or -1 when out of memory. The flags are set afterwards. */
int sp_tally_init(struct sp_tally *t);
void sp_tally_fini(struct sp_tally *t);

/* Adds a sample. When out of memory, sets nomem. */
void sp_tally_add(struct sp_tally *t, const struct sp_report_sample *s, enum sp_side side);

/* Memory in use. */
size_t sp_tally_bytes(const struct sp_tally *t);

/*
 * Sorts rows in the order of the report: largest CPU time or difference first, then by text. More
 * samples may be added afterwards.
 */
void sp_tally_sort(struct sp_tally *t);

const char *sp_tally_text(const struct sp_tally *t, uint32_t id);

/*
 * The standard error of a sum of time, as a part of the sum, because its samples are a few of many
 * moments; 0 = there are no samples. The sum of all CPU time is exact, and chance divides it: the
 * variance of a share s of n samples is s (1 - s) / n. A look stands for a time of exponential
 * length, whose variance adds to that of the number of looks (export/off_cpu/off_cpu.c).
 */
double sp_tally_error(const struct sp_tally *t, const struct sp_sum *s);

/*
 * Whether a sum has too few samples: two standard errors are as large as a small part of the time.
 */
bool sp_tally_has_too_few(const struct sp_tally *t, const struct sp_sum *s);

/* Difference of a function's shares of the CPU time, selection minus baseline, -1..1. */
double sp_tally_self_change(const struct sp_tally *t, const struct sp_function_row *f);
double sp_tally_total_change(const struct sp_tally *t, const struct sp_function_row *f);

/* Stacks merged from the root on, for flame graphs and folded stacks. */

/* Frames further from the root are left out; their time counts for the last frame that stays. */
#define SP_TREE_DEPTH 1024U

/* The name at the root of samples outside of spans, if the root is the name of the span. */
#define SP_TREE_NO_SPAN "(no span)"
/* The same if the root is the value of a label. */
#define SP_TREE_NO_VALUE "(no value)"

struct sp_tree_node {
	uint32_t parent;
	uint32_t text; /* in tree.text */
	uint32_t depth;
	/* the first child; before sorting, the child that was used last; 0 = none */
	uint32_t first;
	uint32_t next; /* next sibling, 0 = none */
	enum sp_frame_kind kind;
	uint64_t ns; /* including its callees */
	uint64_t base_ns;
	uint64_t self_ns;
	uint64_t base_self_ns;
	uint64_t samples; /* including its callees */
	uint64_t base_samples;
};

struct sp_tree {
	bool lines;    /* frames are lines, not functions */
	bool by_span;  /* at the root is the name of the span */
	bool by_label; /* the root is the value of the label of --by instead */
	struct sp_strtab text;
	struct sp_tree_node *node; /* node 0 is the root, with all samples */
	uint32_t nodes;
	size_t cap;
	struct sp_hash_index children; /* hash of parent and text */
	uint32_t depth;                /* of the deepest node */
	bool nomem;
};

/* 0 or -1 when out of memory. The flags are set afterwards. */
int sp_tree_init(struct sp_tree *t);
void sp_tree_fini(struct sp_tree *t);

/* Adds a sample. Returns the node of its leaf; 0 = none. When out of memory, sets nomem. */
uint32_t sp_tree_add(struct sp_tree *t, const struct sp_report_sample *s, enum sp_side side);

/* Memory in use. */
size_t sp_tree_bytes(const struct sp_tree *t);

/*
 * Links the children of each node: largest first, then by text, so that the order of files does not
 * matter.
 */
int sp_tree_sort(struct sp_tree *t);

const char *sp_tree_text(const struct sp_tree *t, const struct sp_tree_node *n);

/*
 * The node after n in the order of drawing; 0 = none. Only after sorting. children: the first child
 * of n may be next.
 */
uint32_t sp_tree_after(const struct sp_tree *t, uint32_t n, bool children);

/* The width of a node, 0..1: its share, or in a comparison the mean of both shares. */
double sp_tree_share(const struct sp_tree *t, const struct sp_tree_node *n);

#endif
