/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about leaving SIGURG to a host that uses it itself, with the kernel's real signals. */
#include "sampler/base/process.h"
#include "sampler/thread/signal_fallback.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernel_double.h"
#include "sampler/base/counters.h"
#include "sampler/thread/signals.h"
#include "sampler/thread/thread.h"
#include "sampler/thread/thread_timer.h"
#include "sampler/thread/virtual_mask.h"

#define USUAL (SIGRTMAX - 3) /* the first real-time signal that is tried */

static volatile sig_atomic_t host_calls;

static void ours(int signo, siginfo_t *si, void *ucontext)
{
	sp_signals_chain(signo, si, ucontext);
}

static void host_handler(int signo)
{
	host_calls += signo == SIGURG;
}

static struct sigaction handled(void)
{
	struct sigaction sa;

	memset(&sa, 0, sizeof(sa));
	sa.sa_handler = host_handler;
	return sa;
}

static sigset_t set_of(int signo)
{
	sigset_t set;

	(void)sigemptyset(&set);
	if (signo != 0)
		(void)sigaddset(&set, signo);
	return set;
}

static sigset_t full_set(void)
{
	sigset_t set;

	(void)sigfillset(&set);
	return set;
}

static void begin(int signo)
{
	sp_process_set();
	cr_assert_eq(sp_signals_install(signo, ours), 0);
	sp_thread_timer_set(sp_signals_number(), 10 * SP_NS_PER_MS, 0x80000001U);
}

TestSuite(signal_fallback, .timeout = 20);

Test(signal_fallback, begins_with_sigurg)
{
	begin(0);

	cr_assert_eq(sp_signals_number(), SIGURG);
	cr_assert_eq(sp_signals_former(), 0);
	cr_assert(sp_signals_may_fall_back());
}

Test(signal_fallback, a_host_that_has_a_handler_for_it_keeps_it_in_the_kernel)
{
	struct sigaction sa = handled();
	struct sigaction now;

	cr_assert_eq(sigaction(SIGURG, &sa, NULL), 0);
	begin(0);
	sp_signal_fallback_tell();

	cr_assert_eq(sp_signals_number(), USUAL);
	cr_assert_not(sp_signals_is_ours(SIGURG));
	cr_assert_eq(sigaction(SIGURG, NULL, &now), 0);
	cr_assert_eq(now.sa_handler, host_handler);
	cr_assert_not(sp_signals_may_fall_back());
	cr_assert_eq(sp_count_read(SP_COUNT_SIGNAL_MOVED), 1);
}

Test(signal_fallback, one_that_ignores_it_does_not)
{
	cr_assert_neq(signal(SIGURG, SIG_IGN), SIG_ERR);
	begin(0);
	sp_signal_fallback_tell();

	cr_assert_eq(sp_signals_number(), SIGURG);
	cr_assert_eq(sp_count_read(SP_COUNT_SIGNAL_MOVED), 0);
}

Test(signal_fallback, one_that_blocks_just_that_has_it_from_the_start)
{
	sigset_t set = set_of(SIGURG);

	cr_assert_eq(sigprocmask(SIG_BLOCK, &set, NULL), 0);
	begin(0);

	cr_assert_eq(sp_signals_number(), USUAL);
}

Test(signal_fallback, one_that_blocks_everything_means_nothing_by_it)
{
	sigset_t set = full_set();

	cr_assert_eq(sigprocmask(SIG_BLOCK, &set, NULL), 0);
	begin(0);

	cr_assert_eq(sp_signals_number(), SIGURG);
}

Test(signal_fallback, a_descriptor_that_reads_it_has_it_from_the_start)
{
	sigset_t set = set_of(SIGURG);

	sp_virtual_mask_read_by_descriptor(&set);
	begin(0);

	cr_assert_eq(sp_signals_number(), USUAL);
}

