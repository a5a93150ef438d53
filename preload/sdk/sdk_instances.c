/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the instances of an SDK apart (sdk_instances.h). APP context. */
#define _GNU_SOURCE
#include "preload/sdk/sdk_instances.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "preload/elf/hook_dl.h"
#include "sampler/base/try_lock.h"

#define TEXT_MAX 256U

static struct sp_try_lock busy;

static inline bool is_instance(struct sp_sdk_instance *instance)
{
	return atomic_load_explicit(&instance->used, memory_order_acquire) &&
	       sp_elf_alive(&instance->object);
}

static inline bool is_caller(struct sp_sdk_instance_caller *k, const void *caller)
{
	return atomic_load_explicit(&k->used, memory_order_acquire) &&
	       sp_elf_within(&k->object, caller) && sp_elf_alive(&k->object) &&
	       is_instance(k->instance) && (k->guess == 0 || k->guess == sp_elf_adds());
}

static struct sp_sdk_instance_handle *place_of(struct sp_sdk_instances *c, const void *handle)
{
	return &c->handle[((uintptr_t)handle >> 4) % SP_SDK_INSTANCE_HANDLES_MAX];
}

void sp_sdk_instance_made(struct sp_sdk_instances *c, struct sp_sdk_instance *instance,
			  const void *handle)
{
	struct sp_sdk_instance_handle *place = place_of(c, handle);

	/* a single instance needs no distinction */
	if (!atomic_load_explicit(&c->several, memory_order_relaxed))
		return;
	atomic_store_explicit(&place->handle, NULL, memory_order_relaxed);
	atomic_store_explicit(&place->instance, instance, memory_order_release);
	atomic_store_explicit(&place->handle, handle, memory_order_release);
}

static struct sp_sdk_instance *maker_of(struct sp_sdk_instances *c, const void *handle)
{
	struct sp_sdk_instance_handle *place = place_of(c, handle);
	struct sp_sdk_instance *instance;

	/* pairs with sp_sdk_instance_made(): the instance is stored before its handle */
	if (handle == NULL || atomic_load_explicit(&place->handle, memory_order_acquire) != handle)
		return NULL;
	instance = atomic_load_explicit(&place->instance, memory_order_acquire);
	return atomic_load_explicit(&place->handle, memory_order_relaxed) == handle &&
			       is_instance(instance)
		       ? instance
		       : NULL;
}

/* The instance of that caller; NULL if k is for another caller or is being replaced. */
static inline struct sp_sdk_instance *instance_by(struct sp_sdk_instance_caller *k,
						  const void *caller)
{
	unsigned writes = atomic_load_explicit(&k->writes, memory_order_acquire);
	struct sp_sdk_instance *instance = k->instance;
	bool fits = is_caller(k, caller);

	/* pairs with remember() */
	atomic_thread_fence(memory_order_acquire);
	return fits && atomic_load_explicit(&k->writes, memory_order_relaxed) == writes ? instance
											: NULL;
}

/* Under the lock. An unloaded object has no callers and no handles any more. */
static void reset(struct sp_sdk_instances *c, struct sp_sdk_instance *instance,
		  const struct sp_elf_range *object)
{
	atomic_store_explicit(&instance->used, false, memory_order_seq_cst);
	for (unsigned i = 0; i < SP_SDK_INSTANCE_HANDLES_MAX; i++) {
		if (atomic_load_explicit(&c->handle[i].instance, memory_order_relaxed) == instance)
			atomic_store_explicit(&c->handle[i].handle, NULL, memory_order_relaxed);
	}
	for (unsigned i = 0; i < SP_NEXT_SDK_N; i++) {
		atomic_store_explicit(&instance->fn[i], NULL, memory_order_relaxed);
		atomic_store_explicit(&instance->verdict[i], 0, memory_order_relaxed);
	}
	instance->object = *object;
	atomic_store_explicit(&instance->used, true, memory_order_release);
}

/*
 * The instance that this function belongs to. NULL if it is not known yet and cannot be entered: more
 * are alive than there is room for, or another thread has the lock, which nobody waits for.
 */
static struct sp_sdk_instance *instance_at(struct sp_sdk_instances *c, const void *function)
{
	struct sp_elf_range object = sp_elf_object_at(function);
	struct sp_sdk_instance *instance = NULL;
	bool locked = sp_try_lock(&busy);

	for (unsigned i = 0; i < SP_SDK_INSTANCES_MAX; i++) {
		struct sp_sdk_instance *at = &c->instance[i];

		if (is_instance(at) && sp_elf_within(&at->object, function)) {
			instance = at;
			break;
		}
	}
	for (unsigned i = 0; instance == NULL && locked && i < SP_SDK_INSTANCES_MAX; i++) {
		if (!is_instance(&c->instance[i])) {
			instance = &c->instance[i];
			reset(c, instance, &object);
		}
	}
	if (locked)
		sp_unlock(&busy);
	return instance;
}

/*
 * The definition in the global scope after ours. Only the loader can tell. The failure of a look-up
 * would replace an error that waits for the host's dlerror(), so a waiting error is put back, as a
 * part of one of the same kind.
 */
static void *in_global_scope(const char *name)
{
	__typeof__(&dlsym) look = SP_NEXT(dlsym);
	__typeof__(&dlerror) error = SP_NEXT(dlerror);
	char text[TEXT_MAX] = "";
	const char *waiting;
	void *found;

	if (look == NULL || error == NULL)
		return NULL;
	waiting = error();
	if (waiting != NULL)
		(void)strncpy(text, waiting, sizeof(text) - 1);
	found = look(RTLD_NEXT, name);
	(void)error();
	if (waiting != NULL)
		(void)look(RTLD_NEXT, text);
	return found;
}

