/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper: a process that is the parent of the exporter where the host would become its parent,
 * because the host is pid 1 of its pid namespace or a subreaper. Without it, the host's waitpid(-1)
 * would find the exporter, and a loop around wait() would never end.
 *
 * The keeper is a child of the host with exit signal 0, which wait() does not see without __WCLONE
 * or __WALL. It shares the host's memory, touches only its own stack, holds no descriptor, and ends
 * when the exporter or the host has ended. It must never write oom_score_adj, change credentials or
 * execute anything: because it shares the memory, the kernel would change the host as well.
 *
 * Two limits. Killing the keeper alone makes the exporter a child of the host. And if the host
 * executes another program, that program gets one SIGCHLD without a child to wait for when the old
 * image's exporter has ended, because the kernel sends this signal for any child of a former image
 * (Linux 6.18, do_notify_parent); the keeper's zombie stays until that program has ended.
 */
#ifndef SP_KEEPER_H
#define SP_KEEPER_H

#include <stdbool.h>

#include "preload/exporter/exporter_child.h"

/* APP. Whether orphans below the host become children of the host. */
bool sp_keeper_is_needed(void);

/*
 * APP, signals blocked. Starts the exporter below a keeper. 0 or a negative errno. After 0 the
 * memory of birth belongs to the keeper. If birth->done is 0 after an error, a process may still be
 * using it.
 */
int sp_keeper_start(struct sp_exporter_birth *birth);

/*
 * APP, one thread at a time. Reaps a keeper that has ended. False if there is one that has not. A
 * forked child has none.
 */
bool sp_keeper_reap(void);

#endif
