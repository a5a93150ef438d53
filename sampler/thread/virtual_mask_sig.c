/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The handler's side of the virtual mask. Our handler runs in a thread whose host believes the
 * signal to be blocked. If somebody else sent the signal, the host must not see it now, and must
 * not lose it either: it is queued again in the kernel, and the thread blocks it for real from then
 * on. Runs inside the sampling signal on the thread; what both handler and hooks ask is here too.
 */
#include "sampler/thread/virtual_mask.h"

#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "sampler/base/seccomp.h"
#include "sampler/thread/signals.h"
#include "sampler/thread/thread_table.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

#define KERNEL_SIGSET_SIZE 8U
/* Of 62 that a program can block; HAProxy leaves five out, nginx four. */
#define BLANKET_MIN 48

static _Atomic uint64_t read_by_descriptor;

static uint64_t bits(const sigset_t *set)
{
	uint64_t b;

	memcpy(&b, set, sizeof(b));
	return b;
}

static uint64_t bit_of(int signo)
{
	return signo > 0 ? UINT64_C(1) << (signo - 1) : 0;
}

SP_SIGSAFE bool sp_virtual_mask_blanket(const sigset_t *set)
{
	int n = 0;

	/* Not by the compiler's builtin, which may call libgcc. */
	for (uint64_t left = bits(set); left != 0; left &= left - 1)
		n++;
	return n >= BLANKET_MIN;
}

SP_SIGSAFE int sp_virtual_mask_differs(void)
{
	const struct sp_thread *t = sp_thread_own;

	return t != NULL ? atomic_load_explicit(&t->mask_differs, memory_order_relaxed) : 0;
}

SP_SIGSAFE void sp_virtual_mask_forbid(const sigset_t *set)
{
	/*
	 * Pairs with sp_thread_disarm_differing() and sp_thread_arm(): the second of the two sees
	 * the store of the first.
	 */
	atomic_fetch_or_explicit(&read_by_descriptor, bits(set), memory_order_seq_cst);
}

SP_SIGSAFE bool sp_virtual_mask_forbidden(int signo)
{
	return (atomic_load_explicit(&read_by_descriptor, memory_order_seq_cst) & bit_of(signo)) !=
	       0;
}

static void take_timer(struct sp_thread *t)
{
	int timer = atomic_exchange_explicit(&t->timer, SP_THREAD_TIMER_NONE, memory_order_seq_cst);

	if (timer == SP_THREAD_TIMER_NONE)
		return;
	(void)sp_syscall(SYS_timer_delete, timer - 1);
	atomic_fetch_sub_explicit(&sp_thread_table.armed, 1, memory_order_relaxed);
}

/*
 * Queues the signal again. The kernel accepts an unchanged siginfo only if the call names the
 * calling thread (do_rt_sigqueueinfo, linux 6.1). From another thread, a signal for the whole
 * process has to say SI_QUEUE instead; sender and value stay.
 */
static void give_back(int signo, const siginfo_t *si)
{
	siginfo_t copy = *si;
	long tid = sp_syscall(SYS_gettid);
	pid_t pid = getpid();

	if (si->si_code == SI_TKILL) {
		(void)sp_syscall(SYS_rt_tgsigqueueinfo, pid, tid, signo, &copy);
		return;
	}
	if (tid != pid && copy.si_code >= 0)
		copy.si_code = SI_QUEUE;
	(void)sp_syscall(SYS_rt_sigqueueinfo, pid, signo, &copy);
}

static bool is_ours(const siginfo_t *si)
{
	uint64_t value = (uint64_t)(uintptr_t)si->si_value.sival_ptr;

	return si->si_code == SI_TIMER && (uint32_t)(value >> 32) == sp_thread_table.cookie;
}

SP_SIGSAFE void sp_virtual_mask_take_sent(int signo)
{
	struct timespec none = {0, 0};
	uint64_t set = bit_of(signo);
	siginfo_t waiting = {0};

	if (sp_syscall(SYS_rt_sigtimedwait, &set, &waiting, &none, KERNEL_SIGSET_SIZE) == signo &&
	    !is_ours(&waiting))
		give_back(signo, &waiting);
}

SP_SIGSAFE bool sp_virtual_mask_defer(int signo, const siginfo_t *si, void *ucontext)
{
	ucontext_t *uc = ucontext;
	uint64_t mask;

	if (sp_virtual_mask_differs() != signo || !sp_virtual_mask_blanket(&uc->uc_sigmask))
		return false;
	/* Below a filter it cannot be queued again, and the program must not get it now. */
	if (sp_seccomp_is_on())
		return true;
	atomic_store_explicit(&sp_thread_own->blocks, true, memory_order_relaxed);
	take_timer(sp_thread_own);
	memcpy(&mask, &uc->uc_sigmask, sizeof(mask));
	mask |= bit_of(signo);
	memcpy(&uc->uc_sigmask, &mask, sizeof(mask));
	atomic_store_explicit(&sp_thread_own->mask_differs, 0, memory_order_relaxed);
	sp_virtual_mask_take_sent(signo);
	give_back(signo, si);
	return true;
}
