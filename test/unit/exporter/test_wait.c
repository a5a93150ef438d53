/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of a host, and the longest time that a flush takes. The host is the test. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
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

/* Replaces the C library's function, and counts the files that the exporter opens. */
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
	unsigned bits = sp_waiter_changes(&waiter);

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

Test(waiting, has_a_last_flush_when_the_host_goes_on_without_it)
{
	expect(0);
	host.region->state = SP_REGION_PARTED;
	expect(SP_WAIT_FLUSH | SP_WAIT_STOP);
}

Test(waiting, lets_nobody_rest_for_long_without_a_thread_that_watches)
{
	expect(0);
	cr_expect_eq(sp_waiter_due_ns(&waiter), waiter.news_ns + 100 * SP_NS_PER_MS);
	waiter.watch.runs = true;
	waiter.look_ns = UINT64_MAX;
	cr_expect_eq(sp_waiter_due_ns(&waiter), waiter.news_ns + SP_NS_PER_S);
	host.region->state = SP_REGION_LEAVING;
	cr_expect_eq(sp_waiter_due_ns(&waiter), waiter.news_ns + 20 * SP_NS_PER_MS);
}

/* A burst of processes has met the limit of threads. */
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
	waiter.look_ns = UINT64_MAX;
	cr_expect_eq(sp_waiter_due_ns(&waiter), waiter.news_ns + SP_NS_PER_S);

	/* The thread reports once at each start. */
	cr_assert_eq(read(event, &told, sizeof(told)), sizeof(told));
	ask(sp_clock_mono_ns() + SP_NS_PER_S);
	cr_assert_eq(read(event, &told, sizeof(told)), sizeof(told));
	expect(SP_WAIT_FLUSH);
	sp_watch_stop(&waiter.watch);
}

/* Descriptors of the whole machine have run out for a moment. */
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

/*
 * Two threads may end at once: the second request, and its wake, came while the first flush was in
 * progress.
 */
