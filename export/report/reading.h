/* SPDX-License-Identifier: Apache-2.0 */
/* Reads all profiles that are asked for, and what they are compared with; and says what that is, in words. */
#ifndef SP_REPORT_READING_H
#define SP_REPORT_READING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/report/load.h"
#include "export/report/options.h"
#include "export/report/tally.h"

#define SP_READING_WHY 2048
#define SP_READING_SERVICE 128

struct sp_reading {
	const struct sp_report_options *o;
	struct sp_selection selection;
	char span_id[SP_REPORT_TEXT_MAX + 1];
	char span_name[SP_REPORT_TEXT_MAX +
		       1]; /* both of the selection, printable as all texts are */
	struct sp_tally tally;
	struct sp_tree tree; /* only if it is wanted */
	bool wants_tree;
	bool in_bytes; /* the sums are of bytes and blocks, not of time and samples */
	size_t files;  /* of the type that is shown, and selected */
	size_t base_files;
	uint64_t waiting_ns; /* in profiles of waits, if those are not asked for */
	bool has_memory;     /* there are profiles of memory */
	uint64_t blocked_ns; /* that others waited for locks which the selected span held */
	uint64_t from_ns;    /* when the first one began, since the epoch; 0 = unknown */
	uint64_t to_ns;      /* when the last one ended */
	char service[SP_READING_SERVICE]; /* by the name of a file, "" = unknown */
	bool services;                    /* there are others */
	char why[SP_READING_WHY];         /* one line, after an error */

	/* While it reads. */
	struct sp_report_sink sink;
	char *const *named; /* the paths of the user; NULL = those that are read */
	enum sp_side side;
	struct sp_time_window window;
	bool is_shown;  /* the profile that is being read is of the type and time that are shown */
	bool has_shown; /* so is one of the file */
	bool any_type;  /* all of them are */
	/*
	 * Of memory in use: each process's last profile that is shown, by the beginning of its files' names, which has
	 * all that was there. looks_for_last: they are being looked for.
	 */
	bool looks_for_last;
	struct sp_strtab process;
	uint64_t *last_ns; /* by process */
	size_t last_n, last_cap;
	const char *path; /* that is being read */
	bool too_large;
	bool too_much; /* sums would not fit */
};

/* 0 or an exit status with why, as below. sp_reading_fini() is right after either. */
int sp_reading_init(struct sp_reading *r, const struct sp_report_options *o);
void sp_reading_fini(struct sp_reading *r);

/*
 * Reads everything of these paths, NULL at the end, and sorts the sums. 0; or SP_EXIT_USAGE if there
 * is nothing to show, SP_EXIT_DAMAGED if something cannot be read, both with one line in why.
 */
int sp_reading_run(struct sp_reading *r, char *const *path);

/* Whether these options ask for the same, of which more files may be added by another run. */
bool sp_reading_may_go_on(const struct sp_reading *r, const struct sp_report_options *o);

/* What the nanoseconds or bytes are of: "CPU". */
const char *sp_reading_time_of(const struct sp_reading *r);

/* What a report is about: service, spans, time, sums. Not cleaned: names are of others. */
#define SP_DESCRIBE_TEXT 1024

/* "checkout: CPU time of span 9a517183f26a089d (GET /orders)" */
void sp_describe_title(const struct sp_reading *r, char out[SP_DESCRIBE_TEXT]);

/* "2026-11-22 19:30:05 to 19:40:12 UTC; 12.345 s CPU, 1234 samples, 120 spans, 3 profiles" */
void sp_describe_sums(const struct sp_reading *r, char out[SP_DESCRIBE_TEXT]);

/* What would make the names of functions better, or "". */
void sp_describe_hint(const struct sp_reading *r, char out[SP_DESCRIBE_TEXT]);

#endif
