/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving way to a host that uses the signal which we chose by default: it gets that one for itself,
 * and sampling goes on with another number. Our handler stays at the former one, where it hands on
 * what is not from our timers, for those of other threads send it a little longer. Once in a process.
 */
#ifndef SP_SIGNAL_MOVE_H
#define SP_SIGNAL_MOVE_H

#include <signal.h>
#include <stdbool.h>

/* APP, async-signal-safe, errno preserved: the host sets a handler for the signal in use. */
void sp_signal_move(void);

/*
 * APP, the same: the host blocks these signals, or waits for them, in the calling thread. If it means
 * ours, because it names few, that is a reason to move; after a move the thread's own timer sends the
 * new number from now on.
 */
void sp_signal_move_for(const sigset_t *set);

/* APP, at activation: the signal was chosen, perhaps not the usual one. */
void sp_signal_move_tell(void);

/* APP, now and then, and when there are news: the other threads' timers follow, and it is told. */
void sp_signal_move_follow(void);
bool sp_signal_move_has_news(void);

#endif
