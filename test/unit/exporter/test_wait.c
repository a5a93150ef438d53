/* SPDX-License-Identifier: Apache-2.0 */
/* What the exporter wakes up for, and how long it takes for a flush at most. The host is the test. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "export/clock.h"
#include "export/export.h"
#include "export/exporter/wait.h"
#include "host_double.h"

static struct sp_view view;
static struct sp_host seen;
static struct sp_messages messages;
static struct sp_waiter waiter;
static struct sp_config config = {.flush_timeout_ms = 300, .upload_interval_ms = 15000};

static void begin(void)
{
	host_open(&view, &seen);
	sp_messages_init(&messages, &seen, view.region, SP_LOG_WARN);
	sp_waiter_init(&waiter, &view, &seen, &config, &messages);
}

static void set_up(void)
{
	host_make();
	begin();
}

TestSuite(waiting, .init = set_up, .timeout = 20);

static uint64_t ms_of(uint32_t timeout_ms, unsigned want)
{
	uint64_t before = sp_clock_mono_ns();
	unsigned bits = sp_waiter_wait(&waiter, timeout_ms);

	cr_assert_eq(bits, want, "%u", bits);
	return (sp_clock_mono_ns() - before) / SP_NS_PER_MS;
}

static void ask(uint64_t deadline_ns)
{
	atomic_store(&host.region->flush_deadline_ns, deadline_ns);
	atomic_fetch_add(&host.region->flush_asked, 1);
	atomic_fetch_add(&host.region->wake, 1);
	sp_view_wake(&host.region->wake);
}

Test(waiting, ends_by_itself)
{
	uint64_t ms = ms_of(50, 0);

	cr_expect_geq(ms, 49);
	cr_expect_eq(ms_of(0, 0) / 20, 0);
	cr_expect_not(sp_waiter_pending(&waiter));
	cr_expect_eq(sp_waiter_left_ms(&waiter), 0);
}

static void *ask_soon(void *arg)
{
	const struct timespec ms = {.tv_nsec = 20000000};

	(void)arg;
	(void)nanosleep(&ms, NULL);
	ask(sp_clock_mono_ns() + SP_NS_PER_S);
	return NULL;
}

Test(waiting, ends_when_a_flush_is_asked_for)
{
	pthread_t t;

	cr_assert_eq(pthread_create(&t, NULL, ask_soon, NULL), 0);
	cr_expect_lt(ms_of(15000, SP_WAIT_FLUSH), 10000);
	cr_assert_eq(pthread_join(t, NULL), 0);
	cr_expect(sp_waiter_pending(&waiter));

	sp_waiter_flushed(&waiter);
	cr_expect_not(sp_waiter_pending(&waiter));
	cr_expect_eq(host.region->flush_done, 1);
	(void)ms_of(0, 0);
}

Test(waiting, answers_only_what_was_asked_before_it_began)
{
	ask(sp_clock_mono_ns() + SP_NS_PER_S);
	(void)ms_of(0, SP_WAIT_FLUSH);
	ask(sp_clock_mono_ns() + SP_NS_PER_S);
	(void)ms_of(0, SP_WAIT_FLUSH);
	sp_waiter_flushed(&waiter);

	cr_expect_eq(host.region->flush_done, 1);
	cr_expect(sp_waiter_pending(&waiter));
	(void)ms_of(0, SP_WAIT_FLUSH);
	sp_waiter_flushed(&waiter);
	cr_expect_eq(host.region->flush_done, 2);
}

Test(waiting, gives_a_flush_the_hosts_time_and_no_more_than_was_configured)
{
	ask(sp_clock_mono_ns() + 100 * SP_NS_PER_MS);
	(void)ms_of(0, SP_WAIT_FLUSH);
	cr_expect_leq(sp_waiter_left_ms(&waiter), 100);
	sp_waiter_flushed(&waiter);

	ask(UINT64_MAX);
	(void)ms_of(0, SP_WAIT_FLUSH);
	cr_expect_leq(sp_waiter_left_ms(&waiter), 300);
	cr_expect_geq(sp_waiter_left_ms(&waiter), 1);
	/* nor by moving it */
	host.region->flush_deadline_ns = 1;
	cr_expect_geq(sp_waiter_left_ms(&waiter), 1);
	sp_waiter_flushed(&waiter);

	ask(1);
	(void)ms_of(0, SP_WAIT_FLUSH);
	cr_expect_eq(sp_waiter_left_ms(&waiter), 0);
}

