/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces the vptr of the storage object by a copy of its vtable in which Attach and Detach are
 * ours (adapter_otelcpp_scope.h). The vtable itself is read-only and shared; the object lies in
 * ordinary memory. The copy keeps the typeinfo. APP context.
 */
#include "preload/sdk/otelcpp/adapter_otelcpp_scope.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "preload/lifecycle/lifecycle.h"
#include "preload/lifecycle/reentrancy_guard.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_call.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_expect.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_proof.h"
#include "sampler/base/compiler.h"
#include "sampler/base/readable_sig.h"
#include "sampler/base/try_lock.h"
#include "sampler/open_spans/span_stack.h"
#include "sampler/span/active_span.h"

/* Classes of storages: the SDK's own, one for each instance, and what a host may bring. */
#define COPIES_MAX (SP_SPAN_STORAGES - 1)
/*
 * The interface has five slots; a host's class may add some. What lies behind a vtable (more of
 * them, then the dynamic section) is readable and never called.
 */
#define SLOTS_COPIED 32U

/* After so many contexts that look empty, and no other, the layout is assumed to be unknown. */
#define EMPTY_MAX 64U

/* Values of struct vtable_copy.token besides offsets, which are multiples of a pointer's size. */
#define TOKEN_UNKNOWN (-1)
#define TOKEN_FOREIGN (-2)

struct vtable_copy {
	struct sp_otelcpp *sdk;
	const void *original; /* vptr */
	bool is_own;          /* not the SDK's class, so it may keep contexts by fibers */
	_Atomic bool silent;  /* and does: its scopes label nothing */
	_Atomic int token;    /* where the tokens that it makes keep their context */
	_Atomic unsigned empty;
	void *(*attach)(void *result, void *self, const void *context);
	bool (*detach)(void *self, void *token);
	const void *word[SP_OTELCPP_VTABLE_HEAD + SLOTS_COPIED];
};

static struct vtable_copy copies[COPIES_MAX];
static _Atomic unsigned copies_used; /* grows under copies_busy */
static struct sp_try_lock copies_busy;

static struct vtable_copy *copy_of(const void *self)
{
	/* pairs with watch(): whoever sees the new vptr sees the complete copy */
	char *word = __atomic_load_n((char *const *)self, __ATOMIC_ACQUIRE);

	return (void *)(word - SP_OTELCPP_VTABLE_HEAD * sizeof(void *) -
			offsetof(struct vtable_copy, word));
}

static bool is_watched(const void *vptr)
{
	uintptr_t p = (uintptr_t)vptr;

	return p >= (uintptr_t)copies && p < (uintptr_t)&copies[COPIES_MAX];
}

/* Number 0 is of SDKs whose scopes are the threads' own. */
static uint32_t number_of(const struct vtable_copy *c)
{
	return (uint32_t)(c - copies) + 1;
}

static uint64_t token_of(const struct vtable_copy *c, const void *context)
{
	return sp_span_token_of(number_of(c), sp_otelcpp_context_key(c->sdk, context));
}

static void raise_flag(_Atomic bool *flag)
{
	if (!atomic_load_explicit(flag, memory_order_relaxed))
		atomic_store_explicit(flag, true, memory_order_relaxed);
}

/* Something is attached or detached, or may be, without a change of our stack. */
static __attribute__((noinline)) void note_unseen(struct sp_otelcpp *sdk)
{
	raise_flag(&sdk->unseen);
	raise_flag(&sdk->attached);
}

__attribute__((cold)) void sp_otelcpp_scope_give_up(struct sp_otelcpp *sdk, enum sp_sdk_fact why)
{
	unsigned used = atomic_load_explicit(&copies_used, memory_order_acquire);

	atomic_store_explicit(&sdk->scopes_foreign, true, memory_order_relaxed);
	raise_flag(&sdk->unseen);
	for (unsigned i = 0; i < used; i++) {
		if (copies[i].sdk == sdk)
			atomic_store_explicit(&copies[i].token, TOKEN_FOREIGN,
					      memory_order_relaxed);
	}
	sp_sdk_disproved(sdk->names->sdk, why);
}

