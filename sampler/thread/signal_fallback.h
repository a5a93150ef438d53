/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fallback to another sampling signal. By default we sample with SIGURG, which few programs
 * use. If the host turns out to use it, the host gets it, and sampling goes on with a real-time
 * signal that nobody uses. Our handler stays installed for the former signal as well, because the
 * timers of other threads send it a little longer; it hands on what is not from our timers. This
 * happens at most once in a process.
 */
#ifndef SP_SIGNAL_FALLBACK_H
#define SP_SIGNAL_FALLBACK_H

#include <signal.h>
#include <stdbool.h>

/* APP, async-signal-safe, errno preserved: the host sets a handler for the signal in use. */
void sp_signal_fallback(void);

/*
 * APP, the same: the host blocks these signals, or waits for them, in the calling thread. If it
 * names our signal among few, it means ours, and we fall back. After a fallback the timer of the
 * calling thread sends the new signal from now on.
 */
void sp_signal_fallback_for(const sigset_t *set);

/* APP, at activation: says which signal was chosen, if it is not the usual one. */
void sp_signal_fallback_tell(void);

/* APP, now and then: the other threads' timers follow, and it is told. */
void sp_signal_fallback_follow(void);

#endif
