/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instances of opentelemetry-cpp in one process: each plugin may bring its own, and a span of
 * one must not be given to the functions of another. Every tracer and span begins with the address
 * of its class's vtable, which lies in the object of the instance that made it, so the instance is
 * found by that address. APP context.
 */
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "preload/elf/elf_walk.h"
#include "preload/elf/resolve.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_sdk.h"
#include "preload/sdk/otelcpp/adapter_otelcpp_types.h"
#include "sampler/base/try_lock.h"

/* More than the first one; includes those that are unloaded and still referred to. */
#define INSTANCES_MAX 32U

static struct sp_otelcpp instances[INSTANCES_MAX];
static atomic_flag busy = ATOMIC_FLAG_INIT;

void *sp_otelcpp_find(const struct sp_otelcpp *sdk, const char *name)
{
	void *p = NULL;

	/* others may have the name, but they are not this one */
	if (sdk->by_type)
		return NULL;
	/* pairs with take() */
	if (atomic_load_explicit(&sdk->found, memory_order_acquire))
		p = sp_elf_find_in(&sdk->object, name);
	/* an instance may be spread over several objects */
	return p != NULL ? p : sp_resolve(name);
}

static bool has_type(const struct sp_otelcpp *sdk, const void *vptr)
{
	for (unsigned i = 0; i < SP_OTELCPP_TYPE_N; i++) {
		if (sdk->type[i] == vptr)
			return true;
	}
	return false;
}

