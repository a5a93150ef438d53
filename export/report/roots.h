/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads files of slow roots, which the exporter writes beside the profiles: traces in OTLP, one
 * JSON message per line.
 */
#ifndef SP_REPORT_ROOTS_H
#define SP_REPORT_ROOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/profile/pprof.h"
#include "export/report/load.h"
#include "export/util/containers.h"

/* The value of a number if the root lacks its attribute. */
#define SP_ROOT_VALUE_UNKNOWN UINT64_MAX

struct sp_report_root {
	char trace_id[33]; /* lower case */
	char span_id[17];
	uint64_t id;      /* span_id as a number */
	uint32_t service; /* service, name and process are texts in sp_report_roots.text */
	uint32_t name;
	uint32_t process; /* service and number of the process */
	/* the process by the name of the file, set by the caller; 0 = unknown */
	uint32_t file;
	uint64_t start_ns, end_ns; /* since the epoch */
	/* Exact sums of this root. */
	uint64_t cpu_ns, off_cpu_ns, runnable_ns, major_faults, allocated_bytes;
	uint64_t thread_id; /* the thread that ended it */
	/* Of all roots of this name in the process, up to the end of this one. */
	uint64_t count, p50_ns, p90_ns, p99_ns;
};

/* Initially zero. */
struct sp_report_roots {
	struct sp_strtab text;
	struct sp_report_root *root;
	size_t n, cap;
};

/*
 * Adds the roots of a file. 0, or -1 with a reason in why: the file is damaged, or there are too
 * many roots, and none of this file was added. Unknown fields, and spans of other writers, are
 * ignored.
 */
int sp_report_roots_read(struct sp_report_roots *s, const struct sp_bytes *file,
			 char why[SP_REPORT_ERROR]);
void sp_report_roots_fini(struct sp_report_roots *s);

/* Reads an id of 16 hexadecimal digits. False if the text is not one. */
bool sp_report_id_read(const char *text, uint64_t *id);

static inline const char *sp_report_roots_text(const struct sp_report_roots *s, uint32_t id)
{
	size_t len;

	return sp_strtab_get(&s->text, id, &len);
}

#endif
