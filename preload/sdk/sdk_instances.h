/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instances of an SDK in this process: plugins that are opened with RTLD_LOCAL may each bring
 * their own, with code and data of its own. A call must reach the instance that it would have
 * reached without us, and a question about a span must go to the instance that made it. APP
 * context.
 *
 * The instance is found by the object that called. That is remembered, so that a further call from
 * the same object costs one comparison. If the caller does not tell (the last call of a plugin's
 * function may be a jump, and the return address is then in another object), the handle does: it
 * belongs to the instance that made it.
 *
 * While there is one instance, all calls belong to it. If the caller's object does not prove that,
 * it is a guess, which ends when another object is loaded.
 *
 * Nothing is kept from being unloaded. What is remembered of an object counts only while that very
 * object is loaded.
 */
#ifndef SP_SDK_INSTANCES_H
#define SP_SDK_INSTANCES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "preload/elf/elf_walk.h"
#include "preload/elf/resolve.h"

#define SP_SDK_INSTANCES_MAX 8U
#define SP_SDK_INSTANCE_CALLERS_MAX 64U
#define SP_SDK_INSTANCE_HANDLES_MAX 1024U

struct sp_sdk_instance {
	_Atomic bool used; /* false while object is being written */
	struct sp_elf_range object;
	void *_Atomic fn[SP_NEXT_SDK_N];
	_Atomic int verdict[SP_NEXT_SDK_N]; /* the adapter's verdict on each function; 0 at first */
};

struct sp_sdk_instance_caller {
	_Atomic bool used;
	_Atomic unsigned writes; /* lets a reader detect an entry that is being replaced */
	struct sp_elf_range object;
	struct sp_sdk_instance *instance;
	unsigned long long guess; /* not 0: valid while no more objects than these were loaded */
};

/* A handle, in the place that its value gives; the last one replaces earlier ones. */
struct sp_sdk_instance_handle {
	const void *_Atomic handle;
	struct sp_sdk_instance *_Atomic instance;
};

/* One per SDK, zero at first. */
struct sp_sdk_instances {
	struct sp_sdk_instance_caller *_Atomic last;
	_Atomic bool several; /* from the second instance on */
	struct sp_sdk_instance instance[SP_SDK_INSTANCES_MAX];
	struct sp_sdk_instance_caller caller[SP_SDK_INSTANCE_CALLERS_MAX];
	struct sp_sdk_instance_handle handle[SP_SDK_INSTANCE_HANDLES_MAX];
};

/*
 * The instance that a call of that function belongs to, by the return address in the caller and the
 * handle it was given (NULL if none). NULL when no object defines the function, and when the instance
 * is not known and cannot be entered now: there is no room, or another thread has the lock.
 */
struct sp_sdk_instance *sp_sdk_instance_of(struct sp_sdk_instances *c, enum sp_next which,
					   const void *caller, const void *handle);

/* Notes that this instance made the handle. */
void sp_sdk_instance_made(struct sp_sdk_instances *c, struct sp_sdk_instance *instance,
			  const void *handle);

/* For sp_sdk_instance_fn(). */
void *sp_sdk_instance_find_fn(struct sp_sdk_instance *instance, enum sp_next which);

/* A function of that instance, or of any if instance is NULL; NULL if there is none. */
static inline void *sp_sdk_instance_fn(struct sp_sdk_instance *instance, enum sp_next which)
{
	void *p = instance != NULL
			  ? atomic_load_explicit(&instance->fn[which], memory_order_relaxed)
			  : NULL;

	return p != NULL ? p : sp_sdk_instance_find_fn(instance, which);
}

#endif
