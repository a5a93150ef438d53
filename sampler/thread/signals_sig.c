/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the host's disposition of the sampling signal, and calls it for signals that are not from
 * our timers. Runs in the signal handler (chain) and in hooked sigaction calls, which a host may
 * make from its own handlers.
 *
 * Calling the host's handler is one of the two calls through a pointer in the handler: it is the
 * call that the kernel would have made without us. The other one is _dl_find_object
 * (object_cache_sig.c).
 */
#include "sampler/thread/signals.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/base/seccomp.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

/*
 * For each signal that our handler is installed for: two copies of the host's disposition and a
 * version; readers use copy[version & 1], so that a handler that interrupts a writer reads a whole
 * one. Writers are hosts that call sigaction for our signal, which is rare; the last one wins, as
 * in the kernel. There is a second signal after a fallback (signal_fallback.h), and the first one
 * stays ours for good.
 */
struct owned {
	_Atomic int signo;
	_Atomic unsigned version;
	struct sigaction copy[2];
};
static struct owned owned[2];
static _Atomic int in_use;

/* Bytes of the kernel's signal set. */
#define KERNEL_SIGSET_SIZE 8U

static struct owned *find(int signo)
{
	for (unsigned i = 0; i < SP_ARRAY_LEN(owned); i++) {
		if (atomic_load_explicit(&owned[i].signo, memory_order_acquire) == signo)
			return &owned[i];
	}
	return NULL;
}

SP_SIGSAFE int sp_signals_number(void)
{
	return atomic_load_explicit(&in_use, memory_order_seq_cst);
}

int sp_signals_former(void)
{
	int first = atomic_load_explicit(&owned[0].signo, memory_order_acquire);

	return first != sp_signals_number() ? first : 0;
}

bool sp_signals_is_ours(int signo)
{
	return signo != 0 && find(signo) != NULL;
}

static struct sigaction host_now(const struct owned *o)
{
	unsigned v = atomic_load_explicit(&o->version, memory_order_acquire);

	return o->copy[v & 1];
}

static void host_set(struct owned *o, const struct sigaction *act)
{
	unsigned v = atomic_load_explicit(&o->version, memory_order_relaxed);

	o->copy[(v + 1) & 1] = *act;
	/* pairs with host_now() */
	atomic_store_explicit(&o->version, v + 1, memory_order_release);
}

int sp_signals_virtual(int signo, const struct sigaction *act, struct sigaction *old)
{
	struct owned *o = find(signo);
	struct sigaction was;

	if (signo == 0 || o == NULL)
		return -EINVAL;
	was = host_now(o);
	if (act != NULL)
		host_set(o, act);
	if (old != NULL)
		*old = was;
	return 0;
}

bool sp_signals_own(int signo, const struct sigaction *was)
{
	struct owned *o = find(0);

	if (o == NULL)
		return false;
	host_set(o, was);
	atomic_store_explicit(&o->signo, signo, memory_order_release);
	return true;
}

void sp_signals_disown(int signo)
{
	struct owned *o = find(signo);

	if (o != NULL)
		atomic_store_explicit(&o->signo, 0, memory_order_release);
}

void sp_signals_use(int signo)
{
	atomic_store_explicit(&in_use, signo, memory_order_seq_cst);
}

static bool ignored_by_default(int signo)
{
	return signo == SIGURG || signo == SIGCHLD || signo == SIGWINCH || signo == SIGCONT;
}

/* The host left the default action to a signal that ends the process: the process ends. */
static void default_action(int signo)
{
	/* The kernel's layout (x86-64 and arm64): handler, flags, restorer, mask. All 0 is SIG_DFL. */
	uint64_t dfl[4] = {0, 0, 0, 0};

	if (ignored_by_default(signo))
		return;
	/* Also below a filter: the process ends in any case. */
	(void)syscall(SYS_rt_sigaction, signo, dfl, NULL, KERNEL_SIGSET_SIZE);
	(void)syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signo);
}

SP_SIGSAFE void sp_signals_chain(int signo, siginfo_t *si, void *ucontext)
{
	struct owned *o = find(signo);
	struct sigaction host;
	uint64_t saved_mask = 0;

	if (o == NULL)
		return;
	host = host_now(o);
	/* As in the kernel, SIG_IGN and SIG_DFL mean the same with SA_SIGINFO. */
	if (host.sa_handler == SIG_IGN)
		return;
	if (host.sa_handler == SIG_DFL) {
		default_action(signo);
		return;
	}
	if (host.sa_flags & (int)SA_RESETHAND) {
		struct sigaction dfl = host;

		/* Flags and mask stay, as in the kernel. */
		dfl.sa_handler = SIG_DFL;
		host_set(o, &dfl);
	}
	/* Our handler runs with everything blocked; the host's asked for its own mask only. */
	ucontext_t *uc = ucontext;
	uint64_t mask;
	uint64_t add;

	memcpy(&mask, &uc->uc_sigmask, sizeof(mask));
	memcpy(&add, &host.sa_mask, sizeof(add));
	mask |= add;
	if (!(host.sa_flags & (int)SA_NODEFER))
		mask |= UINT64_C(1) << (signo - 1);
	/*
	 * Below a filter the mask cannot be changed; the host's handler then runs with more signals
	 * blocked than it asked for.
	 */
	bool unmasked = sp_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, &saved_mask,
				   KERNEL_SIGSET_SIZE) == 0;

	if (host.sa_flags & SA_SIGINFO)
		host.sa_sigaction(signo, si, ucontext);
	else
		host.sa_handler(signo);
	if (unmasked)
		(void)sp_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &saved_mask, NULL,
				 KERNEL_SIGSET_SIZE);
}
