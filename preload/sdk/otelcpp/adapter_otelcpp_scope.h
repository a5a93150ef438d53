/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scopes of opentelemetry-cpp. Attach and Detach are inline functions of which every user has a
 * copy, so they cannot be hooked by name; but all go through one storage object. APP context.
 */
#ifndef SP_ADAPTER_OTELCPP_SCOPE_H
#define SP_ADAPTER_OTELCPP_SCOPE_H

#include "preload/sdk/otelcpp/adapter_otelcpp_sdk.h"

/*
 * Makes attach and detach come to us from now on, if they do not yet. After a span was seen.
 */
void sp_otelcpp_scope_watch(struct sp_otelcpp *sdk);

/*
 * At each start, because the host may bring a storage of its own, and inside the reentrancy guard: the
 * same, and what is known of the spans that are current on the calling thread. If the context storage is
 * the program's own, it is asked (active_span.h).
 *
 * As long as no thread has attached anything since the first call, which came before the first recorded
 * span, no recorded span can be current anywhere. After that, those that are current on the calling
 * thread are on its stack, unless one was attached while we did not look or inside of another hooked call.
 */
enum sp_otelcpp_current sp_otelcpp_scope_current(struct sp_otelcpp *sdk);

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
