/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hooks' side of the virtual mask: when a thread's mask in the kernel may differ from the one
 * that the host believes in, and when the two have to be made equal again.
 *
 * They may differ only in our signal, and only while that is harmless: the host's mask blocks
 * nearly everything, the host has no handler for the signal, nobody reads it from a descriptor, and
 * the stack has room for our handler. Before the host waits for the signal, asks for it or passes
 * its mask on to another program, the kernel's mask is made what the host believes.
 *
 * Context: APP, the thread itself. Async-signal-safe, as the functions are that it is called from.
 * Raw system calls, because our own hooks stand in front of the C library's.
 */
#include "sampler/thread/virtual_mask.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/base/readable_sig.h"
#include "sampler/base/seccomp.h"
#include "sampler/thread/signals.h"
#include "sampler/thread/thread.h"
#include "sampler/unwind/stack_bounds_sig.h"

#define KERNEL_SIGSET_SIZE 8U
/*
 * A thread that blocks all signals may have a stack with no room for a handler. The kernel's frame
 * takes 3 to 11 KiB, our handler up to 7.
 */
#define ROOM_PAGES 8U

static void set_differs(int signo)
{
	if (sp_thread_own != NULL)
		atomic_store_explicit(&sp_thread_own->mask_differs, signo, memory_order_relaxed);
}

static void change_bit(int how, int signo)
{
	uint64_t bit = UINT64_C(1) << (signo - 1);

	(void)sp_syscall(SYS_rt_sigprocmask, how, &bit, NULL, KERNEL_SIGSET_SIZE);
}

bool sp_virtual_mask_copy(const sigset_t *set, sigset_t *copy)
{
	if (!sp_readable((uintptr_t)set))
		return false;
	(void)sigemptyset(copy);
	memcpy(copy, set, KERNEL_SIGSET_SIZE);
	return true;
}

static sigset_t kernel_mask(void)
{
	sigset_t mask;

	(void)sigemptyset(&mask);
	(void)sp_syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &mask, KERNEL_SIGSET_SIZE);
	return mask;
}

/*
 * The initial thread's stack grows as needed. Other stacks end in a guard page of at least one
 * page, so every page down to there is probed.
 */
static bool has_room(void)
{
	uintptr_t sp = (uintptr_t)__builtin_frame_address(0);
	struct sp_stack_view view;

	if (sp_syscall(SYS_gettid) == getpid())
		return true;
	sp_stack_begin(&view);
	for (unsigned i = 1; i <= ROOM_PAGES; i++) {
		if (!sp_stack_probe(&view, sp - (uintptr_t)i * SP_STACK_PAGE, 1))
			return false;
	}
	return true;
}

bool sp_virtual_mask_wanted(const sigset_t *set)
{
	int signo = sp_signals_number();
	struct sigaction host;

	if (sp_thread_own == NULL || signo == 0 || sp_seccomp_is_on() ||
	    sigismember(set, signo) != 1 || !sp_virtual_mask_blanket(set) ||
	    sp_virtual_mask_forbidden(signo))
		return false;
	/*
	 * A host that handles the signal may unblock it in a system call like ppoll(), which no
	 * hook sees.
	 */
	(void)sp_signals_virtual(signo, NULL, &host);
	return (host.sa_handler == SIG_DFL || host.sa_handler == SIG_IGN) &&
	       (sp_virtual_mask_differs() != 0 || has_room());
}

void sp_virtual_mask_begin(void)
{
	set_differs(sp_signals_number());
}

void sp_virtual_mask_end(void)
{
	set_differs(0);
}

bool sp_virtual_mask_differs_now(void)
{
	int differs = sp_virtual_mask_differs();
	int saved = errno;
	sigset_t now;

	if (differs == 0 || sp_seccomp_is_on())
		return differs != 0;
	now = kernel_mask();
	errno = saved;
	return sp_virtual_mask_blanket(&now) && sigismember(&now, differs) == 0;
}

/* The signal that the thread's timer sends; 0 without a timer. */
static int armed_by(void)
{
	const struct sp_thread *t = sp_thread_own;

	if (t == NULL ||
	    atomic_load_explicit(&t->timer, memory_order_relaxed) == SP_THREAD_TIMER_NONE)
		return 0;
	return atomic_load_explicit(&t->timer_signo, memory_order_relaxed);
}

void sp_virtual_mask_leave_none(void)
{
	int signo = armed_by();
	int saved = errno;

	if (signo != 0 && !sp_seccomp_is_on()) {
		sp_thread_disarm_own();
		sp_virtual_mask_take_sent(signo);
	}
	errno = saved;
}

void sp_virtual_mask_make_real(void)
{
	int differs = sp_virtual_mask_differs();
	int saved = errno;

	if (differs != 0 && !sp_seccomp_is_on()) {
		/*
		 * In this order: a signal that the timer has sent is delivered before the mask
		 * blocks it, and none is sent after.
		 */
		sp_thread_disarm_own();
		change_bit(SIG_BLOCK, differs);
		set_differs(0);
		sp_virtual_mask_leave_none();
	}
	errno = saved;
}

static bool names(const sigset_t *set, int signo)
{
	return signo != 0 && sigismember(set, signo) == 1;
}

void sp_virtual_mask_before_wait(const sigset_t *set)
{
	int saved = errno;
	sigset_t now;

	if (names(set, sp_virtual_mask_differs()) && sp_virtual_mask_differs_now())
		sp_virtual_mask_make_real();
	if (names(set, armed_by())) {
		now = kernel_mask();
		if (names(&now, armed_by()))
			sp_virtual_mask_leave_none();
	}
	errno = saved;
}

void sp_virtual_mask_hand_on(void)
{
	int saved = errno;

	if (!sp_seccomp_is_on() && sp_virtual_mask_differs_now())
		change_bit(SIG_BLOCK, sp_virtual_mask_differs());
	errno = saved;
}

void sp_virtual_mask_inherit(struct sp_thread *t)
{
	int saved = errno;
	sigset_t now = kernel_mask();

	/*
	 * A new thread inherits the kernel's mask of its creator, unless it was given another one.
	 */
	int differs = atomic_load_explicit(&t->mask_differs, memory_order_relaxed);

	if (differs != 0) {
		bool lacks = sp_virtual_mask_blanket(&now) && sigismember(&now, differs) == 0;

		/* The creator had room for our handler on its stack; this is another stack. */
		if (lacks && !has_room()) {
			change_bit(SIG_BLOCK, differs);
			sp_virtual_mask_take_sent(differs);
			lacks = false;
		}
		if (!lacks)
			atomic_store_explicit(&t->mask_differs, 0, memory_order_relaxed);
	} else if (sp_virtual_mask_wanted(&now)) {
		set_differs(sp_signals_number());
		change_bit(SIG_UNBLOCK, sp_signals_number());
	}
	errno = saved;
}

void sp_virtual_mask_read_by_descriptor(const sigset_t *set)
{
	sp_virtual_mask_forbid(set);
	if (sp_virtual_mask_forbidden(sp_signals_number()) ||
	    sp_virtual_mask_forbidden(sp_signals_former()))
		sp_thread_disarm_differing();
}

bool sp_virtual_mask_is_about(int signo)
{
	int saved = errno;
	sigset_t now = kernel_mask();

	errno = saved;
	return sp_virtual_mask_forbidden(signo) ||
	       (sigismember(&now, signo) == 1 && !sp_virtual_mask_blanket(&now));
}
