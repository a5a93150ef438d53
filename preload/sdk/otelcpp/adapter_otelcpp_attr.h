/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attributes that a program sets on its own spans: a value that it sets under a key of ours
 * must stay. Those given at the start are read there. SetAttribute is replaced in the vtable of the
 * SDK's spans, because its mangled name depends on how the SDK was built. APP context.
 */
#ifndef SP_ADAPTER_OTELCPP_ATTR_H
#define SP_ADAPTER_OTELCPP_ATTR_H

#include "preload/sdk/otelcpp/adapter_otelcpp_sdk.h"

/* For sp_otelcpp_attr_watch(), until it is done. */
void sp_otelcpp_attr_patch(struct sp_otelcpp *sdk);

/* Replaces SetAttribute of this SDK instance, of which a span is being recorded. */
static inline void sp_otelcpp_attr_watch(struct sp_otelcpp *sdk)
{
	if (!atomic_load_explicit(&sdk->attributes_watched, memory_order_relaxed))
		sp_otelcpp_attr_patch(sdk);
}

/* The keys of ours among the attributes of a start, a KeyValueIterable. */
uint8_t sp_otelcpp_attr_given(const void *attributes);

/* Our replacement. */
void sp_otelcpp_attr_hook(void *span, size_t len, const char *key, const void *value);

/* The SDK's own function, for attributes that we set. Of one of its own spans. */
void sp_otelcpp_attr_set(void *span, size_t len, const char *key, const void *value);

#endif