Test(signal_fallback, one_that_reads_all_signals_leaves_none_to_move_to)
{
	sigset_t set = full_set();

	sp_virtual_mask_read_by_descriptor(&set);
	begin(0);

	cr_assert_eq(sp_signals_number(), SIGURG);
}

Test(signal_fallback, after_it_both_numbers_are_ours_and_the_host_gets_its_own)
{
	struct sigaction sa = handled();
	struct sigaction old;

	begin(0);
	errno = 4711;
	sp_signal_fallback();
	cr_assert_eq(errno, 4711);

	cr_assert_eq(sp_signals_number(), USUAL);
	cr_assert_eq(sp_thread_timer_signal(), USUAL);
	cr_assert_eq(sp_signals_former(), SIGURG);
	cr_assert(sp_signals_is_ours(SIGURG) && sp_signals_is_ours(USUAL));
	cr_assert_eq(sp_signals_virtual(SIGURG, &sa, NULL), 0);
	cr_assert_eq(sp_signals_virtual(USUAL, NULL, &old), 0);
	cr_assert_eq(old.sa_handler, SIG_DFL, "each has a disposition of its own");
	raise(SIGURG);
	cr_assert_eq(host_calls, 1);
	cr_assert(sp_signals_owned());
	cr_assert_eq(sp_count_read(SP_COUNT_SIGNAL_MOVED), 1);
}

Test(signal_fallback, once_is_enough)
{
	begin(0);
	sp_signal_fallback();
	sp_signal_fallback();

	cr_assert_eq(sp_signals_number(), USUAL);
	cr_assert_eq(sp_count_read(SP_COUNT_SIGNAL_MOVED), 1);
}

Test(signal_fallback, a_signal_that_the_user_chose_stays)
{
	sigset_t set = set_of(SIGURG);

	begin(SIGURG);
	sp_signal_fallback();
	sp_signal_fallback_for(&set);

	cr_assert_eq(sp_signals_number(), SIGURG);
}

Test(signal_fallback, numbers_that_are_in_use_are_passed_over)
{
	struct sigaction sa = handled();
	sigset_t set = set_of(USUAL - 1);

	cr_assert_eq(sigaction(USUAL, &sa, NULL), 0);
	cr_assert_eq(sigprocmask(SIG_BLOCK, &set, NULL), 0);
	set = set_of(USUAL - 2);
	sp_virtual_mask_read_by_descriptor(&set);
	begin(0);
	sp_signal_fallback();

	cr_assert_eq(sp_signals_number(), USUAL - 3);
}

Test(signal_fallback, a_set_of_few_is_a_reason_and_one_of_nearly_all_is_not)
{
	sigset_t all = full_set();
	sigset_t other = set_of(SIGUSR1);
	sigset_t few = set_of(SIGURG);

	begin(0);
	sp_signal_fallback_for(&all);
	sp_signal_fallback_for(&other);
	cr_assert_eq(sp_signals_number(), SIGURG);

	sp_signal_fallback_for(&few);
	cr_assert_eq(sp_signals_number(), USUAL);
}

Test(signal_fallback, before_sampling_nothing_moves)
{
	sigset_t few = set_of(SIGURG);

	errno = 4711;
	sp_signal_fallback_for(&few);
	sp_signal_fallback();
	sp_signal_fallback_follow();

	cr_assert_eq(sp_signals_number(), 0);
	cr_assert_eq(errno, 4711);
}

static int move_in_child(void *arg)
{
	(void)arg;
	sp_signal_fallback();
	return 0;
}

