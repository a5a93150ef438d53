/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about sharing the sampling signal with the host: its disposition is kept and obeyed. */
#include "sampler/thread/signals.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
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

/* Stands for the sampling handler when a signal is not from our timers. */
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

static void host_sets(struct sigaction sa)
{
	cr_assert_eq(sp_signals_virtual(SIGNO, &sa, NULL), 0);
}

static void install(void)
{
	cr_assert_eq(sp_signals_install(SIGNO, chain), 0);
}

TestSuite(signals, .timeout = 20);

Test(signals, no_number_before_the_installation)
{
	cr_assert_eq(sp_signals_number(), 0);
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

Test(signals, the_host_reads_back_what_it_set)
{
	struct sigaction first = action(SA_SIGINFO | SA_RESTART | SA_NODEFER);
	struct sigaction second = action(0);
	struct sigaction old;

	sigaddset(&first.sa_mask, SIGHUP);
	install();

	cr_assert_eq(sp_signals_virtual(SIGNO, &first, &old), 0);
	cr_assert_eq(old.sa_handler, SIG_DFL);
	cr_assert_eq(sp_signals_virtual(SIGNO, NULL, &old), 0);
	cr_assert_eq(old.sa_sigaction, host_action);
	cr_assert_eq(old.sa_flags & ~0x04000000 /* SA_RESTORER */, first.sa_flags);
	cr_assert_eq(sigismember(&old.sa_mask, SIGHUP), 1);
	cr_assert_eq(sp_signals_virtual(SIGNO, &second, &old), 0);
	cr_assert_eq(old.sa_sigaction, host_action);
	cr_assert_eq(sp_signals_virtual(SIGNO, &second, NULL), 0);
	cr_assert_eq(sp_signals_virtual(SIGNO, NULL, NULL), 0);
	cr_assert(sp_signals_owned(), "and our handler stayed where it is");
}

Test(signals, a_plain_handler_is_called_plainly)
{
	install();
	host_sets(action(0));
	raise(SIGNO);

	cr_assert_eq(host_calls, 1);
	cr_assert_eq(host_signo, SIGNO);
}

Test(signals, ignored_is_ignored_whatever_the_flags)
{
	struct sigaction sa = action(0);

	install();
	sa.sa_handler = SIG_IGN;
	host_sets(sa);
	raise(SIGNO);
	sa.sa_flags = SA_SIGINFO;
	host_sets(sa);
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

	install();
	sa.sa_handler = SIG_DFL;
	sa.sa_flags = SA_SIGINFO;
	host_sets(sa);
	raise(SIGNO);
}

Test(signals, a_default_of_doing_nothing_does_nothing)
{
	cr_assert_eq(sp_signals_install(SIGURG, chain), 0);
	raise(SIGURG);
	raise(SIGURG);

	cr_assert(sp_signals_owned());
}

Test(signals, the_host_handler_runs_with_the_mask_it_asked_for)
{
	struct sigaction sa = action(0);
	sigset_t blocked;

	sigaddset(&sa.sa_mask, SIGHUP);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGWINCH);
	cr_assert_eq(pthread_sigmask(SIG_BLOCK, &blocked, NULL), 0);
	install();
	host_sets(sa);
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
	install();
	host_sets(action(SA_NODEFER));
	raise(SIGNO);

	cr_assert_eq(host_calls, 1);
	cr_assert_eq(sigismember(&host_mask, SIGNO), 0);
}

Test(signals, with_resethand_the_host_handler_runs_once, .signal = SIGNO)
{
	struct sigaction old;

	install();
	host_sets(action((int)SA_RESETHAND));
	raise(SIGNO);

	if (host_calls != 1 || sp_signals_virtual(SIGNO, NULL, &old) != 0 ||
	    old.sa_handler != SIG_DFL)
		_exit(1);
	raise(SIGNO);
}

/* A POSIX timer of the host on the same signal, with a value of its own. */
Test(signals, the_hosts_own_timers_reach_the_host)
{
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGNO};
	struct itimerspec soon = {.it_value = {.tv_nsec = 1000000}};
	timer_t timer;

	install();
	host_sets(action(SA_SIGINFO));
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
	install();
	host_sets(sa);
	cr_assert_eq(sigqueue(getpid(), SIGNO, (union sigval){.sival_int = 99}), 0);

	cr_assert_eq(value_seen, 99);
}

Test(signals, that_the_host_took_behind_our_back_is_noticed)
{
	struct sigaction sa = action(0);

	install();
	cr_assert(sp_signals_owned());
	cr_assert_eq(sigaction(SIGNO, &sa, NULL), 0);
	errno = 4711;

	cr_assert_not(sp_signals_owned());
	cr_assert_eq(errno, 4711);
}

/* As the kernel has it (x86-64 and arm64), with the C library's own two signals. */
struct kernel_action {
	void *handler;
	unsigned long flags;
	void *restorer;
	uint64_t mask;
};

static struct kernel_action kernel_action(void)
{
	struct kernel_action now;

	cr_assert_eq(syscall(SYS_rt_sigaction, SIGNO, NULL, &now, sizeof(now.mask)), 0);
	return now;
}

Test(signals, our_handler_interrupts_nothing_and_is_not_interrupted)
{
	const uint64_t never = UINT64_C(1) << (SIGKILL - 1) | UINT64_C(1) << (SIGSTOP - 1);
	struct kernel_action now;

	install();
	now = kernel_action();

	cr_assert(now.flags & SA_RESTART);
	cr_assert(now.flags & SA_SIGINFO);
	cr_assert_eq(now.mask | never, ~UINT64_C(0), "not blocked: %#llx",
		     (unsigned long long)~(now.mask | never));
}

Test(signals, alternate_stacks_are_left_alone_where_no_handler_of_the_host_wants_them)
{
	/* A sanitizer's own handlers do. */
	for (int signo = 1; signo < SIGRTMIN; signo++)
		(void)signal(signo, SIG_DFL);
	install();

	cr_assert_eq(kernel_action().flags & SA_ONSTACK, 0);
}

Test(signals, alternate_stacks_are_used_where_any_handler_of_the_host_uses_them)
{
	struct sigaction sa = action(SA_ONSTACK);

	cr_assert_eq(sigaction(SIGSEGV, &sa, NULL), 0);
	install();

	cr_assert(kernel_action().flags & SA_ONSTACK);
}

Test(signals, alternate_stacks_are_used_from_the_first_such_handler_on)
{
	install();
	errno = 4711;
	sp_signals_use_alternate_stack();

	cr_assert(kernel_action().flags & SA_ONSTACK);
	cr_assert_eq(errno, 4711);
}

Test(signals, a_handler_of_the_host_for_our_signal_keeps_its_own_stack)
{
	install();
	sp_signals_use_alternate_stack();
	struct sigaction sa = action(SA_RESTART);

	host_sets(sa);
	sp_signals_follow(SIGNO, &sa);

	cr_assert_eq(kernel_action().flags & SA_ONSTACK, 0);
}
