/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The active span of a thread: what makes a span active, and what CPU time is labelled with then, the
 * active span or the local root of that, as the configuration says.
 *
 * Where an SDK tells by scopes which span a thread works for, that decides, from the first time the
 * process uses it. Where start and end stand in for scopes, the span started last is taken for the
 * active one. An event loop keeps many spans open on one thread, and there that is wrong. The first local
 * root that ends while a root started later on the same thread is still open proves it; from then on that
 * SDK's starts do not label that thread, because a wrong label is worse than none.
 *
 * Contexts: labels: written for the handler, any; all else: APP, inside the reentrancy guard, calling
 * thread only; bounded, lock-free.
 */
#ifndef SP_ACTIVE_SPAN_H
#define SP_ACTIVE_SPAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/compiler.h"
#include "sampler/config.h"
#include "sampler/span_stack.h"
#include "sampler/span_table.h"
#include "sampler/thread.h"

/* All 0 = nothing. */
struct sp_span_label {
	uint64_t span_id;
	uint8_t trace_id[16];
	uint32_t name_id;
};

/* Written at activation before the first timer is armed. */
struct sp_active_span_label_scopes {
	enum sp_label_scope id;
	enum sp_label_scope name;
	bool trace_id;
};
extern struct sp_active_span_label_scopes sp_active_span_label_scopes;

/*
 * The stack's thread or its handler. What a sample taken now is labelled with; returns the table's
 * reference to the span whose id that is, 0 = no id, or unknown there.
 */
SP_SIGSAFE uint32_t sp_active_span_label(const struct sp_span_stack *s, struct sp_span_label *out);

/* Any context. The same for a span that is known. */
SP_SIGSAFE uint32_t sp_active_span_label_of(const struct sp_span_entry *e,
					    struct sp_span_label *out);

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
bool sp_active_span_attached(uint64_t token, const uint8_t *span_id);

/* Whatever the calling thread has attached labels and hides nothing any more. */
void sp_active_span_forget_scopes(void);

/* The calling thread detached that scope. With through, every scope attached after it goes too. */
void sp_active_span_detached(uint64_t token, bool through);

/* INIT. Which of the two decides; SP_ACTIVE_AUTO until then. */
void sp_active_span_set_source(enum sp_active_span source);
extern enum sp_active_span sp_active_span_source;

/* Some thread has attached something: starts of SDKs with scopes no longer activate. */
static inline bool sp_active_span_scopes_used(void)
{
	return atomic_load_explicit(&sp_span_stack_scoped, memory_order_relaxed);
}

/* A span of an SDK with this activation becomes active by being started, as things are now. */
static inline bool sp_active_span_start_activates(enum sp_activation how)
{
	if (how != SP_ACTIVATION_SCOPE)
		return sp_active_span_source != SP_ACTIVE_SCOPE || how == SP_ACTIVATION_START;
	return sp_active_span_source == SP_ACTIVE_START ||
	       (sp_active_span_source == SP_ACTIVE_AUTO && !sp_active_span_scopes_used());
}

/* Whether starts that interleave lose their say; not where they were asked for. */
static inline bool sp_active_span_starts_may_interleave(void)
{
	return sp_active_span_source == SP_ACTIVE_AUTO;
}

/*
 * The token of such a span's frame. Where an SDK with scopes has attached nothing yet, it yields to
 * the first attach: main() may start its span before it attaches it, and must not keep it after the
 * detach.
 */
static inline uint64_t sp_active_span_start_token(enum sp_activation how)
{
	return how == SP_ACTIVATION_SCOPE && sp_active_span_source == SP_ACTIVE_AUTO
		       ? SP_SPAN_YIELDS
		       : SP_SPAN_STARTED;
}

#define SP_ACTIVE_SPAN_SDKS 32U

/* In struct sp_span_record.stand_in: the SDK's number + 1, and whether it has scopes. */
#define SP_ACTIVE_SPAN_SCOPES 0x80U
_Static_assert(SP_ACTIVE_SPAN_SDKS <= 32 && SP_ACTIVE_SPAN_SDKS < SP_ACTIVE_SPAN_SCOPES,
	       "a bit for each");

/* What goes into the record of a span of that SDK; 0 where its spans prove nothing. */
static inline uint8_t sp_active_span_stand_in(enum sp_activation how, uint8_t sdk)
{
	if (how == SP_ACTIVATION_START || sdk >= SP_ACTIVE_SPAN_SDKS)
		return 0;
	return (uint8_t)((sdk + 1U) | (how == SP_ACTIVATION_SCOPE ? SP_ACTIVE_SPAN_SCOPES : 0));
}

static inline uint32_t sp_active_span_sdk_bit(uint8_t stand_in)
{
	return UINT32_C(1) << ((stand_in & ~SP_ACTIVE_SPAN_SCOPES) - 1);
}

/* For the one below. */
void sp_active_span_prove(const struct sp_span_record *gone);

/*
 * That span, no longer in the table, has just been ended by the host, its frame is still where it
 * was: looks for the proof, and acts on it.
 */
static inline void sp_active_span_ended(const struct sp_span_record *gone)
{
	if (gone->stand_in != 0 && gone->root_id == gone->span_id &&
	    gone->thread != SP_SPAN_NO_THREAD)
		sp_active_span_prove(gone);
}

/* Starts of that kind no longer label that thread. */
static inline bool sp_active_span_interleaved(const struct sp_thread *t, uint8_t stand_in)
{
	return stand_in != 0 && t != NULL &&
	       (atomic_load_explicit(&t->interleaved, memory_order_relaxed) &
		sp_active_span_sdk_bit(stand_in)) != 0;
}

#endif
