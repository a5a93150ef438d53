/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Facts about starting: once, on demand, and never when it was switched off or has failed. The
 * background thread is stood in for; all else is the real thing.
 */
#include "preload/life.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "preload/background.h"
#include "preload/fork_gate.h"
#include "preload/guard.h"
#include "sampler/signals.h"
#include "sampler/thread.h"

static _Atomic int early_result; /* of a thread that comes while another one starts; 0 = none yet */

static struct {
	int started;
	bool meets_another;
	int refuse;         /* errno of the start, 0 = it works */
	bool fails_at_once; /* it cannot load the exporter */
	unsigned flushes;
	uint32_t flush_ms;
	unsigned leaves;
	unsigned flushes_at_leave;
	unsigned returns;
	int refuse_return; /* errno of the return, 0 = it works */
} background;

static void *come_early(void *arg)
{
	atomic_store(&early_result, sp_life_start() ? 1 : -1);
	return arg;
}

/* Time enough for the other thread to be refused, if that is what happens to it. */
static void meet_another(void)
{
	struct timespec began;
	struct timespec now;
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, come_early, NULL), 0);
	cr_assert_eq(pthread_detach(thread), 0);
	(void)clock_gettime(CLOCK_MONOTONIC, &began);
	do {
		(void)sched_yield();
		(void)clock_gettime(CLOCK_MONOTONIC, &now);
	} while (atomic_load(&early_result) == 0 &&
		 (now.tv_sec - began.tv_sec) * 1000000000 + now.tv_nsec - began.tv_nsec < 5000000);
}

int sp_background_start(const struct sp_config *cfg)
{
	cr_assert_eq(cfg, sp_life_config());
	background.started++;
	if (background.meets_another)
		meet_another();
	if (background.fails_at_once)
		sp_life_fail();
	return -background.refuse;
}

void sp_background_forked(void)
{
}

void sp_background_flush(uint32_t timeout_ms)
{
	background.flushes++;
	background.flush_ms = timeout_ms;
}

bool sp_background_present(void)
{
	return background.started > 0 && background.refuse_return == 0;
}

void sp_background_leave(void)
{
	background.leaves++;
	background.flushes_at_leave = background.flushes;
	errno = EDOM;
}

int sp_background_return(void)
{
	background.returns++;
	errno = EDOM;
	return -background.refuse_return;
}

void sp_background_may_load(void)
{
}

void sp_background_main_ended(void)
{
}

static void load_with(const char *one, const char *two)
{
	char *envp[] = {(char *)(uintptr_t) "SPANPROF_LOG_LEVEL=none", (char *)(uintptr_t)one,
			(char *)(uintptr_t)two, NULL};

	sp_life_load(envp);
}

static void end(void)
{
	sp_thread_disarm_all();
}

TestSuite(life, .fini = end, .timeout = 20);

Test(life, a_thread_that_comes_while_another_one_starts_is_not_turned_away)
{
	background.meets_another = true;
	load_with("SPANPROF_OUTPUT_DIR=/nowhere", "SPANPROF_FLUSH_TIMEOUT=0");

	cr_assert(sp_life_start());
	while (atomic_load(&early_result) == 0)
		(void)sched_yield();
	cr_assert_eq(atomic_load(&early_result), 1);
	cr_assert_eq(background.started, 1);
}

Test(life, is_off_before_it_was_loaded)
{
	cr_assert_not(sp_life_wanted());
	cr_assert_not(sp_life_start());
	sp_life_main();
	sp_life_flush();
	sp_life_end();

	cr_assert_eq(background.started, 0);
	cr_assert_eq(background.flushes, 0);
}

Test(life, loaded_it_only_waits)
{
	load_with(NULL, NULL);
	sp_life_main();

	cr_assert(sp_life_wanted());
	cr_assert_not(sp_life_active());
	cr_assert_eq(background.started, 0);
	cr_assert_eq(sp_signals_number(), 0);
}

