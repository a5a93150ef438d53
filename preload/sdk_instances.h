/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The instances of one SDK in this process, each an object with code and data of its own: plugins opened
 * with RTLD_LOCAL may each bring their own. A call goes to the instance that it would have reached without
 * us, and what we ask about a span to the instance that made it. APP context.
 *
 * The instance is told by the object that called, which is remembered: a call from the object that called
 * last costs a comparison. Where that does not say (a plugin's last call may be a jump, and then
 * the caller is the plugin's caller), the handle does: the instance that made it.
 *
 * As long as there is one instance it is everybody's; where the caller's object does not say so, that is a
 * guess which ends when another object is loaded.
 *
 * Nothing is kept from being unloaded. What is remembered of an object that was opened later is taken
 * for true only while that very object is loaded.
 */
#ifndef SP_SDK_INSTANCES_H
#define SP_SDK_INSTANCES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "preload/elf_walk.h"
#include "preload/resolve.h"

#define SP_SDK_INSTANCES_MAX 8U
#define SP_SDK_INSTANCE_CALLERS_MAX 64U
#define SP_SDK_INSTANCE_HANDLES_MAX 1024U

struct sp_sdk_instance {
	_Atomic bool used; /* false while object is being written */
	struct sp_elf_range object;
	void *_Atomic fn[SP_NEXT_SDK_N];
	_Atomic int verdict[SP_NEXT_SDK_N]; /* the adapter's, of each function; 0 at first */
};

struct sp_sdk_instance_caller {
	_Atomic bool used;
	_Atomic unsigned writes; /* so that nobody takes what is being replaced for one thing */
	struct sp_elf_range object;
	struct sp_sdk_instance *instance;
	unsigned long long guess; /* not 0: true while no more objects than these were loaded */
};

/* A made handle, in the place that its value says; the last one wins. */
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
 * handle it was given (NULL if none). NULL when no object defines the function.
 */
struct sp_sdk_instance *sp_sdk_instance_of(struct sp_sdk_instances *c, enum sp_next which,
					   const void *caller, const void *handle);

/* That instance made the handle. */
void sp_sdk_instance_made(struct sp_sdk_instances *c, struct sp_sdk_instance *instance,
			  const void *handle);

/* For the one below. */
void *sp_sdk_instance_find_fn(struct sp_sdk_instance *instance, enum sp_next which);

/* A function of that instance, of any for no instance; NULL if there is none. */
static inline void *sp_sdk_instance_fn(struct sp_sdk_instance *instance, enum sp_next which)
{
	void *p = instance != NULL
			  ? atomic_load_explicit(&instance->fn[which], memory_order_relaxed)
			  : NULL;

	return p != NULL ? p : sp_sdk_instance_find_fn(instance, which);
}

#endif
