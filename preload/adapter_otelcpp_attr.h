/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attributes that a program gives its own spans: what it says under a key of ours stays. Among
 * those of a start we look; SetAttribute we stand in for, in the vtable of the SDK's spans, as the
 * function's name depends on how the SDK was built. APP context.
 */
#ifndef SP_ADAPTER_OTELCPP_ATTR_H
#define SP_ADAPTER_OTELCPP_ATTR_H

#include "preload/adapter_otelcpp_sdk.h"

/* For the one below, until it is done. */
void sp_otelcpp_attr_patch(struct sp_otelcpp *sdk);

/* Our SetAttribute stands in for that of this instance of the SDK, a span of which is being recorded. */
static inline void sp_otelcpp_attr_watch(struct sp_otelcpp *sdk)
{
	if (!atomic_load_explicit(&sdk->attributes_watched, memory_order_relaxed))
		sp_otelcpp_attr_patch(sdk);
}

/* The keys of ours among the attributes of a start, a KeyValueIterable. */
uint8_t sp_otelcpp_attr_given(const void *attributes);

/* The SDK's function where that is ours, otherwise the same: for attributes of our own. */
void *sp_otelcpp_attr_real(void *set);

#endif
