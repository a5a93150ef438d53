/* SPDX-License-Identifier: Apache-2.0 */
/* What a host asks for, and how long a flush takes at most. The host is the test. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "export/export.h"
#include "export/exporter/rights.h"
#include "export/exporter/wait.h"
#include "export/util/clock.h"
#include "host_double.h"

static struct sp_view view;
static struct sp_host seen;
static struct sp_waiter waiter;
static struct sp_config config = {.flush_timeout_ms = 300, .upload_interval_ms = 15000};

static const struct sp_family_hook nobody;

/* In place of the C library's: what is opened is opened by this. */
static unsigned opened;
static int open_error;

int openat(int folder, const char *name, int flags, ...)
{
	opened++;
	if (open_error != 0) {
		errno = open_error;
		return -1;
	}
	return (int)syscall(SYS_openat, folder, name, flags, 0);
}

static int thread_error;

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	int (*make)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	*(void **)&make = dlsym(RTLD_NEXT, "pthread_create");
	return thread_error != 0 ? thread_error : make(thread, attr, run, arg);
}

static void begin(void)
{
	host_open(&view, &seen);
	sp_waiter_init(&waiter, &view, &seen, &config, &nobody);
}

static void set_up(void)
{
	host_make();
	begin();
}

TestSuite(waiting, .init = set_up, .timeout = 20);

static void expect(unsigned want)
{
	unsigned bits = sp_waiter_news(&waiter);

	cr_assert_eq(bits, want, "%u", bits);
}

static void ask(uint64_t deadline_ns)
{
	atomic_store(&host.region->flush_deadline_ns, deadline_ns);
	atomic_fetch_add(&host.region->flush_asked, 1);
	atomic_fetch_add(&host.region->wake, 1);
	sp_view_wake(&host.region->wake);
}

Test(waiting, tells_of_nothing_that_was_not_asked_for)
{
	expect(0);
	cr_expect_not(sp_waiter_pending(&waiter));
	cr_expect_eq(sp_waiter_left_ms(&waiter), 0);
}

Test(waiting, tells_of_a_flush_until_it_is_answered)
{
	ask(sp_clock_mono_ns() + SP_NS_PER_S);
	expect(SP_WAIT_FLUSH);
	cr_expect(sp_waiter_pending(&waiter));

	sp_waiter_flushed(&waiter);
	cr_expect_not(sp_waiter_pending(&waiter));
	cr_expect_eq(host.region->flush_done, 1);
	expect(0);
}

Test(waiting, lets_nobody_rest_for_long_without_a_thread_that_watches)
{
	expect(0);
	cr_expect_eq(sp_waiter_due_ns(&waiter), waiter.news_ns + 100 * SP_NS_PER_MS);
	waiter.watch.runs = true;
	cr_expect_eq(sp_waiter_due_ns(&waiter), waiter.news_ns + SP_NS_PER_S);
	host.region->state = SP_REGION_LEAVING;
	cr_expect_eq(sp_waiter_due_ns(&waiter), waiter.news_ns + 20 * SP_NS_PER_MS);
}

/* As in a burst of processes that meets a limit of theirs. */
Test(waiting, makes_the_thread_that_watches_once_it_can)
{
	int event = eventfd(0, EFD_CLOEXEC);
	uint64_t told;

	cr_assert_geq(event, 0);
	thread_error = EAGAIN;
	cr_expect_eq(sp_watch_start(&waiter.watch, &view.region->wake, event), -EAGAIN);
	expect(0);
	cr_expect_eq(sp_waiter_due_ns(&waiter), waiter.news_ns + 100 * SP_NS_PER_MS);
	thread_error = 0;
	expect(0);
	cr_expect_not(waiter.watch.runs, "it is tried again once a second");
	waiter.watch_ns = 0;
	expect(0);
	cr_assert(waiter.watch.runs);
	cr_expect_eq(sp_waiter_due_ns(&waiter), waiter.news_ns + SP_NS_PER_S);

	/* Of each start it has told. */
	cr_assert_eq(read(event, &told, sizeof(told)), sizeof(told));
	ask(sp_clock_mono_ns() + SP_NS_PER_S);
	cr_assert_eq(read(event, &told, sizeof(told)), sizeof(told));
	expect(SP_WAIT_FLUSH);
	sp_watch_stop(&waiter.watch);
}

