/* SPDX-License-Identifier: Apache-2.0 */
/* Installing the sampling handler and checking that it stays. Contexts: APP (activation), BG. */
#include "sampler/signals.h"

#include <errno.h>
#include <string.h>

/*
 * The C library's own name of sigaction(2) (glibc: signal/sigaction.c, exported since 2.2.5): the
 * preload part interposes the public one. Weak, because other C libraries do not have it.
 */
int __sigaction(int signo, const struct sigaction *act, struct sigaction *old)
	__attribute__((weak));

static void (*our_handler)(int, siginfo_t *, void *);

int sp_signals_install(int signo, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction sa;
	struct sigaction was;
	int saved = errno;

	if (sp_signals_number() != 0)
		return 0;
	if (__sigaction == NULL)
		return -ENOSYS;
	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = handler;
	/* On an alternate stack if the thread has one: coroutine stacks may be small. */
	sa.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
	(void)sigfillset(&sa.sa_mask);
	our_handler = handler;
	if (__sigaction(signo, NULL, &was) != 0) {
		int err = errno;

		errno = saved;
		return -err;
	}
	/* before the switch, so that no foreign signal finds nothing to chain to */
	sp_signals_adopt(signo, &was);
	if (__sigaction(signo, &sa, NULL) != 0) {
		int err = errno;

		sp_signals_adopt(0, &was);
		errno = saved;
		return -err;
	}
	errno = saved;
	return 0;
}

bool sp_signals_owned(void)
{
	struct sigaction now;
	int saved = errno;
	bool ours = __sigaction(sp_signals_number(), NULL, &now) != 0 ||
		    now.sa_sigaction == our_handler;

	errno = saved;
	return ours;
}
