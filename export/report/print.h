/* SPDX-License-Identifier: Apache-2.0 */
/* The forms of the report. All expect a sorted tally or tree. */
#ifndef SP_REPORT_PRINT_H
#define SP_REPORT_PRINT_H

#include <jansson.h>
#include <stdio.h>

#include "export/report/tally.h"
#include "export/report/tree.h"

/* What to print besides the sums. */
struct sp_print {
	size_t files;
	size_t top;     /* functions and spans; 0 = all */
	unsigned width; /* of the terminal, in columns; 0 = lines may be of any length */
	bool coloured;  /* for people: the terminal understands it */
	bool lines;
	bool threads;        /* their table, too */
	const char *time;    /* what the nanoseconds are of: "CPU" */
	uint64_t waiting_ns; /* in profiles of another type, which are not shown */
	size_t base_files;   /* the baseline is these profiles; 0 = other spans of the same name */
	const char *hint;    /* what would make the names better, "" = nothing */
};

/*
 * A text at the end of a line of which so many columns are taken, cut to what the terminal has left: at
 * its end, or in the middle, as the ends of functions' names tell more than what is between.
 */
enum sp_cut { SP_CUT_END, SP_CUT_MIDDLE };
void sp_report_put_cut(FILE *out, const struct sp_print *p, unsigned taken, const char *text,
		       enum sp_cut where);

/* For people. */
void sp_report_print_table(FILE *out, const struct sp_tally *t, const struct sp_print *p);

/* Where the time of spans went, if there is waiting time beside their CPU time; and row i of it. */
void sp_report_print_span_waits(FILE *out, const struct sp_span_waits *w, const struct sp_print *p);
json_t *sp_report_json_span_waits(const struct sp_tally *t, size_t i);

/* For programs. 0 or -1 when out of memory or when it cannot be written. */
int sp_report_print_json(FILE *out, const struct sp_tally *t, const struct sp_print *p);

/*
 * Folded stacks with nanoseconds, as Brendan Gregg's tools read them; with a baseline those of the
 * baseline first, as his difffolded.pl does. ";" in a name becomes ":".
 */
void sp_report_print_folded(FILE *out, const struct sp_tree *t, bool diff);

#endif
