/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Installs our handler for the sampling signal, and looks whether it still is (signals.h).
 *
 * glibc installs its own handler for signal 33 when a process gets its second thread: since 2.34 in
 * the first pthread_create(), before that while libpthread is loaded; a forked child, which begins
 * with one thread, does it again. So the handler that the kernel names is compared with the one
 * that is known. A second C library in the process (dlmopen) has a handler at another address.
 *
 * Context: APP.
 */
#include "sampler/thread/signals.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sampler/base/seccomp.h"
#include "sampler/thread/thread.h"

#define KERNEL_SIGSET_SIZE 8U
/* Linux has so many (include/uapi/asm-generic/signal.h). */
#define SIGNALS 64

static void (*our_handler)(int, siginfo_t *, void *);
static struct sp_signals_action known; /* not ours, as last met */
static _Atomic unsigned strangers;     /* handlers met in our place that were not the known one */

/*
 * What the host's handlers with SA_ONSTACK say of its stacks. One for a signal that comes at any moment has to run
 * there because the stacks of goroutines are too small for any handler. One for faults is there to report that
 * a stack has overflowed, and says nothing of its size. Rust gives each thread an alternate stack of 8 KiB, or of
 * AT_MINSIGSTKSZ, for those alone. Ours would have no room for a walk there, or none at all.
 */
enum alternate {
	ALTERNATE_NONE,
	ALTERNATE_FAULTS, /* ours runs there, too: fibers may be small */
	ALTERNATE_CRAMPED, /* the same, but a thread was met whose alternate stack is too small: ours runs elsewhere */
	ALTERNATE_ALWAYS,
};
static _Atomic int alternate = ALTERNATE_NONE;

#if defined(__x86_64__)
/*
 * The kernel returns from a handler to this code (SA_RESTORER, arch/x86/kernel/signal_64.c). Debuggers and
 * unwinders know a signal frame by these very bytes (gdb: amd64-linux-tdep.c, libgcc: linux-unwind.h), and
 * look for call frame information of the byte before, which nop keeps from being another function's.
 */
__asm__(".pushsection .text.sp_signals_return, \"ax\", @progbits\n"
	".balign 16\n"
	"nop\n"
	".hidden sp_signals_return\n"
	".globl sp_signals_return\n"
	".type sp_signals_return, @function\n"
	"sp_signals_return:\n"
	"movq $15, %rax\n"
	"syscall\n"
	".size sp_signals_return, . - sp_signals_return\n"
	".popsection\n");
void sp_signals_return(void);
#define RESTORER sp_signals_return
#define RESTORER_FLAG 0x04000000UL
#else
/* The vDSO has it. */
#define RESTORER NULL
#define RESTORER_FLAG 0UL
#endif

static bool read_action(int signo, struct sp_signals_action *now)
{
	return sp_syscall(SYS_rt_sigaction, signo, NULL, now, KERNEL_SIGSET_SIZE) == 0;
}

static bool is_default(const struct sp_signals_action *a)
{
	return a->plain == SIG_DFL || a->plain == SIG_IGN;
}

/*
 * All signals of the kernel are blocked in our handler, those too that the C library keeps for
 * itself. By one of them, SIGCANCEL, another thread could end this one in the middle of a record,
 * and the ring would wait for that record for ever.
 *
 * No call of the host is interrupted (SA_RESTART). Alternate stacks are used as soon as any handler
 * of the host uses them, because coroutine stacks may be small (but see enum alternate). If none does, they are not:
 * an alternate stack that nobody uses may be too small, or unmapped long ago. A signal that the user named may
 * have a handler of the host already; then that one's flags hold.
 */
static int install(int signo, const struct sp_signals_action *before)
{
	unsigned long flags = SA_RESTART;

	if (sp_signals_on_alternate_stack())
		flags |= SA_ONSTACK;
	if (signo != SP_SIGNAL_SETXID && !is_default(before))
		flags = before->flags & (SA_RESTART | SA_ONSTACK);
	struct sp_signals_action ours = {
		.action = our_handler,
		.flags = flags | SA_SIGINFO | RESTORER_FLAG,
		.restorer = RESTORER,
		.mask = ~UINT64_C(0),
	};

	return sp_syscall(SYS_rt_sigaction, signo, &ours, NULL, KERNEL_SIGSET_SIZE) == 0 ? 0
											 : -errno;
}

/* Notes what is there before ours is installed, so that a foreign signal always finds it. */
static int take(int signo, const struct sp_signals_action *now)
{
	int err;

	known = *now;
	sp_signals_use(signo, now);
	err = install(signo, now);
	if (err != 0)
		sp_signals_use(0, now);
	return err;
}

static int take_what_is_there(int signo)
{
	struct sp_signals_action now;

	return read_action(signo, &now) ? take(signo, &now) : -errno;
}

