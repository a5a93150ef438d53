/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scopes of opentelemetry-cpp. Attach and Detach are inline functions of which every user has a
 * copy, so they cannot be hooked by name; but all go through one storage object. APP context.
 */
#ifndef SP_ADAPTER_OTELCPP_SCOPE_H
#define SP_ADAPTER_OTELCPP_SCOPE_H

#include "preload/sdk/otelcpp/adapter_otelcpp_sdk.h"

/* Makes attach and detach come to us from now on, if they do not yet. After a span was seen. */
void sp_otelcpp_scope_watch(struct sp_otelcpp *sdk);

/*
 * For an instance that was found by its classes, where nobody knows the storage before one of them
 * attaches: Attach comes to us until then. False if there is no such class, or if one could not be replaced.
 */
bool sp_otelcpp_scope_expect(struct sp_otelcpp *sdk);

/*
 * At each start, inside the reentrancy guard: the parent that StartSpan gave the span of those ids on the
 * calling thread, all zero if it has none, or none that is recorded here. False if it is the span that is
 * active on the thread by our own stack, if they are of one trace, or cannot be told. Before, it does the
 * same as the one above, as the host may bring a storage of its own; that one is asked what is current
 * (active_span.h).
 */
bool sp_otelcpp_scope_parent(struct sp_otelcpp *sdk, const void *options,
			     const struct sp_otelcpp_ids *ids, uint8_t parent_id[8]);

/*
 * Scopes of this instance are not understood, for that reason: logs it, and from now on its spans
 * are active from start to end.
 */
void sp_otelcpp_scope_give_up(struct sp_otelcpp *sdk, enum sp_sdk_fact why);

/* Attach and detach are understood, so they tell which span a thread works for. */
static inline bool sp_otelcpp_scopes_tell(const struct sp_otelcpp *sdk)
{
	return !atomic_load_explicit(&sdk->scopes_foreign, memory_order_relaxed);
}

#endif
