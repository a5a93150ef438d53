/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that wait in labels, for waits.sh: "waits THREADS SPAN_MS SECONDS" runs so many for so long; each of them
 * sleeps through one label after the other, all of that length.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "preload/spanprof.h"

#define THREADS_MAX 4000
#define STACK_BYTES ((size_t)64 * 1024)

static long span_ms;
static time_t until_s;

static time_t now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec;
}

static void *wait_in_spans(void *arg)
{
	const struct timespec span = {.tv_sec = span_ms / 1000,
				      .tv_nsec = span_ms % 1000 * 1000000};
	unsigned long id = (unsigned long)arg << 32;
	char text[17];

	while (now_s() < until_s) {
		(void)snprintf(text, sizeof(text), "%016lx", ++id);
		(void)spanprof_label_push(text, "wait");
		(void)nanosleep(&span, NULL);
		spanprof_label_pop();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	static pthread_t thread[THREADS_MAX];
	long threads = argc == 4 ? atol(argv[1]) : 0;
	pthread_attr_t attr;

	if (threads < 1 || threads > THREADS_MAX)
		return 2;
	span_ms = atol(argv[2]);
	until_s = now_s() + atol(argv[3]);
	(void)pthread_attr_init(&attr);
	(void)pthread_attr_setstacksize(&attr, STACK_BYTES);
	for (long i = 0; i < threads; i++)
		if (pthread_create(&thread[i], &attr, wait_in_spans, (void *)(i + 1)) != 0)
			return 2;
	for (long i = 0; i < threads; i++)
		(void)pthread_join(thread[i], NULL);
	return 0;
}
