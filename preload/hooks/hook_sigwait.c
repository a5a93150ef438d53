/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that wait for signals, ours among them. Before the wait, the kernel's mask is made what
 * the thread believes it to be (sampler/thread/virtual_mask.h), so that the host never receives a signal
 * of our timer. The waits are cancellation points, so nothing of ours happens after them. APP
 * context.
 */
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>

#include "preload/elf/resolve.h"
#include "preload/lifecycle/lifecycle.h"
#include "sampler/base/compiler.h"
#include "sampler/thread/signal_fallback.h"
#include "sampler/thread/virtual_mask.h"

/*
 * The set has to be read before the wait. So the kernel is asked first whether it is readable: for
 * a bad pointer the host must get EFAULT from the wait, and not a SIGSEGV from us.
 */
static void settle_for(const sigset_t *set)
{
	sigset_t copy;

	if (!sp_lifecycle_active() || !sp_virtual_mask_copy(set, &copy))
		return;
	sp_signal_fallback_for(&copy);
	sp_virtual_mask_before_wait(&copy);
}

SP_EXPORT int sigwait(const sigset_t *restrict set, int *restrict signo)
{
	__typeof__(&sigwait) next = SP_NEXT(sigwait);

	settle_for(set);
	return next != NULL ? next(set, signo) : ENOSYS;
}

SP_EXPORT int sigwaitinfo(const sigset_t *restrict set, siginfo_t *restrict info)
{
	__typeof__(&sigwaitinfo) next = SP_NEXT(sigwaitinfo);

	settle_for(set);
	if (next != NULL)
		return next(set, info);
	errno = ENOSYS;
	return -1;
}

SP_EXPORT int sigtimedwait(const sigset_t *restrict set, siginfo_t *restrict info,
			   const struct timespec *restrict timeout)
{
	__typeof__(&sigtimedwait) next = SP_NEXT(sigtimedwait);

	settle_for(set);
	if (next != NULL)
		return next(set, info, timeout);
	errno = ENOSYS;
	return -1;
}

/*
 * Also before sampling starts, because the descriptor stays. The set is read after the call, when
 * the kernel has accepted it.
 */
SP_EXPORT int signalfd(int fd, const sigset_t *set, int flags)
{
	__typeof__(&signalfd) next = SP_NEXT(signalfd);
	sigset_t copy;
	int made = -1;

	if (next != NULL)
		made = next(fd, set, flags);
	else
		errno = ENOSYS;
	if (made >= 0 && sp_lifecycle_wanted() && sp_virtual_mask_copy(set, &copy)) {
		sp_signal_fallback_for(&copy);
		sp_virtual_mask_read_by_descriptor(&copy);
	}
	return made;
}
