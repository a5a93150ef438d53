/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Installs our handler for the sampling signal, checks that it is still installed, and passes on
 * signals that are not from our timers (signals.h).
 *
 * glibc installs its own handler for signal 33 when a process gets its second thread: since 2.34 in
 * the first pthread_create(), before that while libpthread is loaded; a forked child, which begins
 * with one thread, does it again. So the kernel's present handler is compared with the known one. A
 * second C library in the process (dlmopen) has a handler at another address.
 *
 * Runs in hooked calls. The handler also runs this code: to pass a signal on, and to stop using
 * alternate stacks when it finds one that two threads share.
 *
 * The call of the former handler is one of the two calls through a pointer in our handler: the
 * kernel would have made this call without us. The other one is _dl_find_object (object_sig.c).
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
#include "sampler/thread/thread.h"

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

/* Bytes of a signal set in the kernel. */
#define KERNEL_SIGSET_SIZE 8U
/* The number of Linux's signals (include/uapi/asm-generic/signal.h). */
#define SIGNALS 64

/*
 * The former disposition, of signal 33 and of any other signal: two copies and a version. Readers
 * use copy[version & 1], so that a handler that interrupts a writer reads a complete copy.
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

/* There was no handler, and the default action ends the process; so this function ends it. */
static void default_action(int signo)
{
	const struct sp_signals_action dfl = {.plain = SIG_DFL};

	if (ignored_by_default(signo))
		return;
	/* Even below a seccomp filter: the process ends in any case. */
	(void)sp_syscall_always(SYS_rt_sigaction, signo, &dfl, NULL, KERNEL_SIGSET_SIZE);
	(void)sp_syscall_always(SYS_tgkill, sp_syscall_always(SYS_getpid),
				sp_syscall_always(SYS_gettid), signo);
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
	/*
	 * Our handler runs with all signals blocked; the former handler expects only its own mask.
	 */
	memcpy(&mask, &uc->uc_sigmask, sizeof(mask));
	mask |= before.mask;
	if (!(before.flags & SA_NODEFER))
		mask |= UINT64_C(1) << (signo - 1);
	/*
	 * Below a seccomp filter the mask cannot be changed; the former handler then runs with more
	 * signals blocked than it asked for.
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

static void (*our_handler)(int, siginfo_t *, void *);
static struct sp_signals_action known; /* the last handler found that is not ours */
static _Atomic unsigned strangers;     /* how often neither ours nor the known handler was found */

/*
 * Why our handler runs on alternate stacks. A handler of the host for a signal that may come at any
 * moment has SA_ONSTACK because the stacks of goroutines are too small for any handler. A handler
 * for faults has SA_ONSTACK to report that a stack has overflowed, which says nothing about the
 * size of stacks. Only for handlers of faults Rust gives each thread an alternate stack of 8 KiB,
 * or of AT_MINSIGSTKSZ, on which our handler has no room for a walk, or no room at all.
 */
enum alternate {
	ALTERNATE_NONE,
	ALTERNATE_FAULTS,  /* ours runs there, too: stacks of fibers may be small */
	ALTERNATE_CRAMPED, /* as before, but one was too small: ours does not use them */
	ALTERNATE_ALWAYS,
};
static _Atomic int alternate = ALTERNATE_NONE;

#if defined(__x86_64__)
/*
 * The kernel returns from a handler to this code (SA_RESTORER, arch/x86/kernel/signal_64.c).
 * Debuggers and unwinders recognise a signal frame by these bytes (gdb: amd64-linux-tdep.c, libgcc:
 * linux-unwind.h), and look up the call frame information of the byte before. The nop there keeps
 * them from finding that of another function.
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
/* The vDSO has this code. */
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

bool sp_signals_on_alternate_stack(void)
{
	int now = atomic_load_explicit(&alternate, memory_order_relaxed);

	return now == ALTERNATE_FAULTS || now == ALTERNATE_ALWAYS;
}

/*
 * Our handler runs with all signals of the kernel blocked, including those that the C library
 * reserves. With SIGCANCEL, which is one of these, another thread could end this thread in the
 * middle of a record, and the ring would wait for the record for ever.
 *
 * No call of the host is interrupted (SA_RESTART). Alternate stacks are used as soon as any handler
 * of the host uses them, because coroutine stacks may be small (see enum alternate). If no handler
 * does, they are not used: such an alternate stack may be too small, or unmapped long ago. A signal
 * that the user named may have a handler of the host already; then that handler's flags are used.
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

/*
 * Stores the present handler before ours is installed, so that a signal that is not ours always
 * finds it.
 */
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

/* If another thread changes the decision meanwhile, the last thread to install knows both. */
static void install_as_decided(void)
{
	int decided;

	do {
		decided = atomic_load_explicit(&alternate, memory_order_seq_cst);
		/*
		 * Another handler may be installed in place of ours by now. If it is the C
		 * library's, whose new thread has not run yet, it is first stored for signals that
		 * are not ours. If it is the host's, it stays, because the signal is the host's.
		 */
		if (sp_signals_number() != 0 && sp_signals_keep())
			(void)install(sp_signals_number(), &known);
	} while (decided != atomic_load_explicit(&alternate, memory_order_seq_cst));
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
 * Returns the strongest reason for alternate stacks that a handler of the host gives, or more_than
 * if none is stronger. From a program's second thread on, glibc's handler of signal 33 has
 * SA_ONSTACK (2.36: nptl/pthread_create.c), which says nothing about the program's stacks, so that
 * handler does not count. Valgrind lets no stack grow for a handler with that flag, even if the
 * thread has no alternate stack, and ends the program.
 */
static int asked_by_any(int more_than)
{
	int asked = more_than;

	for (int signo = 1; signo <= SIGNALS; signo++) {
		struct sp_signals_action now;

		if (signo != SP_SIGNAL_SETXID && asked_by(signo) > asked &&
		    read_action(signo, &now) && !is_default(&now) && now.action != our_handler &&
		    (now.flags & SA_ONSTACK) != 0)
			asked = asked_by(signo);
	}
	return asked;
}

bool sp_signals_know_alternate_stack(int signo)
{
	return atomic_load_explicit(&alternate, memory_order_relaxed) >= asked_by(signo);
}

/* Makes our handler use alternate stacks, if it does not yet. */
static void use_alternate(int asked)
{
	int now = atomic_load_explicit(&alternate, memory_order_relaxed);

	do {
		if (now >= asked)
			return;
	} while (!atomic_compare_exchange_weak_explicit(
		&alternate, &now, asked, memory_order_seq_cst, memory_order_relaxed));
	/* before our signal may be delivered on them */
	sp_thread_disarm_unfit();
	install_as_decided();
}

void sp_signals_use_alternate_stack(int signo)
{
	int saved = errno;

	use_alternate(asked_by(signo));
	errno = saved;
}

void sp_signals_check(bool also_of_faults)
{
	int saved = errno;
	int asked = also_of_faults ? ALTERNATE_NONE : ALTERNATE_CRAMPED;
	int now = atomic_load_explicit(&alternate, memory_order_relaxed);

	if (asked < now)
		asked = now;
	if (sp_signals_number() != 0 && (asked = asked_by_any(asked)) != ALTERNATE_CRAMPED)
		use_alternate(asked);
	errno = saved;
}

/* The thread that has just asked the kernel for all handlers and installed ours; 0 = none. */
static _Atomic uint32_t looked_by;

bool sp_signals_has_just_looked(uint32_t tid)
{
	return atomic_load_explicit(&looked_by, memory_order_relaxed) == tid;
}

void sp_signals_start_over(void)
{
	atomic_store_explicit(&looked_by, 0, memory_order_relaxed);
}

bool sp_signals_quit_alternate_stack(void)
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

	/*
	 * A forked child has the handler from its parent. But if the child made its first thread
	 * before its first span, the C library has replaced the handler since.
	 */
	if (sp_signals_number() != 0) {
		(void)sp_signals_keep();
		return 0;
	}
	our_handler = handler;
	atomic_store_explicit(&alternate, asked_by_any(ALTERNATE_NONE), memory_order_relaxed);
	atomic_store_explicit(&looked_by, (uint32_t)sp_syscall(SYS_gettid), memory_order_relaxed);
	err = take_what_is_there(signo != 0 ? signo : SP_SIGNAL_SETXID);
	if (err != 0 && signo == 0)
		err = take_what_is_there(SIGURG);
	/*
	 * A process may have inherited a mask from a parent that changes masks below the C library.
	 * glibc also unblocks this signal when a process gets its second thread.
	 */
	if (sp_signals_number() == SP_SIGNAL_SETXID)
		(void)sp_syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &setxid, NULL,
				 KERNEL_SIGSET_SIZE);
	errno = saved;
	return err;
}

bool sp_signals_move(void)
{
	int saved = errno;
	bool moved = sp_signals_number() == SP_SIGNAL_SETXID && take_what_is_there(SIGURG) == 0;

	errno = saved;
	return moved;
}
