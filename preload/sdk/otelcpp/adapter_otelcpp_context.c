/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads opentelemetry-cpp's contexts, and finds the parents of spans by them. Their memory layout
 * is no interface of the SDK, so each is checked against what the layout should be before it is
 * trusted. APP context.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "preload/sdk/otelcpp/adapter_otelcpp_call.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_proof.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_scope.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_sdk.h"
#include "sampler/base/compiler.h"
#include "sampler/span/active_span.h"

/* So many contexts with the expected layout are proof enough. */
#define LOOKS_MAX 64U

static const void *head_of(struct sp_otelcpp *sdk, const void *context)
{
	return sp_otelcpp_member(context, sp_otelcpp_flavour_of(sdk)->pointee);
}

uint64_t sp_otelcpp_context_key(struct sp_otelcpp *sdk, const void *context)
{
	uintptr_t head = (uintptr_t)head_of(sdk, context);

	/* all empty contexts are equal; no list begins at 1 */
	return head != 0 ? head : 1;
}

/* The node that GetValue(key) would find. Inlined: no call to compare a key of known length. */
static inline __attribute__((always_inline)) const void *
find_node(struct sp_otelcpp *sdk, const void *context, const char *key)
{
	const struct sp_otelcpp_flavour *f = sp_otelcpp_flavour_of(sdk);
	const void *node = head_of(sdk, context);
	const size_t len = strlen(key);

	for (unsigned n = 0; node != NULL && n < SP_OTELCPP_NODES_MAX; n++) {
		if ((size_t)(uintptr_t)sp_otelcpp_member(node, f->node_key_len) == len &&
		    memcmp(sp_otelcpp_member(node, SP_OTELCPP_NODE_KEY), key, len) == 0)
			return node;
		node = sp_otelcpp_member(node, (unsigned long)f->node_next + f->pointee);
	}
	return NULL;
}

/* Enough contexts and options were checked, without a contradiction. */
static bool looked_enough(struct sp_otelcpp *sdk)
{
	return atomic_fetch_add_explicit(&sdk->looks, 1, memory_order_relaxed) >= LOOKS_MAX;
}

bool sp_otelcpp_context_looks_right(struct sp_otelcpp *sdk, const void *context)
{
	int state = atomic_load_explicit(&sdk->contexts, memory_order_relaxed);

	if (state != SP_OTELCPP_UNTRIED || head_of(sdk, context) == NULL)
		return state != SP_OTELCPP_REJECTED;
	if (!sp_otelcpp_context_fits(sdk, context)) {
		atomic_store_explicit(&sdk->contexts, SP_OTELCPP_REJECTED, memory_order_relaxed);
		sp_otelcpp_scope_give_up(sdk, SP_SDK_FACT_CONTEXT);
		return false;
	}
	/* A context with a span in it proves most; some programs have only others. */
	if (find_node(sdk, context, SP_OTELCPP_KEY_SPAN) != NULL || looked_enough(sdk))
		atomic_store_explicit(&sdk->contexts, SP_OTELCPP_KNOWN, memory_order_relaxed);
	return true;
}

/* An id of 8 or 16 bytes. */
static bool all_zero(const uint8_t *id, size_t n)
{
	uint64_t first;
	uint64_t last;

	memcpy(&first, id, sizeof(first));
	memcpy(&last, id + n - sizeof(last), sizeof(last));
	return (first | last) == 0;
}

bool sp_otelcpp_context_span(struct sp_otelcpp *sdk, const void *context,
			     struct sp_otelcpp_ids *out)
{
	const struct sp_otelcpp_flavour *f = sp_otelcpp_flavour_of(sdk);
	const void *node = find_node(sdk, context, SP_OTELCPP_KEY_SPAN);
	void *span;

	if (node == NULL || sp_otelcpp_byte(node, f->node_index) != SP_OTELCPP_VALUE_IS_SPAN)
		return false;
	span = sp_otelcpp_member(node, (unsigned long)f->node_value + f->pointee);
	if (span == NULL)
		return false;
	/* also a remote parent is a span, of another class with the same interface */
	if (sp_otelcpp_member(span, 0) == sdk->span_vptr)
		sp_otelcpp_own_ids(sdk, span, out);
	else
		sp_otelcpp_ids(sdk, span, out);
	return !all_zero(out->span_id, sizeof(out->span_id)) &&
	       !all_zero(out->trace_id, sizeof(out->trace_id));
}

