/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole traces across services and processes: the spans that programs or a collector wrote, joined
 * with what the profiles and the files of slow roots know of them.
 */
#ifndef SP_REPORT_TRACES_H
#define SP_REPORT_TRACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "export/report/options.h"
#include "export/report/print.h"
#include "export/report/slowest.h"
#include "export/report/trace_spans.h"

/* A line of the waterfall. */
struct sp_trace_row {
	uint32_t span;  /* its number in spans */
	uint32_t depth; /* below a span without a parent, which has 0 */
	/* what the profiles know of it: its number in slowest.request, plus 1; 0 = nothing */
	uint32_t request;
	bool lacks_parent;  /* its parent is not in the files */
	bool is_own_parent; /* its parents come round to itself; it stands as if it had none */
};

struct sp_trace {
	struct sp_trace_id id;
	uint32_t first, n; /* its spans: from which number on, and how many */
	uint32_t services;
	uint32_t profiled;         /* how many of them have a request */
	uint64_t start_ns, end_ns; /* since the epoch */
	bool is_shown;
	uint32_t first_row,
		rows; /* of a trace that is shown; fewer than spans where there are too many */
};

struct sp_traces {
	const struct sp_report_options *o;
	struct sp_report_options own; /* of the slowest: the trace is chosen here */
	char *const *path;
	struct sp_trace_spans spans; /* sorted by trace and start */
	struct sp_trace_id only;     /* with --trace */
	struct sp_trace *trace;      /* all of the files */
	size_t traces, trace_cap;
	uint32_t *shown; /* their numbers, in the order in which they are shown */
	size_t n, shown_cap;
	struct sp_trace_row *row; /* of all that are shown, parents before their children */
	size_t rows, row_cap;
	struct sp_hash_index by_id; /* the rows, by the ids of their spans */
	size_t left_out;            /* spans without a row */
	size_t own_parents;         /* spans whose parents come round to themselves */
	size_t passed;              /* files of spans that cannot be read; each was told */
	struct sp_slowest x;        /* a request for each span that may be in profiles */
	struct sp_strtab told;
};

/*
 * Reads the files, and chooses the traces that are shown. 0, or an exit status, with one line in t->x.r.why unless
 * t->x.r.is_told. sp_traces_fini() in any case.
 */
int sp_traces_read(struct sp_traces *t, const struct sp_report_options *o, char *const *path);
void sp_traces_fini(struct sp_traces *t);

/* Whether something of the files is damaged, or was too much. */
bool sp_traces_has_passed(const struct sp_traces *t);

/* What was passed over: "2 lines that are no JSON, 1 span twice". False: nothing. */
bool sp_traces_put_passed(const struct sp_traces *t, char out[SP_DESCRIBE_TEXT]);

/* "0102030405060708090a0b0c0d0e0f10" */
#define SP_TRACE_ID_TEXT 33
void sp_trace_id_put(char out[SP_TRACE_ID_TEXT], const struct sp_trace_id *id);

static inline const struct sp_trace_span *sp_trace_row_span(const struct sp_traces *t,
							    const struct sp_trace_row *row)
{
	return &t->spans.span[row->span];
}

static inline const struct sp_slowest_request *sp_trace_row_request(const struct sp_traces *t,
								    const struct sp_trace_row *row)
{
	return row->request != 0 ? &t->x.request[row->request - 1] : NULL;
}

/*
 * traces_report.c: reads and prints. An exit status, after all messages. width and coloured of p are set.
 */
int sp_traces(const struct sp_report_options *o, char *const *path, struct sp_print *p);

/* traces_print.c: the waterfalls as tables. */
void sp_traces_print(FILE *out, const struct sp_traces *t, const struct sp_print *p);

/* traces_json.c: all of them as JSON. 0, or -1 if something cannot be written. */
int sp_traces_print_json(FILE *out, const struct sp_traces *t);

/* traces_page.c: the page of a struct sp_traces, and its title. 0 or -1. */
int sp_traces_print_page(FILE *out, const void *traces);

#endif
