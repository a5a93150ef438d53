/* SPDX-License-Identifier: Apache-2.0 */
/* Writes profiles as files into SPANPROF_OUTPUT_DIR. */
#ifndef SP_FILE_SINK_H
#define SP_FILE_SINK_H

#include <stdint.h>

#include "export/export.h"
#include "export/profile/pprof.h"

struct sp_file_sink;

/* Ending of files with slow roots (SPANPROF_SLOW), which count as profiles of the folder. */
#define SP_FILE_SINK_SLOW ".otlp.jsonl"
/*
 * Ending of files whose samples have times. Programs that read *.pb.gz must not read them, because
 * other profiles have the same samples.
 */
#define SP_FILE_SINK_TIMES "-slow.pprof.gz"

struct sp_file_sink_item {
	/*
	 * The suffix of the file name; "" for a profile of CPU time. The ending for
	 * config->output_format follows, unless the suffix has an ending.
	 */
	const char *suffix;
	int64_t time_ns; /* beginning of the profile, since the epoch */
	uint64_t samples;
};

/* NULL when out of memory. The folder is config->output_dir. */
struct sp_file_sink *sp_file_sink_new(const struct sp_core_ops *ops);
void sp_file_sink_free(struct sp_file_sink *f);

/*
 * Writes one file, which is complete or does not exist; after a loss of power it may be empty. Its
 * name is spanprof-<service>-<pid>-<UTC time>-<random>-<n><suffix>.pb.gz, which no other file has.
 * <random> is the same in all files of a process, <UTC time> is item->time_ns. Failures are counted
 * and logged. 0 or a negative errno.
 */
int sp_file_sink_write(struct sp_file_sink *f, const struct sp_bytes *profile,
		       const struct sp_file_sink_item *item, uint64_t now_ns);

/*
 * The result of the last interval's profiles: a negative errno if one was not written; otherwise 0.
 */
int sp_file_sink_error(const struct sp_file_sink *f);

#endif
