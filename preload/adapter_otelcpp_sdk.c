/* SPDX-License-Identifier: Apache-2.0 */
/* Reading opentelemetry-cpp's objects by their layout (otelcpp_abi.h). APP context. */
#include "preload/adapter_otelcpp_sdk.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>

#include "preload/adapter_otelcpp_call.h"
#include "preload/elf_walk.h"
#include "preload/got.h"
#include "preload/resolve.h"
#include "sampler/arch_sig.h"
#include "sampler/compiler.h"

/* A context holds a handful of values; bounds the walk. */
#define NODES_MAX 64U

static const struct sp_otelcpp_flavour nostd = SP_OTELCPP_FLAVOUR_NOSTD;
static const struct sp_otelcpp_flavour std = SP_OTELCPP_FLAVOUR_STD;

static const void *at(const void *object, unsigned long offset)
{
	return (const char *)object + offset;
}

static uint8_t byte(const void *object, unsigned long offset)
{
	return *(const uint8_t *)at(object, offset);
}

/* The virtual function in that slot of the object's class. */
static void *method(const void *object, unsigned slot)
{
	return sp_otelcpp_member(sp_otelcpp_member(object, 0), slot * sizeof(void *));
}

static const struct sp_otelcpp_flavour *flavour_of(struct sp_otelcpp *sdk)
{
	return atomic_load_explicit(&sdk->flavour, memory_order_relaxed);
}

void *sp_otelcpp_find_real(struct sp_otelcpp *sdk, enum sp_otelcpp_real which)
{
	void *p = sp_otelcpp_find(sdk, sdk->names->real[which]);

	atomic_store_explicit(&sdk->real[which], p, memory_order_relaxed);
	return p;
}

/* The vtable's slot leads to that function, by way of our hook or directly. */
static bool slot_is(struct sp_otelcpp *sdk, const void *vptr, unsigned slot,
		    enum sp_otelcpp_real which)
{
	const void *p = sp_otelcpp_member(vptr, slot * sizeof(void *));

	return p != NULL && (p == sdk->hook[which] || p == sp_otelcpp_real(sdk, which));
}

/*
 * One object defines the vtable and the functions, they are the ones that we forward to, and they
 * lie in the slots where the layout that we know has them.
 */
static bool layout_fits(struct sp_otelcpp *sdk)
{
	const struct sp_otelcpp_names *n = sdk->names;
	const char *const together[] = {n->real[SP_OTELCPP_REAL_END], n->real[SP_OTELCPP_REAL_D1],
					n->real[SP_OTELCPP_REAL_D0], NULL};
	bool found = atomic_load_explicit(&sdk->found, memory_order_acquire);
	const void *vtable = found ? sp_otelcpp_find(sdk, n->span_vtable)
				   : sp_elf_find(n->span_vtable, together);

	if (vtable == NULL || !sp_elf_belongs(n->span_vtable, vtable, together))
		return false;
	sdk->span_vptr = at(vtable, SP_OTELCPP_VTABLE_HEAD * sizeof(void *));
	return slot_is(sdk, sdk->span_vptr, SP_OTELCPP_SLOT_D1, SP_OTELCPP_REAL_D1) &&
	       slot_is(sdk, sdk->span_vptr, SP_OTELCPP_SLOT_D0, SP_OTELCPP_REAL_D0) &&
	       slot_is(sdk, sdk->span_vptr, n->slot_end, SP_OTELCPP_REAL_END);
}

/*
 * A variable of an inline function: each object that was built with the headers defines it, a plugin
 * as well as the library it brings, and the loader chose one of them.
 */
static const void *find_storage(const struct sp_otelcpp *sdk)
{
	const void *storage = sdk->linked_storage;

	if (storage == NULL && atomic_load_explicit(&sdk->found, memory_order_acquire))
		storage = sp_got_reference(&sdk->object, sdk->names->storage);
	return storage != NULL ? storage : sp_otelcpp_find(sdk, sdk->names->storage);
}

bool sp_otelcpp_decide(struct sp_otelcpp *sdk)
{
	/* Two threads may both try; they find and store the same. */
	int state = layout_fits(sdk) ? SP_OTELCPP_KNOWN : SP_OTELCPP_REJECTED;

	sdk->storage = find_storage(sdk);
	/* pairs with sp_otelcpp_known() */
	atomic_store_explicit(&sdk->state, state, memory_order_release);
	return state == SP_OTELCPP_KNOWN;
}

static bool own_span(const struct sp_otelcpp *sdk, const void *span)
{
	return span != NULL && sp_otelcpp_member(span, 0) == sdk->span_vptr;
}

/*
 * First word: nostd a vptr, std the span. Second word: nostd the span, std a control block, which
 * begins with a vptr. So both may be read through, and only one is a span.
 */
