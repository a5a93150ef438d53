/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of spanprof-report. */
#ifndef SP_REPORT_OPTIONS_H
#define SP_REPORT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "export/report/filter.h"
#include "export/report/print.h"
#include "export/report/tally.h"

/*
 * An interval of time in nanoseconds since the epoch: from inclusive, to exclusive, 0 = no bound.
 */
struct sp_time_window {
	uint64_t from_ns;
	uint64_t to_ns;
};

/*
 * Reads one point in time: "2026-11-22T19:30[:05][Z]" (local time without Z), "19:30[:05]" (today),
 * or "-15m" (15 minutes before now; s, m, h or d). False if it is none of them.
 */
bool sp_time_point_read(const char *text, time_t now, uint64_t *ns);

static inline bool sp_time_window_is_set(const struct sp_time_window *w)
{
	return w->from_ns != 0 || w->to_ns != 0;
}

/*
 * Whether the window contains the middle of the interval. A window with a bound does not contain an
 * interval whose time is unknown.
 */
bool sp_time_window_has(const struct sp_time_window *w, uint64_t time_ns, uint64_t duration_ns);

/* Exit statuses; the help describes them. */
#define SP_EXIT_USAGE 1
#define SP_EXIT_DAMAGED 2

enum sp_report_form {
	SP_FORM_TABLE,
	SP_FORM_JSON,
	SP_FORM_FOLDED,
	SP_FORM_FLAMEGRAPH,
	SP_FORM_SERVE,
};

/* What is at the root of stacks. */
enum sp_report_by {
	/* in a flame graph spans, if there are several names; otherwise functions */
	SP_BY_DEFAULT,
	SP_BY_SPAN,
	SP_BY_FUNCTION,
	SP_BY_LABEL, /* values of a label */
};

struct sp_report_options {
	struct sp_selection selection;
	struct sp_filter filter;
	enum sp_report_form form;
	enum sp_report_by by;
	const char *label;      /* the label of SP_BY_LABEL */
	const char *type;       /* sample type to read; NULL = CPU time */
	const char *flamegraph; /* the file to write */
	char *baseline;         /* a folder or file to compare with, NULL = none */
	struct sp_time_window window;
	struct sp_time_window baseline_window;
	uint16_t port; /* the port of --serve; 0 = any free port */
	bool lines;
	bool threads;
	size_t top;              /* 0 = all */
	bool slowest;            /* shows what made requests slow, instead of sums */
	const char *page;        /* the file to write the page of slow requests to; NULL = none */
	uint64_t slower_than_ns; /* selects requests that took at least this long */
	char **traces;           /* files of spans: shows whole traces, instead of sums */
	size_t traces_n, traces_cap;
};

/*
 * -1 = success: the paths begin at optind; otherwise the exit status, after all messages. Call
 * sp_report_options_fini() in both cases.
 */
int sp_report_options_read(int argc, char **argv, struct sp_report_options *o);
void sp_report_options_fini(struct sp_report_options *o);

/* Whether the options ask for a comparison with other spans or other profiles. */
bool sp_report_options_compare(const struct sp_report_options *o);

/*
 * Ends a report on stdout, after printing it gave err. 0, or SP_EXIT_DAMAGED after a message: it
 * cannot be written.
 */
int sp_report_flush(int err);

#endif
