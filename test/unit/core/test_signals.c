/* SPDX-License-Identifier: Apache-2.0 */
/* The sampling signal: it stays ours if programs cannot name it, and foreign signals are passed on. */
#include "sampler/thread/signals.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define SIGNO SIGUSR2

static volatile sig_atomic_t host_calls;
static volatile sig_atomic_t host_signo;
static siginfo_t *volatile host_info;
static void *volatile host_context;
static sigset_t host_mask;
static siginfo_t *volatile our_info;
static void *volatile our_context;

/* Stands for the sampling handler, which passes on a signal that our timers did not send. */
static void chain(int signo, siginfo_t *si, void *ucontext)
{
	our_info = si;
	our_context = ucontext;
	sp_signals_chain(signo, si, ucontext);
}

static void host_handler(int signo)
{
	host_calls++;
	host_signo = signo;
	(void)pthread_sigmask(SIG_SETMASK, NULL, &host_mask);
}

static void host_action(int signo, siginfo_t *si, void *ucontext)
{
	host_handler(signo);
	host_info = si;
	host_context = ucontext;
}

static struct sigaction action(int flags)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_flags = flags;
	if (flags & SA_SIGINFO)
		sa.sa_sigaction = host_action;
	else
		sa.sa_handler = host_handler;
	return sa;
}

static void install(void)
{
	cr_assert_eq(sp_signals_install(SIGNO, chain), 0);
}

static void install_over(struct sigaction sa)
{
	cr_assert_eq(sigaction(SIGNO, &sa, NULL), 0);
	install();
}

TestSuite(signals, .timeout = 20);

Test(signals, no_number_before_the_installation)
{
	cr_assert_eq(sp_signals_number(), 0);
	errno = 4711;
	cr_assert(sp_signals_keep());
	cr_assert_eq(errno, 4711);
	install();
	cr_assert_eq(sp_signals_number(), SIGNO);
}

Test(signals, what_the_host_had_installed_before_is_called)
{
	struct sigaction sa = action(SA_SIGINFO);

	cr_assert_eq(sigaction(SIGNO, &sa, NULL), 0);
	install();
	raise(SIGNO);

	cr_assert_eq(host_calls, 1);
	cr_assert_eq(host_signo, SIGNO);
	cr_assert_eq(host_info, our_info, "the very siginfo the kernel gave");
	cr_assert_eq(host_context, our_context);
}

Test(signals, a_second_installation_changes_nothing)
{
	struct sigaction sa = action(0);

	cr_assert_eq(sigaction(SIGNO, &sa, NULL), 0);
	install();
	install();
	raise(SIGNO);

	cr_assert_eq(host_calls, 1);
}

Test(signals, one_that_cannot_be_taken_leaves_none)
{
	errno = 4711;

	cr_assert_eq(sp_signals_install(SIGKILL, chain), -EINVAL);
	cr_assert_eq(sp_signals_number(), 0);
	cr_assert_eq(errno, 4711);
	install();
	cr_assert_eq(sp_signals_number(), SIGNO);
}

Test(signals, ignored_is_ignored_whatever_the_flags)
{
	struct sigaction sa = action(0);

	sa.sa_handler = SIG_IGN;
	sa.sa_flags = SA_SIGINFO;
	install_over(sa);
	raise(SIGNO);

	cr_assert_eq(host_calls, 0);
}

Test(signals, the_default_action_ends_the_process, .signal = SIGNO)
{
	install();
	raise(SIGNO);
}

Test(signals, the_default_action_ends_the_process_whatever_the_flags, .signal = SIGNO)
{
	struct sigaction sa = action(0);

	sa.sa_handler = SIG_DFL;
	sa.sa_flags = SA_SIGINFO;
	install_over(sa);
	raise(SIGNO);
}

Test(signals, a_default_of_doing_nothing_does_nothing)
{
	cr_assert_eq(sp_signals_install(SIGURG, chain), 0);
	raise(SIGURG);
	raise(SIGURG);

	cr_assert(sp_signals_keep());
}

Test(signals, the_host_handler_runs_with_the_mask_it_asked_for)
{
	struct sigaction sa = action(0);
	sigset_t blocked;

	sigaddset(&sa.sa_mask, SIGHUP);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGWINCH);
	cr_assert_eq(pthread_sigmask(SIG_BLOCK, &blocked, NULL), 0);
	install_over(sa);
	raise(SIGNO);

	cr_assert_eq(sigismember(&host_mask, SIGHUP), 1, "its own mask");
	cr_assert_eq(sigismember(&host_mask, SIGNO), 1, "the signal itself");
	cr_assert_eq(sigismember(&host_mask, SIGWINCH), 1, "what the thread had blocked");
	cr_assert_eq(sigismember(&host_mask, SIGTERM), 0, "nothing else");
	cr_assert_eq(pthread_sigmask(SIG_SETMASK, NULL, &host_mask), 0);
	cr_assert_eq(sigismember(&host_mask, SIGHUP), 0, "and it is restored");
	cr_assert_eq(sigismember(&host_mask, SIGNO), 0);
}