/* As where descriptors of the whole machine have run out for a moment. */
Test(waiting, opens_nothing_during_a_shortage_and_goes_on_after_it)
{
	static const int shortages[] = {EMFILE, ENFILE, ENOMEM};

	for (size_t i = 0; i < sizeof(shortages) / sizeof(shortages[0]); i++) {
		open_error = shortages[i];
		cr_expect_not(sp_waiter_may_open(&waiter));
		ask(sp_clock_mono_ns() + SP_NS_PER_S);
		expect(0);
		cr_expect(sp_waiter_pending(&waiter));
		open_error = 0;
		expect(SP_WAIT_FLUSH);
		cr_expect(sp_waiter_may_open(&waiter));
		cr_expect_not(waiter.barred);
		sp_waiter_flushed(&waiter);
	}
	open_error = EACCES;
	cr_expect_not(sp_waiter_may_open(&waiter));
	open_error = 0;
	cr_expect_not(sp_waiter_may_open(&waiter), "it may have had other rights meanwhile");
}

Test(waiting, answers_only_what_was_asked_before_it_began)
{
	ask(sp_clock_mono_ns() + SP_NS_PER_S);
	expect(SP_WAIT_FLUSH);
	ask(sp_clock_mono_ns() + SP_NS_PER_S);
	expect(SP_WAIT_FLUSH);
	sp_waiter_flushed(&waiter);

	cr_expect_eq(host.region->flush_done, 1);
	cr_expect(sp_waiter_pending(&waiter));
	expect(SP_WAIT_FLUSH);
	sp_waiter_flushed(&waiter);
	cr_expect_eq(host.region->flush_done, 2);
}

/* Two threads end at once, say. Whoever watches has told of the second one while the first was in progress. */
Test(waiting, answers_soon_what_was_asked_in_the_meantime)
{
	waiter.watch.runs = true;
	ask(sp_clock_mono_ns() + SP_NS_PER_S);
	expect(SP_WAIT_FLUSH);
	ask(sp_clock_mono_ns() + SP_NS_PER_S);
	expect(SP_WAIT_FLUSH);
	cr_expect_eq(sp_waiter_due_ns(&waiter), waiter.news_ns + SP_NS_PER_S);

	sp_waiter_flushed(&waiter);
	cr_expect_eq(sp_waiter_due_ns(&waiter), waiter.news_ns + 20 * SP_NS_PER_MS);
	expect(SP_WAIT_FLUSH);
	sp_waiter_flushed(&waiter);
	cr_expect_eq(sp_waiter_due_ns(&waiter), waiter.news_ns + SP_NS_PER_S);
}

Test(waiting, gives_a_flush_the_hosts_time_and_no_more_than_was_configured)
{
	ask(sp_clock_mono_ns() + 100 * SP_NS_PER_MS);
	expect(SP_WAIT_FLUSH);
	cr_expect_leq(sp_waiter_left_ms(&waiter), 100);
	sp_waiter_flushed(&waiter);

	ask(UINT64_MAX);
	expect(SP_WAIT_FLUSH);
	cr_expect_leq(sp_waiter_left_ms(&waiter), 300);
	cr_expect_geq(sp_waiter_left_ms(&waiter), 1);
	/* nor by moving it */
	host.region->flush_deadline_ns = 1;
	cr_expect_geq(sp_waiter_left_ms(&waiter), 1);
	sp_waiter_flushed(&waiter);

	ask(1);
	expect(SP_WAIT_FLUSH);
	cr_expect_eq(sp_waiter_left_ms(&waiter), 0);
}

Test(waiting, asks_the_host_to_look_once_a_second)
{
	expect(0);
	cr_expect_neq(host.region->deferred_work & SP_WORK_LOOK, 0);
	cr_expect_neq(host.region->deferred_work & SP_WORK_SCAN, 0, "no thread is known");
	host.region->deferred_work = 0;
	host.region->threads_known = waiter.threads.seen;
	host.region->threads_armed = waiter.threads.seen;
	expect(0);
	cr_expect_eq(host.region->deferred_work, 0);
	waiter.look_ns = 0;
	expect(0);
	cr_expect_eq(host.region->deferred_work, SP_WORK_LOOK);
}

Test(waiting, is_due_at_once_when_the_futex_or_the_pidfd_has_told)
{
	waiter.watch.runs = true;
	expect(0);
	waiter.watch.has_fired = true;
	cr_expect_eq(sp_waiter_due_ns(&waiter), 0);
	expect(0);
	cr_expect_neq(sp_waiter_due_ns(&waiter), 0);

	waiter.is_told_of_end = true;
	waiter.has_died = true;
	cr_expect_eq(sp_waiter_due_ns(&waiter), 0);
	expect(SP_WAIT_FLUSH | SP_WAIT_STOP);
}

/* What a second of a host costs. */
static unsigned opened_in_a_second(void)
{
	unsigned before = opened;

	waiter.look_ns = 0;
	expect(0);
	return opened - before;
}

static void know_all_threads(void)
{
	host.region->threads_known = waiter.threads.seen;
	host.region->threads_armed = waiter.threads.seen;
}

