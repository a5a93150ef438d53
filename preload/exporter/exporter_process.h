/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the program spanprof-exporter so that the host does not notice: the host gets no SIGCHLD,
 * has no child that wait() finds, and its descriptors, signal handlers and memory do not change. No
 * other process inherits a child either: the exporter is a child of the keeper, and both end before
 * the host, if the host ends by itself.
 */
#ifndef SP_EXPORTER_PROCESS_H
#define SP_EXPORTER_PROCESS_H

#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/siphash.h"
#include "sampler/region/region.h"

/*
 * The proof that a process is an exporter of the family: its last argument, and the name of its
 * process before it has arguments. It is a hash of the process's number and start time in ticks
 * (SP_STAT_START), which the reader gets from the kernel, with the family's secret as key. So
 * another process that shows the same proof, or that gets the number later, proves nothing.
 */
#define SP_PROOF_BYTES 16 /* the hexadecimal digits that fit in the name of a process, and a NUL */

/* Any context. */
SP_RAW static inline void sp_exporter_proof(const uint64_t secret[2], uint64_t pid, uint64_t began,
					    char proof[SP_PROOF_BYTES])
{
	const uint64_t words[] = {pid, began};
	uint64_t hash = sp_siphash(secret, words, 2);

	for (unsigned i = 0; i < SP_PROOF_BYTES - 1; i++, hash >>= 4)
		proof[i] = (char)(hash % 16 < 10 ? '0' + hash % 16 : 'a' - 10 + hash % 16);
	proof[SP_PROOF_BYTES - 1] = '\0';
}

/*
 * The backlog of listen(). The kernel limits it to net.core.somaxconn: 4,096, before Linux 5.4 128.
 */
#define SP_JOINS_WAITING 4096

struct sp_exporter_start {
	const char *path;         /* of the program */
	int region_fd;            /* becomes SP_REGION_FD */
	int folder_fd;            /* becomes SP_HOST_FOLDER_FD; -1 = there is none */
	int maps_fd;              /* becomes SP_HOST_MAPS_FD; -1 = there is none */
	int family_fd;            /* bound, becomes SP_FAMILY_FD; -1 = there is none */
	char *const *environment; /* "NAME=value", the last one is NULL */
	uint64_t secret[2];       /* of the family; the program does not get it */
	/* Its words exporter_pid and exporter_error are set to 0; the new processes write them. */
	struct sp_region *region;
};

/*
 * APP, in the process itself and not in a child of vfork. The program begins in a new session, with
 * the descriptors above, /dev/null at 0 to 2 and no other descriptor, and all signals default and
 * unblocked. The socket of the family begins to listen just before that. Working
 * directory, umask, limits (except a soft limit of descriptors that is too low), scheduling and
 * priority are the host's; the program changes the ones that it does not want. errno and the signal
 * mask are preserved.
 *
 * The function does not wait for the program. 0, or a negative errno: that of clone; -EXDEV:
 * children of the calling thread would be in another pid namespace; -EOPNOTSUPP: a keeper is needed
 * and impossible (emulators); -EBUSY: another start is under way, or the keeper of the former
 * exporter has not ended yet. If a later step fails, the region says so: exporter_error has the
 * errno, and the state becomes SP_EXPORTER_FAILED, or SP_EXPORTER_GONE if the exporter ends without
 * having written a state.
 */
int sp_exporter_process_start(const struct sp_exporter_start *start);

/* APP. False as long as the former exporter's keeper exists: a start would return -EBUSY. */
bool sp_exporter_process_may_start(void);

/*
 * APP. Whether the exporter of that region exists or will soon, and has not ended. Also reaps the
 * keeper of an exporter that has ended: without calls now and then, the host has a zombie child
 * that only __WCLONE finds. errno preserved.
 */
bool sp_exporter_process_alive(const struct sp_region *region);

/*
 * APP, any thread, also several at once. The exporter that this process has started was told to
 * end. Waits until it has ended and its keeper is reaped; after end_ns (CLOCK_MONOTONIC) the
 * exporter is killed. False if the keeper is still there, because it is stopped. True at once if
 * this process has started no exporter. errno preserved.
 */
bool sp_exporter_process_end(uint64_t end_ns);

/*
 * APP. Whether a keeper of this process has started the exporter of that region; the keeper may
 * have ended. A forked child has no keeper.
 */
bool sp_keeper_made(const struct sp_region *region);

/*
 * APP. The region of the last keeper, which may have ended. The keeper writes the fate of its
 * exporter there. NULL = no keeper was made.
 */
const struct sp_region *sp_keeper_region(void);

/*
 * APP. The number of that region's exporter, from our own variable and not from the region; 0 if no
 * keeper of ours started it.
 */
int32_t sp_keeper_exporter(const struct sp_region *region);

/* APP. This process has made a keeper that is not reaped yet. */
bool sp_keeper_is_there(void);

/*
 * Flags for children that share our memory, here and in trial.c. The parent waits until the child
 * executes a program or ends, and no debugger follows it. The low byte, the exit signal, is 0: no
 * SIGCHLD at its end.
 */
#define SP_CHILD_SHARING (CLONE_VM | CLONE_VFORK | CLONE_UNTRACED)

/* The same on all architectures; headers may be older. */
#define SP_CLOSE_RANGE_NR 436L
#define SP_PIDFD_OPEN_NR 434L
#define SP_PIDFD_SEND_SIGNAL_NR 424L

/* clone3(2) is tried first: trial.c knows that the filter lets it pass. */
extern _Atomic bool sp_raw_clone_by_3;

/*
 * The child runs run(arg), which must not return. Returns the child's id or a negative errno; errno
 * is not touched. stack_top is a multiple of 16, or NULL for a copy of our own stack, which is only
 * for children that do not share our memory.
 */
long sp_raw_clone(unsigned long flags, void *stack_top, void (*run)(void *), void *arg);

/* Ends the calling process, which must be a child that we have made. */
_Noreturn void sp_child_exit(int status);

#endif
