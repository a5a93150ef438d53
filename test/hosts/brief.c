/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU time that a sampler misses by nature. Usage:
 *
 *	brief threads N MS	N threads of MS milliseconds of CPU time, one after another
 *	brief exits N MS	the same, but each ends by pthread_exit
 *	brief cancel N MS	the same, but each is cancelled when it has done its work
 *	brief c11 N MS		threads of C11
 *	brief bursts N		N bursts of half a millisecond in step with the kernel's tick
 *	brief fork N MS		a child that makes a child, N deep, each with MS milliseconds
 *
 * Each process prints "cpu <nanoseconds>" last: its CPU time since main(), as getrusage() counts it, without tasks
 * that it has not made itself.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <threads.h>
#include <unistd.h>

#include "test/hosts/host.h"

#define TICK_NS 4000000 /* or a multiple of the tick */
#define HARDLY_NS 100000

static int work_ms;
static volatile int work_done;
static volatile pid_t worker;

static void work(void)
{
	worker = gettid();
	host_burn_ms(work_ms);
}

static void *ends(void *arg)
{
	work();
	return arg;
}

static void *exits(void *arg)
{
	work();
	pthread_exit(arg);
}

static void *cancelled(void *arg)
{
	work();
	work_done = 1;
	for (;;)
		pause();
	return arg;
}

/* join returns a little before the kernel has removed the thread from the list of tasks. */
static void wait_for_end(void)
{
	while (tgkill(getpid(), worker, 0) == 0)
		sched_yield();
}

static void run_threads(int n, void *(*start)(void *))
{
	for (int i = 0; i < n; i++) {
		pthread_t thread;

		work_done = 0;
		HOST_CHECK(pthread_create(&thread, NULL, start, NULL) == 0);
		if (start == cancelled) {
			HOST_CHECK(host_wait_for(&work_done, 10000));
			HOST_CHECK(pthread_cancel(thread) == 0);
		}
		HOST_CHECK(pthread_join(thread, NULL) == 0);
		wait_for_end();
	}
}

static int ends_in_c11(void *arg)
{
	work();
	return arg == NULL;
}

static void run_c11(int n)
{
	for (int i = 0; i < n; i++) {
		thrd_t thread;
		int result = 0;

		HOST_CHECK(thrd_create(&thread, ends_in_c11, NULL) == thrd_success);
		HOST_CHECK(thrd_join(thread, &result) == thrd_success && result == 1);
		wait_for_end();
	}
}

static void run_bursts(int n)
{
	struct timespec next;

	clock_gettime(CLOCK_MONOTONIC, &next);
	for (int i = 0; i < n; i++) {
		int64_t end;

		next.tv_nsec = (next.tv_nsec / TICK_NS + 1) * TICK_NS;
		if (next.tv_nsec >= 1000000000) {
			next.tv_nsec -= 1000000000;
			next.tv_sec++;
		}
		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
		end = host_cpu_ns() + 500000;
		while (host_cpu_ns() < end)
			continue;
	}
}

static void run_fork(int depth)
{
	pid_t child;

	host_burn_ms(work_ms);
	if (depth <= 1)
		return;
	child = fork();
	HOST_CHECK(child >= 0);
	if (child == 0)
		run_fork(depth - 1);
	else
		waitpid(child, NULL, 0);
}

/* CPU clock of a task: linux/posix-timers_types.h, MAKE_THREAD_CPUCLOCK. */
static int64_t task_ns(int tid)
{
	return host_clock_ns((clockid_t)(~(unsigned)tid << 3 | 6));
}

/* The CPU time of other tasks; all our own threads except the calling one have ended. */
static int64_t others_ns(void)
{
	DIR *tasks = opendir("/proc/self/task");
	struct dirent *entry;
	int64_t ns = 0;

	HOST_CHECK(tasks != NULL);
	while ((entry = readdir(tasks)) != NULL) {
		int tid = atoi(entry->d_name);

		if (tid > 0 && tid != gettid())
			ns += task_ns(tid);
	}
	closedir(tasks);
	return ns;
}

/* Two clocks cannot be read at once: reads again until the other tasks have hardly run meanwhile. */
static int64_t used_ns(void)
{
	for (int i = 0; i < 10000; i++) {
		int64_t others = others_ns();
		int64_t all = host_clock_ns(CLOCK_PROCESS_CPUTIME_ID);

		if (others_ns() - others <= HARDLY_NS)
			return all - others;
	}
	HOST_CHECK(!"the others rest");
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[2]) : 10;
	pid_t first = getpid();
	int64_t before = used_ns();

	work_ms = argc > 3 ? atoi(argv[3]) : 2;
	if (strcmp(what, "threads") == 0)
		run_threads(n, ends);
	else if (strcmp(what, "exits") == 0)
		run_threads(n, exits);
	else if (strcmp(what, "cancel") == 0)
		run_threads(n, cancelled);
	else if (strcmp(what, "c11") == 0)
		run_c11(n);
	else if (strcmp(what, "bursts") == 0)
		run_bursts(n);
	else if (strcmp(what, "fork") == 0)
		run_fork(n);
	else
		return 2;
	/* a child's clock begins anew */
	printf("cpu %lld\n", (long long)(used_ns() - (getpid() == first ? before : 0)));
	fflush(stdout);
	return 0;
}
