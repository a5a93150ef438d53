/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copies of one SDK in this process: plugins opened with RTLD_LOCAL may each bring their own. A
 * call goes to the copy that it would have reached without us, and what we ask about a span to the
 * copy that made it. APP context.
 *
 * The copy is told by the object that called, which is remembered: a call from the object that called
 * last costs a comparison. Where that does not say (a plugin's last call may be a jump, and then
 * the caller is the plugin's caller), the handle does: the copy that made it.
 *
 * As long as there is one copy it is everybody's; where the caller's object does not say so, that is a
 * guess which ends when another object is loaded.
 *
 * Nothing is kept from being unloaded. What is remembered of an object that was opened later is taken
 * for true only while that very object is loaded.
 */
#ifndef SP_COPIES_H
#define SP_COPIES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "preload/elf_walk.h"
#include "preload/resolve.h"

#define SP_COPIES_MAX 8U
#define SP_COPY_CALLERS_MAX 64U
#define SP_COPY_HANDLES_MAX 1024U

struct sp_copy {
	_Atomic bool used; /* false while object is being written */
	struct sp_elf_range object;
	void *_Atomic fn[SP_NEXT_SDK_N];
	_Atomic int verdict[SP_NEXT_SDK_N]; /* the adapter's, of each function; 0 at first */
};

struct sp_copy_caller {
	_Atomic bool used;
	_Atomic unsigned writes; /* so that nobody takes what is being replaced for one thing */
	struct sp_elf_range object;
	struct sp_copy *copy;
	unsigned long long guess; /* not 0: true while no more objects than these were loaded */
};

/* A made handle, in the place that its value says; the last one wins. */
struct sp_copy_handle {
	const void *_Atomic handle;
	struct sp_copy *_Atomic copy;
};

/* One per SDK, zero at first. */
struct sp_copies {
	struct sp_copy_caller *_Atomic last;
	_Atomic bool several; /* from the second copy on */
	struct sp_copy copy[SP_COPIES_MAX];
	struct sp_copy_caller caller[SP_COPY_CALLERS_MAX];
	struct sp_copy_handle handle[SP_COPY_HANDLES_MAX];
};

/*
 * The copy that a call of that function belongs to, by the return address in the caller and the
 * handle it was given (NULL if none). NULL when no object defines the function.
 */
struct sp_copy *sp_copy_of(struct sp_copies *c, enum sp_next which, const void *caller,
			   const void *handle);

/* That copy made the handle. */
void sp_copy_made(struct sp_copies *c, struct sp_copy *copy, const void *handle);

/* For the one below. */
void *sp_copy_find_fn(struct sp_copy *copy, enum sp_next which);

/* A function of that copy, of any for no copy; NULL if there is none. */
static inline void *sp_copy_fn(struct sp_copy *copy, enum sp_next which)
{
	void *p =
		copy != NULL ? atomic_load_explicit(&copy->fn[which], memory_order_relaxed) : NULL;

	return p != NULL ? p : sp_copy_find_fn(copy, which);
}

#endif