Test(waiting, answers_soon_what_was_asked_in_the_meantime)
{
	waiter.watch.runs = true;
	ask(sp_clock_mono_ns() + SP_NS_PER_S);
	expect(SP_WAIT_FLUSH);
	ask(sp_clock_mono_ns() + SP_NS_PER_S);
	expect(SP_WAIT_FLUSH);
	waiter.look_ns = UINT64_MAX;
	cr_expect_eq(sp_waiter_due_ns(&waiter), waiter.news_ns + SP_NS_PER_S);

	sp_waiter_flushed(&waiter);
	cr_expect_eq(sp_waiter_due_ns(&waiter), waiter.news_ns + 20 * SP_NS_PER_MS);
	expect(SP_WAIT_FLUSH);
	sp_waiter_flushed(&waiter);
	waiter.look_ns = UINT64_MAX;
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

static uint64_t pause_ns(void)
{
	expect(0);
	return waiter.look_ns - waiter.news_ns;
}

static void ask_for_nothing(void)
{
	host.region->deferred_work = 0;
	host.region->threads_known = waiter.threads.seen;
	host.region->threads_armed = waiter.threads.seen;
	waiter.look_ns = 0;
}

Test(waiting, looks_more_often_where_threads_come)
{
	expect(0);
	ask_for_nothing();
	cr_expect_eq(pause_ns(), 250 * SP_NS_PER_MS);
	ask_for_nothing();
	waiter.often_ns = 1;
	cr_expect_eq(pause_ns(), SP_NS_PER_S);
	ask_for_nothing();
	waiter.threads.seen = 7;
	expect(0);
	cr_expect_gt(waiter.often_ns, waiter.news_ns + 9 * SP_NS_PER_S);
}

/* Then the exporter asks less and less often, but the longest pause is a second. */
Test(waiting, insists_on_a_scan_that_no_hook_does)
{
	cr_expect_eq(pause_ns(), 50 * SP_NS_PER_MS);
	cr_expect_eq(host.region->deferred_work, SP_WORK_LOOK | SP_WORK_SCAN);
	for (unsigned i = 0; i < 7; i++) {
		waiter.look_ns = 0;
		cr_expect_eq(pause_ns(), (i < 5 ? 50 * SP_NS_PER_MS << i : SP_NS_PER_S), "look %u",
			     i);
		cr_expect_eq(host.region->deferred_work,
			     SP_WORK_LOOK | SP_WORK_SCAN | SP_WORK_SCAN_NOW);
	}
	ask_for_nothing();
	expect(0);
	host.region->threads_armed = 0;
	waiter.threads.pause = 0;
	waiter.look_ns = 0;
	cr_expect_eq(pause_ns(), 50 * SP_NS_PER_MS, "the next one is another case");
}

static volatile sig_atomic_t roused;

static void count_signal(int signo)
{
	(void)signo;
	roused++;
}

/* For so long that the kernel's count of clock ticks moves. */
static void use_some_ticks(void)
{
	uint64_t began = sp_host_cpu_ns(&seen);

	while (sp_host_cpu_ns(&seen) - began < 40 * SP_NS_PER_MS)
		continue;
}

/* A new thread of a busy machine, which has not run yet, comes to its hook by itself: a signal would only cost a wait. */
Test(waiting, sends_its_signal_where_several_looks_have_no_answer)
{
	struct sigaction action = {.sa_handler = count_signal};
	uint64_t kernel_action[4];

	/* The C library refuses an action for this signal, so the kernel gets the same one as for another signal. */
	cr_assert_eq(sigaction(SIGUSR1, &action, NULL), 0);
	cr_assert_eq(syscall(SYS_rt_sigaction, SIGUSR1, NULL, kernel_action, 8), 0);
	cr_assert_eq(syscall(SYS_rt_sigaction, SP_ROUSING_SIGNAL, kernel_action, NULL, 8), 0);
	host.region->cookie = 1;
	host.region->signal_number = SP_ROUSING_SIGNAL;
	host.region->state = SP_REGION_SAMPLING;
	for (unsigned i = 0; i < 6; i++) {
		use_some_ticks();
		waiter.look_ns = 0;
		expect(0);
		if (i <= 3)
			cr_expect_eq(roused, 0, "look %u", i);
	}
	cr_expect_gt(roused, 0);
}

Test(waiting, does_not_insist_where_all_threads_are_known_by_now)
{
	expect(0);
	host.region->threads_known = waiter.threads.seen;
	host.region->threads_armed = waiter.threads.seen;
	waiter.look_ns = 0;
	cr_expect_eq(pause_ns(), 250 * SP_NS_PER_MS);
	cr_expect_eq(host.region->deferred_work & SP_WORK_SCAN_NOW, 0);
}

static bool install_filter(void)
{
	struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	const struct sock_fprog program = {1, all};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static bool is_filtered(void)
{
	uint64_t own = sp_confinement_own_filters();

	return install_filter() && sp_rights_compare(&seen) >= 0 && sp_rights_filters() > own;
}

/* A handler must make no system call after the program has installed a filter. */
Test(waiting, does_not_insist_below_a_new_filter)
{
	expect(0);
	if (!is_filtered())
		cr_skip_test("no filter is to be had, or the kernel does not count them");
	waiter.look_ns = 0;
	expect(0);
	cr_expect_eq(host.region->deferred_work & (SP_WORK_SECCOMP | SP_WORK_SCAN_NOW),
		     SP_WORK_SECCOMP);
}

static unsigned ends;

static void end_family(void *arg)
{
	(void)arg;
	ends++;
}

static const struct sp_family_hook family = {.end = end_family};

/* The exporter treats it as ended, but takes the samples that it has put so far. */
Test(waiting, lets_go_of_one_with_a_new_filter)
{
	waiter.family = &family;
	expect(0);
	if (!is_filtered())
		cr_skip_test("no filter is to be had, or the kernel does not count them");
	cr_expect(sp_waiter_may_open(&waiter), "what is told of it may be written");
	cr_expect_eq(waiter.confined, SP_CONFINED_FILTER);
	cr_expect_eq(sp_waiter_due_ns(&waiter), 0);
	expect(SP_WAIT_FLUSH | SP_WAIT_STOP | SP_WAIT_END);
	cr_expect_eq(ends, 1);
	cr_expect(sp_waiter_pending(&waiter));
	cr_expect_not(waiter.barred);
}

Test(waiting, lets_go_of_one_that_has_joined_alone)
{
	waiter.family = &family;
	seen.joined = true;
	expect(0);
	if (!is_filtered())
		cr_skip_test("no filter is to be had, or the kernel does not count them");
	(void)sp_waiter_may_open(&waiter);
	expect(SP_WAIT_FLUSH | SP_WAIT_STOP);
	cr_expect_eq(ends, 0);
}

/* The process came with its earlier namespaces. */
Test(waiting, lets_go_of_one_in_other_namespaces)
{
	waiter.family = &family;
	expect(0);
	cr_assert_neq(seen.confinement.mounts.inode, 0);
	seen.confinement.mounts.inode++;
	cr_expect(sp_waiter_may_open(&waiter));
	cr_expect_eq(waiter.confined, SP_CONFINED_MOUNTS);
	cr_expect_eq(host.region->deferred_work & SP_WORK_SECCOMP, 0);
	expect(SP_WAIT_FLUSH | SP_WAIT_STOP | SP_WAIT_END);
}

Test(waiting, knows_when_it_was_last_as_free_as_at_first)
{
	int64_t at_first = waiter.free_ns;

	cr_assert_neq(at_first, 0);
	cr_expect(sp_waiter_may_open(&waiter));
	cr_expect_gt(waiter.free_ns, at_first);
	at_first = waiter.free_ns;
	seen.confinement.users.inode++;
	(void)sp_waiter_may_open(&waiter);
	cr_expect_eq(waiter.free_ns, at_first);
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

/* Counts the files that the exporter opens for a host in a second. */
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

/* A stopped process, whose CPU clock stands still. */
static pid_t stopped(void)
{
	pid_t pid = fork();
	int status;

	/* If the test fails, the child must not stay with the test's output open. */
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

/* The exit status of an exporter whose host is another process, which the test kills meanwhile. */
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
	sp_view_set_state(&view, SP_EXPORTER_WORKING);
	while ((bits = sp_waiter_changes(&waiter)) == 0)
		(void)poll(NULL, 0, 1);
	if (bits != (SP_WAIT_FLUSH | SP_WAIT_STOP))
		return 1;
	if (sp_clock_mono_ns() - before > 10 * SP_NS_PER_S)
		return 2;
	left = sp_waiter_left_ms(&waiter);
	/*
	 * Nobody waits for the flush any more, so it has more time than the program would have
	 * given it.
	 */
	if (!sp_waiter_pending(&waiter) || left <= 300 || left > 10000)
		return 3;
	sp_waiter_flushed(&waiter);
	return sp_waiter_pending(&waiter) ? 4 : 0;
}

Test(wait_end, of_the_host_is_a_last_flush, .timeout = 20)
{
	cr_expect_eq(with_host(see_the_end), 0);
}

/*
 * The host's flush was under way when it ended: nobody waits for that flush, so the last one has
 * the full time.
 */
static int see_the_end_in_a_flush(void)
{
	begin();
	ask(1);
	if (sp_waiter_changes(&waiter) != SP_WAIT_FLUSH || sp_waiter_left_ms(&waiter) != 0)
		return 1;
	sp_view_set_state(&view, SP_EXPORTER_WORKING);
	while (sp_waiter_changes(&waiter) != (SP_WAIT_FLUSH | SP_WAIT_STOP))
		(void)poll(NULL, 0, 1);
	return sp_waiter_left_ms(&waiter) != 0 ? 0 : 2;
}

Test(wait_end, of_the_host_takes_over_its_flush, .timeout = 20)
{
	cr_expect_eq(with_host(see_the_end_in_a_flush), 0);
}
