/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's use of the sampling signal. While sampling is on, calls that would replace our handler
 * change the host's virtual disposition instead (sampler/thread/signals.h), and read it back. Every other
 * signal, and every call before sampling starts, goes straight through. APP context;
 * async-signal-safe once the real functions were found, as sigaction(2) must be.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>

#include "preload/elf/resolve.h"
#include "preload/lifecycle/lifecycle.h"
#include "sampler/base/compiler.h"
#include "sampler/base/seccomp.h"
#include "sampler/thread/signal_fallback.h"
#include "sampler/thread/signals.h"
#include "sampler/thread/thread.h"

/* The older functions are called by older programs. */
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

static int is_ours(int signo)
{
	return sp_signals_is_ours(signo);
}

static int set_virtual(int signo, const struct sigaction *act, struct sigaction *old)
{
	struct sigaction wanted;

	if (act == NULL)
		return sp_signals_virtual(signo, NULL, old);
	/* The host may have the old one written into the same place. */
	wanted = *act;
	if (signo == sp_signals_number() && wanted.sa_handler != SIG_DFL &&
	    wanted.sa_handler != SIG_IGN)
		sp_signal_fallback();
	sp_signals_follow(signo, &wanted);
	return sp_signals_virtual(signo, &wanted, old);
}

/* Asks for what is set now: *act may have been overwritten with the old one. */
static int wants_alternate_stack(int signo, __typeof__(&sigaction) next)
{
	struct sigaction now;
	int rc;

	if (sp_signals_on_alternate_stack())
		return 0;
	rc = is_ours(signo) ? sp_signals_virtual(signo, NULL, &now) : next(signo, NULL, &now);
	return rc == 0 && (now.sa_flags & SA_ONSTACK) != 0;
}

SP_EXPORT int sigaction(int signo, const struct sigaction *restrict act,
			struct sigaction *restrict old)
{
	__typeof__(&sigaction) next = SP_NEXT(sigaction);
	int rc;

	if (is_ours(signo)) {
		rc = set_virtual(signo, act, old);
	} else if (next != NULL) {
		rc = next(signo, act, old);
	} else {
		errno = ENOSYS;
		return -1;
	}
	if (rc == 0 && act != NULL && sp_lifecycle_active() && !sp_seccomp_is_on() &&
	    wants_alternate_stack(signo, next))
		sp_signals_use_alternate_stack();
	return rc;
}

/*
 * Between the call and our look at the new stack, our signal could be delivered on a stack that is
 * too small for it. So the thread has no timer meanwhile.
 */
SP_EXPORT int sigaltstack(const stack_t *restrict stack, stack_t *restrict old)
{
	__typeof__(&sigaltstack) next = SP_NEXT(sigaltstack);
	bool ours = sp_lifecycle_active() && sp_thread_alternate_begin();
	int rc = -1;

	if (next != NULL)
		rc = next(stack, old);
	else
		errno = ENOSYS;
	if (ours)
		sp_thread_alternate_end();
	return rc;
}

/* Sets a disposition with these flags and this mask, as glibc's signal/ directory does. */
static __sighandler_t set_plain(int signo, __sighandler_t handler, int flags, int masks_itself)
{
	struct sigaction act;
	struct sigaction old;

	memset(&act, 0, sizeof(act));
	act.sa_handler = handler;
	act.sa_flags = flags;
	if (masks_itself)
		(void)sigaddset(&act.sa_mask, signo);
	(void)set_virtual(signo, &act, &old);
	return old.sa_handler;
}

/* What three functions of BSD and two of System V have in common: they differ in these flags and masks. */
static __sighandler_t set_old(__sighandler_t (*next)(int, __sighandler_t), int signo,
			      __sighandler_t handler, int flags, int masks_itself)
{
	if (is_ours(signo))
		return set_plain(signo, handler, flags, masks_itself);
	if (next != NULL)
		return next(signo, handler);
	errno = ENOSYS;
	return SIG_ERR;
}

/* BSD semantics (sysdeps/posix/signal.c), under three names. */
static __sighandler_t set_bsd(__sighandler_t (*next)(int, __sighandler_t), int signo,
			      __sighandler_t handler)
{
	return set_old(next, signo, handler, SA_RESTART, 1);
}

SP_EXPORT __sighandler_t signal(int signo, __sighandler_t handler)
{
	return set_bsd(SP_NEXT(signal), signo, handler);
}

SP_EXPORT __sighandler_t ssignal(int signo, __sighandler_t handler)
{
	return set_bsd(SP_NEXT(ssignal), signo, handler);
}

/* <signal.h> no longer declares it; programs of old still call it. */
__sighandler_t bsd_signal(int signo, __sighandler_t handler);

SP_EXPORT __sighandler_t bsd_signal(int signo, __sighandler_t handler)
{
	return set_bsd(SP_NEXT(bsd_signal), signo, handler);
}

/* One shot (sysdeps/posix/sysv_signal.c); signal() of a strict C program is this one. */
static __sighandler_t set_sysv(__sighandler_t (*next)(int, __sighandler_t), int signo,
			       __sighandler_t handler)
{
	return set_old(next, signo, handler, (int)SA_RESETHAND | SA_NODEFER, 0);
}

SP_EXPORT __sighandler_t sysv_signal(int signo, __sighandler_t handler)
{
	return set_sysv(SP_NEXT(sysv_signal), signo, handler);
}

SP_EXPORT __sighandler_t __sysv_signal(int signo, __sighandler_t handler)
{
	return set_sysv(SP_NEXT(__sysv_signal), signo, handler);
}

/* System V's other pair (sysdeps/posix/sigset.c, sigignore.c). It unblocks the signal as well. */
SP_EXPORT __sighandler_t sigset(int signo, __sighandler_t disposition)
{
	__typeof__(&sigset) next = SP_NEXT(sigset);

	if (is_ours(signo) && disposition != SIG_HOLD) {
		__sighandler_t old = set_plain(signo, disposition, 0, 0);
		sigset_t own;
		sigset_t mask;

		(void)sigemptyset(&own);
		(void)sigaddset(&own, signo);
		(void)sigprocmask(SIG_UNBLOCK, &own, &mask);
		return sigismember(&mask, signo) == 1 ? SIG_HOLD : old;
	}
	if (next != NULL)
		return next(signo, disposition);
	errno = ENOSYS;
	return SIG_ERR;
}

SP_EXPORT int sigignore(int signo)
{
	__typeof__(&sigignore) next = SP_NEXT(sigignore);

	if (is_ours(signo)) {
		(void)set_plain(signo, SIG_IGN, 0, 0);
		return 0;
	}
	if (next != NULL)
		return next(signo);
	errno = ENOSYS;
	return -1;
}

SP_EXPORT int siginterrupt(int signo, int interrupt)
{
	__typeof__(&siginterrupt) next = SP_NEXT(siginterrupt);

	if (is_ours(signo)) {
		struct sigaction act;

		(void)sp_signals_virtual(signo, NULL, &act);
		act.sa_flags &= ~SA_RESTART;
		if (!interrupt)
			act.sa_flags |= SA_RESTART;
		return set_virtual(signo, &act, NULL);
	}
	if (next != NULL)
		return next(signo, interrupt);
	errno = ENOSYS;
	return -1;
}
