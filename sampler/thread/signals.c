/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the sampling signal, installs our handler for it and keeps it installed while the host
 * believes that its own is (signals.h). Context: APP.
 */
#include "sampler/thread/signals.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "sampler/base/process.h"
#include "sampler/thread/thread.h"
#include "sampler/thread/virtual_mask.h"

/*
 * The C library's own name of sigaction(2) (glibc: signal/sigaction.c, exported since 2.2.5),
 * because the preload part interposes the public one. Weak, because other C libraries do not have
 * it.
 */
int __sigaction(int signo, const struct sigaction *act, struct sigaction *old)
	__attribute__((weak));

/* Bits of the kernel's signal set (include/uapi/asm-generic/signal.h). */
#define SIGNALS 64
/* The last numbers are left to tools that talk to a program by signals (valgrind does). */
#define TOP_LEFT_OUT 3

static void (*our_handler)(int, siginfo_t *, void *);
static _Atomic bool may_move;
static _Atomic bool on_alternate_stack; /* some handler of the host has SA_ONSTACK */

/*
 * The kernel looks at the flags of our handler, not at those of the host's handler that we call. A
 * call that the host's handler is meant to interrupt has to fail with EINTR, and the handler has to
 * run on the stack that it asked for. So SA_RESTART and SA_ONSTACK are taken from the host's
 * handler.
 *
 * If the host has no handler for the signal, no call is interrupted, and alternate stacks are used
 * as soon as any handler of the host uses them, because coroutine stacks may be small. If none
 * does, they are not: an alternate stack that nobody uses may be too small, or unmapped long ago.
 *
 * All signals of the kernel are blocked meanwhile. sigfillset() leaves out the two that the C
 * library keeps for itself. By one of them, SIGCANCEL, another thread could end this one in the
 * middle of a record, and the ring would wait for that record for ever.
 */
static struct sigaction our_action(const struct sigaction *host)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = our_handler;
	sa.sa_flags = SA_RESTART;
	if (sp_signals_on_alternate_stack())
		sa.sa_flags |= SA_ONSTACK;
	if (host->sa_handler != SIG_DFL && host->sa_handler != SIG_IGN)
		sa.sa_flags = host->sa_flags & (SA_RESTART | SA_ONSTACK);
	sa.sa_flags |= SA_SIGINFO;
	memset(&sa.sa_mask, 0xff, sizeof(sa.sa_mask));
	return sa;
}

void sp_signals_follow(int signo, const struct sigaction *host)
{
	struct sigaction sa = our_action(host);
	int saved = errno;

	(void)__sigaction(signo, &sa, NULL);
	errno = saved;
}

bool sp_signals_on_alternate_stack(void)
{
	return atomic_load_explicit(&on_alternate_stack, memory_order_relaxed);
}

static bool any_on_alternate_stack(void)
{
	for (int signo = 1; signo <= SIGNALS; signo++) {
		struct sigaction now;

		if (__sigaction(signo, NULL, &now) == 0 && now.sa_handler != SIG_DFL &&
		    now.sa_handler != SIG_IGN && (now.sa_flags & SA_ONSTACK) != 0)
			return true;
	}
	return false;
}

void sp_signals_use_alternate_stack(void)
{
	if (atomic_exchange_explicit(&on_alternate_stack, true, memory_order_seq_cst))
		return;
	/* before our signal may be delivered there */
	sp_thread_disarm_cramped();
	for (unsigned i = 0; i < 2; i++) {
		int signo = i == 0 ? sp_signals_number() : sp_signals_former();
		struct sigaction host;

		if (signo != 0 && sp_signals_virtual(signo, NULL, &host) == 0)
			sp_signals_follow(signo, &host);
	}
}

/* The first real-time signal, from the top, that nothing in the process seems to use. */
static int free_number(void)
{
	for (int signo = SIGRTMAX - TOP_LEFT_OUT; signo > SIGRTMIN; signo--) {
		struct sigaction now;

		if (__sigaction(signo, NULL, &now) == 0 && now.sa_handler == SIG_DFL &&
		    !sp_virtual_mask_is_about(signo))
			return signo;
	}
	return 0;
}

static bool is_used_by_host(int signo)
{
	struct sigaction now;

	if (sp_virtual_mask_is_about(signo))
		return true;
	return __sigaction(signo, NULL, &now) == 0 && now.sa_handler != SIG_DFL &&
	       now.sa_handler != SIG_IGN;
}

static int install(int signo)
{
	struct sigaction sa;
	struct sigaction was;
	int err;

	if (__sigaction(signo, NULL, &was) != 0)
		return -errno;
	sa = our_action(&was);
	/* before ours is installed, so that a foreign signal always finds the host's handler */
	if (!sp_signals_own(signo, &was))
		return -EBUSY;
	if (__sigaction(signo, &sa, NULL) == 0) {
		sp_signals_use(signo);
		return 0;
	}
	err = errno;
	sp_signals_disown(signo);
	return -err;
}

int sp_signals_install(int signo, void (*handler)(int, siginfo_t *, void *))
{
	int saved = errno;
	int err;

	if (sp_signals_number() != 0)
		return 0;
	if (__sigaction == NULL)
		return -ENOSYS;
	our_handler = handler;
	atomic_store_explicit(&on_alternate_stack, any_on_alternate_stack(), memory_order_relaxed);
	if (signo == 0) {
		signo = is_used_by_host(SIGURG) ? free_number() : SIGURG;
		if (signo == 0)
			signo = SIGURG;
		atomic_store_explicit(&may_move, signo == SIGURG, memory_order_relaxed);
	}
	err = install(signo);
	errno = saved;
	return err;
}

bool sp_signals_may_fall_back(void)
{
	return atomic_load_explicit(&may_move, memory_order_relaxed) && sp_process_is_ours();
}

bool sp_signals_fall_back(void)
{
	int saved = errno;
	int signo;
	bool installed;

	if (!atomic_exchange_explicit(&may_move, false, memory_order_acq_rel))
		return false;
	signo = free_number();
	installed = signo != 0 && install(signo) == 0;
	errno = saved;
	return installed;
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
