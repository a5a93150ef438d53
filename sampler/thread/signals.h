/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampling signal. glibc reserves signal 33 (SIGSETXID): no signal set that a program makes
 * with glibc's functions can have that number, and sigaction(), signal(), sigwait() and signalfd()
 * refuse it. So the host's dispositions, masks and waits do not stop our signal, and the host never
 * receives it. glibc uses signal 33 for one purpose: setuid() and similar functions send it to each
 * thread and wait until the handler there has made the same system call. A signal that is not from
 * our timers therefore has to reach glibc's handler, or setuid() waits for ever.
 *
 * SPANPROF_SIGNAL names another signal instead, for a program that resets signal 33 by the raw
 * system call. We share that signal with the host: while the host blocks it, the thread is not
 * sampled, and if the host takes it, profiling ends.
 */
#ifndef SP_SIGNALS_H
#define SP_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

/*
 * glibc: sysdeps/unix/sysv/linux/internal-signals.h, SIGSETXID = __SIGRTMIN + 1, read in 2.31, 2.36
 * and 2.41.
 */
#define SP_SIGNAL_SETXID 33

/*
 * APP, at activation. Installs handler for signo, or for signal 33 if that is 0, and stores the
 * former handler for signals that are not from our timers. If the kernel refuses 33, SIGURG is
 * used. A forked child has the handler from its parent; there the handler is put back if the C
 * library has replaced it (sp_signals_keep()). Returns 0 or a negative errno; errno preserved.
 */
int sp_signals_install(int signo, void (*handler)(int, siginfo_t *, void *));

/* The signal in use; 0 before installation. Any context. */
SP_SIGSAFE int sp_signals_number(void);

/*
 * APP, after each creation of a thread and by deferred work; usually one system call. glibc
 * installs its handler when a process gets its second thread. Then this function installs ours
 * again, and from now on glibc's handler gets the signals that are not ours. False if the host
 * wants the signal: a third handler was found for the second time (signal 33), or any handler
 * (another signal). errno preserved.
 */
bool sp_signals_keep(void);
/*
 * APP, after a false result: if signal 33 was in use, SIGURG is in use from now on, and the caller
 * has to make new timers. False if there is no other signal. errno preserved.
 */
bool sp_signals_move(void);

/*
 * Any context. Whether our handler runs on threads' alternate stacks, because handlers of the host
 * do.
 */
SP_SIGSAFE bool sp_signals_on_alternate_stack(void);
/*
 * Any context. Asks the kernel which handlers of the host have SA_ONSTACK: a program may set them
 * by the raw system call, or define its own sigaction(). Handlers of faults count only with
 * also_of_faults. Only the hook of sigaltstack() passes that, because it sees each thread's stack:
 * a program that sets stacks unseen may share one between threads, and our frames would overwrite
 * each other there. Makes at most one system call for each signal, and none once it knows a handler
 * with SA_ONSTACK whose signal may come at any moment. errno preserved.
 */
SP_SIGSAFE void sp_signals_check(bool also_of_faults);
/*
 * Any context. Whether that thread has called sp_signals_install(), and sp_signals_start_over() was
 * not called since. Then the handlers are known, and sp_signals_check() would only repeat its system
 * calls.
 */
bool sp_signals_has_just_looked(uint32_t tid);
/* APP. The start of sampling is over, so the host may change handlers again. */
void sp_signals_start_over(void);
/*
 * APP, async-signal-safe: the host has installed a handler with SA_ONSTACK for that signal. From
 * now on our handler runs on alternate stacks, too, and threads whose alternate stack is too small
 * for our handler have no timer. errno preserved.
 */
void sp_signals_use_alternate_stack(int signo);
/* Any context. Whether sp_signals_use_alternate_stack(signo) would change nothing. */
bool sp_signals_know_alternate_stack(int signo);
/*
 * Any context, for a thread whose alternate stack is too small for our handler, or shared. If only
 * the host's handlers of faults (SIGSEGV, for example) ask for alternate stacks, our handler uses
 * them in no thread from now on. True if our handler does not use them. errno preserved.
 */
