/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers libspanprof-alloc.so, the object that replaces the allocator. For each thread that object
 * asks first at the thread's first allocation, which may be long before the program's first span
 * and before our own constructor, and then about once in each sampling interval. So we need not
 * call it when sampling begins or ends. Context: any of the host's.
 */
#include "preload/lifecycle/allocations.h"

#include <errno.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "preload/lifecycle/state.h"
#include "sampler/base/compiler.h"
#include "sampler/base/log.h"
#include "sampler/base/process.h"
#include "sampler/base/seccomp.h"
#include "sampler/region/region.h"
#include "sampler/region/ring.h"
#include "sampler/span/span_times.h"

static _Atomic int object = SP_ALLOCATIONS_ABSENT;
static uint64_t (*_Atomic allocated)(void);
static struct {
	void *memory;
	size_t bytes;
	/* a forked child finds it empty: a process that finds a block there shares our memory */
	bool is_wiped;
} table;

SP_EXPORT void spanprof_v1_allocations(enum sp_allocations_object what, const void *image,
				       uint64_t (*counter)(void), const _Atomic uint64_t *blocks,
				       void *memory, size_t bytes)
{
	table.memory = memory;
	table.bytes = bytes;
	sp_region_own_object[1] = (uintptr_t)image;
	atomic_store_explicit(&sp_ring_blocks, blocks, memory_order_relaxed);
	atomic_store_explicit(&allocated, counter, memory_order_relaxed);
	atomic_store_explicit(&object, (int)what, memory_order_relaxed);
}

/*
 * The block of the calling thread. Enrols a thread that no hook has seen, unless the thread is
 * inside one of our hooks, which a handler of the host may have interrupted.
 */
static struct sp_thread *own_thread(void)
{
	struct sp_thread *t = sp_thread_own;

	if (t != NULL || sp_thread_excluded || sp_reentrancy_guard_frame != 0)
		return t;
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	t = sp_thread_self();
	sp_reentrancy_guard_exit(g);
	return t;
}

/*
 * Refused in a child of vfork or of a raw clone: it is another process, with our memory or with the
 * region of ours.
 */
static bool take_sample(uint64_t bytes, uint64_t block, const struct sp_allocation_caller *caller)
{
	int saved = errno;
	struct sp_thread *t = sp_process_is_ours() ? own_thread() : NULL;
	bool is_taken =
		t != NULL && !sp_thread_excluded && sp_allocation_sample(t, bytes, block, caller);

	errno = saved;
	return is_taken;
}

static bool is_on(void)
{
	return sp_lifecycle_active() && sp_lifecycle_config()->alloc && !sp_seccomp_is_on();
}

SP_EXPORT uint32_t spanprof_v1_allocated(uint64_t bytes, uint64_t *block,
					 const struct sp_allocation_caller *caller)
{
	bool on = is_on();

	/* A forked child has no region until its first span, or its first sample of CPU time. */
	if (bytes != 0 && !(on && sp_region_is_there() && take_sample(bytes, *block, caller)))
		*block = 0;
	return on ? sp_lifecycle_config()->alloc_interval : 0;
}

/* If sampling has stopped, no profile has the block. */
SP_EXPORT void spanprof_v1_freed(uint64_t block)
{
	int saved = errno;

	if (is_on() && sp_region_is_there() && (table.is_wiped || sp_process_is_ours()))
		sp_allocation_freed(block);
	errno = saved;
}

enum sp_allocations_object sp_allocations_object(void)
{
	return (enum sp_allocations_object)atomic_load_explicit(&object, memory_order_relaxed);
}

void sp_allocations_check(const struct sp_config *config)
{
	static const char *const why_none[] = {
		[SP_ALLOCATIONS_ABSENT] =
			" needs a second object: set LD_PRELOAD to \"libspanprof.so "
			"libspanprof-alloc.so\", with the folder that both are in, or use "
			"spanprof-run --alloc",
		[SP_ALLOCATIONS_SANITIZED] =
			": the program has a sanitizer, whose allocator is not "
			"replaced: no profile of allocations",
		[SP_ALLOCATIONS_HIDDEN] =
			": the program has an allocator of its own in front of "
			"libspanprof-alloc.so: no profile of allocations; if that is preloaded, "
			"name it behind libspanprof-alloc.so",
	};
	enum sp_allocations_object what = sp_allocations_object();

	if (config->alloc && what == SP_ALLOCATIONS_LOADED) {
		sp_span_times_allocated = atomic_load_explicit(&allocated, memory_order_relaxed);
		/* As in sp_arena_map(). */
		(void)sp_syscall(SYS_madvise, table.memory, table.bytes, (long)MADV_NOHUGEPAGE);
		table.is_wiped = sp_syscall(SYS_madvise, table.memory, table.bytes,
					    (long)MADV_WIPEONFORK) == 0;
	} else if (config->alloc) {
		sp_log(SP_LOG_WARN, "SPANPROF_ALLOC%s", why_none[what]);
	}
}
