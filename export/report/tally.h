/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over samples: in all, per span name, per span, per thread name, per function. */
#ifndef SP_REPORT_TALLY_H
#define SP_REPORT_TALLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/report/load.h"
#include "export/report/select.h"
#include "export/util/containers.h"

/* CPU time between samples is under this frame; no sample was taken for it. */
#define SP_REPORT_UNSAMPLED "[unsampled cpu]"

struct sp_sum {
	uint64_t samples;
	uint64_t ns;
};

struct sp_name_row {
	uint32_t name;  /* in tally.text */
	uint32_t spans; /* distinct ids */
	struct sp_sum sum;
};

struct sp_span_row {
	uint32_t id;
	uint32_t name;    /* of its largest sample: a span may be renamed while it is open */
	uint64_t name_ns; /* of that sample */
	uint32_t trace;
	struct sp_sum sum;
};

struct sp_thread_row {
	uint32_t name;
	struct sp_sum sum;
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
	uint32_t name, span, thread, function;
	uint32_t base; /* counts spans of the baseline, which have no rows */
};

struct sp_tally {
	bool lines; /* a row per line, not per function */
	bool diff;  /* functions are sorted by their difference to the baseline */
	struct sp_strtab text;
	struct sp_tally_rows *row; /* by text */
	size_t row_cap;
	struct sp_name_row *name;
	size_t names, name_cap;
	struct sp_span_row *span;
	size_t spans, span_cap;
	struct sp_thread_row *thread; /* by name */
	size_t threads, thread_cap;
	struct sp_function_row *function;
	size_t functions, function_cap;
	struct sp_sum total;
	struct sp_sum labelled;  /* with span id or span name */
	struct sp_sum unsampled; /* under SP_REPORT_UNSAMPLED */
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

#endif
