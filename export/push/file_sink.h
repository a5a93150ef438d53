/* SPDX-License-Identifier: Apache-2.0 */
/* Writes profiles as files into SPANPROF_OUTPUT_DIR. */
#ifndef SP_FILE_SINK_H
#define SP_FILE_SINK_H

#include <stdint.h>

#include "export/export.h"
#include "export/profile/pprof.h"

struct sp_file_sink;

struct sp_file_sink_item {
	const char *suffix; /* of its name, before the dot; "" for a profile of CPU time */
	int64_t time_ns;    /* its begin, since the epoch */
	uint64_t samples;
};

/* NULL when out of memory. The folder is config->output_dir. */
struct sp_file_sink *sp_file_sink_new(const struct sp_core_ops *ops);
void sp_file_sink_free(struct sp_file_sink *f);

/*
 * One file, complete or not there at all, but after a loss of power it may be empty:
 * spanprof-<service>-<pid>-<UTC time>-<random>-<n>.pb.gz, which no other file has; <random> is the same
 * in all files of a process. time_ns is the begin of the profile since the epoch. Failures are counted and logged. 0 or a negative errno.
 */
int sp_file_sink_write(struct sp_file_sink *f, const struct sp_bytes *profile,
		       const struct sp_file_sink_item *item, uint64_t now_ns);

/* What became of the profiles of the last interval: a negative errno, or 0 where all were written, or none was tried. */
int sp_file_sink_error(const struct sp_file_sink *f);

#endif