/*
 * The order of the loader without us: first the global scope, then what the caller's object needs.
 */
static void *reached_from(const char *name, const void *caller, void *const *found, unsigned n)
{
	/* with RTLD_DEEPBIND the global scope comes last */
	const void *global = sp_hook_dl_is_deepbound(caller) ? NULL : in_global_scope(name);

	for (unsigned i = 0; i < n; i++) {
		if (found[i] == global)
			return found[i];
	}
	for (unsigned i = 0; i < n; i++) {
		struct sp_elf_range object = sp_elf_object_at(found[i]);

		if (sp_elf_needs(caller, &object))
			return found[i];
	}
	return NULL;
}

/* By a handle that lies in the instance's object, or begins with a pointer into it (a vtable). */
static void *reached_by(const void *handle, void *const *found, unsigned n)
{
	for (unsigned i = 0; handle != NULL && (uintptr_t)handle % sizeof(void *) == 0 && i < n;
	     i++) {
		struct sp_elf_range object = sp_elf_object_at(found[i]);
		const void *first;

		if (sp_elf_within(&object, handle))
			return found[i];
		memcpy(&first, handle, sizeof(first));
		if (sp_elf_within(&object, first))
			return found[i];
	}
	return NULL;
}

/* If there is no room, the next call has to search again. */
static void remember(struct sp_sdk_instances *c, const void *caller,
		     struct sp_sdk_instance *instance, unsigned long long guess)
{
	struct sp_elf_range object = sp_elf_object_at(caller);
	bool locked = object.size != 0 && instance != NULL && sp_try_lock(&busy);

	for (unsigned i = 0; locked && i < SP_SDK_INSTANCE_CALLERS_MAX; i++) {
		struct sp_sdk_instance_caller *k = &c->caller[i];

		if (is_caller(k, (const void *)k->object.start) &&
		    !sp_elf_within(&k->object, caller))
			continue;
		atomic_store_explicit(&k->used, false, memory_order_relaxed);
		atomic_fetch_add_explicit(&k->writes, 1, memory_order_relaxed);
		atomic_thread_fence(memory_order_release);
		k->object = object;
		k->instance = instance;
		k->guess = guess;
		atomic_store_explicit(&k->used, true, memory_order_release);
		atomic_store_explicit(&c->last, k, memory_order_release);
		break;
	}
	if (locked)
		sp_unlock(&busy);
}

/*
 * Whether this stays true whatever is loaded later: the global scope comes first, and then what the
 * caller needs.
 */
static bool belongs_to(const void *caller, const struct sp_sdk_instance *instance)
{
	return instance->object.permanent || sp_elf_needs(caller, &instance->object);
}

static struct sp_sdk_instance *find(struct sp_sdk_instances *c, enum sp_next which,
				    const void *caller, const void *handle)
{
	void *found[SP_SDK_INSTANCES_MAX];
	const char *name = sp_next_name(which);
	unsigned long long adds = sp_elf_adds();
	unsigned n = sp_elf_find_all(name, found, SP_SDK_INSTANCES_MAX);
	struct sp_sdk_instance *instance;
	void *real;

	if (n == 0)
		return NULL;
	if (n > SP_SDK_INSTANCES_MAX)
		n = SP_SDK_INSTANCES_MAX;
	if (n > 1)
		atomic_store_explicit(&c->several, true, memory_order_relaxed);
	if (n == 1) {
		instance = instance_at(c, found[0]);
		if (instance != NULL)
			remember(c, caller, instance, belongs_to(caller, instance) ? 0 : adds);
		return instance;
	}
	real = reached_from(name, caller, found, n);
	if (real != NULL) {
		instance = instance_at(c, real);
		remember(c, caller, instance, 0);
		return instance;
	}
	instance = maker_of(c, handle);
	if (instance != NULL)
		return instance;
	real = reached_by(handle, found, n);
	return instance_at(c, real != NULL ? real : found[0]);
}

static struct sp_sdk_instance *known_caller(struct sp_sdk_instances *c, const void *caller)
{
	for (unsigned i = 0; i < SP_SDK_INSTANCE_CALLERS_MAX; i++) {
		struct sp_sdk_instance_caller *k = &c->caller[i];

		struct sp_sdk_instance *instance = instance_by(k, caller);

		if (instance != NULL) {
			atomic_store_explicit(&c->last, k, memory_order_relaxed);
			return instance;
		}
	}
	return NULL;
}

struct sp_sdk_instance *sp_sdk_instance_of(struct sp_sdk_instances *c, enum sp_next which,
					   const void *caller, const void *handle)
{
	struct sp_sdk_instance_caller *last = atomic_load_explicit(&c->last, memory_order_acquire);
	struct sp_sdk_instance *instance = NULL;

	if (atomic_load_explicit(&c->several, memory_order_relaxed))
		instance = maker_of(c, handle);
	if (instance != NULL)
		return instance;
	if (last != NULL)
		instance = instance_by(last, caller);
	if (instance == NULL)
		instance = known_caller(c, caller);
	return instance != NULL ? instance : find(c, which, caller, handle);
}

void *sp_sdk_instance_find_fn(struct sp_sdk_instance *instance, enum sp_next which)
{
	void *p;

	/*
	 * The instance is not known, as there was no room for it or another thread had the lock. The
	 * call must reach a function all the same.
	 */
	if (instance == NULL)
		return sp_resolve(sp_next_name(which));
	p = sp_elf_find_in(&instance->object, sp_next_name(which));
	/* an instance that is spread over several objects */
	if (p == NULL)
		p = sp_resolve(sp_next_name(which));
	atomic_store_explicit(&instance->fn[which], p, memory_order_relaxed);
	return p;
}
