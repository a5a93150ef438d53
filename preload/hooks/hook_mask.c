/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's changes of signal masks. If a mask blocks nearly everything, our signal is left out of
 * what the kernel gets (sampler/thread/virtual_mask.h). Every other call reaches the kernel unchanged. A
 * signal of ours must never be pending where the host waits for signals, so while the calling
 * thread blocks our signal it has no timer; it gets one when it unblocks it.
 *
 * APP context; async-signal-safe, as pthread_sigmask(3) is.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "preload/elf/resolve.h"
#include "preload/lifecycle/lifecycle.h"
#include "sampler/base/compiler.h"
#include "sampler/thread/signal_fallback.h"
#include "sampler/thread/signals.h"
#include "sampler/thread/thread.h"
#include "sampler/thread/virtual_mask.h"

typedef int (*mask_call)(int how, const sigset_t *set, sigset_t *old);

static bool names_ours(const sigset_t *set)
{
	return sigismember(set, sp_signals_number()) == 1;
}

static bool blocks_ours(int how, const sigset_t *set)
{
	return set != NULL && how != SIG_UNBLOCK && sp_lifecycle_active() && names_ours(set);
}

/* Also after a call that failed, because arming asks the kernel for the real mask. */
static void after(int how, const sigset_t *set)
{
	int saved = errno;

	if (set != NULL && how != SIG_BLOCK && sp_lifecycle_active() && sp_thread_own != NULL &&
	    names_ours(set) == (how == SIG_UNBLOCK))
		sp_thread_rearm();
	errno = saved;
}

/*
 * The difference is noted before the call. If a foreign signal comes in between, its context has
 * the old mask, and that decides.
 */
static int change_without_ours(mask_call next, int how, const sigset_t *set, sigset_t *old)
{
	bool differed = sp_virtual_mask_differs() == sp_signals_number();
	sigset_t less;
	int rc;

	if (!sp_virtual_mask_copy(set, &less))
		return next(how, set, old);
	(void)sigdelset(&less, sp_signals_number());
	sp_virtual_mask_begin();
	rc = next(how, &less, old);
	if (!differed) {
		int saved = errno;

		/* The host may already have blocked our signal alone, by an earlier call. */
		if (rc != 0 || !sp_virtual_mask_differs_now())
			sp_virtual_mask_end();
		else
			sp_thread_rearm();
		errno = saved;
	}
	return rc;
}

static int change_as_told(mask_call next, int how, const sigset_t *set, sigset_t *old)
{
	int differs = sp_virtual_mask_differs();
	bool shrinks = set != NULL && how == SIG_UNBLOCK && sp_virtual_mask_differs_now();
	int rc;

	if (blocks_ours(how, set))
		sp_thread_disarm_own();
	rc = next(how, set, old);
	/* another thread may have armed us in between */
	if (rc == 0 && blocks_ours(how, set))
		sp_virtual_mask_leave_none();
	if (set != NULL && differs != 0 && (how == SIG_SETMASK || sigismember(set, differs) == 1))
		sp_virtual_mask_end();
	else if (shrinks && !sp_virtual_mask_differs_now())
		sp_virtual_mask_make_real();
	after(how, set);
	return rc;
}

static int change(mask_call next, int how, const sigset_t *set, sigset_t *old)
{
	int differed = sp_virtual_mask_differs();
	int rc;

	if (set != NULL && how != SIG_UNBLOCK)
		sp_signal_fallback_for(set);
	if (set != NULL && (how == SIG_BLOCK || how == SIG_SETMASK) && sp_lifecycle_active() &&
	    sp_virtual_mask_wanted(set))
		rc = change_without_ours(next, how, set, old);
	else
		rc = change_as_told(next, how, set, old);
	if (differed != 0 && rc == 0 && old != NULL && sp_virtual_mask_blanket(old))
		(void)sigaddset(old, differed);
	return rc;
}

SP_EXPORT int pthread_sigmask(int how, const sigset_t *set, sigset_t *old)
{
	__typeof__(&pthread_sigmask) next = SP_NEXT(pthread_sigmask);

	return next != NULL ? change(next, how, set, old) : ENOSYS;
}

SP_EXPORT int sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	__typeof__(&sigprocmask) next = SP_NEXT(sigprocmask);

	if (next != NULL)
		return change(next, how, set, old);
	errno = ENOSYS;
	return -1;
}
