/* SPDX-License-Identifier: Apache-2.0 */
/* Forks and sections that they must not divide, each in a thread of its own. */
#include "preload/elf/elf_walk.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/wait.h>
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
	/* the fork has been called by now, or is about to be: until then it waits, but no longer than a second */
	for (int i = 0; i < 20; i++)
		(void)sched_yield();
	atomic_store(&is_inside, false);
	sp_fork_barrier_leave();
	return NULL;
}

static void *stays(void *arg)
{
	(void)arg;
	sp_fork_barrier_enter();
	return NULL;
}

/* What the child says of itself. */
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

/* Such as of a thread that a debugger had stopped. */
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
	sp_fork_barrier_leave();
	sp_fork_barrier_leave();
	cr_assert_eq(child_of_fork(walks), 1);
	cr_assert_eq(walks(), 1);
}

/* Each fork would take a second, and all of them longer than the test may. */
Test(fork_barrier, a_section_that_never_ends_holds_up_one_fork_alone)
{
	pthread_t thread;

	sp_fork_barrier_start();
	cr_assert_eq(pthread_create(&thread, NULL, stays, NULL), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	for (int i = 0; i < FORKS; i++) {
		cr_assert_eq(child_of_fork(walks), 1);
		/* a section that ends leaves the lost one as it was */
		cr_assert_eq(walks(), 1);
	}
}
