/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads spans in OTLP's JSON, as programs and collectors write them: one document, or one a line.
 * Anybody may have written such a file.
 */
#ifndef SP_REPORT_TRACE_SPANS_H
#define SP_REPORT_TRACE_SPANS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/profile/pprof.h"
#include "export/report/load.h"
#include "export/util/containers.h"

struct sp_trace_id {
	uint64_t high, low;
};

struct sp_trace_span {
	struct sp_trace_id trace;
	uint64_t id, parent; /* parent 0 = it has none */
	uint64_t start_ns, end_ns;
	/* By its attributes (SPANPROF_SPAN_TIMES); SP_ROOT_VALUE_UNKNOWN = it has not got them. */
	uint64_t cpu_ns, off_cpu_ns, runnable_ns, allocated_bytes;
	uint32_t service, name; /* in sp_trace_spans.text */
	bool has_failed;        /* its status is an error */
	bool is_profiled;       /* an attribute says that its id can be in profiles */
};

/* All 0 at first. */
struct sp_trace_spans {
	struct sp_strtab text;
	struct sp_trace_span *span;
	size_t n, cap;
	struct sp_hash_index by_id;
	const struct sp_trace_id *only; /* the trace whose spans are wanted; NULL = all */
	/* What was passed over. */
	size_t bad_lines;   /* no JSON */
	size_t large_lines; /* lines that take too much memory */
	size_t bad_spans;   /* without ids or times */
	size_t twice;       /* spans with the ids of another one */
	size_t too_many;    /* spans for which there was no room */
	bool nomem;
};

/*
 * Adds the spans of a file. 0, or -1 with a reason in why: the file has no message of OTLP, and
 * nothing was added. Of a file with several lines, those that are no JSON are passed over.
 */
int sp_trace_spans_read(struct sp_trace_spans *s, const struct sp_bytes *file,
			char why[SP_REPORT_ERROR]);
void sp_trace_spans_fini(struct sp_trace_spans *s);

/* 32 hexadecimal digits, not all of them 0. False: it is something else. */
bool sp_trace_id_read(const char *text, struct sp_trace_id *id);

/* -1, 0 or 1. */
int sp_trace_id_compare(const struct sp_trace_id *a, const struct sp_trace_id *b);

static inline const char *sp_trace_spans_text(const struct sp_trace_spans *s, uint32_t id)
{
	size_t len;

	return sp_strtab_get(&s->text, id, &len);
}

#endif