static __attribute__((noinline, cold)) void silence(struct vtable_copy *c)
{
	atomic_store_explicit(&c->silent, true, memory_order_relaxed);
	sp_active_span_silence(number_of(c));
	sp_sdk_disproved(c->sdk->names->sdk, SP_SDK_FACT_OWN_STORAGE);
}

/*
 * What the storage answers with is the program's code. The SDK calls it as well at each start without
 * a given parent, and before each scope, on this thread and outside of the storage's own functions;
 * so it does here, too. What it may start or attach by that is inside of the reentrancy guard.
 */
static void ask(struct vtable_copy *c, void *self)
{
	uint8_t says[8];
	uint64_t id;

	if (!c->is_own || atomic_load_explicit(&c->silent, memory_order_relaxed) ||
	    atomic_load_explicit(&c->token, memory_order_relaxed) == TOKEN_FOREIGN ||
	    !sp_otelcpp_current_span(c->sdk, self, says))
		return;
	memcpy(&id, says, sizeof(id));
	if (!sp_active_span_agrees(number_of(c), id))
		silence(c);
}

/*
 * Whether that context is stored there: both words of its pointer are compared, as neither is null.
 */
static bool lies_at(struct sp_otelcpp *sdk, const char *there, const void *context)
{
	unsigned long pointee = sp_otelcpp_flavour_of(sdk)->pointee;
	unsigned long other = pointee + sizeof(void *);

	return sp_otelcpp_readable(there + pointee) && sp_otelcpp_readable(there + other) &&
	       sp_otelcpp_member(there, pointee) == sp_otelcpp_member(context, pointee) &&
	       sp_otelcpp_member(there, other) == sp_otelcpp_member(context, other);
}

/*
 * Finds where the tokens of this storage keep their context: the first token holds what has just
 * been attached. An empty context equals any zeros, so it teaches nothing. TOKEN_UNKNOWN if the
 * next one may tell.
 */
static __attribute__((noinline, cold)) int learn(struct vtable_copy *c, void *self,
						 const void *token, const void *context)
{
	int offset = 0;

	if (!sp_otelcpp_scopes_tell(c->sdk))
		return TOKEN_FOREIGN;
	if (sp_otelcpp_pointee(c->sdk, context) == NULL) {
		if (atomic_fetch_add_explicit(&c->empty, 1, memory_order_relaxed) < EMPTY_MAX)
			return TOKEN_UNKNOWN;
		sp_otelcpp_scope_give_up(c->sdk, SP_SDK_FACT_CONTEXT);
		return TOKEN_FOREIGN;
	}
	if (!sp_otelcpp_is_current(c->sdk, self, context)) {
		sp_otelcpp_scope_give_up(c->sdk, SP_SDK_FACT_STORAGE);
		return TOKEN_FOREIGN;
	}
	while (!lies_at(c->sdk, (const char *)token + offset, context)) {
		offset += (int)sizeof(void *);
		if (offset > (int)SP_OTELCPP_TOKEN_CONTEXT_MAX) {
			sp_otelcpp_scope_give_up(c->sdk, SP_SDK_FACT_TOKEN);
			return TOKEN_FOREIGN;
		}
	}
	atomic_store_explicit(&c->token, offset, memory_order_relaxed);
	return offset;
}

/* result: a unique pointer to the token. */
static void attached(struct vtable_copy *c, void *self, const void *result, const void *context)
{
	int token = atomic_load_explicit(&c->token, memory_order_relaxed);
	struct sp_otelcpp_ids ids;
	bool has_span;

	if (token == TOKEN_UNKNOWN)
		token = learn(c, self, sp_otelcpp_member(result, 0), context);
	if (token == TOKEN_FOREIGN || !sp_otelcpp_context_understood(c->sdk, context)) {
		note_unseen(c->sdk);
		sp_active_span_forget_scopes();
		return;
	}
	has_span = sp_otelcpp_context_span(c->sdk, context, &ids);
	if (sp_active_span_attached(token_of(c, context), has_span ? ids.span_id : NULL))
		return;
	/* Of fibers that go on elsewhere the scopes pile up where they were attached. */
	if (c->is_own)
		silence(c);
	else
		sp_otelcpp_scope_give_up(c->sdk, SP_SDK_FACT_NESTING);
}

