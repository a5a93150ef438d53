/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of the stand-in SDK: a file of calls, a file of ended spans, the thread's last error,
 * and the kinds of handles. Variables:
 *
 *   FIXTURE_CALLS=file   one line per call with its arguments and result, without addresses, so that
 *                        two runs can be compared; calls that come from libspanprof.so itself, not
 *                        from the host through it, begin with "ours "
 *   FIXTURE_SPANS=file   one JSON line per ended span
 *   FIXTURE_ERRNO=n      every call leaves errno at n, or at n + 1 if it comes from libspanprof.so
 *                        itself; without it errno is unchanged
 *   FIXTURE_MODE=noop    no SDK is installed: every start returns the same span without effect
 *   FIXTURE_MODE=unsampled  spans have ids, but not the sampled flag, and are not exported
 */
#ifndef TEST_OTELC_RECORD_H
#define TEST_OTELC_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test/common/fixture.h"
#include "test/otelc/otelc.h"

#define API __attribute__((visibility("default")))

/* Every handle begins with its kind, so that a wrong or dead one is recognized. */
enum kind { KIND_DEAD, KIND_PROVIDER, KIND_TRACER, KIND_SPAN, KIND_SPAN_CONTEXT, KIND_CONTEXT };

struct span_ids {
	uint8_t trace_id[16];
	uint8_t span_id[8];
	uint8_t flags;
	bool remote;
};

struct otel_span_context {
	enum kind kind;
	struct span_ids ids;
};

/* True if it is a live handle of that kind; otherwise the last error says what is wrong. */
bool handle_ok(const void *handle, enum kind kind);

otel_span_context_t *span_context_new(const struct span_ids *ids);

/* Ids as a host may print them: "0123456789abcdef", or "-" for NULL. room has 17 bytes. */
const char *shown_id(const struct span_ids *ids, char *room);

/* The ids of the calling thread's current context; NULL if it has none. */
const struct span_ids *ambient_ids(void);

/* One line of FIXTURE_CALLS. */
void record(bool ours, const char *format, ...) __attribute__((format(printf, 2, 3)));

void clear_error(void);
/* Sets the last error and returns the status. */
otel_status_t failed(otel_status_t status, const char *text);

/* Whether the profiler makes this call by itself, and does not pass on a call of the host. */
bool is_ours(const void *caller, const char *function);
#define OURS is_ours(__builtin_return_address(0), __func__)

/* The errno when the function returns; called first. */
#define errno_after() fixture_errno_after(OURS)

#endif