Test(life, starts_once_at_the_first_span)
{
	load_with(NULL, NULL);
	errno = 4711;

	cr_assert(sp_life_start());
	cr_assert(sp_life_start());

	cr_assert(sp_life_active());
	cr_assert_eq(background.started, 1);
	cr_assert_neq(sp_signals_number(), 0);
	cr_assert_eq(sp_thread_armed(), 1, "the thread that started it");
	cr_assert_eq(errno, 4711);
}

Test(life, starts_before_main_on_request)
{
	load_with("SPANPROF_PROFILE=always", NULL);
	sp_life_main();

	cr_assert(sp_life_active());
	cr_assert_eq(sp_guard_frame, 0, "the guard was left");
}

Test(life, a_kill_switch_keeps_it_off)
{
	load_with("SPANPROF_DISABLED=true", "SPANPROF_PROFILE=always");
	sp_life_main();

	cr_assert_not(sp_life_wanted());
	cr_assert_not(sp_life_start());
	cr_assert_eq(background.started, 0);
	cr_assert_eq(sp_signals_number(), 0);
}

Test(life, without_a_background_thread_it_has_failed_for_good)
{
	background.refuse = EAGAIN;
	load_with(NULL, NULL);

	cr_assert_not(sp_life_start());
	background.refuse = 0;
	cr_assert_not(sp_life_start());
	cr_assert_not(sp_life_wanted());
	cr_assert_not(sp_life_active());
	cr_assert_eq(sp_thread_armed(), 0);
	cr_assert_eq(background.started, 1);
}

/* The exporter is missing, and the thread finds out before the start has ended. */
Test(life, a_background_thread_that_fails_at_once_wins_over_the_start)
{
	background.fails_at_once = true;
	load_with(NULL, NULL);

	cr_assert_not(sp_life_start());
	cr_assert_not(sp_life_active());
	cr_assert_not(sp_life_start());
	cr_assert_eq(sp_thread_armed(), 0, "nobody would drain the samples");
}

Test(life, failed_it_samples_nothing_any_more)
{
	load_with(NULL, NULL);
	cr_assert(sp_life_start());

	sp_life_fail();

	cr_assert_not(sp_life_active());
	cr_assert_not(sp_life_wanted());
	cr_assert_eq(sp_thread_armed(), 0);
	sp_life_flush();
	cr_assert_eq(background.flushes, 0);
}

/* The host took the signal: the samples of before are still there, and the thread that sends them. */
Test(life, stopped_it_samples_nothing_any_more_but_flushes)
{
	load_with(NULL, NULL);
	cr_assert(sp_life_start());

	sp_life_stop();

	cr_assert_not(sp_life_active());
	cr_assert_not(sp_life_wanted());
	cr_assert_not(sp_life_start());
	cr_assert_eq(sp_thread_armed(), 0);
	sp_life_flush();
	cr_assert_eq(background.flushes, 1);
	sp_life_end();
	cr_assert_eq(background.flushes, 2);
	sp_life_flush();
	cr_assert_eq(background.flushes, 2, "the end was the last one");
}

static int flushes_in_child(void)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0) {
		sp_life_flush();
		sp_life_end();
		_exit((int)background.flushes);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status));
	return WEXITSTATUS(status);
}

Test(life, stopped_it_is_off_in_a_forked_child)
{
	load_with(NULL, NULL);
	cr_assert(sp_life_start());
	sp_life_stop();

	cr_assert_eq(flushes_in_child(), 0);
}

Test(life, flushes_for_as_long_as_configured)
{
	load_with("SPANPROF_FLUSH_TIMEOUT=1500ms", NULL);
	sp_life_flush();
	cr_assert_eq(background.flushes, 0, "nothing to send before the start");
	cr_assert(sp_life_start());
	sp_life_flush();

	cr_assert_eq(background.flushes, 1);
	cr_assert_eq(background.flush_ms, 1500);
}

Test(life, on_our_own_thread_nothing_waits_for_a_flush)
{
	load_with(NULL, NULL);
	cr_assert(sp_life_start());
	sp_guard_own_thread();
	sp_life_flush();

	cr_assert_eq(background.flushes, 0);
}

Test(life, after_the_end_there_is_no_second_flush)
{
	load_with(NULL, NULL);
	cr_assert(sp_life_start());
	sp_life_end();
	sp_life_flush();
	sp_life_end();

	cr_assert_eq(background.flushes, 1);
}

