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
#include "sampler/base/try_lock.h"

#define SET_PARAMETERS void *span, size_t len, const char *key, const void *value
typedef void set_fn(SET_PARAMETERS);

static struct sp_try_lock patching;

static void program_sets(struct sp_otelcpp *sdk, void *span, uint8_t keys)
{
	int saved = errno;
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();
	struct sp_span_record r;
	uint64_t id;

	if (sp_lifecycle_active() && sp_otelcpp_span_id(sdk, span, &id) &&
	    sp_span_table_by_id(id, &r))
		sp_span_keys_add(&r, keys);
	sp_reentrancy_guard_leave(g);
	errno = saved;
}

static inline set_fn *real_of(const struct sp_otelcpp *sdk)
{
	return (set_fn *)sp_otelcpp_real(sdk, SP_OTELCPP_REAL_SET_ATTRIBUTE);
}

/* noinline and a tail call, so that other keys need no frame in the caller. */
__attribute__((noinline)) static void set_like_ours(SET_PARAMETERS)
{
	struct sp_otelcpp *sdk = sp_otelcpp_of(SP_OTELCPP_TYPE_SPAN, span);
	uint8_t keys = sp_span_attr_key(key, len);

	if (keys != 0)
		program_sets(sdk, span, keys);
	real_of(sdk)(span, len, key, value);
}

void sp_otelcpp_attr_hook(SET_PARAMETERS)
{
	if (sp_span_attr_like_ours(key, len))
		set_like_ours(span, len, key, value);
	else
		real_of(sp_otelcpp_of(SP_OTELCPP_TYPE_SPAN, span))(span, len, key, value);
}

void sp_otelcpp_attr_set(SET_PARAMETERS)
{
	real_of(sp_otelcpp_of(SP_OTELCPP_TYPE_SPAN, span))(span, len, key, value);
}

void sp_otelcpp_attr_patch(struct sp_otelcpp *sdk)
{
	/* a second thread leaves it to the first, or to a later span of its own instance */
	if (!sp_span_attr_any() || !sp_try_lock_once(&patching))
		return;
	if (!atomic_load_explicit(&sdk->attributes_watched, memory_order_relaxed)) {
		(void)sp_otelcpp_vtable_replace((const void *const *)sdk->span_vptr +
							SP_OTELCPP_SLOT_SET_ATTRIBUTE,
						(const void *)sp_otelcpp_attr_hook);
		atomic_store_explicit(&sdk->attributes_watched, true, memory_order_relaxed);
	}
	sp_unlock(&patching);
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
