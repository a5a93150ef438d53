/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a fork of the host apart from the work of our background thread. Forked in the middle of a
 * dlopen or dl_iterate_phdr of ours, the child inherits a loader that is locked for ever, or whose
 * objects are half relocated; the host's own next dlopen would hang there as well.
 */
#ifndef SP_FORK_GATE_H
#define SP_FORK_GATE_H

#include <stdbool.h>

/* BG. Work begins; waits while a host thread forks. */
void sp_fork_gate_enter(void);

/* BG. Nothing is held: about to sleep, or done for good. */
void sp_fork_gate_leave(void);

/* BG. Lets a waiting fork through in the middle of long work, at a point where nothing is held. */
void sp_fork_gate_yield(void);

/* Fork handlers, on the forking thread. Before: waits for the background thread, but not long. */
void sp_fork_gate_close(void);
void sp_fork_gate_open(void);

/* Forked child: starts over. False when the fork did not wait long enough: stay out of the loader. */
bool sp_fork_gate_forked(void);

#endif