Test(life, steps_aside_only_when_there_is_a_thread)
{
	load_with(NULL, NULL);
	cr_assert_not(sp_life_step_aside(false));
	cr_assert(sp_life_start());
	errno = 4711;

	cr_assert(sp_life_step_aside(false));
	cr_assert_eq(background.leaves, 1);
	cr_assert_eq(background.flushes, 0);
	sp_life_step_back(false);
	cr_assert_eq(background.returns, 1);
	cr_assert_eq(errno, 4711);
	cr_assert(sp_life_active());
	cr_assert_eq(sp_thread_armed(), 1, "sampling goes on meanwhile");
}

Test(life, what_there_is_is_sent_before_the_thread_leaves_for_good)
{
	load_with(NULL, NULL);
	cr_assert(sp_life_start());

	cr_assert(sp_life_step_aside(true));

	cr_assert_eq(background.flushes_at_leave, 1);
}

Test(life, on_our_own_thread_nobody_steps_aside)
{
	load_with(NULL, NULL);
	cr_assert(sp_life_start());
	sp_guard_own_thread();

	cr_assert_not(sp_life_step_aside(false));
	cr_assert_eq(background.leaves, 0);
}

Test(life, a_thread_that_cannot_come_back_ends_sampling_and_is_missed_no_more)
{
	load_with(NULL, NULL);
	cr_assert(sp_life_start());
	cr_assert(sp_life_step_aside(true));
	background.refuse_return = EINVAL;

	sp_life_step_back(true);

	cr_assert_not(sp_life_active());
	cr_assert_eq(sp_thread_armed(), 0, "nobody would drain the samples");
	cr_assert_not(sp_life_step_aside(false));
}

Test(life, its_children_have_a_thread_again)
{
	int status;
	pid_t child;

	load_with("SPANPROF_PROFILE=always", NULL);
	sp_life_main();
	cr_assert(sp_life_step_aside(true));
	background.refuse_return = EINVAL;
	sp_life_step_back(true);
	background.refuse_return = 0;

	child = fork();
	if (child == 0)
		_exit(sp_life_active() && sp_thread_armed() == 1 && background.started == 2 ? 0
											    : 1);
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
	cr_assert_not(sp_life_active(), "the parent stays as it is");
}

static int status_of(pid_t child)
{
	int status = -1;

	cr_assert_eq(waitpid(child, &status, 0), child);
	return status;
}

/* As a daemon's parent does: the process between has no span, so nothing starts there. */
Test(life, a_grandchild_is_armed_by_its_own_thread_id)
{
	pid_t child;

	load_with(NULL, NULL);
	cr_assert(sp_life_start());
	cr_assert_not_null(sp_thread_own);

	child = fork();
	if (child == 0) {
		pid_t grandchild;

		if (sp_life_active())
			_exit(1);
		grandchild = fork();
		if (grandchild == 0)
			_exit(sp_life_start() && sp_thread_armed() == 1 &&
					      atomic_load(&sp_thread_own->tid) == (uint32_t)getpid()
				      ? 0
				      : 1);
		_exit(status_of(grandchild) == 0 ? 0 : 2);
	}
	cr_assert_eq(status_of(child), 0);
}

/* Forked in the middle of the exporter's work; so is its child, which was forked in peace. */
Test(life, where_nothing_may_start_nothing_does_in_children_either)
{
	pid_t child;

	load_with(NULL, NULL);
	cr_assert(sp_life_start());
	sp_fork_gate_enter();

	child = fork();
	if (child == 0) {
		pid_t grandchild = fork();

		if (grandchild == 0)
			_exit(sp_life_start() || background.started != 1 ? 1 : 0);
		if (status_of(grandchild) != 0 || !sp_life_wanted())
			_exit(1);
		_exit(sp_life_start() || sp_life_wanted() || background.started != 1 ? 2 : 0);
	}
	sp_fork_gate_leave();
	cr_assert_eq(status_of(child), 0);
	cr_assert(sp_life_active(), "the parent goes on");
}
