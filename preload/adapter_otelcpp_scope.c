/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The storage object's vptr is turned to a copy of its vtable in which Attach and Detach are ours.
 * The object lies in ordinary memory, and the copy keeps the typeinfo. APP context.
 */
#include "preload/adapter_otelcpp_scope.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "preload/adapter_otelcpp_call.h"
#include "preload/guard.h"
#include "preload/life.h"
#include "sampler/compiler.h"
#include "sampler/scope.h"

/* Classes of storages: the SDK's own, in two versions, and what a host may bring. */
#define COPIES_MAX 8U
/*
 * The interface has five slots; a host's class may add some. What lies behind a vtable (more of
 * them, then the dynamic section) is readable and never called.
 */
#define SLOTS_COPIED 32U

struct vtable_copy {
	struct sp_otelcpp *sdk;
	const void *original; /* vptr */
	void *(*attach)(void *result, void *self, const void *context);
	bool (*detach)(void *self, void *token);
	const void *word[SP_OTELCPP_VTABLE_HEAD + SLOTS_COPIED];
};

static struct vtable_copy copies[COPIES_MAX];
static unsigned copies_used; /* under copies_busy */
static atomic_flag copies_busy = ATOMIC_FLAG_INIT;

static const struct vtable_copy *copy_of(const void *self)
{
	const char *word = sp_otelcpp_member(self, 0);

	return (const void *)(word - SP_OTELCPP_VTABLE_HEAD * sizeof(void *) -
			      offsetof(struct vtable_copy, word));
}

static bool is_watched(const void *vptr)
{
	uintptr_t p = (uintptr_t)vptr;

	return p >= (uintptr_t)copies && p < (uintptr_t)&copies[COPIES_MAX];
}

static void note_attached(struct sp_otelcpp *sdk)
{
	if (!atomic_load_explicit(&sdk->attached, memory_order_relaxed))
		atomic_store_explicit(&sdk->attached, true, memory_order_relaxed);
}

typedef void *attach_fn(void *result, void *self, const void *context);

SP_OTELCPP_LOCAL_ENTRY(sp_otelcpp_attach, attach_fn, "sp_otelcpp_attach_entry");

void *sp_otelcpp_attach(void *result, void *self, const void *context)
{
	const struct vtable_copy *c = copy_of(self);

	/* also inside the guard: what a wrapper attaches is current all the same */
	note_attached(c->sdk);
	SP_OTELCPP_CALL(c->attach, result, self, context);
	struct sp_guard g = sp_guard_enter();

	if (g.outermost && sp_life_active()) {
		int saved = errno;
		uint8_t id[8];
		bool has_span = sp_otelcpp_context_span(c->sdk, context, id);

		sp_scope_attached(sp_otelcpp_context_key(c->sdk, context), has_span ? id : NULL);
		errno = saved;
	}
	sp_guard_leave(g);
	return result;
}

/*
 * A token matches the topmost attached context that equals its own, whichever attach it came from.
 * What was attached above goes too, and may be the last reference to a span, which then ends: not
 * inside the guard, that end counts.
 */
static bool detach(void *self, void *token)
{
	const struct vtable_copy *c = copy_of(self);
	/* a token holds nothing but its context */
	uint64_t key = sp_otelcpp_context_key(c->sdk, token);
	bool detached = c->detach(self, token);
	struct sp_guard g = sp_guard_enter();

	if (g.outermost && detached && sp_life_active()) {
		int saved = errno;

		sp_scope_detached(key, true);
		errno = saved;
	}
	sp_guard_leave(g);
	return detached;
}

/* A copy of that class's vtable, made when first needed; NULL when there are too many classes. */
static const struct vtable_copy *copy_vtable(struct sp_otelcpp *sdk, const void *vptr)
{
	struct vtable_copy *c;
	const size_t head = SP_OTELCPP_VTABLE_HEAD * sizeof(void *);

	for (unsigned i = 0; i < copies_used; i++) {
		if (copies[i].original == vptr && copies[i].sdk == sdk)
			return &copies[i];
	}
	if (copies_used == COPIES_MAX)
		return NULL;
	c = &copies[copies_used++];
	memcpy(c->word, (const char *)vptr - head, sizeof(c->word));
	c->sdk = sdk;
	atomic_store_explicit(&sdk->held, true, memory_order_release);
	c->original = vptr;
	c->attach = sp_otelcpp_member(vptr, SP_OTELCPP_SLOT_ATTACH * sizeof(void *));
	c->detach = sp_otelcpp_member(vptr, SP_OTELCPP_SLOT_DETACH * sizeof(void *));
	c->word[SP_OTELCPP_VTABLE_HEAD + SP_OTELCPP_SLOT_ATTACH] =
		SP_OTELCPP_ENTRY_OF(sp_otelcpp_attach);
	c->word[SP_OTELCPP_VTABLE_HEAD + SP_OTELCPP_SLOT_DETACH] = (const void *)detach;
	return c;
}

static void watch(struct sp_otelcpp *sdk, const void *_Atomic *storage)
{
	const struct vtable_copy *c;
	const void *vptr;

	/* Another thread is at it, and ours may attach before it is done: the next start looks again. */
	if (atomic_flag_test_and_set_explicit(&copies_busy, memory_order_acquire)) {
		note_attached(sdk);
		return;
	}
	vptr = atomic_load_explicit(storage, memory_order_relaxed);
	c = is_watched(vptr) ? NULL : copy_vtable(sdk, vptr);
	/* release: whoever comes by the new vptr finds the copy complete */
	if (c != NULL)
		atomic_store_explicit(storage, &c->word[SP_OTELCPP_VTABLE_HEAD],
				      memory_order_release);
	else if (!is_watched(vptr))
		note_attached(sdk);
	atomic_flag_clear_explicit(&copies_busy, memory_order_release);
}

bool sp_otelcpp_scope_watch(struct sp_otelcpp *sdk)
{
	const void *_Atomic *storage = sp_otelcpp_storage(sdk);

	if (storage == NULL)
		return false;
	if (!is_watched(atomic_load_explicit(storage, memory_order_relaxed)))
		watch(sdk, storage);
	return !atomic_load_explicit(&sdk->attached, memory_order_relaxed);
}
