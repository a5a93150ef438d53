/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rounds on worker threads. A thread's CPU clock stops while other threads have the processor, so other load only
 * affects the caches.
 */
#define _GNU_SOURCE
#include "test/bench/loop.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define THREADS_MAX 64

static const struct loop *host;
static long pairs;
static pthread_barrier_t begin;
static pthread_barrier_t end;
static double spent[THREADS_MAX];

static double thread_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

static void *work(void *arg)
{
	double *own = arg;

	for (;;) {
		pthread_barrier_wait(&begin);
		double from = thread_ns();

		host->pairs(pairs);
		*own = thread_ns() - from;
		pthread_barrier_wait(&end);
	}
	return NULL;
}

static void *open_spans(void *arg)
{
	host->open(*(const long *)arg);
	return NULL;
}

static void start(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	if (pthread_create(thread, NULL, fn, arg) != 0) {
		fprintf(stderr, "bench: no thread\n");
		exit(2);
	}
}

int loop_main(int argc, char **argv, const struct loop *loop)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	long open = argc > 3 ? atol(argv[3]) : 0;
	char line[16];
	pthread_t thread;

	pairs = argc > 2 ? atol(argv[2]) : 2000;
	if (threads < 1 || threads > THREADS_MAX || pairs < 1 || open < 0)
		return 2;
	host = loop;
	if (open != 0) {
		start(&thread, open_spans, &open);
		pthread_join(thread, NULL);
	}
	pthread_barrier_init(&begin, NULL, (unsigned)threads + 1);
	pthread_barrier_init(&end, NULL, (unsigned)threads + 1);
	for (int i = 0; i < threads; i++)
		start(&thread, work, &spent[i]);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		double sum = 0;

		pthread_barrier_wait(&begin);
		pthread_barrier_wait(&end);
		for (int i = 0; i < threads; i++)
			sum += spent[i];
		if (host->settle != NULL)
			host->settle();
		printf("%.1f\n", sum / threads / (double)pairs);
		fflush(stdout);
	}
	/* the workers wait for ever, and the SDK's remaining spans do not matter */
	_Exit(0);
}