static _Atomic bool enough;

static void *play(void *arg)
{
	(void)arg;
	while (!atomic_load(&enough)) {
		atomic_fetch_add(&host.region->wake, 1);
		sp_view_wake(&host.region->wake);
	}
	return NULL;
}

Test(waiting, costs_little_when_somebody_plays_with_the_word)
{
	pthread_t t;
	uint64_t cpu;

	cr_assert_eq(pthread_create(&t, NULL, play, NULL), 0);
	cpu = sp_clock_cpu_ns();
	cr_expect_geq(ms_of(300, 0), 299);
	cpu = sp_clock_cpu_ns() - cpu;
	atomic_store(&enough, true);
	cr_assert_eq(pthread_join(t, NULL), 0);
	cr_expect_lt(cpu / SP_NS_PER_MS, 100);
}

Test(waiting, asks_the_host_to_look_once_a_second)
{
	(void)ms_of(0, 0);
	cr_expect_neq(host.region->upkeep & SP_UPKEEP_LOOK, 0);
	cr_expect_neq(host.region->upkeep & SP_UPKEEP_SCAN, 0, "no thread is known");
	host.region->upkeep = 0;
	host.region->threads_known = waiter.threads.seen;
	host.region->threads_armed = waiter.threads.seen;
	(void)ms_of(0, 0);
	cr_expect_eq(host.region->upkeep, 0);
	waiter.look_ns = 0;
	(void)ms_of(0, 0);
	cr_expect_eq(host.region->upkeep, SP_UPKEEP_LOOK);
}

/* The exit status of an exporter of another process, which the test kills meanwhile. */
static int with_host(int (*run)(void))
{
	int status = 0;
	pid_t pid;

	host_make();
	host_start(NULL);
	pid = fork();
	if (pid == 0)
		_exit(run());
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_WORKING));
	host_kill();
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int see_the_end(void)
{
	uint64_t before = sp_clock_mono_ns();
	uint32_t left;
	unsigned bits;

	begin();
	sp_view_tell(&view, SP_EXPORTER_WORKING);
	do
		bits = sp_waiter_wait(&waiter, 15000);
	while (bits == 0);
	if (bits != (SP_WAIT_FLUSH | SP_WAIT_STOP))
		return 1;
	if (sp_clock_mono_ns() - before > 10 * SP_NS_PER_S)
		return 2;
	left = sp_waiter_left_ms(&waiter);
	if (!sp_waiter_pending(&waiter) || left == 0 || left > 300)
		return 3;
	sp_waiter_flushed(&waiter);
	return sp_waiter_pending(&waiter) ? 4 : 0;
}

Test(wait_end, of_the_host_is_a_last_flush, .timeout = 20)
{
	cr_expect_eq(with_host(see_the_end), 0);
}

/* Its flush was under way: nobody waits for that one, so the last one has all of its time. */
static int see_the_end_in_a_flush(void)
{
	begin();
	ask(1);
	if (sp_waiter_wait(&waiter, 0) != SP_WAIT_FLUSH || sp_waiter_left_ms(&waiter) != 0)
		return 1;
	sp_view_tell(&view, SP_EXPORTER_WORKING);
	while (sp_waiter_wait(&waiter, 5) != (SP_WAIT_FLUSH | SP_WAIT_STOP))
		;
	return sp_waiter_left_ms(&waiter) != 0 ? 0 : 2;
}

Test(wait_end, of_the_host_takes_over_its_flush, .timeout = 20)
{
	cr_expect_eq(with_host(see_the_end_in_a_flush), 0);
}
