/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scopes: where an SDK tells which span a thread works for, that decides, from the first time the
 * process uses it. APP context, inside the guard, calling thread only; bounded, lock-free.
 */
#ifndef SP_SCOPE_H
#define SP_SCOPE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/config.h"
#include "sampler/span_stack.h"

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
 *
 * False when scopes pile up on the thread: many did not fit, and not one of those below was detached
 * meanwhile, so they do not say what the thread works for, and all of them are forgotten here. The
 * SDK's spans are better active from start to end then (SP_ACTIVATION_NONE).
 */
bool sp_scope_attached(uint64_t token, const uint8_t *span_id);

/* Whatever the calling thread has attached labels and hides nothing any more. */
void sp_scope_forget(void);

/* The calling thread detached that scope. With through, every scope attached after it goes too. */
void sp_scope_detached(uint64_t token, bool through);

/* INIT. Which of the two decides; SP_ACTIVE_AUTO until then. */
void sp_scope_set_source(enum sp_active_span source);
extern enum sp_active_span sp_scope_source;

/* Some thread has attached something: starts of SDKs with scopes no longer activate. */
static inline bool sp_scope_used(void)
{
	return atomic_load_explicit(&sp_span_stack_scoped, memory_order_relaxed);
}

/* A span of an SDK with this activation becomes active by being started, as things are now. */
static inline bool sp_scope_start_activates(enum sp_activation how)
{
	if (how != SP_ACTIVATION_SCOPE)
		return sp_scope_source != SP_ACTIVE_SCOPE || how == SP_ACTIVATION_START;
	return sp_scope_source == SP_ACTIVE_START ||
	       (sp_scope_source == SP_ACTIVE_AUTO && !sp_scope_used());
}

/* Whether starts that interleave lose their say; not where they were asked for. */
static inline bool sp_scope_starts_may_interleave(void)
{
	return sp_scope_source == SP_ACTIVE_AUTO;
}

/*
 * The token of such a span's frame. Where an SDK with scopes has attached nothing yet, it yields to
 * the first attach: main() may start its span before it attaches it, and must not keep it after the
 * detach.
 */
static inline uint64_t sp_scope_start_token(enum sp_activation how)
{
	return how == SP_ACTIVATION_SCOPE && sp_scope_source == SP_ACTIVE_AUTO ? SP_SPAN_YIELDS
									       : SP_SPAN_STARTED;
}

#endif