static bool context_says_root(struct sp_otelcpp *sdk, const void *context)
{
	const struct sp_otelcpp_flavour *f = sp_otelcpp_flavour_of(sdk);
	const void *node = find_node(sdk, context, SP_OTELCPP_KEY_IS_ROOT);

	return node != NULL && sp_otelcpp_byte(node, f->node_index) == SP_OTELCPP_VALUE_IS_BOOL &&
	       sp_otelcpp_byte(node, f->node_value) != 0;
}

static void get_current(void *storage, struct sp_otelcpp_object *context)
{
	void *(*get)(void *, void *) = sp_otelcpp_member(
		sp_otelcpp_member(storage, 0), SP_OTELCPP_SLOT_GET_CURRENT * sizeof(void *));

	SP_OTELCPP_CALL(get, context, storage);
}

bool sp_otelcpp_is_current(struct sp_otelcpp *sdk, void *storage, const void *context)
{
	const struct sp_otelcpp_flavour *f = sp_otelcpp_flavour_of(sdk);
	struct sp_otelcpp_object current;

	memset(&current, 0, sizeof(current));
	get_current(storage, &current);
	if (!sp_otelcpp_is_pointer(f, &current))
		return false; /* unknown layout: it cannot be released */
	bool same = head_of(sdk, &current) == head_of(sdk, context);

	sp_otelcpp_release(f, &current);
	return same;
}

bool sp_otelcpp_current_span(struct sp_otelcpp *sdk, void *storage, uint8_t span_id[8])
{
	struct sp_otelcpp_object context;
	struct sp_otelcpp_ids ids;

	memset(span_id, 0, 8);
	if (storage == NULL || atomic_load_explicit(&sdk->scopes_foreign, memory_order_relaxed))
		return false;
	get_current(storage, &context);
	if (sp_otelcpp_context_understood(sdk, &context) &&
	    sp_otelcpp_context_span(sdk, &context, &ids))
		memcpy(span_id, ids.span_id, 8);
	sp_otelcpp_release(sp_otelcpp_flavour_of(sdk), &context);
	return true;
}

static __attribute__((noinline, cold)) void disprove_options(struct sp_otelcpp *sdk)
{
	atomic_store_explicit(&sdk->options, SP_OTELCPP_REJECTED, memory_order_relaxed);
	sp_sdk_disproved(sdk->names->sdk, SP_SDK_FACT_PARENT);
}

/* A span has the trace id of its parent. If that fits, the SDK found the same parent as we did. */
static bool is_parent(struct sp_otelcpp *sdk, const void *parent_trace,
		      const struct sp_otelcpp_ids *ids)
{
	if (atomic_load_explicit(&sdk->options, memory_order_relaxed) == SP_OTELCPP_KNOWN)
		return true;
	if (memcmp(parent_trace, ids->trace_id, sizeof(ids->trace_id)) != 0) {
		disprove_options(sdk);
		return false;
	}
	atomic_store_explicit(&sdk->options, SP_OTELCPP_KNOWN, memory_order_relaxed);
	return true;
}

/* A context given in the options: its list can be trusted only if this is a context at all. */
static __attribute__((noinline, cold)) bool look_at_options(struct sp_otelcpp *sdk,
							    const void *context)
{
	if (!sp_otelcpp_context_fits(sdk, context)) {
		disprove_options(sdk);
		return false;
	}
	if (find_node(sdk, context, SP_OTELCPP_KEY_SPAN) != NULL ||
	    find_node(sdk, context, SP_OTELCPP_KEY_IS_ROOT) != NULL || looked_enough(sdk))
		atomic_store_explicit(&sdk->options, SP_OTELCPP_KNOWN, memory_order_relaxed);
	return true;
}

enum given { GIVEN_NONE, GIVEN_PARENT, GIVEN_ROOT, GIVEN_UNKNOWN };

/* A span context given in the options. */
static enum given given_ids(struct sp_otelcpp *sdk, const uint8_t *parent,
			    const struct sp_otelcpp_ids *ids, uint8_t parent_id[8])
{
	const uint8_t *id = parent + SP_OTELCPP_CONTEXT_SPAN_ID;

	if (all_zero(id, 8) || all_zero(parent, 16))
		return GIVEN_NONE;
	if (!is_parent(sdk, parent, ids))
		return GIVEN_UNKNOWN;
	memcpy(parent_id, id, 8);
	return GIVEN_PARENT;
}

