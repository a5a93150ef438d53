/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that wait in spans of known lengths, and their waiting time by their own clocks, for wait_names.sh:
 * "wait_names THREADS alone|mixed SECONDS". Alone: all spans of a thread have one length; mixed: each has a random
 * length. Prints for each name "NAME SECONDS SPANS": time less CPU time within its spans, and the number of spans;
 * and the number of waits that a signal has ended. Context: test. Caller: wait_names.sh.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "preload/spanprof.h"

#define NS_PER_S 1000000000L
#define THREADS_MAX 4000U
#define STACK_BYTES ((size_t)64 * 1024)

static const struct {
	const char *name;
	long ns;
} kind[] = {{"50us", 50000},  {"1ms", 1000000},   {"2ms", 2000000},
	    {"5ms", 5000000}, {"10ms", 10000000}, {"100ms", 100000000}};
#define KINDS (sizeof(kind) / sizeof(kind[0]))

struct sums {
	uint64_t off_ns[KINDS];
	uint64_t spans[KINDS];
	uint64_t ended_early;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sums all;
static bool is_mixed;
static uint64_t until_ns;

static uint64_t now_ns(clockid_t id)
{
	struct timespec t = {0};

	(void)clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static void wait_once(unsigned k, uint64_t id, struct sums *s)
{
	const struct timespec length = {.tv_nsec = kind[k].ns};
	uint64_t begun, cpu;
	char text[17];

	(void)snprintf(text, sizeof(text), "%016" PRIx64, id);
	(void)spanprof_label_push(text, kind[k].name);
	begun = now_ns(CLOCK_MONOTONIC);
	cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);
	s->ended_early += nanosleep(&length, NULL) != 0 && errno == EINTR;
	cpu = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	s->off_ns[k] += now_ns(CLOCK_MONOTONIC) - begun - cpu;
	s->spans[k]++;
	spanprof_label_pop();
}

static void *wait_in_spans(void *arg)
{
	uint64_t thread = (uint64_t)(uintptr_t)arg, chance = thread;
	struct sums s = {0};

	for (uint64_t i = 1; now_ns(CLOCK_MONOTONIC) < until_ns; i++) {
		chance = chance * UINT64_C(6364136223846793005) + 1442695040888963407U;
		wait_once((unsigned)((is_mixed ? chance >> 33 : thread) % KINDS), thread << 40 | i,
			  &s);
	}
	(void)pthread_mutex_lock(&lock);
	for (unsigned k = 0; k < KINDS; k++) {
		all.off_ns[k] += s.off_ns[k];
		all.spans[k] += s.spans[k];
	}
	all.ended_early += s.ended_early;
	(void)pthread_mutex_unlock(&lock);
	return NULL;
}

int main(int argc, char **argv)
{
	static pthread_t thread[THREADS_MAX];
	unsigned long threads = argc == 4 ? strtoul(argv[1], NULL, 10) : 0;
	pthread_attr_t attr;

	if (threads == 0 || threads > THREADS_MAX)
		return 2;
	is_mixed = strcmp(argv[2], "mixed") == 0;
	until_ns = now_ns(CLOCK_MONOTONIC) + strtoul(argv[3], NULL, 10) * NS_PER_S;
	if (pthread_attr_init(&attr) != 0 || pthread_attr_setstacksize(&attr, STACK_BYTES) != 0)
		return 2;
	for (uintptr_t i = 0; i < threads; i++)
		if (pthread_create(&thread[i], &attr, wait_in_spans, (void *)(i + 1)) != 0)
			return 2;
	for (unsigned long i = 0; i < threads; i++)
		(void)pthread_join(thread[i], NULL);
	for (unsigned k = 0; k < KINDS; k++)
		printf("%s %.6f %" PRIu64 "\n", kind[k].name, (double)all.off_ns[k] / NS_PER_S,
		       all.spans[k]);
	printf("EINTR %" PRIu64 "\n", all.ended_early);
	return 0;
}
