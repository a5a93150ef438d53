/* SPDX-License-Identifier: Apache-2.0 */
/* spanprof-report's main(), for tests. */
#ifndef SP_REPORT_UNIT_H
#define SP_REPORT_UNIT_H

#include <stddef.h>

#include "export/pprof.h"

/*
 * Runs the tool with these arguments, NULL-terminated, its own name not among them. What it printed
 * on both streams is in out, NUL-terminated; returns the exit status.
 */
int report_run(const char *const *argument, char *out, size_t cap);

struct report_stack {
	const char *const *frame; /* leaf first; "name" or "name@file:line" */
	size_t frames;
	const char *span_id; /* NULL = no labels */
	const char *span_name;
	const char *trace_id;
	int64_t samples;
	int64_t ns; /* 0 = 10 ms a sample */
	const char *thread_name;
};

/* A profile of these stacks, plain; free data. */
struct sp_bytes report_profile(const struct report_stack *stack, size_t n);

#endif
