/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Alternate signal stacks of the host. Where a handler of the host uses them, ours has to run there too
 * (sampler/thread/alternate_stack.h), so we look on when the first such handler is set, and when a
 * thread changes its stack. Dispositions themselves are the host's business: our signal is none that it
 * can name. APP context; async-signal-safe once the real functions were found, as sigaction(2) must be.
 */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "preload/elf/resolve.h"
#include "preload/lifecycle/lifecycle.h"
#include "sampler/base/compiler.h"
#include "sampler/base/process.h"
#include "sampler/base/seccomp.h"
#include "sampler/thread/signals.h"
#include "sampler/thread/thread.h"

SP_EXPORT int sigaction(int signo, const struct sigaction *restrict act,
			struct sigaction *restrict old)
{
	__typeof__(&sigaction) next = SP_NEXT(sigaction);
	struct sigaction now;
	int rc;

	if (next == NULL) {
		errno = ENOSYS;
		return -1;
	}
	rc = next(signo, act, old);
	/*
	 * What is set now is asked for, because *act may have been overwritten with the old one. A child of
	 * vfork has our memory and dispositions of its own.
	 */
	if (rc == 0 && act != NULL && sp_lifecycle_active() && !sp_seccomp_is_on() &&
	    !sp_signals_on_alternate_stack() && sp_process_is_ours() &&
	    next(signo, NULL, &now) == 0 && (now.sa_flags & SA_ONSTACK) != 0)
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
