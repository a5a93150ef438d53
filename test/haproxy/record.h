/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of the stand-in: a file of calls and a file of ended spans. Steered by the environment:
 *
 *   FIXTURE_CALLS=file   one line per call with its arguments, errno at its entry and its result;
 *                        pointers by the labels that the host gave them, so that two runs can be
 *                        compared; calls that come from libspanprof.so itself, not from the host
 *                        through it, begin with "ours "
 *   FIXTURE_SPANS=file   one JSON line per exported span
 *   FIXTURE_ERRNO=n      every call leaves errno at n, or at n + 1 if it comes from libspanprof.so
 *                        itself; otherwise as it was
 *   FIXTURE_VERSION=text what otelc_version() returns instead of the version it was built for
 *   FIXTURE_MODE=noop|unsampled|record_only  spans without ids; with ids only; recorded, not sampled
 */
#ifndef TEST_HAPROXY_RECORD_H
#define TEST_HAPROXY_RECORD_H

#include <stdbool.h>
#include <stddef.h>

#include "test/common/fixture.h"
#include "test/haproxy/wrapper.h"

#define API __attribute__((visibility("default")))

/* One call: to be begun first, and left last. */
struct call {
	bool ours;
	int before;
	int after;
};
struct call call_begin(const void *caller, const char *function);
#define CALL() call_begin(__builtin_return_address(0), __func__)
/* Writes the line and sets errno. */
void call_end(const struct call *c, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* For the host: what this pointer is to be called by the thread's next calls. */
API void fixture_label(unsigned place, const void *pointer, const char *label);
#define FIXTURE_LABELS 8U
const char *label_of(const void *pointer);

/* spans.c, tracer.c */
struct otelc_span *span_start(struct otelc_tracer *tracer, const char *name,
			      const struct otelc_carrier *parent);
struct otelc_carrier span_ids(const struct otelc_span *span);
struct otelc_carrier context_ids(const struct otelc_span_context *context);
void span_check(const struct otelc_span *span);
void tracer_check(const struct otelc_tracer *tracer);
int tracer_failed(struct otelc_tracer *tracer, const char *text);

#endif