static __attribute__((noinline)) void ask_before(struct vtable_copy *c, void *self)
{
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	if (g.outermost && sp_lifecycle_active()) {
		int saved = errno;

		ask(c, self);
		errno = saved;
	}
	sp_reentrancy_guard_leave(g);
}

typedef void *attach_fn(void *result, void *self, const void *context);

SP_OTELCPP_LOCAL_ENTRY(sp_otelcpp_attach, attach_fn, "sp_otelcpp_attach_entry");

void *sp_otelcpp_attach(void *result, void *self, const void *context)
{
	struct vtable_copy *c = copy_of(self);

	/*
	 * also inside of the reentrancy guard: what a wrapper attaches becomes current just the
	 * same
	 */
	raise_flag(&c->sdk->attached);
	if (c->is_own)
		ask_before(c, self);
	SP_OTELCPP_CALL(c->attach, result, self, context);
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	if (g.outermost && sp_lifecycle_active()) {
		int saved = errno;

		attached(c, self, result, context);
		errno = saved;
	} else {
		note_unseen(c->sdk);
	}
	sp_reentrancy_guard_leave(g);
	return result;
}

/* What sp_active_span_attached() got for the context of this token; 0 if it is unknown. */
static uint64_t token_of_scope(const struct vtable_copy *c, const void *token)
{
	int offset = atomic_load_explicit(&c->token, memory_order_relaxed);
	/* before the first useful token there were only empty contexts */
	static const struct sp_otelcpp_object empty;

	if (offset == TOKEN_FOREIGN)
		return 0;
	return token_of(c, offset == TOKEN_UNKNOWN ? (const void *)&empty
						   : (const char *)token + offset);
}

/*
 * A token matches the topmost attached context that equals its own, whichever attach it came from.
 * What was attached above is detached too, and that may drop the last reference to a span, which
 * then ends. The real function is called outside of the reentrancy guard, so that this end counts.
 */
static bool detach(void *self, void *token)
{
	const struct vtable_copy *c = copy_of(self);
	uint64_t scope = token_of_scope(c, token);
	bool detached = c->detach(self, token);
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	if (g.outermost && detached && scope != 0 && sp_lifecycle_active()) {
		int saved = errno;

		sp_active_span_detached(scope, true);
		errno = saved;
	} else if (detached) {
		note_unseen(c->sdk);
	}
	sp_reentrancy_guard_leave(g);
	return detached;
}

static const void *slot(const void *vptr, unsigned which)
{
	return sp_otelcpp_member(vptr, which * sizeof(void *));
}

/* If a class was unloaded, another one may have got its address. */
static bool is_copy_of(const struct vtable_copy *c, const struct sp_otelcpp *sdk, const void *vptr)
{
	return c->original == vptr && c->sdk == sdk &&
	       slot(vptr, SP_OTELCPP_SLOT_ATTACH) == (const void *)c->attach &&
	       slot(vptr, SP_OTELCPP_SLOT_DETACH) == (const void *)c->detach;
}

/*
 * The SDK's own class keeps a stack for each thread, so there is nothing to ask. Where there is no
 * run-time type information nobody knows which class it is.
 */
static bool is_of_sdk(const struct sp_otelcpp *sdk, const void *vptr)
{
	const char *name = sdk->names->storage_class + strlen("_ZTV");
	const void *info = sp_otelcpp_member((const char *)vptr - sizeof(void *), 0);
	const char *own;

	if (!sp_otelcpp_readable(info) || !sp_otelcpp_readable(sp_otelcpp_at(info, sizeof(void *))))
		return false;
	own = sp_otelcpp_member(info, sizeof(void *));
	return sp_readable((uintptr_t)own) && sp_readable((uintptr_t)own + strlen(name)) &&
	       strcmp(own, name) == 0;
}

