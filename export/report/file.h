/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a profile, and which files of a folder are profiles. */
#ifndef SP_REPORT_FILE_H
#define SP_REPORT_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "export/profile/pprof.h"
#include "export/report/load.h"
#include "export/util/containers.h"

/*
 * Opens a regular file and nothing else: a FIFO or a device would keep us waiting. The path begins in that folder, as
 * for openat(). A descriptor, or a negative errno with a reason in why.
 */
int sp_report_open(int folder, const char *path, struct stat *st, char why[SP_REPORT_ERROR]);

/*
 * The whole file, unpacked if it is gzip. 0; or with a reason in why: 1 where nothing is there, not even a byte of a
 * file, else -1. Free out->data.
 */
int sp_report_read(const char *path, struct sp_bytes *out, char why[SP_REPORT_ERROR]);

/*
 * Calls each for the file, or for every profile of the folder in the order of their names, until it
 * returns something other than 0, which is returned. -1 with a reason when there is no such path.
 */
int sp_report_each(const char *path, int (*each)(void *arg, const char *path), void *arg,
		   char why[SP_REPORT_ERROR]);

/* The files of some paths as they were seen, in the order in which they were. All 0 at first. */
struct sp_file_list {
	struct sp_strtab text; /* what tells a file from others at its path, and the path */
	uint32_t n;
	uint32_t found; /* at the last look */
	uint64_t changes;
};

/*
 * Looks which files there are; new ones come behind those that are known. False: one that was known has changed or
 * is gone, and all are new ones. Each time that anything is new, changes is another number.
 */
bool sp_file_list_look(struct sp_file_list *l, char *const *path);

/* Lives until the next look. */
char *sp_file_list_path(const struct sp_file_list *l, uint32_t i);

#endif
