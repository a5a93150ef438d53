/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over samples: in all, per span name, per span, per function. */
#ifndef SP_REPORT_TALLY_H
#define SP_REPORT_TALLY_H

#include <stddef.h>
#include <stdint.h>

#include "export/report/load.h"
#include "export/strtab.h"

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
	uint32_t name;
	uint32_t trace;
	struct sp_sum sum;
};

struct sp_function_row {
	uint32_t name;
	struct sp_sum self;  /* it was executing */
	struct sp_sum total; /* it was on the stack */
	uint64_t seen;       /* last sample it was counted for: recursion counts once */
};

/* What to look at; NULL = everything. */
struct sp_filter {
	const char *span_id;
	const char *span_name;
	const char *trace_id;
};

struct sp_tally {
	struct sp_filter filter;
	struct sp_strtab text;
	/* Row of a text plus 1, per kind; 0 = none. All three have as many items as row_cap. */
	uint32_t *name_row, *span_row, *function_row;
	size_t row_cap;
	struct sp_name_row *name;
	size_t names, name_cap;
	struct sp_span_row *span;
	size_t spans, span_cap;
	struct sp_function_row *function;
	size_t functions, function_cap;
	struct sp_sum total;
	struct sp_sum labelled; /* with span id or span name */
	uint64_t serial;
	int nomem;
};

/* 0 or -1 when out of memory. */
int sp_tally_init(struct sp_tally *t, const struct sp_filter *filter);
void sp_tally_fini(struct sp_tally *t);

/* For sp_report_sink: arg is the tally. When memory runs out, nomem is set. */
void sp_tally_add(void *arg, const struct sp_report_sample *s);

/* Rows in the order of the report: largest CPU time first, then by text. */
void sp_tally_sort(struct sp_tally *t);

const char *sp_tally_text(const struct sp_tally *t, uint32_t id);

#endif
