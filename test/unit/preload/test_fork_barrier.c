/* SPDX-License-Identifier: Apache-2.0 */
/* Forks, and sections during which no fork may happen, each in its own thread. */
#include "preload/elf/elf_walk.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define FORKS 30

TestSuite(fork_barrier, .timeout = 20);

static _Atomic bool is_inside;
static _Atomic bool go_on;

static void *enters_and_leaves(void *arg)
{
	(void)arg;
	sp_fork_barrier_enter();
	atomic_store(&is_inside, true);
	while (!atomic_load(&go_on))
		(void)sched_yield();
	/*
	 * by now the fork has been called, or is about to be: it waits until the section ends, but at most one second
	 */
	for (int i = 0; i < 20; i++)
		(void)sched_yield();
	atomic_store(&is_inside, false);
	sp_fork_barrier_exit();
	return NULL;
}

static void *stays(void *arg)
{
	(void)arg;
	sp_fork_barrier_enter();
	return NULL;
}

/* Forks, and returns the child's answer. */
static int child_of_fork(int (*says)(void))
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(says());
	cr_assert(pid > 0);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int is_divided(void)
{
	return atomic_load(&is_inside);
}

static int visit(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)info;
	(void)size;
	++*(int *)arg;
	return 0;
}

static int walks(void)
{
	int objects = 0;

	(void)sp_fork_barrier_walk(visit, &objects);
	return objects > 0;
}

static pthread_t one_inside(void)
{
	pthread_t thread;

	atomic_store(&go_on, false);
	cr_assert_eq(pthread_create(&thread, NULL, enters_and_leaves, NULL), 0);
	while (!atomic_load(&is_inside))
		(void)sched_yield();
	return thread;
}

static void check_that_forks_wait(void)
{
	for (int i = 0; i < FORKS; i++) {
		pthread_t thread = one_inside();

		atomic_store(&go_on, true);
		cr_assert_eq(child_of_fork(is_divided), 0);
		cr_assert_eq(pthread_join(thread, NULL), 0);
	}
}

Test(fork_barrier, a_fork_waits_until_others_have_left)
{
	sp_fork_barrier_start();
	check_that_forks_wait();
}

/* For example, a debugger had stopped the thread of that section. */
Test(fork_barrier, a_section_that_was_too_slow_for_one_fork_is_not_taken_for_lost_once_it_has_ended)
{
	pthread_t slow;

	sp_fork_barrier_start();
	slow = one_inside();
	cr_assert_eq(child_of_fork(is_divided), 1);
	atomic_store(&go_on, true);
	cr_assert_eq(pthread_join(slow, NULL), 0);
	check_that_forks_wait();
}

Test(fork_barrier, a_thread_may_fork_in_its_own_section_and_the_child_goes_on)
{
	sp_fork_barrier_start();
	sp_fork_barrier_enter();
	sp_fork_barrier_enter();
	cr_assert_eq(child_of_fork(walks), 1);
	sp_fork_barrier_exit();
	sp_fork_barrier_exit();
	cr_assert_eq(child_of_fork(walks), 1);
	cr_assert_eq(walks(), 1);
}

/* Otherwise each fork would take a second, and all of them longer than the test may. */
Test(fork_barrier, a_section_that_never_ends_holds_up_one_fork_alone)
{
	pthread_t thread;

	sp_fork_barrier_start();
	cr_assert_eq(pthread_create(&thread, NULL, stays, NULL), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	for (int i = 0; i < FORKS; i++) {
		cr_assert_eq(child_of_fork(walks), 1);
		/* the end of a section leaves the lost one as it was */
		cr_assert_eq(walks(), 1);
	}
}

/*
 * Sections that wait for a fork. A waiting thread reads the time once before, and again and again while it waits. The
 * clock of the test stands still, or makes a step at each reading, so that a wait ends when the test decides, or
 * never.
 */
static bool is_clock_ours;
static __thread int64_t clock_s;
static __thread int64_t step_s;
static __thread _Atomic unsigned asked;
static __thread bool is_to_be_held;
static bool forks_twice;
static _Atomic unsigned forks; /* forks that wait for nothing any more */
static _Atomic bool is_held;
static _Atomic(_Atomic unsigned *) waiter;
static _Atomic unsigned forks_of_handler;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, now);

	atomic_fetch_add(&asked, 1);
	if (is_clock_ours)
		*now = (struct timespec){.tv_sec = 1000 + (clock_s += step_s)};
	return rc;
}

static void note_fork(void)
{
	atomic_fetch_add(&forks, 1);
}

static void hold_fork(void)
{
	bool again = is_to_be_held && forks_twice;

	while (is_to_be_held && atomic_load(&is_held))
		(void)sched_yield();
	is_to_be_held = false;
	if (again)
		cr_assert_eq(child_of_fork(is_divided), 0);
}

static void *is_held_in_fork(void *arg)
{
	(void)arg;
	is_to_be_held = true;
	cr_assert_eq(child_of_fork(is_divided), 0);
	return NULL;
}