Test(waiting, opens_nothing_of_a_host_in_which_nothing_moves)
{
	cr_expect_neq(opened_in_a_second(), 0);
	know_all_threads();
	for (unsigned i = 0; i < 14; i++)
		cr_expect_eq(opened_in_a_second(), 0, "second %u", i);

	waiter.idle_ns = 0;
	cr_expect_neq(opened_in_a_second(), 0, "once in an upload interval");
	cr_expect_eq(opened_in_a_second(), 0);
}

Test(waiting, looks_closer_at_a_host_in_which_something_moves)
{
	(void)opened_in_a_second();
	know_all_threads();

	waiter.has_moved = true;
	cr_expect_neq(opened_in_a_second(), 0, "its rings had something");
	cr_expect_eq(opened_in_a_second(), 0);
	host.region->deferred_work = 0;
	cr_expect_neq(opened_in_a_second(), 0, "a hook ran");
	cr_expect_eq(host.region->deferred_work, SP_WORK_LOOK);
	cr_expect_eq(opened_in_a_second(), 0);
}

/* The clock of a process that was stopped stands still. */
static pid_t stopped(void)
{
	pid_t pid = fork();
	int status;

	/* A test that fails must not leave it behind, with the test's output open. */
	if (pid == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0)
		for (;;)
			(void)raise(SIGSTOP);
	cr_assert_eq(waitpid(pid, &status, WUNTRACED), pid);
	cr_assert(WIFSTOPPED(status));
	cr_assert_eq(clock_getcpuclockid(pid, &seen.clock), 0);
	return pid;
}

Test(waiting, leaves_a_host_alone_that_has_used_no_cpu_time)
{
	pid_t pid = stopped();
	int status;

	waiter.is_told_of_end = true;
	waiter.watch.runs = true;
	expect(0);
	host.region->deferred_work = 0;
	host.region->state = SP_REGION_LEAVING;
	waiter.look_ns = 0;
	expect(SP_WAIT_RESTS);
	cr_expect_eq(host.region->deferred_work, 0);
	cr_expect_eq(sp_waiter_due_ns(&waiter), UINT64_MAX);
	waiter.idle_ns = 0;
	expect(0);
	cr_expect_eq(sp_waiter_due_ns(&waiter), waiter.news_ns + 20 * SP_NS_PER_MS);
	expect(0);
	host.region->state = SP_REGION_SAMPLING;
	waiter.leaving_ns = 0;
	expect(SP_WAIT_RESTS);

	(void)kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	expect(0);
	expect(0);
}

Test(waiting, hears_a_host_that_was_not_charged_for_its_time_yet)
{
	pid_t pid = stopped();

	waiter.is_told_of_end = true;
	waiter.watch.runs = true;
	expect(0);
	expect(SP_WAIT_RESTS);
	ask(sp_clock_mono_ns() + SP_NS_PER_S);
	waiter.watch.has_fired = true;
	expect(SP_WAIT_FLUSH);
	expect(SP_WAIT_FLUSH);
	sp_waiter_flushed(&waiter);
	expect(SP_WAIT_RESTS);
	waiter.watch.runs = false;
	expect(0);
	cr_expect_eq(sp_waiter_due_ns(&waiter), waiter.news_ns + 100 * SP_NS_PER_MS,
		     "nobody hears it ask");
	waiter.watch.runs = true;
	waiter.is_told_of_end = false;
	expect(0);
	waiter.is_told_of_end = waiter.has_died = true;
	expect(SP_WAIT_FLUSH | SP_WAIT_STOP);
	expect(SP_WAIT_FLUSH | SP_WAIT_STOP);
	(void)kill(pid, SIGKILL);
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
	while ((bits = sp_waiter_news(&waiter)) == 0)
		(void)poll(NULL, 0, 1);
	if (bits != (SP_WAIT_FLUSH | SP_WAIT_STOP))
		return 1;
	if (sp_clock_mono_ns() - before > 10 * SP_NS_PER_S)
		return 2;
	left = sp_waiter_left_ms(&waiter);
	/* Nobody waits for it any more: it has more time than the program would have given it. */
	if (!sp_waiter_pending(&waiter) || left <= 300 || left > 10000)
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
	if (sp_waiter_news(&waiter) != SP_WAIT_FLUSH || sp_waiter_left_ms(&waiter) != 0)
		return 1;
	sp_view_tell(&view, SP_EXPORTER_WORKING);
	while (sp_waiter_news(&waiter) != (SP_WAIT_FLUSH | SP_WAIT_STOP))
		(void)poll(NULL, 0, 1);
	return sp_waiter_left_ms(&waiter) != 0 ? 0 : 2;
}

Test(wait_end, of_the_host_takes_over_its_flush, .timeout = 20)
{
	cr_expect_eq(with_host(see_the_end_in_a_flush), 0);
}
