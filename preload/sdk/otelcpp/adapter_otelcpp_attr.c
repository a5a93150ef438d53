/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces SetAttribute in the SDK's vtable, and reads the attributes of a start
 * (adapter_otelcpp_attr.h). APP context.
 */
#include "preload/sdk/otelcpp/adapter_otelcpp_attr.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

#include "preload/lifecycle/lifecycle.h"
#include "preload/lifecycle/reentrancy_guard.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_proof.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_vtable.h"
#include "preload/sdk/span_attr.h"
#include "sampler/base/compiler.h"
#include "sampler/open_spans/span_keys.h"

#define SET_PARAMETERS void *span, size_t len, const char *key, const void *value
typedef void set_fn(SET_PARAMETERS);

/*
 * One function for each vtable, each with one real function behind it: the program calls
 * SetAttribute all the time, and this needs no look-up. A place is never reused for another
 * function, because its hook may be called as long as the process exists. If no place is left, that
 * SDK instance is not watched.
 */
#define PLACES 8U
static struct place {
	set_fn *_Atomic real;
	struct sp_otelcpp *_Atomic sdk;
} places[PLACES];
static atomic_flag patching = ATOMIC_FLAG_INIT;

/* Found by the ids, because the object that we know the span by may be that of a wrapper. */
static void program_sets(const struct place *p, void *span, uint8_t keys)
{
	struct sp_otelcpp *sdk = atomic_load_explicit(&p->sdk, memory_order_acquire);
	int saved = errno;
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();
	struct sp_otelcpp_ids ids;
	struct sp_span_record r;
	uint64_t id;

	if (sp_lifecycle_active() && sp_otelcpp_member(span, 0) == sdk->span_vptr) {
		sp_otelcpp_own_ids(sdk, span, &ids);
		memcpy(&id, ids.span_id, sizeof(id));
		if (sp_span_table_by_id(id, &r))
			sp_span_keys_add(&r, keys);
	}
	sp_reentrancy_guard_leave(g);
	errno = saved;
}

/* noinline and a tail call, so that other keys need no frame in the caller. */
__attribute__((noinline)) static void set_like_ours(const struct place *p, SET_PARAMETERS)
{
	set_fn *real = atomic_load_explicit(&p->real, memory_order_relaxed);
	uint8_t keys = sp_span_attr_key(key, len);

	if (keys != 0)
		program_sets(p, span, keys);
	real(span, len, key, value);
}

static inline __attribute__((always_inline)) void hook_set(const struct place *p, SET_PARAMETERS)
{
	if (sp_span_attr_like_ours(key, len))
		set_like_ours(p, span, len, key, value);
	else
		atomic_load_explicit(&p->real, memory_order_relaxed)(span, len, key, value);
}

#define DEFINE(n)                                                                                  \
	static void set_##n(SET_PARAMETERS)                                                        \
	{                                                                                          \
		hook_set(&places[n], span, len, key, value);                                       \
	}
DEFINE(0)
DEFINE(1)
DEFINE(2)
DEFINE(3)
DEFINE(4)
DEFINE(5)
DEFINE(6)
DEFINE(7)
static set_fn *const hooks[PLACES] = {set_0, set_1, set_2, set_3, set_4, set_5, set_6, set_7};

/*
 * The place of that function, which may be that of an earlier instance at the same address; NULL =
 * none is left.
 */
static struct place *place_for(set_fn *real)
{
	for (unsigned i = 0; i < PLACES; i++) {
		set_fn *taken = atomic_load_explicit(&places[i].real, memory_order_relaxed);

		if (taken == NULL || taken == real)
			return &places[i];
	}
	return NULL;
}

void *sp_otelcpp_attr_real(void *set)
{
	for (unsigned i = 0; i < PLACES; i++) {
		if (set == (void *)hooks[i])
			return (void *)atomic_load_explicit(&places[i].real, memory_order_relaxed);
	}
	return set;
}

/* Only the pages of a vtable, which no thread writes, are made writable for a moment. */
static void patch(struct sp_otelcpp *sdk)
{
	const void *const *slot =
		(const void *const *)sdk->span_vptr + SP_OTELCPP_SLOT_SET_ATTRIBUTE;
	set_fn *real = (set_fn *)sp_otelcpp_attr_real((void *)(uintptr_t)*slot);
	struct place *p = place_for(real);

	if (p == NULL)
		return;
	atomic_store_explicit(&p->sdk, sdk, memory_order_release);
	atomic_store_explicit(&p->real, real, memory_order_release);
	(void)sp_otelcpp_vtable_replace(slot, (const void *)hooks[p - places]);
}

void sp_otelcpp_attr_patch(struct sp_otelcpp *sdk)
{
	/* a second thread leaves it to the first, or to a later span of its own instance */
	if (!sp_span_attr_any() ||
	    atomic_flag_test_and_set_explicit(&patching, memory_order_acquire))
		return;
	if (!atomic_load_explicit(&sdk->attributes_watched, memory_order_relaxed)) {
		patch(sdk);
		atomic_store_explicit(&sdk->attributes_watched, true, memory_order_relaxed);
	}
	atomic_flag_clear_explicit(&patching, memory_order_release);
}

/*
 * What a function_ref<bool(string_view, AttributeValue)> calls. The value, which is not read, is the
 * caller's: in its memory, or in a register with its address.
 */
static bool look_at(void *callable, size_t len, const char *key)
{
	uint8_t *keys = callable;

	*keys |= sp_span_attr_key(key, len);
	return true;
}

uint8_t sp_otelcpp_attr_given(const void *attributes)
{
	const void *vptr = sp_otelcpp_member(attributes, 0);
	size_t (*size)(const void *) =
		sp_otelcpp_member(vptr, SP_OTELCPP_SLOT_SIZE * sizeof(void *));
	bool (*for_each)(const void *, void *, bool (*)(void *, size_t, const char *)) =
		sp_otelcpp_member(vptr, SP_OTELCPP_SLOT_FOR_EACH * sizeof(void *));
	uint8_t keys = 0;

	if (size(attributes) != 0)
		(void)for_each(attributes, &keys, look_at);
	return keys;
}
