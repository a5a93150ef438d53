/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SP_REPORT_PRINT_H
#define SP_REPORT_PRINT_H

#include <jansson.h>
#include <stdio.h>

#include "export/report/tally.h"

/* The forms of the report. All expect a sorted tally or tree. */

/* What to print besides the sums. */
struct sp_print {
	size_t files;
	size_t top;     /* functions and spans; 0 = all */
	unsigned width; /* of the terminal, in columns; 0 = lines may be of any length */
	bool coloured;  /* for people: the terminal understands it */
	bool lines;
	bool threads;      /* their table, too */
	const char *label; /* whose values are asked for; NULL = none */
	const char *time;  /* what the nanoseconds or bytes are of: "CPU" */
	bool in_bytes;
	bool by_looks; /* samples are looks at random instants, and each stands for another time */
	uint64_t waiting_ns; /* in profiles of another type, which are not shown */
	bool has_memory;     /* there are profiles of memory */
	uint64_t blocked_ns; /* that others waited for locks which the selected span held */
	size_t base_files;   /* the baseline is these profiles; 0 = other spans of the same name */
	const char *hint;    /* what would make the names better, "" = nothing */
};

/* For people. */
void sp_report_print_table(FILE *out, const struct sp_tally *t, const struct sp_print *p);

/* For programs. 0 or -1 when out of memory or when it cannot be written. */
int sp_report_print_json(FILE *out, const struct sp_tally *t, const struct sp_print *p);

/* The lists to choose from, as the first keys of an object: names of spans, and the largest spans, of one name if it is not NULL. */
void sp_report_print_lists(FILE *out, const struct sp_tally *t, const char *name);

/*
 * Folded stacks with nanoseconds, as Brendan Gregg's tools read them; with a baseline those of the
 * baseline first, as his difffolded.pl does. ";" in a name becomes ":".
 */
void sp_report_print_folded(FILE *out, const struct sp_tree *t, bool diff);

/* Serves them to browsers on this machine. Does not return before it fails: an exit status, after a message. */
struct sp_report_options;
int sp_serve(const struct sp_report_options *o, char *const *path);

#endif
