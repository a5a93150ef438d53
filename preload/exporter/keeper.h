/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keeper: a process that is the parent of the exporter, so that nobody else ever is. An orphan
 * would become a child of pid 1 or of the nearest subreaper, which may be the host itself or the
 * supervisor of a container: its wait() would find a process that it never started, and a loop
 * around wait() would not end before that process does.
 *
 * The keeper is a child of the host with exit signal 0, which wait() does not see without __WCLONE
 * or __WALL. It shares the host's memory, so that making it costs the same in a large host, touches
 * only its own stack and the words meant for it, holds no descriptor, and reaps the exporter. It
 * must never write oom_score_adj, change credentials or execute anything: because it shares the
 * memory, the kernel would change the host as well.
 *
 * The kernel turns the exit signal of each process whose parent ends into SIGCHLD (Linux 6.18,
 * reparent_leader()). So exporter and keeper have to end, and the keeper has to be reaped, before
 * the host ends. When the host is killed that is impossible: the keeper then ends at once, because
 * it would keep the host's memory, and the exporter sends what is left.
 */
#ifndef SP_KEEPER_H
#define SP_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

#include "preload/exporter/exporter_child.h"

/*
 * APP, signals blocked, one thread at a time and only when there is no keeper. Makes the keeper,
 * which starts the exporter while the host goes on. 0 or a negative errno: -EINVAL where no child
 * can share our memory (emulators). After 0 the memory of birth belongs to the keeper.
 *
 * If the exporter cannot be started, exporter_error says so in the region, whose state is then
 * SP_EXPORTER_FAILED; if it ends without a word, the state becomes SP_EXPORTER_GONE.
 */
int sp_keeper_start(struct sp_exporter_birth *birth);

/*
 * APP. The exporter of that region was started by a keeper of this process; the keeper may have
 * ended. A forked child has none.
 */
bool sp_keeper_made(const struct sp_region *region);

/* APP. This process has made a keeper that is not reaped yet. */
bool sp_keeper_is_there(void);

/*
 * APP, one thread at a time. Reaps a keeper that has ended, which says that the exporter has ended,
 * or that the keeper was killed. False if there is one that has not.
 */
bool sp_keeper_reap(void);

/* APP. Sleeps until the keeper is about to end, at most that long. */
void sp_keeper_wait(uint64_t ns);

/*
 * APP. The keeper kills the exporter: at once, or within a second where the host is another user by
 * now and may send it no signal.
 */
void sp_keeper_kill(void);

#endif
