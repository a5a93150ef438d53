/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The signal that is fallen back on where the host uses the one which we chose by default: it gets that one
 * for itself, and sampling goes on with another number. Our handler stays at the former one, where it hands
 * on what is not from our timers, for those of other threads send it a little longer. Once in a process.
 */
#ifndef SP_SIGNAL_FALLBACK_H
#define SP_SIGNAL_FALLBACK_H

#include <signal.h>
#include <stdbool.h>

/* APP, async-signal-safe, errno preserved: the host sets a handler for the signal in use. */
void sp_signal_fallback(void);

/*
 * APP, the same: the host blocks these signals, or waits for them, in the calling thread. If it means
 * ours, because it names few, that is a reason to fall back; after that the thread's own timer sends the
 * new number from now on.
 */
void sp_signal_fallback_for(const sigset_t *set);

/* APP, at activation: the signal was chosen, perhaps not the usual one. */
void sp_signal_fallback_tell(void);

/* APP, now and then: the other threads' timers follow, and it is told. */
void sp_signal_fallback_follow(void);

#endif
