/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scopes of opentelemetry-cpp. Attach and Detach are inline functions of which every user has a
 * copy, so they cannot be hooked by name; but all go through one storage object. APP context.
 */
#ifndef SP_ADAPTER_OTELCPP_SCOPE_H
#define SP_ADAPTER_OTELCPP_SCOPE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "preload/sdk/otelcpp/adapter_otelcpp_sdk.h"
#include "sampler/base/compiler.h"
#include "sampler/span/span.h"

/* Makes attach and detach come to us from now on, if they do not yet. After a span was seen. */
void sp_otelcpp_scope_watch(struct sp_otelcpp *sdk);

/*
 * For an instance that was found by its classes, where nobody knows the storage before one of them
 * attaches: Attach comes to us until then. False if there is no such class, or if one could not be replaced.
 */
bool sp_otelcpp_scope_expect(struct sp_otelcpp *sdk);

/* The parent of a start, as far as the SDK says: 0 = none, or none that is recorded here. */
struct sp_otelcpp_parent {
	uint64_t id;
	bool is_told;
};

/*
 * At each start, inside the reentrancy guard: the parent that StartSpan gave the span of those ids on the
 * calling thread. is_told is false if it is the span that is active on the thread by our own stack, if they
 * are of one trace, or cannot be told. Before, it does the same as sp_otelcpp_scope_watch(), as the host may
 * bring a storage of its own; that one is asked what is current (active_span.h).
 */
struct sp_otelcpp_parent sp_otelcpp_scope_find_parent(struct sp_otelcpp *sdk, const void *options,
						      const struct sp_otelcpp_ids *ids);

/* Of the span that was last started on this thread: the half of the trace that every generator varies. */
extern SP_TLS uint64_t sp_otelcpp_last_trace;

/*
 * The same, in a glance, for the common start: the options name no parent and begin no known trace, and
 * the storage of the SDK is ours and nothing is in doubt.
 */
static inline __attribute__((always_inline)) struct sp_otelcpp_parent
sp_otelcpp_scope_parent(struct sp_otelcpp *sdk, const void *options,
			const struct sp_otelcpp_ids *ids)
{
	const void *given = sp_otelcpp_at(options, SP_OTELCPP_OPTIONS_PARENT);
	uint64_t trace = sp_otelcpp_word(ids->trace_id + sizeof(trace));
	const void *storage = sp_otelcpp_storage(sdk);

	if (storage != NULL &&
	    sp_otelcpp_member(storage, 0) ==
		    atomic_load_explicit(&sdk->storage_vptr, memory_order_relaxed) &&
	    atomic_load_explicit(&sdk->doubts, memory_order_relaxed) == 0 &&
	    sp_otelcpp_byte(options, sp_otelcpp_flavour_of(sdk)->parent_index) ==
		    SP_OTELCPP_PARENT_IS_SPAN_CONTEXT &&
	    sp_otelcpp_word(sp_otelcpp_at(given, SP_OTELCPP_CONTEXT_SPAN_ID)) == 0 &&
	    trace != sp_otelcpp_last_trace) {
		bool attached = atomic_load_explicit(&sdk->attached, memory_order_relaxed);

		if (!attached || sp_active_span_tells_parent(NULL)) {
			sp_otelcpp_last_trace = trace;
			return (struct sp_otelcpp_parent){.is_told = !attached};
		}
	}
	return sp_otelcpp_scope_find_parent(sdk, options, ids);
}

/*
 * Scopes of this instance are not understood, for that reason: logs it, and from now on its spans
 * are active from start to end.
 */
void sp_otelcpp_scope_give_up(struct sp_otelcpp *sdk, enum sp_sdk_fact why);

/* Attach and detach are understood, so they tell which span a thread works for. */
static inline bool sp_otelcpp_scopes_tell(const struct sp_otelcpp *sdk)
{
	return (atomic_load_explicit(&sdk->doubts, memory_order_relaxed) & SP_OTELCPP_FOREIGN) == 0;
}

#endif