static void *tells_and_forks(void *arg)
{
	(void)arg;
	/* it has waited once and given up, but must wait again the next time */
	step_s = 1;
	sp_fork_barrier_enter();
	sp_fork_barrier_exit();
	step_s = 0;
	atomic_store(&asked, 0);
	atomic_store(&waiter, &asked);
	cr_assert_eq(child_of_fork(is_divided), 0);
	return NULL;
}

static void *tells_and_enters(void *arg)
{
	atomic_store(&waiter, &asked);
	return enters_and_leaves(arg);
}

static void fork_in_handler(int signo)
{
	(void)signo;
	if (child_of_fork(is_divided) == 0)
		atomic_fetch_add(&forks_of_handler, 1);
}

static pthread_t begin(void *(*run)(void *))
{
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, run, NULL), 0);
	return thread;
}

/* Starts a thread that is waiting when this returns, unless another fork comes first. */
static pthread_t one_that_waits(void *(*run)(void *))
{
	unsigned before = atomic_load(&forks);
	pthread_t thread;

	atomic_store(&waiter, NULL);
	thread = begin(run);
	while (atomic_load(&waiter) == NULL ||
	       (atomic_load(atomic_load(&waiter)) < 3 && atomic_load(&forks) == before))
		(void)sched_yield();
	return thread;
}

/* The first registered handlers: before a fork they run last, behind a fork first. */
static void start_with_our_clock(void)
{
	is_clock_ours = true;
	cr_assert_eq(pthread_atfork(note_fork, hold_fork, NULL), 0);
	sp_fork_barrier_start();
	atomic_store(&is_held, true);
}

static pthread_t one_held_in_its_fork(void)
{
	pthread_t thread = begin(is_held_in_fork);

	while (atomic_load(&forks) == 0)
		(void)sched_yield();
	return thread;
}

static void let_go_and_join(pthread_t held, pthread_t section)
{
	atomic_store(&is_held, false);
	cr_assert_eq(pthread_join(held, NULL), 0);
	atomic_store(&go_on, true);
	cr_assert_eq(pthread_join(section, NULL), 0);
}

static unsigned asked_in_fork(void)
{
	unsigned before = atomic_load(&asked);

	cr_assert_eq(child_of_fork(is_divided), 0);
	return atomic_load(&asked) - before;
}

Test(fork_barrier, a_fork_waits_for_sections_that_wait_already)
{
	pthread_t held;
	pthread_t section;
	pthread_t later;

	start_with_our_clock();
	held = one_held_in_its_fork();
	section = one_that_waits(tells_and_enters);
	later = one_that_waits(tells_and_forks);
	cr_expect_eq(atomic_load(&forks), 1);
	let_go_and_join(held, section);
	cr_assert_eq(pthread_join(later, NULL), 0);
	cr_expect_eq(asked_in_fork(), 1, "nobody waits any more");
}

Test(fork_barrier, a_fork_waits_no_longer_than_a_second_for_sections_that_wait)
{
	pthread_t held;
	pthread_t section;

	start_with_our_clock();
	held = one_held_in_its_fork();
	section = one_that_waits(tells_and_enters);
	step_s = 1;
	cr_expect_eq(asked_in_fork(), 3);
	step_s = 0;
	cr_expect_eq(asked_in_fork(), 1, "once");
	let_go_and_join(held, section);
	cr_expect_eq(asked_in_fork(), 1, "what was set to 0 stays there");
}

Test(fork_barrier, a_handler_may_fork_while_its_thread_waits)
{
	pthread_t held;
	pthread_t section;

	(void)signal(SIGUSR1, fork_in_handler);
	start_with_our_clock();
	held = one_held_in_its_fork();
	section = one_that_waits(tells_and_enters);
	cr_assert_eq(pthread_kill(section, SIGUSR1), 0);
	while (atomic_load(&forks_of_handler) == 0)
		(void)sched_yield();
	let_go_and_join(held, section);
	step_s = 1;
	cr_expect_eq(asked_in_fork(), 1);
}

/* In the child, the waiting threads of the parent do not count. */
static int leaves_and_forks(void)
{
	sp_fork_barrier_exit();
	return child_of_fork(walks);
}

Test(fork_barrier, a_section_may_fork_while_others_wait_for_a_fork_that_waits_for_it)
{
	pthread_t held;
	pthread_t section;

	start_with_our_clock();
	atomic_store(&is_held, false);
	sp_fork_barrier_enter();
	held = one_that_waits(tells_and_forks);
	section = one_that_waits(tells_and_enters);
	cr_expect_eq(child_of_fork(leaves_and_forks), 1);
	sp_fork_barrier_exit();
	let_go_and_join(held, section);
}

Test(fork_barrier, a_fork_in_a_fork_does_not_wait_for_those_that_wait_for_it)
{
	pthread_t held;
	pthread_t section;

	forks_twice = true;
	start_with_our_clock();
	held = one_held_in_its_fork();
	section = one_that_waits(tells_and_enters);
	let_go_and_join(held, section);
	cr_expect_eq(atomic_load(&forks), 2);
}
