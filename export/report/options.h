/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of spanprof-report. */
#ifndef SP_REPORT_OPTIONS_H
#define SP_REPORT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "export/report/print.h"
#include "export/report/tally.h"

/* Of which time the profiles are: nanoseconds since the epoch; from inclusive, to exclusive, 0 = no bound. */
struct sp_time_window {
	uint64_t from_ns;
	uint64_t to_ns;
};

/*
 * Reads one point in time: "2026-11-22T19:30[:05][Z]" (local time without Z), "19:30[:05]" (today),
 * or "-15m" (so long before now; s, m, h or d). False if it is none of them.
 */
bool sp_time_point_read(const char *text, time_t now, uint64_t *ns);

static inline bool sp_time_window_is_set(const struct sp_time_window *w)
{
	return w->from_ns != 0 || w->to_ns != 0;
}

/* True if the middle of the interval is within. What has no time is in no bounded window. */
bool sp_time_window_has(const struct sp_time_window *w, uint64_t time_ns, uint64_t duration_ns);

/* Exit status, also in the help. */
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
	SP_BY_DEFAULT, /* of a flame graph: spans, where there are several names; of others: functions */
	SP_BY_SPAN,
	SP_BY_FUNCTION,
	SP_BY_LABEL, /* values of a label */
};

struct sp_report_options {
	struct sp_selection selection;
	enum sp_report_form form;
	enum sp_report_by by;
	const char *label;      /* with SP_BY_LABEL */
	const char *type;       /* of profiles: that sample type; NULL = CPU time */
	const char *flamegraph; /* file to write */
	char *baseline;         /* a folder or file to compare with, NULL = none */
	struct sp_time_window window;
	struct sp_time_window baseline_window;
	uint16_t port; /* to serve at; 0 = any */
	bool lines;
	bool threads;
	size_t top; /* 0 = all */
};

/* -1 = go on with the paths from optind on; else the exit status, after all messages. */
int sp_report_options_read(int argc, char **argv, struct sp_report_options *o);

/* There is something to compare with: other spans, or other profiles. */
bool sp_report_options_compare(const struct sp_report_options *o);

#endif
