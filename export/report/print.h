/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_REPORT_PRINT_H
#define SP_REPORT_PRINT_H

#include <jansson.h>
#include <stdio.h>

#include "export/report/tally.h"

/* The forms of the report. All need a sorted tally or tree. */

/* Options and facts for the report, besides the sums. */
struct sp_print {
	size_t files;
	size_t top;     /* number of functions and spans to show; 0 = all */
	unsigned width; /* columns of the terminal; 0 = no limit */
	bool coloured;  /* the terminal can show colours */
	bool lines;
	bool threads;      /* the table of threads is wanted */
	const char *label; /* the label of --by; NULL = none */
	const char *time;  /* the kind of time or memory: "CPU" */
	bool in_bytes;
	uint64_t waiting_ns; /* waiting time in profiles of another type, which are not shown */
	bool has_memory;     /* there are profiles of memory */
	uint64_t blocked_ns; /* time that other spans waited for locks of the selected span */
	size_t passed;       /* number of files that could not be read */
	/* number of profiles in the baseline; 0 = the baseline is other spans of the same name */
	size_t base_files;
	/* the latency class of the baseline; NULL = it is not by latency */
	const char *base_latency;
	/* sum of the selection without filters; NULL = there are no filters */
	const struct sp_sum *unfiltered;
	/* the filters and their result, in words; may contain control characters */
	const char *filter;
	const char *hint; /* how the user can get better names; "" = no hint */
};

/* Prints a line that stands out on a terminal. */
void sp_print_heading(FILE *out, const struct sp_print *p, const char *text);

/*
 * Prints the last column of a row whose other columns took `taken` characters; cuts it at the
 * terminal's width.
 */
void sp_print_last(FILE *out, const struct sp_print *p, const char *text, int taken);

/* Prints the report as tables. */
void sp_report_print_table(FILE *out, const struct sp_tally *t, const struct sp_print *p);

/* Prints the report as JSON. 0, or -1 when out of memory or if writing failed. */
int sp_report_print_json(FILE *out, const struct sp_tally *t, const struct sp_print *p);

/*
 * Prints the two lists of the served page as the first keys of a JSON object: the names of spans,
 * and the largest spans. name: only spans with that name; NULL = all.
 */
void sp_report_print_lists(FILE *out, const struct sp_tally *t, const char *name);

/*
 * Prints folded stacks with nanoseconds, as Brendan Gregg's tools read them. With a baseline, each
 * line has the baseline's first, as from his difffolded.pl. ";" in a name becomes ":".
 */
void sp_report_print_folded(FILE *out, const struct sp_tree *t, bool diff);

/*
 * Serves reports to browsers on this machine. Returns only after a failure: an exit status, after a
 * message.
 */
struct sp_report_options;
int sp_serve(const struct sp_report_options *o, char *const *path);

#endif