Test(signals, with_nodefer_the_signal_stays_open_in_the_host_handler)
{
	install_over(action(SA_NODEFER));
	raise(SIGNO);

	cr_assert_eq(host_calls, 1);
	cr_assert_eq(sigismember(&host_mask, SIGNO), 0);
}

/* A POSIX timer of the host uses the same signal, with another value. */
Test(signals, the_hosts_own_timers_reach_the_host)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGNO};
	struct itimerspec soon = {.it_value = {.tv_nsec = 1000000}};
	timer_t timer;

	install_over(action(SA_SIGINFO));
	event.sigev_value.sival_int = 1234;
	cr_assert_eq(timer_create(CLOCK_MONOTONIC, &event, &timer), 0);
	cr_assert_eq(timer_settime(timer, 0, &soon, NULL), 0);
	while (host_calls == 0)
		continue;

	cr_assert_eq(host_calls, 1);
	cr_assert_eq(timer_delete(timer), 0);
}

static volatile sig_atomic_t value_seen;

static void read_value(int signo, siginfo_t *si, void *ucontext)
{
	(void)signo;
	(void)ucontext;
	if (si->si_code == SI_QUEUE)
		value_seen = si->si_value.sival_int;
}

Test(signals, a_queued_value_reaches_the_host)
{
	struct sigaction sa = action(SA_SIGINFO);

	sa.sa_sigaction = read_value;
	install_over(sa);
	cr_assert_eq(sigqueue(getpid(), SIGNO, (union sigval){.sival_int = 99}), 0);

	cr_assert_eq(value_seen, 99);
}

Test(signals, one_that_the_host_takes_is_lost)
{
	struct sigaction sa = action(0);

	install();
	cr_assert(sp_signals_keep());
	cr_assert_eq(sigaction(SIGNO, &sa, NULL), 0);
	errno = 4711;

	cr_assert_not(sp_signals_keep());
	cr_assert_not(sp_signals_move(), "the user chose it");
	cr_assert_eq(errno, 4711);
	cr_assert_eq(sp_signals_number(), SIGNO);
}

static struct sp_signals_action kernel_action(int signo)
{
	struct sp_signals_action now;

	cr_assert_eq(syscall(SYS_rt_sigaction, signo, NULL, &now, sizeof(now.mask)), 0);
	return now;
}

static void kernel_sets(void (*handler)(int, siginfo_t *, void *))
{
	struct sp_signals_action act = kernel_action(SP_SIGNAL_SETXID);

	act.action = handler;
	act.flags |= SA_SIGINFO;
	cr_assert_eq(syscall(SYS_rt_sigaction, SP_SIGNAL_SETXID, &act, NULL, sizeof(act.mask)), 0);
}

Test(signals, our_handler_interrupts_nothing_and_is_not_interrupted)
{
	const uint64_t never = UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1);
	struct sp_signals_action now;

	install();
	now = kernel_action(SIGNO);

	cr_assert(now.flags & SA_RESTART);
	cr_assert(now.flags & SA_SIGINFO);
	cr_assert_eq(now.mask | never, ~UINT64_C(0), "not blocked: %#llx",
		     (unsigned long long)~(now.mask | never));
}

static void *come_and_go(void *arg)
{
	return arg;
}

Test(signals, alternate_stacks_are_left_alone_where_no_handler_of_the_host_wants_them)
{
	pthread_t other;

	/* A sanitizer has such handlers, and so has the C library for programs with threads. */
	for (int signo = 1; signo < SIGRTMIN; signo++)
		(void)signal(signo, SIG_DFL);
	cr_assert_eq(pthread_create(&other, NULL, come_and_go, NULL), 0);
	cr_assert_eq(pthread_join(other, NULL), 0);
	install();

	cr_assert_eq(kernel_action(SIGNO).flags & SA_ONSTACK, 0);
}

Test(signals, alternate_stacks_are_used_where_any_handler_of_the_host_uses_them)
{
	struct sigaction sa = action(SA_ONSTACK);

	cr_assert_eq(sigaction(SIGSEGV, &sa, NULL), 0);
	install();

	cr_assert(kernel_action(SIGNO).flags & SA_ONSTACK);
}

Test(signals, alternate_stacks_are_used_from_the_first_such_handler_on)
{
	install();
	errno = 4711;
	sp_signals_use_alternate_stack(SIGUSR1);

	cr_assert(kernel_action(SIGNO).flags & SA_ONSTACK);
	cr_assert_eq(errno, 4711);
}