SP_SIGSAFE bool sp_signals_quit_alternate_stack(void);

/* SIG. Passes a signal that is not ours to the former handler. */
SP_SIGSAFE void sp_signals_chain(int signo, siginfo_t *si, void *ucontext);

/*
 * The disposition of a signal in the kernel's layout on x86-64 and arm64. The C library's own calls
 * refuse signal 33, and sanitizers replace them.
 */
struct sp_signals_action {
	union {
		__sighandler_t plain;
		void (*action)(int, siginfo_t *, void *);
	};
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

/* For signals_sig.c: the signal in use, and the handler for signals that are not ours. */
void sp_signals_use(int signo, const struct sp_signals_action *before);
/* Any context. The handler for signals that are not ours. */
SP_SIGSAFE struct sp_signals_action sp_signals_before(int signo);

/*
 * Threads with an alternate signal stack (sigaltstack(2)). If a handler of the host uses such
 * stacks, ours has to run there too: the stacks of goroutines and fibers are too small for any
 * handler. But an alternate stack may be just large enough for the host's own handler. If it cannot
 * hold the kernel's signal frame, the kernel kills the process (SIGSEGV); if it cannot hold our
 * frames below that, they overrun it. So a thread whose alternate stack cannot hold a sample gets
 * no timer, and a sample has no frames if there is no room for a walk. But if only handlers of
 * faults ask for alternate stacks, our handler stops using all of them at the first one without
 * room for a walk.
 *
 * The size of the kernel's frame depends on the processor's registers. AT_MINSIGSTKSZ is an upper
 * bound that includes registers which hardly any program may use (AMX: 8 KiB). So the handler
 * measures the frames that it sees.
 */

/* Bytes that the handler needs below its own frame, with a walk and without. */
#define SP_HANDLER_ROOM_WALK 7168U
#define SP_HANDLER_ROOM_LEAST 2048U

/*
 * SIG, in the handler itself. Bytes of the alternate stack below the caller's frame; SIZE_MAX if
 * the handler runs on an ordinary stack.
 */
SP_SIGSAFE size_t sp_alternate_stack_room(const void *ucontext, const void *frame);

struct sp_alternate_stack {
	uintptr_t at;
	uint32_t bytes; /* 0 = there is none, and at is 0 */
};

/* SIG. The alternate stack of the interrupted thread. */
SP_SIGSAFE struct sp_alternate_stack sp_alternate_stack_of(const void *ucontext);

/* APP. The calling thread's alternate stack. errno preserved. */
struct sp_alternate_stack sp_alternate_stack_own(void);

/* sp_alternate_stack_shared() compares a block with 64 others at most. */
#define SP_ALTERNATE_WINDOW 64U

struct sp_thread;

/* Any context. Stores the thread's alternate stack, so that other threads find who shares it. */
SP_SIGSAFE void sp_alternate_stack_store(struct sp_thread *t, const struct sp_alternate_stack *s);
/*
 * Any context. Whether another living thread has the same alternate stack, or too many blocks have
 * it to be sure.
 */
SP_SIGSAFE bool sp_alternate_stack_shared(const struct sp_thread *t);

/*
 * Any context. Whether the handler may run on an alternate stack of that size; true for 0, which
 * means none.
 */
SP_SIGSAFE bool sp_alternate_stack_holds_sample(uint32_t bytes);
/*
 * Any context. Whether an alternate stack of that size has room for a walk, and without a walk for
 * the kernel's largest frame, which a thread may get once it uses AMX.
 */
SP_SIGSAFE bool sp_alternate_stack_holds_walk(uint32_t bytes);

/* APP, at activation. */
void sp_alternate_stack_init(void);

#endif
