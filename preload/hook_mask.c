/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's signal masks. Where one blocks nearly everything our signal stays out of what the
 * kernel gets (sampler/virtual_mask.h). Every other call reaches the kernel unchanged; around it the
 * calling thread's timer is taken away while our signal is blocked and given back when it no longer
 * is, so that the signal is never pending where the host waits for signals. APP context;
 * async-signal-safe, as pthread_sigmask(3) is.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "preload/lifecycle.h"
#include "preload/resolve.h"
#include "sampler/compiler.h"
#include "sampler/signal_fallback.h"
#include "sampler/signals.h"
#include "sampler/thread.h"
#include "sampler/virtual_mask.h"

typedef int (*mask_call)(int how, const sigset_t *set, sigset_t *old);

static bool names_ours(const sigset_t *set)
{
	return sigismember(set, sp_signals_number()) == 1;
}

static bool blocks_ours(int how, const sigset_t *set)
{
	return set != NULL && how != SIG_UNBLOCK && sp_lifecycle_active() && names_ours(set);
}

/* Also after a call that failed: arming asks the kernel what the mask really is. */
static void after(int how, const sigset_t *set)
{
	int saved = errno;

	if (set != NULL && how != SIG_BLOCK && sp_lifecycle_active() && sp_thread_own != NULL &&
	    names_ours(set) == (how == SIG_UNBLOCK))
		sp_thread_rearm();
	errno = saved;
}

/*
 * The mask is marked first: a foreign signal that comes in between finds the old mask in its
 * context, and that decides.
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

		/* The host may have blocked it by a call of its own, before all the others. */
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