bool sp_signals_on_alternate_stack(void)
{
	int now = atomic_load_explicit(&alternate, memory_order_relaxed);

	return now == ALTERNATE_FAULTS || now == ALTERNATE_ALWAYS;
}

static int asked_by(int signo)
{
	switch (signo) {
	case SIGSEGV:
	case SIGBUS:
	case SIGILL:
	case SIGFPE:
	case SIGTRAP:
	case SIGSYS:
	case SIGABRT:
		return ALTERNATE_FAULTS;
	default:
		return ALTERNATE_ALWAYS;
	}
}

/*
 * From a program's second thread on, glibc's own handler of its signal has the flag (2.36:
 * nptl/pthread_create.c). It says nothing about the program's stacks. Valgrind, for one, lets no stack grow for a
 * handler with the flag, though the thread has no alternate stack, and ends the program.
 */
static int asked_by_any(void)
{
	int asked = ALTERNATE_NONE;

	for (int signo = 1; signo <= SIGNALS; signo++) {
		struct sp_signals_action now;

		if (signo != SP_SIGNAL_SETXID && asked_by(signo) > asked &&
		    read_action(signo, &now) && !is_default(&now) && (now.flags & SA_ONSTACK) != 0)
			asked = asked_by(signo);
	}
	return asked;
}

/* Another thread may decide otherwise meanwhile; then the last one to install knows of both. */
static void install_as_decided(void)
{
	int decided;

	do {
		decided = atomic_load_explicit(&alternate, memory_order_seq_cst);
		/*
		 * What was installed in our place since we last looked must not be lost: that of the C library,
		 * whose new thread has not run yet, is noted first, and that of the host, whose signal it is, stays.
		 */
		if (sp_signals_number() != 0 && sp_signals_keep())
			(void)install(sp_signals_number(), &known);
	} while (decided != atomic_load_explicit(&alternate, memory_order_seq_cst));
}

bool sp_signals_know_alternate_stack(int signo)
{
	return atomic_load_explicit(&alternate, memory_order_relaxed) >= asked_by(signo);
}

void sp_signals_use_alternate_stack(int signo)
{
	int saved = errno;
	int asked = asked_by(signo);
	int now = atomic_load_explicit(&alternate, memory_order_relaxed);

	do {
		if (now >= asked)
			return;
	} while (!atomic_compare_exchange_weak_explicit(
		&alternate, &now, asked, memory_order_seq_cst, memory_order_relaxed));
	/* before our signal may be delivered there */
	sp_thread_disarm_cramped();
	install_as_decided();
	errno = saved;
}

bool sp_signals_leave_alternate_stack(void)
{
	int saved = errno;
	int faults = ALTERNATE_FAULTS;

	if (atomic_compare_exchange_strong_explicit(&alternate, &faults, ALTERNATE_CRAMPED,
						    memory_order_seq_cst, memory_order_relaxed))
		install_as_decided();
	errno = saved;
	return !sp_signals_on_alternate_stack();
}

int sp_signals_install(int signo, void (*handler)(int, siginfo_t *, void *))
{
	const uint64_t setxid = UINT64_C(1) << (SP_SIGNAL_SETXID - 1);
	int saved = errno;
	int err;

	if (sp_signals_number() != 0)
		return 0;
	our_handler = handler;
	atomic_store_explicit(&alternate, asked_by_any(), memory_order_relaxed);
	err = take_what_is_there(signo != 0 ? signo : SP_SIGNAL_SETXID);
	if (err != 0 && signo == 0)
		err = take_what_is_there(SIGURG);
	/*
	 * A process may have inherited a mask from a parent that changes masks below the C library.
	 * glibc unblocks this signal too when a process gets its second thread.
	 */
	if (sp_signals_number() == SP_SIGNAL_SETXID)
		(void)sp_syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &setxid, NULL,
				 KERNEL_SIGSET_SIZE);
	errno = saved;
	return err;
}

bool sp_signals_keep(void)
{
	int signo = sp_signals_number();
	struct sp_signals_action now;
	bool kept = true;
	int saved = errno;

	if (read_action(signo, &now) && now.action != our_handler) {
		if (!is_default(&known) && now.plain != known.plain)
			kept = atomic_fetch_add_explicit(&strangers, 1, memory_order_relaxed) == 0;
		kept = kept && signo == SP_SIGNAL_SETXID;
		if (kept)
			(void)take(signo, &now);
	}
	errno = saved;
	return kept;
}

bool sp_signals_move(void)
{
	int saved = errno;
	bool moved = sp_signals_number() == SP_SIGNAL_SETXID && take_what_is_there(SIGURG) == 0;

	errno = saved;
	return moved;
}
