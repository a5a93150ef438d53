/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The active span of a thread: what makes a span active, and what a sample is labelled with then:
 * the active span or its local root, as the configuration says.
 *
 * An SDK with scopes says which span a thread works for, and this decides from the first time that
 * the process uses a scope. Where an SDK has no scopes, or the process never uses them, start and
 * end stand in for them: the span that was started last counts as active. An event loop keeps many
 * spans open on one thread, and there this would be wrong. So while two local roots of an SDK are
 * open on a thread by their starts alone, its samples get no span (span_stack.h), because a wrong
 * label is worse than none.
 *
 * Contexts: the label functions run in any context; all else is APP, inside the reentrancy guard,
 * calling thread only; bounded, lock-free.
 */
#ifndef SP_ACTIVE_SPAN_H
#define SP_ACTIVE_SPAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/compiler.h"
#include "sampler/config/config.h"
#include "sampler/open_spans/span_stack.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/thread/thread.h"

struct sp_span_label {
	uint64_t span_id; /* it, trace and name: all 0 = nothing */
	uint8_t trace_id[16];
	uint32_t name_id;
	uint32_t ref; /* the span table's reference to the span whose id that is; 0 = it has none */
	enum sp_span_active what;
};

/* Written at activation before the first timer is armed. */
struct sp_active_span_label_scopes {
	enum sp_label_scope id;
	enum sp_label_scope name;
	bool trace_id;
};
extern struct sp_active_span_label_scopes sp_active_span_label_scopes;

/*
 * Owner or its handler, as sp_span_stack_peek() that it calls: the label of a sample that is taken now. The other
 * one makes it of what that said.
 */
SP_SIGSAFE void sp_active_span_label(const struct sp_span_stack *s, struct sp_span_label *out);
SP_SIGSAFE void sp_active_span_label_of(enum sp_span_active what, const struct sp_span_record *r,
					struct sp_span_label *out);

/*
 * The interrupted thread's handler. The same by what another library of the program publishes for
 * the thread, whose block that is (foreign_context.h). That knows no names. Nothing where spans of
 * a hooked SDK are on the thread's stack, if only one that is not recorded.
 */
SP_SIGSAFE void sp_active_span_label_foreign(const struct sp_thread *t, struct sp_span_label *out);

/* How an SDK says that a span is active on a thread. */
enum sp_activation {
	SP_ACTIVATION_START, /* starting a span makes it active on that thread until it ends */
	SP_ACTIVATION_SCOPE, /* attach and detach decide, once the process has used them */
	SP_ACTIVATION_NONE, /* no scopes that tell; start and end stand in unless spans interleave */
};

/*
 * The calling thread attached a context under this token (sp_span_token_of()).
 * span_id is the span of the context, NULL or all zero if it has none. A span that is not recorded
 * here labels nothing, and hides what was active before until the detach.
 *
 * False if scopes pile up on the thread: many did not fit, and none of those below was detached
 * meanwhile. They do not tell what the thread works for, so all of them are forgotten, and the
 * SDK's spans are better active from start to end (SP_ACTIVATION_NONE).
 */
bool sp_active_span_attached(uint64_t token, const uint8_t *span_id);

/* Some thread has attached something: starts of SDKs with scopes no longer activate. */
static inline bool sp_active_span_scopes_used(void)
{
	return atomic_load_explicit(&sp_span_stack_scoped, memory_order_relaxed);
}

/* What decides. */
SP_HIDDEN enum sp_active_span sp_active_span_source;

/* Scopes decide, or may. */
static inline bool sp_active_span_by_scopes(void)
{
	return sp_active_span_source == SP_ACTIVE_AUTO || sp_active_span_source == SP_ACTIVE_SCOPE;
}

/* Forgets all scopes of the calling thread: they label nothing and hide nothing any more. */
void sp_active_span_forget_scopes(void);

/*
 * A program that runs fibers or coroutines has a context storage of its own, which keeps what is
 * current for each of them. Attach and detach on a thread do not tell then which span runs there,
 * because others take the thread over without a call of the SDK. So such a storage is asked before
 * each attach and at each start. If it names another open span than the one that it last attached on
 * this thread, or none where there is one, its scopes are worth nothing: a wrong label is worse than
 * none.
 */

/*
 * What that storage says is current on the calling thread agrees with the scopes that we saw: the id
 * of the span, 0 if there is none. A span that is not open, here or there, counts as none.
 */
bool sp_active_span_agrees(uint32_t storage, uint64_t says);

/*
 * The active span of the calling thread is the parent of what is started there within its trace, as all
 * that an SDK attached is on the thread's stack. trace_id: the active span has to be of that trace; NULL
 * if it does not matter. What goes on with the trace of the start before it has a parent, so if that is not
 * on the stack, something was attached unseen.
 */
static inline bool sp_active_span_tells_parent(const uint8_t *trace_id);

/* For the one above: the active span is of that trace. */
bool sp_active_span_is_in_trace(const struct sp_thread *t, const uint8_t *trace_id);

static inline __attribute__((always_inline)) bool
sp_active_span_tells_parent(const uint8_t *trace_id)
{
	const struct sp_thread *t = sp_thread_own;

	return t != NULL && !sp_span_stack_is_beyond(&t->spans) && sp_active_span_by_scopes() &&
	       (trace_id == NULL || sp_active_span_is_in_trace(t, trace_id));
}

/* Scopes of that storage label nothing any more, on any thread. */
void sp_active_span_silence(uint32_t storage);

/* APP, at activation. What decides: scopes, starts or a foreign context; SP_ACTIVE_AUTO until then. */
void sp_active_span_set_source(enum sp_active_span source);

/* Whether starting a span of an SDK with this activation makes it active, as things are now. */
static inline bool sp_active_span_start_activates(enum sp_activation how)
{
	if (sp_active_span_source == SP_ACTIVE_CONTEXT)
		return false;
	if (how != SP_ACTIVATION_SCOPE)
		return sp_active_span_source != SP_ACTIVE_SCOPE || how == SP_ACTIVATION_START;
	return sp_active_span_source == SP_ACTIVE_START ||
	       (sp_active_span_source == SP_ACTIVE_AUTO && !sp_active_span_scopes_used());
}

/*
 * The token of the frame of a span that was started. Where an SDK has scopes and has attached
 * nothing yet, the frame yields to the first attach: main() may start its span before it attaches
 * it, and the frame must not label after the detach. Where the user asked for starts they are scopes.
 */
static inline uint64_t sp_active_span_start_token(enum sp_activation how)
{
	if (how == SP_ACTIVATION_START || sp_active_span_source != SP_ACTIVE_AUTO)
		return SP_SPAN_STARTED;
	return how == SP_ACTIVATION_SCOPE ? SP_SPAN_YIELDS : SP_SPAN_STANDS_IN;
}

#endif
