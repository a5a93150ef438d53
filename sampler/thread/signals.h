/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ownership of the sampling signal. If the host installed a handler over ours, sampling would end,
 * and a reset to SIG_DFL could kill the process with the next sample. So our handler stays
 * installed while sampling runs. What the host believes to be installed is kept beside it, and gets
 * every signal that is not from our timers.
 */
#ifndef SP_SIGNALS_H
#define SP_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

/*
 * APP, at activation. Installs handler for signo, or for a signal of our choice if that is 0, and
 * keeps what was there as the host's. 0 or a negative errno.
 */
int sp_signals_install(int signo, void (*handler)(int, siginfo_t *, void *));

/* The signal in use; 0 before installation. Any context. */
SP_SIGSAFE int sp_signals_number(void);

/*
 * APP, async-signal-safe. Installs the same handler for a second signal, which is in use from then
 * on. Only if the first signal was our own choice, and only once. False if there is no signal to be
 * had.
 */
bool sp_signals_fall_back(void);
/* APP. A fallback is still allowed. */
bool sp_signals_may_fall_back(void);
/* Any context but SIG. The number in use before a fallback, for which our handler stays; 0 = none. */
int sp_signals_former(void);
/* Any context but SIG. Our handler is installed for that number. */
bool sp_signals_is_ours(int signo);

/*
 * Any context. A handler of the host uses alternate stacks, so ours runs on a thread's, too, unless the host's own
 * handler for our signal does not.
 */
SP_SIGSAFE bool sp_signals_on_alternate_stack(void);
/*
 * APP, async-signal-safe: a handler of the host asks for alternate stacks. From now on ours runs there,
 * too, and threads whose alternate stack is too small for it have no timer. errno preserved.
 */
void sp_signals_use_alternate_stack(void);

/* The kernel's handler for the signal in use is still ours. APP. */
bool sp_signals_owned(void);

/*
 * The host asks to set (act may be NULL) and read (old may be NULL) the disposition of a signal of
 * ours. Async-signal-safe, as sigaction(2) is. 0 or a negative errno.
 */
int sp_signals_virtual(int signo, const struct sigaction *act, struct sigaction *old);

/*
 * The host sets a disposition: gives our handler those of its flags that the kernel obeys. Called
 * together with sp_signals_virtual(). Async-signal-safe.
 */
void sp_signals_follow(int signo, const struct sigaction *host);

/*
 * For signals.c: remembers that our handler is installed for signo and what the host had there;
 * forgets it; sets the signal in use.
 */
bool sp_signals_own(int signo, const struct sigaction *was);
void sp_signals_disown(int signo);
void sp_signals_use(int signo);

/* SIG. Hands a signal that is not ours to what the host installed. */
SP_SIGSAFE void sp_signals_chain(int signo, siginfo_t *si, void *ucontext);

#endif
