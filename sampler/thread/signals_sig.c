/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows the signal in use, and hands on what is not from our timers. Measures the kernel's signal frame, and tells
 * how much room an alternate stack has. Runs in the signal handler and in hooked calls; sp_alternate_stack_own()
 * and sp_alternate_stack_init() are APP.
 *
 * Calling the handler that was there before is one of the two calls through a pointer in the handler: it
 * is the call that the kernel would have made without us. The other one is _dl_find_object
 * (object_sig.c).
 */
#include "sampler/thread/signals.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/seccomp.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

/* Bytes of the kernel's signal set. */
#define KERNEL_SIGSET_SIZE 8U

/*
 * What was installed before, for signal 33 and for any other one: two copies and a version. Readers use
 * copy[version & 1], so that a handler that interrupts a writer reads a whole one.
 */
static struct before {
	struct sp_signals_action copy[2];
	_Atomic unsigned version;
} before_of[2];
static _Atomic int in_use;

SP_SIGSAFE int sp_signals_number(void)
{
	return atomic_load_explicit(&in_use, memory_order_seq_cst);
}

void sp_signals_use(int signo, const struct sp_signals_action *before)
{
	struct before *b = &before_of[signo == SP_SIGNAL_SETXID];
	unsigned v = atomic_load_explicit(&b->version, memory_order_relaxed);

	b->copy[(v + 1) & 1] = *before;
	/* pairs with sp_signals_before() */
	atomic_store_explicit(&b->version, v + 1, memory_order_release);
	atomic_store_explicit(&in_use, signo, memory_order_seq_cst);
}

SP_SIGSAFE struct sp_signals_action sp_signals_before(int signo)
{
	const struct before *b = &before_of[signo == SP_SIGNAL_SETXID];
	unsigned v = atomic_load_explicit(&b->version, memory_order_acquire);

	return b->copy[v & 1];
}

static bool ignored_by_default(int signo)
{
	return signo == SIGURG || signo == SIGCHLD || signo == SIGWINCH || signo == SIGCONT;
}

/* Nobody had a handler, and the default action ends the process: so it ends. */
static void default_action(int signo)
{
	const struct sp_signals_action dfl = {.plain = SIG_DFL};

	if (ignored_by_default(signo))
		return;
	/* Also below a filter: the process ends in any case. */
	(void)syscall(SYS_rt_sigaction, signo, &dfl, NULL, KERNEL_SIGSET_SIZE);
	(void)syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), signo);
}

SP_SIGSAFE void sp_signals_chain(int signo, siginfo_t *si, void *ucontext)
{
	struct sp_signals_action before = sp_signals_before(signo);
	ucontext_t *uc = ucontext;
	uint64_t saved_mask = 0;
	uint64_t mask;

	/* As in the kernel, SIG_IGN and SIG_DFL mean the same with SA_SIGINFO. */
	if (before.plain == SIG_IGN)
		return;
	if (before.plain == SIG_DFL) {
		default_action(signo);
		return;
	}
	/* Our handler runs with everything blocked; the other one asked for its own mask only. */
	memcpy(&mask, &uc->uc_sigmask, sizeof(mask));
	mask |= before.mask;
	if (!(before.flags & SA_NODEFER))
		mask |= UINT64_C(1) << (signo - 1);
	/*
	 * Below a filter the mask cannot be changed; the other handler then runs with more signals
	 * blocked than it asked for.
	 */
	bool unmasked = sp_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, &saved_mask,
				   KERNEL_SIGSET_SIZE) == 0;

	if (before.flags & SA_SIGINFO)
		before.action(signo, si, ucontext);
	else
		before.plain(signo);
	if (unmasked)
		(void)sp_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &saved_mask, NULL,
				 KERNEL_SIGSET_SIZE);
}

/* In linux/auxvec.h since 5.14. Older headers lack it, and older kernels do not report it (0). */
#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif
/*
 * The size of the frame where the kernel does not report it: x86-64 with AVX-512, arm64 with SVE.
 */
#define FRAME_DEFAULT 4096U
/* No frame is larger; a distance beyond it means two different stacks. */
#define FRAME_MAX 65536U

static uint32_t frame_bound; /* as the kernel reports it; written before the first timer exists */
static _Atomic uint32_t
	frame_measured; /* the largest that was seen, our own entry included; 0 = none */

void sp_alternate_stack_init(void)
{
	unsigned long told = getauxval(AT_MINSIGSTKSZ);

	frame_bound = told > 0 && told < FRAME_MAX ? (uint32_t)told : FRAME_DEFAULT;
}

static void measure(uintptr_t interrupted, uintptr_t frame)
{
	uintptr_t distance = interrupted - frame;

	if (distance < FRAME_MAX &&
	    distance > atomic_load_explicit(&frame_measured, memory_order_relaxed))
		atomic_store_explicit(&frame_measured, (uint32_t)distance, memory_order_relaxed);
}

SP_SIGSAFE size_t sp_alternate_stack_room(const void *ucontext, const void *frame)
{
	const ucontext_t *uc = ucontext;
	uintptr_t base = (uintptr_t)uc->uc_stack.ss_sp;
	uintptr_t here = (uintptr_t)frame;

	if (here - base < uc->uc_stack.ss_size)
		return here - base;
	measure(sp_arch_context_reg(ucontext, SP_ARCH_REG_SP), here);
	return SIZE_MAX;
}

static uint32_t size_of(const stack_t *stack)
{
	if ((stack->ss_flags & SS_DISABLE) != 0)
		return 0;
	return stack->ss_size < UINT32_MAX ? (uint32_t)stack->ss_size : UINT32_MAX;
}

SP_SIGSAFE uint32_t sp_alternate_stack_of(const void *ucontext)
{
	return size_of(&((const ucontext_t *)ucontext)->uc_stack);
}

uint32_t sp_alternate_stack_own(void)
{
	stack_t now = {.ss_flags = SS_DISABLE};
	int saved = errno;

	(void)sp_syscall(SYS_sigaltstack, NULL, &now);
	errno = saved;
	return size_of(&now);
}

/* As measured, or as large as it can be. */
static uint32_t frame_size(void)
{
	uint32_t frame = atomic_load_explicit(&frame_measured, memory_order_relaxed);

	return frame == 0 || frame > frame_bound ? frame_bound : frame;
}

SP_SIGSAFE bool sp_alternate_stack_holds_sample(uint32_t bytes)
{
	return bytes == 0 || bytes >= frame_size() + SP_HANDLER_ROOM_LEAST;
}

SP_SIGSAFE bool sp_alternate_stack_holds_walk(uint32_t bytes)
{
	uint32_t likely = frame_size() < FRAME_DEFAULT ? frame_size() : FRAME_DEFAULT;

	return bytes == 0 || (bytes >= frame_bound + SP_HANDLER_ROOM_LEAST &&
			      bytes >= likely + SP_HANDLER_ROOM_WALK);
}