static enum given given_context(struct sp_otelcpp *sdk, const void *context,
				const struct sp_otelcpp_ids *ids, uint8_t parent_id[8])
{
	struct sp_otelcpp_ids parent;

	if (head_of(sdk, context) == NULL)
		return GIVEN_NONE;
	if (atomic_load_explicit(&sdk->options, memory_order_relaxed) != SP_OTELCPP_KNOWN &&
	    !look_at_options(sdk, context))
		return GIVEN_UNKNOWN;
	if (!sp_otelcpp_context_understood(sdk, context))
		return GIVEN_UNKNOWN;
	if (!sp_otelcpp_context_span(sdk, context, &parent))
		return context_says_root(sdk, context) ? GIVEN_ROOT : GIVEN_NONE;
	if (!is_parent(sdk, parent.trace_id, ids))
		return GIVEN_UNKNOWN;
	memcpy(parent_id, parent.span_id, 8);
	return GIVEN_PARENT;
}

static enum given given(struct sp_otelcpp *sdk, const void *options,
			const struct sp_otelcpp_ids *ids, uint8_t parent_id[8])
{
	const void *field = sp_otelcpp_at(options, SP_OTELCPP_OPTIONS_PARENT);

	if (atomic_load_explicit(&sdk->options, memory_order_relaxed) == SP_OTELCPP_REJECTED)
		return GIVEN_UNKNOWN;
	switch (sp_otelcpp_byte(options, sp_otelcpp_flavour_of(sdk)->parent_index)) {
	case SP_OTELCPP_PARENT_IS_SPAN_CONTEXT:
		return given_ids(sdk, field, ids, parent_id);
	case SP_OTELCPP_PARENT_IS_CONTEXT:
		return given_context(sdk, field, ids, parent_id);
	default:
		disprove_options(sdk);
		return GIVEN_UNKNOWN;
	}
}

/* Of the span that was last started on this thread: the half of the trace that every generator varies. */
static SP_TLS uint64_t last_trace;

/*
 * A compiler that sees the whole program (clang's -fwhole-program-vtables) knows that there is one
 * class of storages, and calls it directly and not through the slots that we watch. What gives it
 * away: nobody named a parent and no scope was ever seen, and yet the span continues the trace of
 * the one before it on this thread, so it was in a scope that the SDK found that. An SDK with names
 * is no such program, and may have attached something before we first looked.
 */
static void look_for_scopes(struct sp_otelcpp *sdk, uint64_t trace)
{
	if (trace == last_trace && sdk->by_type &&
	    !atomic_load_explicit(&sdk->attached, memory_order_relaxed) &&
	    !sp_active_span_scopes_used() && sp_otelcpp_scopes_tell(sdk))
		sp_otelcpp_scope_give_up(sdk, SP_SDK_FACT_STORAGE);
}

bool sp_otelcpp_parent(struct sp_otelcpp *sdk, const void *options,
		       const struct sp_otelcpp_ids *ids, enum sp_otelcpp_current current,
		       uint8_t parent_id[8])
{
	enum given from;
	uint64_t trace;
	bool goes_on;

	memset(parent_id, 0, 8);
	from = given(sdk, options, ids, parent_id);
	memcpy(&trace, ids->trace_id + sizeof(ids->trace_id) - sizeof(trace), sizeof(trace));
	if (from == GIVEN_NONE)
		look_for_scopes(sdk, trace);
	goes_on = trace == last_trace;
	last_trace = trace;
	switch (from) {
	case GIVEN_UNKNOWN:
		return false;
	case GIVEN_NONE:
		if (current == SP_OTELCPP_CURRENT_SEEN &&
		    sp_active_span_tells_parent(goes_on ? ids->trace_id : NULL))
			return false;
		return current == SP_OTELCPP_CURRENT_NONE ||
		       sp_otelcpp_current_span(sdk, sp_otelcpp_storage(sdk), parent_id);
	case GIVEN_PARENT:
	case GIVEN_ROOT:
		break;
	}
	return true;
}