static bool is_of(struct sp_otelcpp *sdk, const void *vptr)
{
	return atomic_load_explicit(&sdk->found, memory_order_acquire) &&
	       (sdk->by_type ? has_type(sdk, vptr) : sp_elf_within(&sdk->object, vptr)) &&
	       sp_elf_alive(&sdk->object);
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

/* Under the lock: from now on nothing is known about it, and no call leads to it. */
static void reset(struct sp_otelcpp *sdk, const struct sp_otelcpp *first)
{
	atomic_store_explicit(&sdk->found, false, memory_order_seq_cst);
	for (unsigned i = 0; i < SP_OTELCPP_REAL_N; i++) {
		sdk->hook[i] = first->hook[i];
		atomic_store_explicit(&sdk->real[i], NULL, memory_order_relaxed);
	}
	sdk->names = first->names;
	sdk->by_type = false;
	memset(sdk->type, 0, sizeof(sdk->type));
	memset(sdk->storage_type, 0, sizeof(sdk->storage_type));
	sp_otelcpp_set_storage(sdk, NULL);
	sdk->span_vptr = NULL;
	atomic_store_explicit(&sdk->flavour, NULL, memory_order_relaxed);
	atomic_store_explicit(&sdk->state, SP_OTELCPP_UNTRIED, memory_order_relaxed);
	atomic_store_explicit(&sdk->own_context, SP_OTELCPP_PLACE_UNTRIED, memory_order_relaxed);
	atomic_store_explicit(&sdk->contexts, SP_OTELCPP_UNTRIED, memory_order_relaxed);
	atomic_store_explicit(&sdk->options, SP_OTELCPP_UNTRIED, memory_order_relaxed);
	atomic_store_explicit(&sdk->looks, 0, memory_order_relaxed);
	atomic_store_explicit(&sdk->expects, false, memory_order_relaxed);
	atomic_store_explicit(&sdk->attached, false, memory_order_relaxed);
	atomic_store_explicit(&sdk->attributes_watched, false, memory_order_relaxed);
	atomic_store_explicit(&sdk->scopes_foreign, false, memory_order_relaxed);
}

/* Under the lock: stands for that object from now on. */
static void take(struct sp_otelcpp *sdk, const struct sp_elf_range *object)
{
	sdk->object = *object;
	atomic_store_explicit(&sdk->found, true, memory_order_release);
}

/* Under the lock. NULL if more instances are alive than there is room for. */
static struct sp_otelcpp *place(struct sp_otelcpp *first, const void *vptr)
{
	if (is_of(first, vptr) || is_free(first))
		return first;
	for (unsigned i = 0; i < INSTANCES_MAX; i++) {
		if (instances[i].names == first->names && is_of(&instances[i], vptr))
			return &instances[i];
	}
	for (unsigned i = 0; i < INSTANCES_MAX; i++) {
		if (is_free(&instances[i]))
			return &instances[i];
	}
	return NULL;
}

/* The instance in whose object the address lies; the first one if there is none to be had. */
static struct sp_otelcpp *claim(struct sp_otelcpp *first, const void *address,
				const struct sp_elf_range *object)
{
	struct sp_otelcpp *sdk = NULL;

	if (sp_try_lock(&busy)) {
		sdk = place(first, address);
		if (sdk != NULL && !is_of(sdk, address)) {
			reset(sdk, first);
			take(sdk, object);
		}
		sp_unlock(&busy);
	}
	return sdk != NULL ? sdk : first;
}

static bool is_again(const struct sp_otelcpp *sdk, const struct sp_otelcpp *first,
		     const struct sp_elf_range *object, const void *const *const *type)
{
	return sdk->by_type && sdk->names == first->names && sdk->object.start == object->start &&
	       sdk->object.print == object->print &&
	       memcmp(sdk->type, type, sizeof(sdk->type)) == 0;
}

/* Under the lock. */
static struct sp_otelcpp *place_for_types(const struct sp_otelcpp *first,
					  const struct sp_elf_range *object,
					  const void *const *const *type)
{
	for (unsigned i = 0; i < INSTANCES_MAX; i++) {
		if (is_again(&instances[i], first, object, type))
			return &instances[i];
	}
	for (unsigned i = 0; i < INSTANCES_MAX; i++) {
		if (is_free(&instances[i]))
			return &instances[i];
	}
	return NULL;
}

/* Never the first one: that is what stands for calls of which nothing is known. */
struct sp_otelcpp *sp_otelcpp_instance_add(const struct sp_otelcpp *first,
					   const struct sp_elf_range *object,
					   const void *const *const type[SP_OTELCPP_TYPE_N])
{
	struct sp_otelcpp *sdk;

	if (!sp_try_lock(&busy))
		return NULL;
	sdk = place_for_types(first, object, type);
	if (sdk != NULL) {
		reset(sdk, first);
		sdk->by_type = true;
		memcpy(sdk->type, type, sizeof(sdk->type));
		sp_otelcpp_types_read(sdk);
		take(sdk, object);
	}
	sp_unlock(&busy);
	return sdk;
}

/*
 * An executable that is not position-independent has a copy of a vtable in itself (a copy
 * relocation). Objects with that vtable belong to the instance whose functions the loader finds
 * first.
 */
static struct sp_otelcpp *find(struct sp_otelcpp *first, const void *vptr)
{
	const char *end = first->names->real[SP_OTELCPP_REAL_END];
	struct sp_elf_range object = sp_elf_object_at(vptr);
	bool permanent = object.permanent;
	struct sp_otelcpp *sdk;
	const void *owner;

	if (sp_elf_find_in(&object, end) != NULL)
		return claim(first, vptr, &object);
	owner = sp_elf_find(end, NULL);
	if (owner == NULL)
		return first;
	object = sp_elf_object_at(owner);
	sdk = claim(first, owner, &object);
	if (sdk == first && permanent && object.permanent)
		atomic_store_explicit(&first->elsewhere, vptr, memory_order_relaxed);
	return sdk;
}

/*
 * Checks again under the lock, because the entry may become another object's between the check and
 * the store.
 */
static void remember(struct sp_otelcpp *sdk, enum sp_otelcpp_class class, const void *vptr)
{
	if (!sp_try_lock(&busy))
		return;
	if (is_of(sdk, vptr) && sdk->object.permanent)
		atomic_store_explicit(&sdk->vptr[class], vptr, memory_order_relaxed);
	sp_unlock(&busy);
}

struct sp_otelcpp *sp_otelcpp_instance_of(struct sp_otelcpp *first, enum sp_otelcpp_class class,
					  const void *vptr)
{
	if (is_of(first, vptr)) {
		if (first->object.permanent &&
		    atomic_load_explicit(&first->vptr[class], memory_order_relaxed) == NULL)
			remember(first, class, vptr);
		return first;
	}
	if (vptr == atomic_load_explicit(&first->elsewhere, memory_order_relaxed))
		return first;
	for (unsigned i = 0; i < INSTANCES_MAX; i++) {
		if (instances[i].names == first->names && is_of(&instances[i], vptr))
			return &instances[i];
	}
	return find(first, vptr);
}
