/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starting the program spanprof-exporter out of a host, so that the host does not notice: it gets no
 * SIGCHLD, has no child that it can wait for, and keeps its descriptors, signal handlers and memory.
 * Two clones, because the process that executes a program is a child with SIGCHLD again: the first
 * child makes it and ends at once, so that it belongs to init. Where it would belong to the host then
 * (pid 1 of a pid namespace, or a subreaper), the first child stays instead (keeper.h).
 */
#ifndef SP_EXPORTER_PROCESS_H
#define SP_EXPORTER_PROCESS_H

#include <stdbool.h>

#include "sampler/region.h"

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
 * APP, in the process itself and not in a child of vfork. The program begins in a session of its own,
 * with the region at SP_REGION_FD, /dev/null at 0 to 2, no other descriptor, and all signals default and
 * unblocked. Working directory, umask, limits (but a soft one of descriptors that is too low),
 * scheduling and priority are the host's: the program changes what it does not want. errno and the signal mask are as before.
 *
 * 0, or a negative errno: what execve or clone said, -EXDEV: children of the calling thread would live
 * in another pid namespace, -EOPNOTSUPP: a keeper is needed and cannot be had (emulators), -EBUSY:
 * another start is under way, or the former exporter's keeper has not ended yet. Under an emulator 0
 * says only that there is a process; exporter_error is written when its execve has failed.
 */
int sp_exporter_process_start(const struct sp_exporter_start *start);

/* APP. False as long as something of the former exporter is there: a start would say -EBUSY. */
bool sp_exporter_process_may_start(void);

/* Forked child: whoever was starting one is not here. */
void sp_exporter_process_forked(void);

/*
 * APP. There is such a process, and it has not ended. Also lets go what is left of the keeper of one
 * that has: call it now and then, or a zombie that only __WCLONE sees stays with the host. errno
 * preserved.
 */
bool sp_exporter_process_alive(const struct sp_region *region);

#endif
