/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the assumed layout of opentelemetry-cpp's objects against real objects
 * (adapter_otelcpp_proof.h). APP context.
 */
#include "preload/sdk/otelcpp/adapter_otelcpp_proof.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "preload/elf/elf_walk.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_call.h"
#include "sampler/base/readable_sig.h"

/* Longer keys are possible, but unheard of. */
#define KEY_LEN_MAX 65536U
#define FILLING 0xa5
#define OTHER_FILLING 0x5a

static bool mapped(const void *p)
{
	return sp_readable((uintptr_t)p);
}

bool sp_otelcpp_readable(const void *p)
{
	return p != NULL && (uintptr_t)p % sizeof(void *) == 0 && mapped(p);
}

static bool in_object(const void *address)
{
	return sp_elf_object_at(address).size != 0;
}

/* A vtable lies in a loaded object and contains functions of loaded objects. */
static bool is_vtable(const void *vptr, unsigned slot)
{
	const void *function = sp_otelcpp_at(vptr, slot * sizeof(void *));

	return sp_otelcpp_readable(vptr) && in_object(vptr) && mapped(function) &&
	       in_object(sp_otelcpp_member(function, 0));
}

/* The object, somewhere in memory, is of a class of a loaded object, so it has a vtable. */
static bool has_class(const void *object)
{
	return sp_otelcpp_readable(object) && in_object(sp_otelcpp_member(object, 0));
}

bool sp_otelcpp_is_own_span(const struct sp_otelcpp *sdk, const void *span)
{
	return sp_otelcpp_readable(span) && sp_otelcpp_member(span, 0) == sdk->span_vptr;
}

/* libstdc++ counts from 1 in both counters; other libraries do not have two of them there. */
static bool is_control(const void *control)
{
	const _Atomic int *uses = sp_otelcpp_at(control, SP_OTELCPP_CONTROL_USES);
	const _Atomic int *weak = sp_otelcpp_at(control, SP_OTELCPP_CONTROL_WEAK);

	return sp_otelcpp_readable(control) && mapped(uses) &&
	       is_vtable(sp_otelcpp_member(control, 0), SP_OTELCPP_CONTROL_SLOT_DESTROY) &&
	       atomic_load_explicit(uses, memory_order_relaxed) > 0 &&
	       atomic_load_explicit(weak, memory_order_relaxed) > 0;
}

bool sp_otelcpp_is_pointer(const struct sp_otelcpp_flavour *f, const void *pointer)
{
	const void *pointee = sp_otelcpp_member(pointer, f->pointee);
	const void *control = sp_otelcpp_member(pointer, SP_OTELCPP_STD_CONTROL);

	if (f->pointee != 0)
		return is_vtable(sp_otelcpp_member(pointer, 0), SP_OTELCPP_SLOT_D1);
	return control != NULL ? is_control(control) : pointee == NULL;
}

/*
 * First word: nostd a vptr, std the span. Second word: nostd the span, std a control block, which
 * begins with a vptr as well. A smart pointer to nothing is possible, too.
 */
bool sp_otelcpp_is_result(const void *result)
{
	const void *first = sp_otelcpp_member(result, 0);
	const void *second = sp_otelcpp_member(result, sizeof(void *));

	if (first == NULL || (second == NULL && in_object(first)))
		return true;
	return has_class(second) && (in_object(first) || has_class(first));
}

/*
 * Calls GetContext() twice, into memory with different fillings: what belongs to the result is
 * equal, and what lies behind its end keeps the filling.
 */
bool sp_otelcpp_ids_fit(struct sp_otelcpp *sdk, const struct sp_otelcpp_flavour *f, void *span)
{
	unsigned slot = sdk->names->slot_end + SP_OTELCPP_SLOT_GET_CONTEXT_AFTER_END;
	void *(*get_context)(void *, void *) =
		sp_otelcpp_member(sp_otelcpp_member(span, 0), slot * sizeof(void *));
	struct sp_otelcpp_object context;
	struct sp_otelcpp_object again;
	bool fit = true;

	memset(&context, FILLING, sizeof(context));
	memset(&again, OTHER_FILLING, sizeof(again));
	SP_OTELCPP_CALL(get_context, &context, span);
	SP_OTELCPP_CALL(get_context, &again, span);
	for (size_t i = f->span_context; i < sizeof(context.bytes); i++)
		fit = fit && context.bytes[i] == FILLING && again.bytes[i] == OTHER_FILLING;
	if (!fit || memcmp(&context, &again, SP_OTELCPP_CONTEXT_REMOTE + 1) != 0 ||
	    context.bytes[SP_OTELCPP_CONTEXT_REMOTE] > 1 ||
	    !sp_otelcpp_is_pointer(f, context.bytes + SP_OTELCPP_CONTEXT_STATE))
		return false; /* unknown layout: it cannot be released */
	sp_otelcpp_release(f, context.bytes + SP_OTELCPP_CONTEXT_STATE);
	sp_otelcpp_release(f, again.bytes + SP_OTELCPP_CONTEXT_STATE);
	return true;
}

/* Whether it is a node of a context's list. */
static bool node_fits(const struct sp_otelcpp_flavour *f, const void *node)
{
	const char *key;
	size_t len;

	for (unsigned i = 0; i <= f->node_index; i += sizeof(void *)) {
		if (!sp_otelcpp_readable(sp_otelcpp_at(node, i)))
			return false;
	}
	key = sp_otelcpp_member(node, SP_OTELCPP_NODE_KEY);
	len = (size_t)(uintptr_t)sp_otelcpp_member(node, f->node_key_len);
	if (len == 0 || len > KEY_LEN_MAX || !mapped(key) || !mapped(key + len - 1) ||
	    *(const uint8_t *)sp_otelcpp_at(node, f->node_index) >= SP_OTELCPP_VALUES_MAX ||
	    !sp_otelcpp_is_pointer(f, sp_otelcpp_at(node, f->node_next)))
		return false;
	if (len != strlen(SP_OTELCPP_KEY_SPAN) || memcmp(key, SP_OTELCPP_KEY_SPAN, len) != 0)
		return true;
	return *(const uint8_t *)sp_otelcpp_at(node, f->node_index) == SP_OTELCPP_VALUE_IS_SPAN &&
	       sp_otelcpp_is_pointer(f, sp_otelcpp_at(node, f->node_value));
}

bool sp_otelcpp_context_fits(struct sp_otelcpp *sdk, const void *context)
{
	const struct sp_otelcpp_flavour *f = sp_otelcpp_flavour_of(sdk);
	const void *node;

	if (!sp_otelcpp_is_pointer(f, context))
		return false;
	node = sp_otelcpp_member(context, f->pointee);
	for (unsigned n = 0; node != NULL && n < SP_OTELCPP_NODES_MAX; n++) {
		if (!node_fits(f, node))
			return false;
		node = sp_otelcpp_member(node, (unsigned long)f->node_next + f->pointee);
	}
	return true;
}
