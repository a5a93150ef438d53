/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's signal masks. Its calls reach the kernel unchanged; around them the calling thread's
 * timer is taken away while our signal is blocked and given back when it no longer is, so that the
 * signal is never pending where the host waits for signals. APP context; async-signal-safe, as
 * pthread_sigmask(3) is.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "preload/life.h"
#include "preload/resolve.h"
#include "sampler/compiler.h"
#include "sampler/signals.h"
#include "sampler/thread.h"

static bool names_ours(const sigset_t *set)
{
	return sigismember(set, sp_signals_number()) == 1;
}

static void before(int how, const sigset_t *set)
{
	if (set != NULL && how != SIG_UNBLOCK && sp_life_active() && names_ours(set))
		sp_thread_rest();
}

/* Also after a call that failed: arming asks the kernel what the mask really is. */
static void after(int how, const sigset_t *set)
{
	int saved = errno;

	if (set != NULL && how != SIG_BLOCK && sp_life_active() && sp_thread_own != NULL &&
	    names_ours(set) == (how == SIG_UNBLOCK))
		sp_thread_rearm();
	errno = saved;
}

SP_EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	__typeof__(&pthread_sigmask) next = SP_NEXT(pthread_sigmask);
	int rc;

	if (next == NULL)
		return ENOSYS;
	before(how, set);
	rc = next(how, set, old);
	after(how, set);
	return rc;
}

SP_EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	__typeof__(&sigprocmask) next = SP_NEXT(sigprocmask);
	int rc;

	if (next == NULL) {
		errno = ENOSYS;
		return -1;
	}
	before(how, set);
	rc = next(how, set, old);
	after(how, set);
	return rc;
}