/* Rust has such handlers, with alternate stacks that are too small for ours. */
Test(signals, alternate_stacks_that_are_too_small_are_left_to_handlers_of_faults)
{
	install();
	sp_signals_use_alternate_stack(SIGSEGV);
	cr_assert(kernel_action(SIGNO).flags & SA_ONSTACK);
	cr_assert(sp_signals_quit_alternate_stack());
	cr_assert_eq(kernel_action(SIGNO).flags & SA_ONSTACK, 0);
	sp_signals_use_alternate_stack(SIGBUS);
	cr_assert_eq(kernel_action(SIGNO).flags & SA_ONSTACK, 0, "said before");
}

Test(signals, alternate_stacks_stay_in_use_for_handlers_of_what_comes_at_any_moment)
{
	install();
	sp_signals_use_alternate_stack(SIGSEGV);
	cr_assert(sp_signals_quit_alternate_stack());
	sp_signals_use_alternate_stack(SIGUSR1);
	cr_assert(kernel_action(SIGNO).flags & SA_ONSTACK);
	cr_assert_not(sp_signals_quit_alternate_stack());
	cr_assert(kernel_action(SIGNO).flags & SA_ONSTACK);
}

/* The program calls a sigaction() of its own, which no hook sees. */
Test(signals, what_handlers_want_is_asked_of_the_kernel)
{
	struct sp_signals_action act;

	for (int signo = 1; signo < SIGRTMIN; signo++)
		(void)signal(signo, SIG_DFL);
	sp_signals_check(true);
	cr_assert_eq(sp_signals_number(), 0);
	install();
	errno = 4711;
	sp_signals_check(true);
	cr_assert_not(sp_signals_on_alternate_stack());
	act = (struct sp_signals_action){.action = host_action, .flags = SA_ONSTACK};
	cr_assert_eq(syscall(SYS_rt_sigaction, SIGBUS, &act, NULL, sizeof(act.mask)), 0);
	sp_signals_check(false);
	cr_assert_not(sp_signals_on_alternate_stack(), "those of faults were not asked for");
	sp_signals_check(true);
	cr_assert(kernel_action(SIGNO).flags & SA_ONSTACK);
	sp_signals_check(false);
	cr_assert(sp_signals_on_alternate_stack());
	cr_assert(sp_signals_quit_alternate_stack());
	sp_signals_check(true);
	cr_assert_not(sp_signals_on_alternate_stack(), "for faults alone, as was known");

	cr_assert_eq(syscall(SYS_rt_sigaction, 64, &act, NULL, sizeof(act.mask)), 0);
	sp_signals_check(false);
	cr_assert(kernel_action(SIGNO).flags & SA_ONSTACK);
	cr_assert_not(sp_signals_quit_alternate_stack());
	sp_signals_check(true);
	cr_assert(sp_signals_on_alternate_stack());
	cr_assert_eq(errno, 4711);
}

/*
 * The host replaces our handler by its first handler with an alternate stack, and no function of ours has checked
 * since.
 */
Test(signals, a_host_that_takes_ours_for_an_alternate_stack_has_it)
{
	struct sigaction sa = action(SA_ONSTACK);

	for (int signo = 1; signo < SIGRTMIN; signo++)
		(void)signal(signo, SIG_DFL);
	install();
	cr_assert_eq(sigaction(SIGNO, &sa, NULL), 0);
	sp_signals_use_alternate_stack(SIGNO);
	raise(SIGNO);

	cr_assert_eq(host_calls, 1);
	cr_assert_not(sp_signals_keep());
}

Test(signals, a_handler_of_the_host_for_our_signal_keeps_its_own_stack)
{
	sp_signals_use_alternate_stack(SIGUSR1);
	install_over(action(SA_RESTART));

	cr_assert_eq(kernel_action(SIGNO).flags & SA_ONSTACK, 0);
}

static void install_default(void)
{
	cr_assert_eq(sp_signals_install(0, chain), 0);
	cr_assert_eq(sp_signals_number(), SP_SIGNAL_SETXID);
}

/*
 * A forked child installs the handler that it has from its parent again, perhaps after it has made its first thread.
 */
Test(signals, a_second_installation_takes_the_signal_back_from_the_c_library)
{
	install_default();
	kernel_sets(host_action);
	install_default();
	cr_assert_eq(kernel_action(SP_SIGNAL_SETXID).action, chain);
	cr_assert_eq(syscall(SYS_tgkill, getpid(), gettid(), SP_SIGNAL_SETXID), 0);
	cr_assert_eq(host_calls, 1);
}

