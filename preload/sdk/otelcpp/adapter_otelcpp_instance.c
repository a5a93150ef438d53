/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instances of opentelemetry-cpp in one process: each plugin may bring its own, and a span of
 * one must not be given to the functions of another. Every tracer and span begins with the address
 * of its class's vtable, which is the instance's own, so the instance is found by that address. APP
 * context.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "preload/elf/elf_walk.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_sdk.h"
#include "preload/sdk/span_attr.h"
#include "sampler/base/try_lock.h"

struct sp_otelcpp sp_otelcpp_instances[SP_OTELCPP_INSTANCES_MAX];
static struct sp_try_lock busy;

struct sp_otelcpp *sp_otelcpp_with(enum sp_otelcpp_type type, const void *vptr)
{
	/* whoever comes through a slot of ours sees what was stored before the slot */
	atomic_thread_fence(memory_order_acquire);
	for (unsigned i = 0; vptr != NULL && i < SP_OTELCPP_INSTANCES_MAX; i++) {
		struct sp_otelcpp *sdk = &sp_otelcpp_instances[i];

		if (atomic_load_explicit(&sdk->type[type], memory_order_acquire) == vptr)
			return sdk;
	}
	return NULL;
}

/*
 * An instance that other parts of ours refer to is never reused, whatever happened to its object.
 */
static bool is_free(struct sp_otelcpp *sdk)
{
	return !atomic_load_explicit(&sdk->held, memory_order_acquire) &&
	       (!atomic_load_explicit(&sdk->found, memory_order_acquire) ||
		!sp_elf_alive(&sdk->object));
}

/* Under the lock: no call leads to it. */
static void detach(struct sp_otelcpp *sdk)
{
	atomic_store_explicit(&sdk->found, false, memory_order_seq_cst);
	for (unsigned i = 0; i < SP_OTELCPP_TYPE_N; i++)
		atomic_store_explicit(&sdk->type[i], NULL, memory_order_relaxed);
}

/*
 * Under the lock: nothing is known about it any more. Only for one that no vtable refers to: whoever
 * comes through a vtable reads by what is known here.
 */
static void forget(struct sp_otelcpp *sdk)
{
	atomic_store_explicit(&sdk->flavour, NULL, memory_order_relaxed);
	atomic_store_explicit(&sdk->own_context, SP_OTELCPP_PLACE_UNTRIED, memory_order_relaxed);
	atomic_store_explicit(&sdk->contexts, SP_OTELCPP_UNTRIED, memory_order_relaxed);
	atomic_store_explicit(&sdk->options, SP_OTELCPP_UNTRIED, memory_order_relaxed);
	atomic_store_explicit(&sdk->looks, 0, memory_order_relaxed);
	atomic_store_explicit(&sdk->attached, false, memory_order_relaxed);
	atomic_store_explicit(&sdk->doubts, 0, memory_order_relaxed);
	atomic_store_explicit(&sdk->storage_vptr, NULL, memory_order_relaxed);
}

/* Under the lock: what had these classes before was unloaded, and its addresses are another's. */
static void leave_to(const struct sp_otelcpp *to)
{
	for (unsigned i = 0; i < SP_OTELCPP_INSTANCES_MAX * SP_OTELCPP_TYPE_N; i++) {
		struct sp_otelcpp *sdk = &sp_otelcpp_instances[i / SP_OTELCPP_TYPE_N];
		unsigned type = i % SP_OTELCPP_TYPE_N;

		if (sdk != to &&
		    atomic_load_explicit(&sdk->type[type], memory_order_relaxed) ==
			    atomic_load_explicit(&to->type[type], memory_order_relaxed))
			atomic_store_explicit(&sdk->type[type], NULL, memory_order_relaxed);
	}
}

/* Under the lock: stands for that instance from now on. */
static void take(struct sp_otelcpp *sdk, const struct sp_otelcpp_found *f)
{
	sdk->names = f->names;
	sdk->object = f->object;
	sdk->by_type = f->by_type;
	sdk->control_object = f->control_object;
	sdk->span_vptr = f->type[SP_OTELCPP_TYPE_SPAN];
	memcpy(sdk->storage_type, f->storage_type, sizeof(sdk->storage_type));
	sp_otelcpp_set_storage(sdk, f->storage);
	for (unsigned i = 0; i < SP_OTELCPP_REAL_N; i++)
		atomic_store_explicit(&sdk->real[i], f->real[i], memory_order_relaxed);
	/* the vtables of an object that was loaded again are as in the file */
	atomic_store_explicit(&sdk->expects, false, memory_order_relaxed);
	atomic_store_explicit(&sdk->attributes, SP_SPAN_ATTR_UNTRIED, memory_order_relaxed);
	atomic_store_explicit(&sdk->state, (int)f->state, memory_order_relaxed);
	for (unsigned i = 0; i < SP_OTELCPP_TYPE_N; i++)
		atomic_store_explicit(&sdk->type[i], f->type[i], memory_order_release);
	leave_to(sdk);
	atomic_store_explicit(&sdk->found, true, memory_order_release);
}

static bool is_again(const struct sp_otelcpp *sdk, const struct sp_otelcpp_found *f)
{
	return sdk->names == f->names && sdk->object.start == f->object.start &&
	       sdk->object.print == f->object.print &&
	       atomic_load_explicit(&sdk->type[SP_OTELCPP_TYPE_TRACER], memory_order_relaxed) ==
		       f->type[SP_OTELCPP_TYPE_TRACER];
}

/* Under the lock: of an instance whose spans are known only the start was found now. */
static bool is_less(const struct sp_otelcpp *sdk, const struct sp_otelcpp_found *f)
{
	return is_again(sdk, f) && f->type[SP_OTELCPP_TYPE_SPAN] == NULL &&
	       atomic_load_explicit(&sdk->type[SP_OTELCPP_TYPE_SPAN], memory_order_relaxed) != NULL;
}

/* Under the lock. NULL if more instances are alive than there is room for. */
static struct sp_otelcpp *place_for(const struct sp_otelcpp_found *f)
{
	for (unsigned i = 0; i < SP_OTELCPP_INSTANCES_MAX; i++) {
		if (is_again(&sp_otelcpp_instances[i], f))
			return &sp_otelcpp_instances[i];
	}
	for (unsigned i = 0; i < SP_OTELCPP_INSTANCES_MAX; i++) {
		if (is_free(&sp_otelcpp_instances[i]))
			return &sp_otelcpp_instances[i];
	}
	return NULL;
}

struct sp_otelcpp *sp_otelcpp_instance_add(const struct sp_otelcpp_found *found)
{
	struct sp_otelcpp *sdk;

	if (!sp_try_lock(&busy))
		return NULL;
	sdk = place_for(found);
	if (sdk != NULL && is_less(sdk, found)) {
		/*
		 * Something has put the tracer's slot back, and left others as we made them. Their
		 * calls go through what is known, so all of that stays.
		 */
		atomic_store_explicit(&sdk->state, (int)found->state, memory_order_relaxed);
	} else if (sdk != NULL) {
		/*
		 * An object that was loaded again at its place is laid out as before. A context
		 * storage that outlived it leads here still.
		 */
		if (!is_again(sdk, found))
			forget(sdk);
		detach(sdk);
		take(sdk, found);
	}
	sp_unlock(&busy);
	return sdk;
}
