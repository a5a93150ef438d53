/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the selected profiles, and those of the baseline, into sums and stacks; and describes them
 * in words.
 */
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

/* Reads files in another way than into sums. */
struct sp_reading_visitor {
	/* Gets the unpacked file of r->path. 0, or -1 with a reason in why. */
	int (*load)(void *arg, const struct sp_bytes *file, char why[SP_REPORT_ERROR]);
	void *arg;
	bool (*is_wanted)(
		/* accepts files of another kind by their path; NULL = profiles */
		const char *path);
};

struct sp_reading {
	const struct sp_report_options *o;
	struct sp_selection selection;
	char span_id[SP_REPORT_TEXT_MAX + 1];
	/* selection.span_id and selection.span_name point to these copies, which are printable */
	char span_name[SP_REPORT_TEXT_MAX + 1];
	struct sp_tally tally;
	struct sp_tree tree; /* valid if wants_tree is set */
	bool wants_tree;
	bool in_bytes; /* the sums are of bytes and blocks, not of time and samples */
	size_t files;  /* number of selected profiles of the type that is shown */
	size_t base_files;
	uint64_t waiting_ns; /* waiting time in profiles of waits, if those are not shown */
	bool has_memory;     /* a profile of memory was found */
	uint64_t blocked_ns; /* time that other spans waited for locks of the selected span */
	/* sum of the selection without --focus, --ignore and --hide */
	struct sp_sum unfiltered;
	struct sp_filter_use filter;
	struct sp_slow_ids slow_ids; /* for a selection by latency */
	/* when the first profile began, since the epoch; 0 = unknown */
	uint64_t from_ns;
	uint64_t to_ns;                   /* when the last profile ended */
	char service[SP_READING_SERVICE]; /* from the name of a file; "" = unknown */
	bool services;                    /* there are several services */
	/* number of files that cannot be read, or are no profiles; a message named each */
	size_t passed;
	char why[SP_READING_WHY]; /* one line, after an error */
	bool is_told;             /* the reason in why was printed already */
	struct sp_strtab *told;   /* paths of files that a message has named */
	char **again; /* paths that were passed over, NULL at the end: the next run reads them again */
	size_t again_n, again_cap;

	/* Used during a reading. */
	struct sp_report_sink sink;
	const struct sp_reading_visitor *visitor; /* NULL = files are profiles for the sink */
	char *const *named; /* the paths that the user named; NULL = those that are read */
	enum sp_side side;
	struct sp_time_window window;
	bool is_shown;  /* the profile that is being read is of the type and time that are shown */
	bool has_shown; /* a profile of the file is, too */
	bool has_added; /* samples of the file are in the sums */
	bool any_type;  /* profiles of all types and times are shown */
	/*
	 * The report shows only the last profile of memory in use of each process. The name of a
	 * file begins with its process. While looks_for_last is set, files of memory in use are
	 * collected in in_use, and the last profile of each process is searched in them.
	 */
	bool looks_for_last;
	struct sp_strtab process;
	struct sp_reading_last {
		uint64_t time_ns;  /* when the last profile began; 0 = not found yet */
		uint64_t due_ns;   /* when the next profile would have ended; 0 = unknown */
		uint64_t named_ns; /* when the last profile began, by the name of its file */
	} * last;                  /* of each process */
	size_t last_n, last_cap;
	struct sp_reading_in_use *in_use;
	size_t in_use_n, in_use_cap;
	uint64_t newest_ns; /* when the newest profile of all processes ended */
	const char *path;   /* the file that is being read */
	bool too_large;
	bool too_much; /* a sum would overflow */
};

/*
 * Returns 0, or an exit status with a reason in why, as sp_reading_run() does. Call
 * sp_reading_fini() in both cases. told: the paths of files for which a message was printed, so
 * that each gets only one, however often it is read; it belongs to the caller, is initially zero,
 * and several readings may share it.
 */
int sp_reading_init(struct sp_reading *r, const struct sp_report_options *o,
		    struct sp_strtab *told);
void sp_reading_fini(struct sp_reading *r);

/*
 * Reads all profiles of the paths, which end with NULL, and sorts the sums. A file that cannot be
 * read, or is no profile, gets a message on stderr, counts in r->passed, and is passed over.
 * Returns 0, SP_EXIT_USAGE if there is nothing to show, or SP_EXIT_DAMAGED if no file can be read
 * or the sums cannot be made; after an error, why has one line.
 */
int sp_reading_run(struct sp_reading *r, char *const *path);

/*
 * Reads the paths as sp_reading_run() does, but hands each file to the visitor. The visitor sets
 * r->has_shown for each file that counts in r->files, and r->has_added for each file of which it
 * has used a part. r->too_large or r->too_much ends the reading.
 */
int sp_reading_visit(struct sp_reading *r, char *const *path,
		     const struct sp_reading_visitor *visitor);

/*
 * Parses the name that an exporter has given a file: its process; the number of the file among
 * those of the process, from 1 on; and when its interval began, in whole seconds since the epoch.
 * False: the file has another name.
 */
bool sp_reading_process_of(const char *path, char *process, size_t cap, uint64_t *number,
			   uint64_t *begin_ns);

/* Whether the file is outside of r->window, by its name and the time when it was written. */
bool sp_reading_leaves_out(const struct sp_reading *r, const char *path, uint64_t written_ns);

/*
 * Whether another sp_reading_run() may add files to r for these options. That run also reads again
 * the files that were passed over, because they may be complete by then.
 */
bool sp_reading_may_go_on(const struct sp_reading *r, const struct sp_report_options *o);

/* The kind of time or memory: "CPU". */
const char *sp_reading_time_of(const struct sp_reading *r);

/*
 * Describe a report: service, spans, time, sums. The texts may contain control characters, because
 * names are untrusted.
 */
#define SP_DESCRIBE_TEXT 1024

/* "checkout: CPU time of span 9a517183f26a089d (GET /orders)" */
void sp_describe_title(const struct sp_reading *r, char out[SP_DESCRIBE_TEXT]);

/* "2026-11-22 19:30:05 to 19:40:12 UTC; 12.345 s CPU, 1234 samples, 120 spans, 3 profiles" */
void sp_describe_sums(const struct sp_reading *r, char out[SP_DESCRIBE_TEXT]);

/* "--focus "render", --hide "std::": 5.000 of 7.020 s, 500 of 702 samples (71.2 %)", or "" */
void sp_describe_filter(const struct sp_reading *r, char out[SP_DESCRIBE_TEXT]);

/* A hint how the user can get better names of functions, or "". */
void sp_describe_hint(const struct sp_reading *r, char out[SP_DESCRIBE_TEXT]);

#endif