void *sp_otelcpp_first_returned(struct sp_otelcpp *sdk, const void *pointer)
{
	const struct sp_otelcpp_flavour *f = &std;
	void *span = sp_otelcpp_member(pointer, f->pointee);

	if (span == NULL)
		return NULL;
	if (!own_span(sdk, span)) {
		f = &nostd;
		span = sp_otelcpp_member(pointer, f->pointee);
		if (!own_span(sdk, span))
			return NULL;
	}
	atomic_store_explicit(&sdk->flavour, f, memory_order_relaxed);
	return span;
}

void *sp_otelcpp_pointee(struct sp_otelcpp *sdk, const void *pointer)
{
	return sp_otelcpp_member(pointer, flavour_of(sdk)->pointee);
}

bool sp_otelcpp_is_recording(const struct sp_otelcpp *sdk, void *span)
{
	bool (*is_recording)(void *) =
		method(span, sdk->names->slot_end + SP_OTELCPP_SLOT_IS_RECORDING_AFTER_END);

	return is_recording(span);
}

/* What the destructor of libstdc++'s shared_ptr does. */
static void release_std(void *pointer)
{
	char *control = sp_otelcpp_member(pointer, SP_OTELCPP_STD_CONTROL);
	void (*dispose)(void *);
	void (*destroy)(void *);

	if (control == NULL)
		return;
	_Atomic int *uses = (void *)(control + SP_OTELCPP_CONTROL_USES);
	_Atomic int *weak = (void *)(control + SP_OTELCPP_CONTROL_WEAK);

	if (atomic_fetch_sub_explicit(uses, 1, memory_order_acq_rel) != 1)
		return;
	dispose = method(control, SP_OTELCPP_CONTROL_SLOT_DISPOSE);
	dispose(control);
	if (atomic_fetch_sub_explicit(weak, 1, memory_order_acq_rel) != 1)
		return;
	destroy = method(control, SP_OTELCPP_CONTROL_SLOT_DESTROY);
	destroy(control);
}

/* Destroys a smart pointer that the SDK gave us. */
static void release(struct sp_otelcpp *sdk, void *pointer)
{
	void (*destructor)(void *);

	if (flavour_of(sdk) == &std) {
		release_std(pointer);
		return;
	}
	destructor = method(pointer, SP_OTELCPP_SLOT_D1);
	destructor(pointer);
}

void sp_otelcpp_ids(struct sp_otelcpp *sdk, void *span, struct sp_otelcpp_ids *out)
{
	void *(*get_context)(void *, void *) =
		method(span, sdk->names->slot_end + SP_OTELCPP_SLOT_GET_CONTEXT_AFTER_END);
	struct sp_otelcpp_object context;

	SP_OTELCPP_CALL(get_context, &context, span);
	memcpy(out->trace_id, context.bytes, sizeof(out->trace_id));
	memcpy(out->span_id, context.bytes + SP_OTELCPP_CONTEXT_SPAN_ID, sizeof(out->span_id));
	out->flags = context.bytes[SP_OTELCPP_CONTEXT_FLAGS];
	release(sdk, context.bytes + SP_OTELCPP_CONTEXT_STATE);
}

/* Eight readable bytes: the kernel reads a mask before it refuses an unknown operation on it. */
static bool readable(const void *p)
{
	return sp_arch_syscall(SYS_rt_sigprocmask, -1, (long)p, 0, 8) == -EINVAL;
}

/* The class keeps a pointer to its context there: this span's one leads to this span's ids. */
static bool context_is_own(const void *span, const struct sp_otelcpp_ids *ids)
{
	const void *context = sp_otelcpp_member(span, SP_OTELCPP_SPAN_CONTEXT);

	return (uintptr_t)context % sizeof(void *) == 0 && readable(context) &&
	       readable(at(context, SP_OTELCPP_CONTEXT_FLAGS)) &&
	       memcmp(context, ids->trace_id, sizeof(ids->trace_id)) == 0 &&
	       memcmp(at(context, SP_OTELCPP_CONTEXT_SPAN_ID), ids->span_id,
		      sizeof(ids->span_id)) == 0 &&
	       byte(context, SP_OTELCPP_CONTEXT_FLAGS) == ids->flags;
}

void sp_otelcpp_own_ids(struct sp_otelcpp *sdk, void *span, struct sp_otelcpp_ids *out)
{
	int state = atomic_load_explicit(&sdk->own_context, memory_order_relaxed);
	const void *context;

	if (state != SP_OTELCPP_KNOWN) {
		sp_otelcpp_ids(sdk, span, out);
		if (state == SP_OTELCPP_UNTRIED)
			atomic_store_explicit(&sdk->own_context,
					      context_is_own(span, out) ? SP_OTELCPP_KNOWN
									: SP_OTELCPP_REJECTED,
					      memory_order_relaxed);
		return;
	}
	context = sp_otelcpp_member(span, SP_OTELCPP_SPAN_CONTEXT);
	memcpy(out->trace_id, context, sizeof(out->trace_id));
	memcpy(out->span_id, at(context, SP_OTELCPP_CONTEXT_SPAN_ID), sizeof(out->span_id));
	out->flags = byte(context, SP_OTELCPP_CONTEXT_FLAGS);
}

