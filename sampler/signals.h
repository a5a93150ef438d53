/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ownership of the sampling signal. Our handler stays installed while sampling runs; what the host
 * believes is installed is kept beside it and gets every signal that is not from our timers.
 */
#ifndef SP_SIGNALS_H
#define SP_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/compiler.h"

/* APP, at activation. Installs handler for signo and keeps what was there as the host's. */
int sp_signals_install(int signo, void (*handler)(int, siginfo_t *, void *));

/* The signal in use; 0 before installation. Any context. */
SP_SIGSAFE int sp_signals_number(void);

/* The kernel's handler for our signal is still ours. BG. */
bool sp_signals_owned(void);

/*
 * The host asks to set (act may be NULL) and read (old may be NULL) the disposition of our signal.
 * Async-signal-safe, as sigaction(2) is. 0 or a negative errno.
 */
int sp_signals_virtual(const struct sigaction *act, struct sigaction *old);

/*
 * The host sets a disposition: takes over the flags of it that the kernel obeys. To be called with
 * sp_signals_virtual(). Async-signal-safe.
 */
void sp_signals_follow(const struct sigaction *host);

/* For signals.c: remembers the number and what the host had installed. */
void sp_signals_adopt(int signo, const struct sigaction *was);

/* SIG. Hands a signal that is not ours to what the host installed. */
SP_SIGSAFE void sp_signals_chain(int signo, siginfo_t *si, void *ucontext);

#endif
