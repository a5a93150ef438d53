/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A parent for the exporter's process where the host would become its parent, being pid 1 of its pid
 * namespace or a subreaper: waitpid(-1) would find it, and a loop around wait() would never end. The
 * keeper is a child of the host with exit signal 0, which wait() does not see without __WCLONE or
 * __WALL; it shares the host's memory, touches its own stack only, holds no descriptor, and ends
 * when the exporter or the host has ended. It must never write to oom_score_adj, change credentials or
 * execute anything: as it shares the memory, the kernel would change the host, too.
 *
 * What cannot be had: whoever kills the keeper alone makes the exporter the host's child. And a host
 * that executes another program gets one SIGCHLD, with no child to wait for, when the old image's
 * exporter has ended, as the kernel sends that signal for any child of a former image (Linux 6.18,
 * do_notify_parent); the keeper's zombie stays until that program has ended.
 */
#ifndef SP_KEEPER_H
#define SP_KEEPER_H

#include <stdbool.h>

#include "preload/exporter_child.h"

/* APP. Children of the host that lose their parent become the host's. */
bool sp_keeper_is_needed(void);

/*
 * APP, signals blocked. Starts the exporter below a keeper. 0 or a negative errno; after 0 the memory
 * of birth belongs to the keeper. Where birth is not done after an error, a process may still use it.
 */
int sp_keeper_start(struct sp_exporter_birth *birth);

/*
 * APP, one at a time. Reaps a keeper that has ended. False if there is one that has not. In a forked
 * child there is none.
 */
bool sp_keeper_reap(void);

#endif