static void set_attribute(void *span, const char *key, const struct sp_otelcpp_attribute *value)
{
	void (*set)(void *, size_t, const char *, const void *) =
		method(span, SP_OTELCPP_SLOT_SET_ATTRIBUTE);

	set(span, strlen(key), key, value);
}

static void set_string(void *span, const char *key, const char *value)
{
	set_attribute(span, key,
		      &(struct sp_otelcpp_attribute){.value.string = value,
						     .index = SP_OTELCPP_ATTRIBUTE_IS_STRING});
}

static void set_integer(void *span, const char *key, int64_t value)
{
	set_attribute(span, key,
		      &(struct sp_otelcpp_attribute){.value.integer = value,
						     .index = SP_OTELCPP_ATTRIBUTE_IS_INT64});
}

const struct sp_span_attr_set sp_otelcpp_set = {.string = set_string, .integer = set_integer};

static const void *head_of(struct sp_otelcpp *sdk, const void *context)
{
	return sp_otelcpp_member(context, flavour_of(sdk)->pointee);
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
	const struct sp_otelcpp_flavour *f = flavour_of(sdk);
	const void *node = head_of(sdk, context);
	const size_t len = strlen(key);

	for (unsigned n = 0; node != NULL && n < NODES_MAX; n++) {
		if ((size_t)(uintptr_t)sp_otelcpp_member(node, f->node_key_len) == len &&
		    memcmp(sp_otelcpp_member(node, SP_OTELCPP_NODE_KEY), key, len) == 0)
			return node;
		node = sp_otelcpp_member(node, (unsigned long)f->node_next + f->pointee);
	}
	return NULL;
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

bool sp_otelcpp_context_span(struct sp_otelcpp *sdk, const void *context, uint8_t span_id[8])
{
	const struct sp_otelcpp_flavour *f = flavour_of(sdk);
	const void *node = find_node(sdk, context, SP_OTELCPP_KEY_SPAN);
	struct sp_otelcpp_ids ids;
	void *span;

	if (node == NULL || byte(node, f->node_index) != SP_OTELCPP_VALUE_IS_SPAN)
		return false;
	span = sp_otelcpp_member(node, (unsigned long)f->node_value + f->pointee);
	if (span == NULL)
		return false;
	/* also a remote parent is a span, of another class with the same interface */
	if (own_span(sdk, span))
		sp_otelcpp_own_ids(sdk, span, &ids);
	else
		sp_otelcpp_ids(sdk, span, &ids);
	memcpy(span_id, ids.span_id, sizeof(ids.span_id));
	return !all_zero(ids.span_id, sizeof(ids.span_id)) &&
	       !all_zero(ids.trace_id, sizeof(ids.trace_id));
}

static bool context_says_root(struct sp_otelcpp *sdk, const void *context)
{
	const struct sp_otelcpp_flavour *f = flavour_of(sdk);
	const void *node = find_node(sdk, context, SP_OTELCPP_KEY_IS_ROOT);

	return node != NULL && byte(node, f->node_index) == SP_OTELCPP_VALUE_IS_BOOL &&
	       byte(node, f->node_value) != 0;
}

/* The span that is current on the calling thread; zero if there is none. */
static bool current_span(struct sp_otelcpp *sdk, uint8_t span_id[8])
{
	void *storage = sp_otelcpp_storage(sdk);
	struct sp_otelcpp_object context;
	void *(*get_current)(void *, void *);

	if (storage == NULL)
		return false;
	get_current = method(storage, SP_OTELCPP_SLOT_GET_CURRENT);
	SP_OTELCPP_CALL(get_current, &context, storage);
	if (!sp_otelcpp_context_span(sdk, &context, span_id))
		memset(span_id, 0, 8);
	release(sdk, &context);
	return true;
}

bool sp_otelcpp_parent(struct sp_otelcpp *sdk, const void *options, bool nothing_current,
		       uint8_t parent_id[8])
{
	const void *parent = at(options, SP_OTELCPP_OPTIONS_PARENT);

	memset(parent_id, 0, 8);
	switch (byte(options, flavour_of(sdk)->parent_index)) {
	case SP_OTELCPP_PARENT_IS_SPAN_CONTEXT:
		memcpy(parent_id, at(parent, SP_OTELCPP_CONTEXT_SPAN_ID), 8);
		if (!all_zero(parent_id, 8) && !all_zero(parent, 16))
			return true;
		memset(parent_id, 0, 8);
		break;
	case SP_OTELCPP_PARENT_IS_CONTEXT:
		if (sp_otelcpp_context_span(sdk, parent, parent_id))
			return true;
		memset(parent_id, 0, 8);
		if (context_says_root(sdk, parent))
			return true;
		break;
	default:
		return false;
	}
	return nothing_current || current_span(sdk, parent_id);
}
