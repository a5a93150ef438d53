/* SPDX-License-Identifier: Apache-2.0 */
/* A lock that is never waited for without end, over threads and forks. */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sampler/base/process.h"
#include "sampler/base/try_lock.h"

static struct sp_try_lock lock;

/* Runs that in a forked child, which our fork handler has seen. */
static bool in_child(bool (*holds)(void))
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		sp_process_forked();
		_exit(holds() ? 0 : 1);
	}
	return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

Test(try_lock, is_held_by_one_and_given_back)
{
	cr_assert(sp_try_lock_once(&lock));
	cr_assert_not(sp_try_lock_once(&lock));
	cr_assert_not(sp_try_lock(&lock), "an attempt ends");

	sp_unlock(&lock);

	cr_assert(sp_try_lock(&lock));
}

static bool is_locked_once(void)
{
	return sp_try_lock(&lock) && !sp_try_lock(&lock);
}

Test(try_lock, that_a_thread_of_the_parent_held_is_free_in_the_child)
{
	cr_assert(sp_try_lock(&lock));

	cr_assert(in_child(is_locked_once));

	cr_assert_not(sp_try_lock(&lock), "the parent's is its own");
}

static bool is_free_in_the_next_child(void)
{
	return in_child(is_locked_once);
}

static bool is_held_and_free_in_the_next_child(void)
{
	return sp_try_lock(&lock) && in_child(is_locked_once);
}

Test(try_lock, of_a_process_is_not_mistaken_for_one_of_its_grandchildren)
{
	cr_assert(sp_try_lock(&lock));

	cr_assert(in_child(is_free_in_the_next_child));
	cr_assert(in_child(is_held_and_free_in_the_next_child));
}
