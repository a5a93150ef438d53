/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampling signal. glibc keeps signal 33 (SIGSETXID) for itself: no set that a program makes
 * with its functions holds that number, and sigaction(), signal(), sigwait() and signalfd() refuse to
 * name it. So whatever the host does to dispositions, masks and waits, our signal is delivered, and
 * the host never meets it. glibc uses it for one thing: setuid() and its like send it to each
 * thread and wait until the handler there has made the same system call. A signal that is not from
 * our timers therefore has to reach glibc's handler, or setuid() waits for ever.
 *
 * SPANPROF_SIGNAL names another signal instead, for a program that resets signal 33 by the raw
 * system call. That one is the host's as much as ours: where the host blocks it, the thread is not
 * sampled, and where the host takes it, profiling ends.
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
 * APP, at activation. Installs handler for signo, or for signal 33 if that is 0, and keeps what was
 * there for signals that are not from our timers. Where the kernel refuses 33, SIGURG is used. 0 or
 * a negative errno; errno preserved.
 */
int sp_signals_install(int signo, void (*handler)(int, siginfo_t *, void *));

/* The signal in use; 0 before installation. Any context. */
SP_SIGSAFE int sp_signals_number(void);

/*
 * APP, after each creation of a thread and now and then: one system call as a rule. glibc installs
 * its handler when a process gets its second thread; ours is put back then, and signals of others go to
 * that one from now on. False if somebody else wants the signal: a third handler was met a second time
 * where 33 is in use, or any where another one is. errno preserved.
 */
bool sp_signals_keep(void);
/*
 * APP, after that was false: SIGURG is in use from now on, if it was 33, and the caller has to make the
 * timers anew. False if nothing is left to go to. errno preserved.
 */
bool sp_signals_move(void);

/* Any context. Handlers of the host use alternate stacks, so ours runs on a thread's, too. */
SP_SIGSAFE bool sp_signals_on_alternate_stack(void);
/*
 * APP, async-signal-safe: the host's handler for that signal asks for alternate stacks. From now on ours runs there,
 * too, and threads whose alternate stack is too small for it have no timer. errno preserved.
 */
void sp_signals_use_alternate_stack(int signo);
/* Any context. A handler for that signal that asks for them would change nothing any more. */
bool sp_signals_know_alternate_stack(int signo);
/*
 * APP, async-signal-safe: a thread's alternate stack is too small for ours. False if ours has to run there all the
 * same. True if it does not from now on, in any thread, because the host's handlers of faults alone ask for such
 * stacks. errno preserved.
 */
bool sp_signals_leave_alternate_stack(void);

/* SIG. Hands a signal that is not ours to what was installed before. */
SP_SIGSAFE void sp_signals_chain(int signo, siginfo_t *si, void *ucontext);

/*
 * What is installed for a signal, as the kernel has it on x86-64 and arm64. The C library's own calls
 * will not name signal 33, and sanitizers replace them.
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

/* For signals.c: the signal in use, and what gets the signals that are not ours. */
void sp_signals_use(int signo, const struct sp_signals_action *before);
/* Any context: that one. */
SP_SIGSAFE struct sp_signals_action sp_signals_before(int signo);

/*
 * Threads with an alternate signal stack (sigaltstack(2)). Where a handler of the host uses such
 * stacks, ours has to run there too: the stacks of goroutines and fibers are too small for any
 * handler. But an alternate stack may be just large enough for the host's own handler. If it cannot
 * hold the kernel's signal frame, the kernel kills the process (SIGSEGV); if it cannot hold our
 * frames below that, they overrun it. So a thread whose alternate stack cannot hold a sample gets
 * no timer, and a sample has no frames where there is no room for a walk; but if only handlers of faults
 * ask for such stacks, ours leaves all of them at the first one that has no room for a walk.
 *
 * How large the kernel's frame is depends on the processor's registers. AT_MINSIGSTKSZ is an upper
 * bound that includes registers which hardly any program may use (AMX: 8 KiB). So the handler
 * measures the frames that it sees.
 */

/* Bytes that the handler needs below its own frame, with a walk and without. */
#define SP_HANDLER_ROOM_WALK 7168U
#define SP_HANDLER_ROOM_LEAST 2048U

/*
 * SIG, in the handler itself. Bytes of the alternate stack below the caller's frame; SIZE_MAX where the
 * handler runs on an ordinary stack.
 */
SP_SIGSAFE size_t sp_alternate_stack_room(const void *ucontext, const void *frame);

/* SIG. The size of the interrupted thread's alternate stack, 0 if it has none. */
SP_SIGSAFE uint32_t sp_alternate_stack_of(const void *ucontext);

/* APP. The same of the calling thread. errno preserved. */
uint32_t sp_alternate_stack_own(void);

/* Any context. The handler may run on an alternate stack of that size; always true for 0, none. */
SP_SIGSAFE bool sp_alternate_stack_holds_sample(uint32_t bytes);
/*
 * Any context. The same with a walk, and without a walk even if the kernel's frame is once as large as it can be, as
 * in a thread that begins to use AMX.
 */
SP_SIGSAFE bool sp_alternate_stack_holds_walk(uint32_t bytes);

/* APP, at activation. */
void sp_alternate_stack_init(void);

#endif