/* As vfork() makes it. */
Test(signal_fallback, not_in_a_child_that_shares_our_memory)
{
	static char stack[65536] __attribute__((aligned(16)));
	struct sigaction now;
	pid_t child;
	int status;

	begin(0);
	child = clone(move_in_child, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
	cr_assert_eq(waitpid(child, &status, 0), child);

	cr_assert_eq(sp_signals_number(), SIGURG);
	cr_assert_eq(sigaction(USUAL, NULL, &now), 0);
	cr_assert_eq(now.sa_handler, SIG_DFL);
	cr_assert(sp_signals_may_fall_back());
}

/* Alive timers that send that number. */
static unsigned timers_sending(int signo)
{
	unsigned n = 0;

	for (unsigned i = 0; i < KERNEL_TIMERS; i++)
		n += kernel.timer[i].alive && kernel.timer[i].event.sigev_signo == signo;
	return n;
}

/* The calling thread is another one, which has a timer. */
static struct sp_thread *another(uint32_t tid)
{
	kernel.tid = tid;
	sp_thread_own = NULL;
	return sp_thread_self();
}

static void two_threads(void)
{
	kernel.on = true;
	cr_assert_eq(sp_thread_init(), 0);
	begin(0);
	cr_assert_not_null(another(100));
	cr_assert_not_null(another(101));
	cr_assert_eq(timers_sending(SIGURG), 2);
}

Test(signal_fallback, the_movers_own_timer_follows_at_once)
{
	two_threads();

	sp_signal_fallback();

	cr_assert_eq(kernel_timers_of(101), 1);
	cr_assert_eq(timers_sending(USUAL), 1);
	cr_assert_eq(timers_sending(SIGURG), 1);
	cr_assert_eq(sp_thread_armed(), 2);
}

Test(signal_fallback, a_threads_timer_follows_before_it_blocks_the_former_signal)
{
	sigset_t all = full_set();
	sigset_t other = set_of(SIGUSR1);

	two_threads();
	sp_signal_fallback();
	kernel.tid = 100;
	sp_thread_own = sp_thread_at(0);

	sp_signal_fallback_for(&other);
	cr_assert_eq(timers_sending(SIGURG), 1);
	sp_signal_fallback_for(&all);
	cr_assert_eq(timers_sending(SIGURG), 0);
	cr_assert_eq(timers_sending(USUAL), 2);
	cr_assert_eq(sp_thread_armed(), 2);
}

Test(signal_fallback, the_others_follow_by_and_by)
{
	two_threads();
	sp_signal_fallback();
	/* the double answers for the calling thread alone; of others it asks /proc */
	kernel.tid = 100;

	sp_signal_fallback_follow();
	sp_signal_fallback_follow();

	cr_assert_eq(timers_sending(USUAL), 2);
	cr_assert_eq(timers_sending(SIGURG), 0);
	cr_assert_eq(kernel_timers(), 2);
	cr_assert_eq(sp_thread_armed(), 2);
}

/* It blocked nearly everything before the fallback: its kernel mask lacks SIGURG, and keeps lacking that. */
Test(signal_fallback, a_mask_that_lacked_the_former_signal_is_made_whole_by_it)
{
	sigset_t all = full_set();
	sigset_t now;

	two_threads();
	sp_virtual_mask_begin();
	(void)sigdelset(&all, SIGURG);
	cr_assert_eq(sigprocmask(SIG_SETMASK, &all, NULL), 0);
	sp_signal_fallback();
	cr_assert_eq(sp_virtual_mask_differs(), SIGURG);
	cr_assert(sp_virtual_mask_differs_now());

	sp_virtual_mask_make_real();

	cr_assert_eq(sigprocmask(SIG_BLOCK, NULL, &now), 0);
	cr_assert_eq(sigismember(&now, SIGURG), 1);
	cr_assert_eq(sp_virtual_mask_differs(), 0);
	cr_assert_eq(kernel_timers_of(101), 0);
}

Test(signal_fallback, a_descriptor_for_the_former_signal_takes_the_timers_of_such_threads)
{
	sigset_t few = set_of(SIGURG);

	two_threads();
	sp_thread_at(0)->mask_differs = SIGURG;
	sp_signal_fallback();

	sp_virtual_mask_read_by_descriptor(&few);

	cr_assert_eq(timers_sending(SIGURG), 0);
	cr_assert_eq(timers_sending(USUAL), 1);
}
