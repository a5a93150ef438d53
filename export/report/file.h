/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the files of profiles in a folder, and reads their bytes. */
#ifndef SP_REPORT_FILE_H
#define SP_REPORT_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "export/profile/pprof.h"
#include "export/report/load.h"
#include "export/util/containers.h"

/*
 * Opens a file only if it is a regular one: opening a FIFO or a device may wait. folder and path:
 * as for openat(). Returns a descriptor, or a negative errno with a reason in why.
 */
int sp_report_open(int folder, const char *path, struct stat *st, char why[SP_REPORT_ERROR]);

/*
 * Reads a whole file, and unpacks it if it is gzip. 0; 1 if the file does not exist or is empty;
 * otherwise -1. 1 and -1 come with a reason in why. Free out->data.
 */
int sp_report_read(const char *path, struct sp_bytes *out, char why[SP_REPORT_ERROR]);

/* The same for a file of spans (trace_spans.h), which may be larger. */
int sp_report_read_spans(const char *path, struct sp_bytes *out, char why[SP_REPORT_ERROR]);

/*
 * Calls each() for the file, or for every profile of the folder in the order of their names. Stops
 * when each() returns another value than 0, and returns that value. -1 with a reason if the path
 * does not exist.
 */
int sp_report_each(const char *path, int (*each)(void *arg, const char *path), void *arg,
		   char why[SP_REPORT_ERROR]);

/* Whether the name is that of a file of slow roots (roots.h). */
bool sp_report_is_of_slow_roots(const char *path);

/*
 * Whether the name is that of a file with the times of samples of slow roots. Profiles have the
 * same samples, without times.
 */
bool sp_report_is_of_times(const char *path);

/* Neither a folder nor a file of another kind, by its name: it may have spans (trace_spans.h). */
bool sp_report_is_of_spans(const char *path);

/*
 * As sp_report_each(), for the files that is_wanted() accepts by their path, instead of profiles.
 */
int sp_report_each_of_kind(const char *path, bool (*is_wanted)(const char *path),
			   int (*each)(void *arg, const char *path), void *arg,
			   char why[SP_REPORT_ERROR]);

/*
 * The files found at some paths, in the order in which they were first found. A file that has
 * changed since is a further entry. Initially zero.
 */
struct sp_file_list {
	struct sp_strtab text; /* inode, size and time of the last write, then the path */
	uint32_t n;
	uint32_t *seen; /* of each file: the number of the last search that has found it */
	size_t seen_cap;
	uint32_t look;  /* number of the last search */
	uint32_t found; /* files that the last search found */
	/* the last search found a file that the search before had missed */
	bool has_come_back;
	uint64_t changes;
};

/*
 * Searches the paths for files, and appends new ones to the list. False: the list was emptied
 * first, so that all files are new: most known files are gone, a file that was gone is there again,
 * or memory is short. l->changes gets another value each time that a file has come, gone or
 * changed.
 */
bool sp_file_list_refresh(struct sp_file_list *l, char *const *path);

/* The path of file i; valid until the next search. */
char *sp_file_list_path(const struct sp_file_list *l, uint32_t i);

/* When file i was last written, when it was found; since the epoch. */
uint64_t sp_file_list_written_ns(const struct sp_file_list *l, uint32_t i);

/* Whether the last search found file i. */
static inline bool sp_file_list_has(const struct sp_file_list *l, uint32_t i)
{
	return l->seen[i] == l->look;
}

#endif
