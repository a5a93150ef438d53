/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's use of the sampling signal. While sampling is on, calls that would replace our handler
 * change the host's virtual disposition instead, and read it back; every other signal, and every
 * call before, goes straight through. APP context; async-signal-safe once the real functions were
 * found, as sigaction(2) must be.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "preload/resolve.h"
#include "sampler/compiler.h"
#include "sampler/signals.h"

static int is_ours(int signo)
{
	return signo != 0 && signo == sp_signals_number();
}

static int set_virtual(const struct sigaction *act, struct sigaction *old)
{
	struct sigaction wanted;

	if (act == NULL)
		return sp_signals_virtual(NULL, old);
	/* A host may read the old one into the same place. */
	wanted = *act;
	sp_signals_follow(&wanted);
	return sp_signals_virtual(&wanted, old);
}

SP_EXPORT int sigaction(int signo, const struct sigaction *restrict act,
			struct sigaction *restrict old)
{
	__typeof__(&sigaction) next = SP_NEXT(sigaction);

	if (is_ours(signo))
		return set_virtual(act, old);
	if (next != NULL)
		return next(signo, act, old);
	errno = ENOSYS;
	return -1;
}

SP_EXPORT __sighandler_t signal(int signo, __sighandler_t handler)
{
	__typeof__(&signal) next = SP_NEXT(signal);

	if (is_ours(signo)) {
		struct sigaction act;
		struct sigaction old;

		memset(&act, 0, sizeof(act));
		act.sa_handler = handler;
		/* glibc's signal() has BSD semantics (sysdeps/posix/signal.c) */
		act.sa_flags = SA_RESTART;
		(void)sigaddset(&act.sa_mask, signo);
		(void)set_virtual(&act, &old);
		return old.sa_handler;
	}
	if (next != NULL)
		return next(signo, handler);
	errno = ENOSYS;
	return SIG_ERR;
}
