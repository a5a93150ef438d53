/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a thread. "threads churn" makes rounds for rounds.c: nanoseconds of CPU time, of the whole process, to
 * create and join an empty thread. "threads held COUNT MS" holds COUNT threads, each after MS milliseconds of work,
 * and prints the KiB of resident memory; "threads signalled COUNT MS" does the same with threads that take an
 * ordinary signal meanwhile, whose handler is empty. "threads idle COUNT" prints "ready" and holds COUNT idle threads
 * until the end of standard input.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAIRS 200
#define HELD_MAX 4000
#define STACK_BYTES ((size_t)128 * 1024)

static pthread_barrier_t worked, done;
static long work_ms;
static bool signalled;

static double clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void *nothing(void *arg)
{
	return arg;
}

static double churn(void)
{
	double from = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	pthread_t thread;

	for (int i = 0; i < PAIRS; i++)
		if (pthread_create(&thread, NULL, nothing, NULL) != 0 ||
		    pthread_join(thread, NULL) != 0)
			exit(2);
	return (clock_ns(CLOCK_PROCESS_CPUTIME_ID) - from) / PAIRS;
}

static void ignore(int signo, siginfo_t *si, void *context)
{
	(void)signo;
	(void)si;
	(void)context;
}

static void *hold(void *arg)
{
	double end = clock_ns(CLOCK_THREAD_CPUTIME_ID) + (double)work_ms * 1e6;

	if (signalled)
		pthread_kill(pthread_self(), SIGUSR1);
	while (clock_ns(CLOCK_THREAD_CPUTIME_ID) < end)
		;
	pthread_barrier_wait(&worked);
	pthread_barrier_wait(&done);
	return arg;
}

static long status_kib(const char *field)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	long kib = -1;

	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (strncmp(line, field, strlen(field)) == 0)
			kib = atol(line + strlen(field));
	if (f != NULL)
		fclose(f);
	return kib;
}

/* The resident size after it has not changed for a second. */
static long settled_kib(void)
{
	const struct timespec pause = {0, 100000000};
	long kib = 0;

	for (int same = 0, tries = 0; same < 10 && tries < 300; tries++) {
		long now = status_kib("VmRSS:");

		same = now == kib ? same + 1 : 0;
		kib = now;
		nanosleep(&pause, NULL);
	}
	return kib;
}

static void wait_for_end(void)
{
	printf("ready\n");
	fflush(stdout);
	while (getchar() != EOF)
		;
}

static int held(unsigned count, bool is_idle)
{
	static pthread_t thread[HELD_MAX];
	pthread_attr_t attr;

	if (count > HELD_MAX || pthread_attr_init(&attr) != 0 ||
	    pthread_attr_setstacksize(&attr, STACK_BYTES) != 0)
		return 2;
	pthread_barrier_init(&worked, NULL, count + 1);
	pthread_barrier_init(&done, NULL, count + 1);
	for (unsigned i = 0; i < count; i++)
		if (pthread_create(&thread[i], &attr, hold, NULL) != 0)
			return 2;
	pthread_barrier_wait(&worked);
	if (is_idle)
		wait_for_end();
	else
		printf("%ld\n", settled_kib());
	fflush(stdout);
	pthread_barrier_wait(&done);
	for (unsigned i = 0; i < count; i++)
		pthread_join(thread[i], NULL);
	return 0;
}

int main(int argc, char **argv)
{
	char line[16];

	if (argc == 4 && (strcmp(argv[1], "held") == 0 || strcmp(argv[1], "signalled") == 0)) {
		struct sigaction sa = {.sa_sigaction = ignore, .sa_flags = SA_SIGINFO | SA_RESTART};

		signalled = strcmp(argv[1], "signalled") == 0;
		if (sigaction(SIGUSR1, &sa, NULL) != 0)
			return 2;
		work_ms = atol(argv[3]);
		return held((unsigned)atoi(argv[2]), false);
	}
	if (argc == 3 && strcmp(argv[1], "idle") == 0)
		return held((unsigned)atoi(argv[2]), true);
	if (argc != 2 || strcmp(argv[1], "churn") != 0)
		return 2;
	while (fgets(line, sizeof(line), stdin) != NULL) {
		printf("%.1f\n", churn());
		fflush(stdout);
	}
	return 0;
}
