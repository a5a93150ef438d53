/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scopes: where an SDK tells which span a thread works for, that decides, from the first time the
 * process uses it. APP context, inside the guard, calling thread only; bounded, lock-free.
 */
#ifndef SP_SCOPE_H
#define SP_SCOPE_H

#include <stdbool.h>
#include <stdint.h>

/* How an SDK says that a span is active on a thread. */
enum sp_activation {
	SP_ACTIVATION_START, /* starting it makes it active there until it ends */
	SP_ACTIVATION_SCOPE, /* attach and detach do, once the process has used them */
	SP_ACTIVATION_NONE, /* the SDK cannot tell; start and end stand in unless they interleave */
};

/*
 * The calling thread attached a context under this token (unique among the thread's open scopes).
 * span_id is the context's span, NULL or all zero when it has none; a span that is not recorded
 * here labels nothing, and hides what was active before, until the detach.
 */
void sp_scope_attached(uint64_t token, const uint8_t *span_id);

/* The calling thread detached that scope. With through, every scope attached after it goes too. */
void sp_scope_detached(uint64_t token, bool through);

/* A span of an SDK with this activation becomes active by being started, as things are now. */
bool sp_scope_start_activates(enum sp_activation how);

#endif
