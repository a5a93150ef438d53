/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the program spanprof-exporter from a host so that the host does not notice: it gets no
 * SIGCHLD, has no child that wait() finds, and keeps its descriptors, signal handlers and memory.
 * Nor does anybody else find one: the exporter is a child of the keeper, and both have ended before
 * a host that ends by itself is gone.
 */
#ifndef SP_EXPORTER_PROCESS_H
#define SP_EXPORTER_PROCESS_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "sampler/region/region.h"

struct sp_exporter_start {
	const char *path;         /* of the program */
	int region_fd;            /* becomes SP_REGION_FD */
	int folder_fd;            /* becomes SP_HOST_FOLDER_FD; -1 = there is none */
	int maps_fd;              /* becomes SP_HOST_MAPS_FD; -1 = there is none */
	int family_fd;            /* becomes SP_FAMILY_FD; -1 = there is none */
	char *const *environment; /* "NAME=value", the last one is NULL */
	/* Set to 0 at first, exporter_pid and exporter_error are written by the new processes. */
	struct sp_region *region;
};

/*
 * APP, in the process itself and not in a child of vfork. The program begins in a session of its
 * own, with the descriptors above, /dev/null at 0 to 2 and no other descriptor, and all signals
 * default and unblocked. Working directory, umask, limits (except a soft limit of descriptors that
 * is too low), scheduling and priority are the host's; the program changes what it does not want.
 * errno and the signal mask are preserved.
 *
 * The start goes on while the host does. 0, or a negative errno: that of clone; -EXDEV: children of
 * the calling thread would be in another pid namespace; -EOPNOTSUPP: a keeper is needed and
 * impossible (emulators); -EBUSY: another start is under way, or the keeper of the former exporter
 * has not ended yet. What fails later is told by the region: exporter_error, and the state becomes
 * SP_EXPORTER_FAILED, or SP_EXPORTER_GONE where the exporter ends without a word.
 */
int sp_exporter_process_start(const struct sp_exporter_start *start);

/* APP. False as long as the former exporter's keeper exists: a start would return -EBUSY. */
bool sp_exporter_process_may_start(void);

/*
 * APP. The exporter of that region exists, or will soon, and has not ended. Also reaps the keeper of
 * one that has: to be called now and then, or a zombie that only __WCLONE sees stays with the host.
 * errno preserved.
 */
bool sp_exporter_process_alive(const struct sp_region *region);

/*
 * APP, any thread, also several at once. The exporter that this process has started was told to
 * end: waits until it has, and its keeper is reaped. After end_ns (CLOCK_MONOTONIC) it is killed.
 * False if the keeper is there even so, because it is stopped. At once true where this process has
 * started none. errno preserved.
 */
bool sp_exporter_process_end(uint64_t end_ns);

/*
 * APP. The exporter of that region was started by a keeper of this process; the keeper may have
 * ended. A forked child has none.
 */
bool sp_keeper_made(const struct sp_region *region);

/*
 * APP. The region by whose address the last keeper, which may have ended, is known and tells what becomes of its
 * exporter; NULL = none.
 */
const struct sp_region *sp_keeper_region(void);

/* APP. The process of that exporter, by our own knowledge and not by the region's; 0 where it has no keeper of ours. */
int32_t sp_keeper_exporter(const struct sp_region *region);

/* APP. This process has made a keeper that is not reaped yet. */
bool sp_keeper_is_there(void);

/*
 * Children that share our memory, for trial.c as well. With these flags the parent waits until it executes
 * or ends, and no debugger follows. The low byte, the exit signal, is 0: no SIGCHLD at its end.
 */
#define SP_CHILD_SHARING (CLONE_VM | CLONE_VFORK | CLONE_UNTRACED)

#define SP_CLOSE_RANGE_NR 436L /* the same on all architectures; headers may be older */

/* clone3(2) is tried first: it is what a filter is known to let pass (trial.c). */
extern _Atomic bool sp_raw_clone_by_3;

/*
 * The child runs run(arg), which must not return. Returns the child's id or a negative errno; errno is not
 * touched. stack_top is a multiple of 16, or NULL for a copy of our own stack, which is only for children
 * that do not share our memory.
 */
long sp_raw_clone(unsigned long flags, void *stack_top, void (*run)(void *), void *arg);

/* Ends the calling process, which must be one of ours. */
_Noreturn void sp_child_exit(int status);

#endif