/* The C library's functions do not let a program name that signal. */
Test(signals, whatever_a_program_resets_blocks_and_waits_for_the_default_one_stays_ours)
{
	/* not the signal that setuid() sends, on which the C library's handler would act */
	siginfo_t queued = {.si_signo = SP_SIGNAL_SETXID, .si_code = SI_QUEUE};
	struct timespec none = {0, 0};
	pthread_t other;
	sigset_t all;

	install_default();
	cr_assert_eq(pthread_create(&other, NULL, come_and_go, NULL), 0);
	cr_assert_eq(pthread_join(other, NULL), 0);
	cr_assert(sp_signals_keep());
	for (int signo = 1; signo < NSIG; signo++)
		(void)signal(signo, SIG_IGN);
	(void)sigfillset(&all);
	cr_assert_eq(pthread_sigmask(SIG_SETMASK, &all, NULL), 0);
	cr_assert_eq(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SP_SIGNAL_SETXID, &queued),
		     0);
	cr_assert_not_null(our_info, "it came, though all are blocked");
	cr_assert_eq(sigtimedwait(&all, NULL, &none), -1);
	cr_assert_eq(kernel_action(SP_SIGNAL_SETXID).action, chain);
}

Test(signals, one_that_was_inherited_as_blocked_is_unblocked)
{
	const uint64_t bit = UINT64_C(1) << (SP_SIGNAL_SETXID - 1);
	uint64_t now = 0;

	cr_assert_eq(syscall(SYS_rt_sigprocmask, SIG_BLOCK, &bit, NULL, sizeof(bit)), 0);
	install_default();
	cr_assert_eq(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &now, sizeof(now)), 0);
	cr_assert_eq(now & bit, 0);
}

static _Atomic bool stop;

static void *wait_for_stop(void *arg)
{
	while (!atomic_load(&stop))
		(void)usleep(1000);
	return arg;
}

/* The C library waits until each thread has run its handler. Without the signal setuid() would never return. */
Test(signals, the_c_library_gets_its_own_when_a_program_changes_its_user)
{
	pthread_t other;
	pthread_t next;

	install_default();
	cr_assert_eq(pthread_create(&other, NULL, wait_for_stop, NULL), 0);
	cr_assert(sp_signals_keep());
	cr_assert_eq(kernel_action(SP_SIGNAL_SETXID).action, chain, "installed again");
	cr_assert_eq(seteuid(geteuid()), 0);
	cr_assert_not_null(our_info, "it went through our handler");
	cr_assert_eq(pthread_create(&next, NULL, come_and_go, NULL), 0);
	cr_assert(sp_signals_keep());
	atomic_store(&stop, true);
	cr_assert_eq(pthread_join(next, NULL), 0);
	cr_assert_eq(pthread_join(other, NULL), 0);
}

/*
 * The C library installs its handler with the second thread. Before that thread has run and checked our signal, the
 * first thread may set a handler with an alternate stack.
 */
Test(signals, a_handler_that_came_in_our_place_is_noted_before_alternate_stacks_are_used)
{
	for (int signo = 1; signo < SIGRTMIN; signo++)
		(void)signal(signo, SIG_DFL);
	install_default();
	kernel_sets(host_action);
	sp_signals_use_alternate_stack(SIGUSR1);

	cr_assert_eq(kernel_action(SP_SIGNAL_SETXID).action, chain);
	cr_assert(kernel_action(SP_SIGNAL_SETXID).flags & SA_ONSTACK);
	cr_assert_eq(syscall(SYS_tgkill, getpid(), gettid(), SP_SIGNAL_SETXID), 0);
	cr_assert_eq(host_calls, 1);
}

static void other_library(int signo, siginfo_t *si, void *ucontext)
{
	host_action(signo, si, ucontext);
}

/* A second C library installs a handler too; if a handler comes back, another program wants the signal. */
Test(signals, a_second_handler_is_handed_on_to_and_at_its_return_we_move)
{
	pthread_t other;

	install_default();
	cr_assert_eq(pthread_create(&other, NULL, come_and_go, NULL), 0);
	cr_assert_eq(pthread_join(other, NULL), 0);
	cr_assert(sp_signals_keep());

	kernel_sets(host_action);
	cr_assert(sp_signals_keep());
	cr_assert_eq(kernel_action(SP_SIGNAL_SETXID).action, chain);
	cr_assert_eq(syscall(SYS_tgkill, getpid(), gettid(), SP_SIGNAL_SETXID), 0);
	cr_assert_eq(host_calls, 1);

	kernel_sets(other_library);
	cr_assert_not(sp_signals_keep());
	cr_assert(sp_signals_move());
	cr_assert_eq(sp_signals_number(), SIGURG);
	cr_assert_eq(kernel_action(SIGURG).action, chain);
	cr_assert_eq(kernel_action(SP_SIGNAL_SETXID).action, other_library, "theirs from now on");
	cr_assert(sp_signals_keep());
	cr_assert_not(sp_signals_move());
}
