/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPU time that a sampler misses by nature. Usage:
 *
 *	brief threads N MS	N threads of MS milliseconds of CPU time, one after another
 *	brief exits N MS	the same, but each ends by pthread_exit
 *	brief cancel N MS	the same, but each is cancelled when it has done its work
 *	brief bursts N		N bursts of half a millisecond in step with the kernel's tick
 *	brief fork N MS		a child that makes a child, N deep, each with MS milliseconds
 *
 * Each process prints "cpu <nanoseconds>" as its last deed: the CPU clocks of its threads.
 */
#include <pthread.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"

#define TICK_NS 4000000 /* or a multiple of the tick */

static int work_ms;
static int64_t threads_ns;
static volatile int work_done;

static void *ends(void *arg)
{
	host_burn_ms(work_ms);
	threads_ns += host_cpu_ns();
	return arg;
}

static void *exits(void *arg)
{
	host_burn_ms(work_ms);
	threads_ns += host_cpu_ns();
	pthread_exit(arg);
}

static void *cancelled(void *arg)
{
	host_burn_ms(work_ms);
	threads_ns += host_cpu_ns();
	work_done = 1;
	for (;;)
		pause();
	return arg;
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

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	int n = argc > 2 ? atoi(argv[2]) : 10;

	work_ms = argc > 3 ? atoi(argv[3]) : 2;
	if (strcmp(what, "threads") == 0)
		run_threads(n, ends);
	else if (strcmp(what, "exits") == 0)
		run_threads(n, exits);
	else if (strcmp(what, "cancel") == 0)
		run_threads(n, cancelled);
	else if (strcmp(what, "bursts") == 0)
		run_bursts(n);
	else if (strcmp(what, "fork") == 0)
		run_fork(n);
	else
		return 2;
	printf("cpu %lld\n", (long long)(threads_ns + host_cpu_ns()));
	fflush(stdout);
	return 0;
}
