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

/*
 * A call that the host's handler is meant to interrupt has to fail with EINTR, and its handler runs
 * on the stack that it asked for: what the host wants in these two respects our handler gets, for
 * the kernel looks at ours. With no handler of the host: nothing is interrupted, and the alternate
 * stack is used if the thread has one, because coroutine stacks may be small.
 */
static struct sigaction our_action(const struct sigaction *host)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = our_handler;
	sa.sa_flags = SA_RESTART | SA_ONSTACK;
	if (host->sa_handler != SIG_DFL && host->sa_handler != SIG_IGN)
		sa.sa_flags &= host->sa_flags;
	sa.sa_flags |= SA_SIGINFO;
	(void)sigfillset(&sa.sa_mask);
	return sa;
}

void sp_signals_follow(const struct sigaction *host)
{
	struct sigaction sa = our_action(host);
	int saved = errno;

	(void)__sigaction(sp_signals_number(), &sa, NULL);
	errno = saved;
}

int sp_signals_install(int signo, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction sa;
	struct sigaction was;
	int saved = errno;

	if (sp_signals_number() != 0)
		return 0;
	if (__sigaction == NULL)
		return -ENOSYS;
	our_handler = handler;
	if (__sigaction(signo, NULL, &was) != 0) {
		int err = errno;

		errno = saved;
		return -err;
	}
	sa = our_action(&was);
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