/* A copy of that class's vtable, made when first needed; NULL when there are too many classes. */
static const struct vtable_copy *copy_vtable(struct sp_otelcpp *sdk, const void *vptr)
{
	struct vtable_copy *c;
	const size_t head = SP_OTELCPP_VTABLE_HEAD * sizeof(void *);
	unsigned used = atomic_load_explicit(&copies_used, memory_order_relaxed);

	for (unsigned i = 0; i < used; i++) {
		if (is_copy_of(&copies[i], sdk, vptr))
			return &copies[i];
	}
	if (used == COPIES_MAX) {
		sp_otelcpp_scope_give_up(sdk, SP_SDK_FACT_STORAGE);
		return NULL;
	}
	c = &copies[used];
	memcpy(c->word, (const char *)vptr - head, sizeof(c->word));
	c->sdk = sdk;
	atomic_store_explicit(&sdk->held, true, memory_order_release);
	atomic_store_explicit(&c->token, TOKEN_UNKNOWN, memory_order_relaxed);
	c->original = vptr;
	c->is_own = !is_of_sdk(sdk, vptr);
	atomic_store_explicit(&c->silent, false, memory_order_relaxed);
	c->attach = sp_otelcpp_member(vptr, SP_OTELCPP_SLOT_ATTACH * sizeof(void *));
	c->detach = sp_otelcpp_member(vptr, SP_OTELCPP_SLOT_DETACH * sizeof(void *));
	c->word[SP_OTELCPP_VTABLE_HEAD + SP_OTELCPP_SLOT_ATTACH] =
		SP_OTELCPP_ENTRY_OF(sp_otelcpp_attach);
	c->word[SP_OTELCPP_VTABLE_HEAD + SP_OTELCPP_SLOT_DETACH] = (const void *)detach;
	/* pairs with sp_otelcpp_scope_give_up() */
	atomic_store_explicit(&copies_used, used + 1, memory_order_release);
	return c;
}

static void watch(struct sp_otelcpp *sdk, const void *_Atomic *storage)
{
	const struct vtable_copy *c;
	const void *vptr;

	/*
	 * Another thread is doing it, and this one may attach before it is done: the next start
	 * tries again.
	 */
	if (!sp_try_lock_once(&copies_busy)) {
		note_unseen(sdk);
		return;
	}
	vptr = atomic_load_explicit(storage, memory_order_relaxed);
	c = is_watched(vptr) || !sp_otelcpp_expect_done(vptr) ? NULL : copy_vtable(sdk, vptr);
	/* release: a thread that sees the new vptr sees the complete copy */
	if (c != NULL)
		atomic_store_explicit(storage, &c->word[SP_OTELCPP_VTABLE_HEAD],
				      memory_order_release);
	else if (!is_watched(vptr))
		note_unseen(sdk);
	sp_unlock(&copies_busy);
}

void sp_otelcpp_scope_watch(struct sp_otelcpp *sdk)
{
	const void *_Atomic *storage = sp_otelcpp_storage(sdk);

	if (storage != NULL) {
		if (!is_watched(atomic_load_explicit(storage, memory_order_relaxed)))
			watch(sdk, storage);
		return;
	}
	/* a library without any storage; otherwise it is created at its first use */
	if (sp_otelcpp_get_storage(sdk) != NULL)
		sp_otelcpp_expect_storage(sdk);
	else if (!atomic_load_explicit(&sdk->expects, memory_order_relaxed) &&
		 sp_otelcpp_scopes_tell(sdk))
		sp_otelcpp_scope_give_up(sdk, SP_SDK_FACT_STORAGE);
}

enum sp_otelcpp_current sp_otelcpp_scope_current(struct sp_otelcpp *sdk)
{
	void *storage = sp_otelcpp_storage(sdk);
	struct vtable_copy *c;

	if (storage == NULL || !is_watched(sp_otelcpp_member(storage, 0))) {
		sp_otelcpp_scope_watch(sdk);
		storage = sp_otelcpp_storage(sdk);
		if (storage == NULL || !is_watched(sp_otelcpp_member(storage, 0)))
			return SP_OTELCPP_CURRENT_ASKED;
	}
	c = copy_of(storage);
	if (c->is_own)
		ask(c, storage);
	if (!atomic_load_explicit(&sdk->attached, memory_order_relaxed))
		return SP_OTELCPP_CURRENT_NONE;
	return c->is_own || c->sdk != sdk ||
			       atomic_load_explicit(&sdk->unseen, memory_order_relaxed)
		       ? SP_OTELCPP_CURRENT_ASKED
		       : SP_OTELCPP_CURRENT_SEEN;
}
