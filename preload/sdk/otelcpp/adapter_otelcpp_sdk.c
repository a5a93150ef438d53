/* SPDX-License-Identifier: Apache-2.0 */
/* Reading opentelemetry-cpp's objects by their layout (otelcpp_abi.h). APP context. */
#include "preload/sdk/otelcpp/adapter_otelcpp_sdk.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "preload/sdk/otelcpp/adapter_otelcpp_attr.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_call.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_proof.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_resource.h"

/* The result of so many starts is examined, as long as none was a span of the SDK's own class. */
#define LOOKS_MAX 16U

static const struct sp_otelcpp_flavour nostd = SP_OTELCPP_FLAVOUR_NOSTD;
static const struct sp_otelcpp_flavour std = SP_OTELCPP_FLAVOUR_STD;

/* The virtual function in that slot of the object's class. */
static void *method(const void *object, unsigned slot)
{
	return sp_otelcpp_member(sp_otelcpp_member(object, 0), slot * sizeof(void *));
}

/* We cannot read the spans of this instance: from now on its calls go straight through. */
static void reject(struct sp_otelcpp *sdk, enum sp_sdk_fact fact)
{
	atomic_store_explicit(&sdk->state, SP_OTELCPP_REJECTED, memory_order_relaxed);
	sp_sdk_disproved(sdk->names->sdk, fact);
}

/* While the kind of build is unknown: the span in that smart pointer, and the kind. */
static void *own_span_in(const struct sp_otelcpp *sdk, const void *pointer,
			 const struct sp_otelcpp_flavour **f)
{
	const struct sp_otelcpp_flavour *const kinds[] = {&std, &nostd};

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		void *span = sp_otelcpp_member(pointer, kinds[i]->pointee);

		*f = kinds[i];
		if (sp_otelcpp_is_own_span(sdk, span))
			return span;
	}
	return NULL;
}

/* Dropped spans are of other classes, but they are spans. */
static void look_at_other(struct sp_otelcpp *sdk, const void *pointer)
{
	if (atomic_load_explicit(&sdk->looks, memory_order_relaxed) >= LOOKS_MAX)
		return;
	atomic_fetch_add_explicit(&sdk->looks, 1, memory_order_relaxed);
	if (!sp_otelcpp_is_result(pointer))
		reject(sdk, SP_SDK_FACT_POINTER);
}

static void first_span(struct sp_otelcpp *sdk, const void *span)
{
	char release[SP_SDK_RELEASE_MAX];
	const struct sp_sdk_reached reached = {
		.way = sdk->by_type ? SP_SDK_WAY_TYPES : SP_SDK_WAY_NAMES,
		.address = sp_otelcpp_real(sdk, SP_OTELCPP_REAL_END),
		.release = release,
	};

	sp_otelcpp_resource_read(sdk, span, release);
	sp_sdk_reached(sdk->names->sdk, &reached);
}

void *sp_otelcpp_first_returned(struct sp_otelcpp *sdk, const void *pointer)
{
	const struct sp_otelcpp_flavour *f;
	void *span = own_span_in(sdk, pointer, &f);

	if (span == NULL) {
		look_at_other(sdk, pointer);
		return NULL;
	}
	if (!sp_otelcpp_is_pointer(f, pointer)) {
		reject(sdk, SP_SDK_FACT_POINTER);
		return NULL;
	}
	if (!sp_otelcpp_ids_fit(sdk, f, span)) {
		reject(sdk, SP_SDK_FACT_IDS);
		return NULL;
	}
	atomic_store_explicit(&sdk->looks, 0, memory_order_relaxed);
	/* two threads may both come here with their first spans */
	if (atomic_exchange_explicit(&sdk->flavour, f, memory_order_relaxed) == NULL)
		first_span(sdk, span);
	return span;
}

/*
 * The SDK's own answer takes the lock of the span, and is that there is a recordable. Where the
 * span's context was found in its place, so is the recordable, just before it.
 */
bool sp_otelcpp_is_recording(const struct sp_otelcpp *sdk, void *span)
{
	bool (*is_recording)(void *) =
		method(span, sdk->names->slot_end + SP_OTELCPP_SLOT_IS_RECORDING_AFTER_END);
	int place = atomic_load_explicit(&sdk->own_context, memory_order_relaxed);

	if ((place == SP_OTELCPP_PLACE_POINTER || place == SP_OTELCPP_PLACE_INLINE) &&
	    sp_otelcpp_member(span, SP_OTELCPP_SPAN_RECORDABLE) != NULL)
		return true;
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

void sp_otelcpp_release(const struct sp_otelcpp_flavour *f, void *pointer)
{
	void (*destructor)(void *);

	if (f == &std) {
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
	sp_otelcpp_release(sp_otelcpp_flavour_of(sdk), context.bytes + SP_OTELCPP_CONTEXT_STATE);
}

static bool has_ids(const void *context, const struct sp_otelcpp_ids *ids)
{
	return memcmp(context, ids->trace_id, sizeof(ids->trace_id)) == 0 &&
	       memcmp(sp_otelcpp_at(context, SP_OTELCPP_CONTEXT_SPAN_ID), ids->span_id,
		      sizeof(ids->span_id)) == 0 &&
	       sp_otelcpp_byte(context, SP_OTELCPP_CONTEXT_FLAGS) == ids->flags;
}

static bool leads_to(const void *context, const struct sp_otelcpp_ids *ids)
{
	return sp_otelcpp_readable(context) &&
	       sp_otelcpp_readable(sp_otelcpp_at(context, SP_OTELCPP_CONTEXT_FLAGS)) &&
	       has_ids(context, ids);
}

/*
 * The class keeps its context at that place, or a pointer to it: whichever leads to this span's
 * ids.
 */
static enum sp_otelcpp_place find_place(struct sp_otelcpp *sdk, const void *span,
					const struct sp_otelcpp_ids *ids)
{
	const void *there = sp_otelcpp_at(span, SP_OTELCPP_SPAN_CONTEXT);

	if (sp_otelcpp_readable(there) && leads_to(sp_otelcpp_member(there, 0), ids))
		return SP_OTELCPP_PLACE_POINTER;
	if (leads_to(there, ids))
		return SP_OTELCPP_PLACE_INLINE;
	sp_sdk_disproved(sdk->names->sdk, SP_SDK_FACT_SPAN);
	return SP_OTELCPP_PLACE_UNKNOWN;
}

__attribute__((cold)) void sp_otelcpp_ask_ids(struct sp_otelcpp *sdk, void *span, int place,
					      struct sp_otelcpp_ids *out)
{
	sp_otelcpp_ids(sdk, span, out);
	if (place == SP_OTELCPP_PLACE_UNTRIED)
		atomic_store_explicit(&sdk->own_context, find_place(sdk, span, out),
				      memory_order_relaxed);
}

__attribute__((cold)) bool sp_otelcpp_ask_span_id(struct sp_otelcpp *sdk, void *span, uint64_t *id)
{
	struct sp_otelcpp_ids ids;

	if (!sp_otelcpp_known(sdk) || sp_otelcpp_flavour_of(sdk) == NULL)
		return false;
	sp_otelcpp_own_ids(sdk, span, &ids);
	memcpy(id, ids.span_id, sizeof(*id));
	return true;
}

static void set_attribute(void *span, const char *key, const struct sp_otelcpp_attribute *value)
{
	/* not through the slot, where our replacement would take it for a call of the program */
	sp_otelcpp_attr_set(span, strlen(key), key, value);
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
