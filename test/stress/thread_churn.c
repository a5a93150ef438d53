/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads are born, start spans and die in every way, while another thread scans, as hooks do, and drains, as the
 * exporter does. No two threads ever have the same block, no thread loses its own, and at the end no kernel timer is
 * left.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sampler/base/counters.h"
#include "sampler/region/ring.h"
#include "sampler/sampler.h"
#include "sampler/sampling/handler.h"
#include "sampler/sampling/thread_account.h"
#include "sampler/span/span.h"
#include "sampler/thread/thread.h"
#include "test/common/span_end.h"

#define SPAWNERS 3U
#define THREADS 300U /* by each spawner */
#define ROUNDS 3U
/*
 * The thread sanitizer derives no order from the kernel's answer that a thread is gone. And a handler that it does
 * not know must not interrupt its own code, so our signal stays blocked in its builds.
 */
#ifdef __SANITIZE_THREAD__
#define SANITIZED true
#define STAYING 2U /* the initial thread, and one of the sanitizer's */
#else
#define SANITIZED false
#define STAYING 1U
#endif

static _Atomic unsigned failures;
static _Atomic bool stopping;
static unsigned long drained;
static unsigned long broken;

#define EXPECT(cond)                                                                               \
	do {                                                                                       \
		if (!(cond) && atomic_fetch_add(&failures, 1) < 10)                                \
			printf("line %d: not %s\n", __LINE__, #cond);                              \
	} while (0)

static void *find(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

/* Long enough for a sample: the kernel checks CPU timers at its tick. */
static void burn(void)
{
	struct timespec ts;

	do {
		(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	} while (ts.tv_sec == 0 && ts.tv_nsec < 10 * (long)SP_NS_PER_MS);
}

static void one_span(uint64_t id)
{
	struct sp_span_start s;

	memset(&s, 0, sizeof(s));
	s.handle = (const void *)(uintptr_t)(id * 64);
	memcpy(s.span_id, &id, sizeof(id));
	s.trace_id[0] = 1;
	s.name = "churn";
	s.name_len = 5;
	EXPECT(sp_span_started(&s));
	if (id % 32 == 0)
		burn();
	EXPECT(span_ended(s.handle));
}

static bool own_block_is_ours(void)
{
	struct sp_thread *t = sp_thread_own;
	uint32_t tid = (uint32_t)syscall(SYS_gettid);

	return t != NULL && atomic_load(&t->tid) == tid &&
	       atomic_load(sp_thread_by_tid(tid)) == t->index + 1;
}

struct birth {
	struct sp_thread *block; /* NULL: this thread's birth goes unnoticed */
	uint64_t id;
	bool says_goodbye;
};

static void *live(void *arg)
{
	struct birth b = *(struct birth *)arg;

	free(arg);
	if (b.block != NULL) {
		sp_thread_born(b.block);
		EXPECT(own_block_is_ours());
	}
	one_span(b.id);
	EXPECT(own_block_is_ours());
	(void)sched_yield();
	EXPECT(own_block_is_ours());
	if (b.says_goodbye) {
		sp_thread_ended();
		EXPECT(sp_thread_self() == NULL);
	}
	return NULL;
}

static void *spawn(void *arg)
{
	uint64_t base = ((uint64_t)(uintptr_t)arg + 1) << 32;

	for (unsigned i = 0; i < THREADS; i++) {
		struct birth *b = malloc(sizeof(*b));
		pthread_t thread;

		if (b == NULL)
			abort();
		*b = (struct birth){.id = base + i + 1, .says_goodbye = SANITIZED || i % 3 != 0};
		if (i % 4 != 0)
			b->block = sp_thread_claim();
		if (pthread_create(&thread, NULL, live, b) != 0)
			abort();
		(void)pthread_join(thread, NULL);
	}
	sp_thread_ended();
	return NULL;
}

/* A stack that ended in code without call frame information. */
static void count_snapshot(const struct sp_snapshot *snapshot, void *arg)
{
	(void)snapshot;
	(void)arg;
	drained++;
}

static void check(const struct sp_record *record, void *arg)
{
	const struct sp_sample *s = &record->sample;

	(void)arg;
	drained += record->kind != SP_RECORD_MODULE_EVENT;
	if (record->kind == SP_RECORD_SAMPLE)
		broken += s->tid == 0 || s->weight == 0 || s->depth > SP_FRAMES_MAX;
	if (record->kind == SP_RECORD_CPU_TIME)
		broken += record->cpu_time.tid == 0 || record->cpu_time.ns == 0;
}

static void block(int signo)
{
	sigset_t set;

	(void)sigemptyset(&set);
	(void)sigaddset(&set, signo);
	(void)pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void *background(void *arg)
{
	(void)arg;
	sp_thread_excluded = true;
	block(SIGURG);
	while (!atomic_load(&stopping)) {
		sp_thread_scan();
		(void)sp_ring_drain(&sp_channel_now()->ring, check, NULL, 1000);
	}
	return NULL;
}

/* The number of lines "ID: n" in /proc/self/timers; -1 if the kernel does not have the file. */
static int kernel_timers(void)
{
	FILE *f = fopen("/proc/self/timers", "re");
	char line[128];
	int n = 0;

	if (f == NULL)
		return -1;
	while (fgets(line, sizeof(line), f) != NULL)
		n += strncmp(line, "ID:", 3) == 0;
	(void)fclose(f);
	return n;
}

/* Each block is either free, listed once, or bound to a thread that exists. */
static void check_blocks(void)
{
	uint32_t used = atomic_load(&sp_thread_table.used);
	char *taken = calloc(used, 1);
	uint32_t free_blocks = 0;

	if (taken == NULL)
		abort();
	for (uint32_t next = (uint32_t)atomic_load(&sp_thread_table.free); next != 0;) {
		EXPECT(next <= used && taken[next - 1] == 0);
		if (next > used || taken[next - 1]++ != 0)
			break;
		free_blocks++;
		next = atomic_load(&sp_thread_at(next - 1)->next_free);
	}
	EXPECT(free_blocks + STAYING == used);
	free(taken);
}

static void round_of(unsigned n)
{
	pthread_t spawner[SPAWNERS];

	for (uintptr_t i = 0; i < SPAWNERS; i++) {
		if (pthread_create(&spawner[i], NULL, spawn, (void *)(n * SPAWNERS + i)) != 0)
			abort();
	}
	for (unsigned i = 0; i < SPAWNERS; i++)
		(void)pthread_join(spawner[i], NULL);
}

int main(void)
{
	struct sp_config config = {
		.sample_rate_hz = 1000,
		.max_span_names = 100,
		.stack_depth = 64,
		.signal_number = SIGURG,
	};
	pthread_t thread;

	if (sp_sampler_prepare(&config, find) < 0) {
		puts("this C library has no _dl_find_object");
		return 77;
	}
	if (SANITIZED)
		block(SIGURG);
	if (sp_thread_self() == NULL || pthread_create(&thread, NULL, background, NULL) != 0)
		return 1;
	for (unsigned n = 0; n < ROUNDS; n++)
		round_of(n);
	atomic_store(&stopping, true);
	(void)pthread_join(thread, NULL);
	/* a joined thread may still be visible for a moment */
	for (sp_thread_scan(); sp_thread_known() > STAYING; sp_thread_scan())
		(void)sched_yield();
	EXPECT(sp_thread_armed() == STAYING);
	EXPECT(kernel_timers() == (int)STAYING || kernel_timers() == -1);
	sp_thread_disarm_all();
	EXPECT(kernel_timers() <= 0);
	/* This thread had a timer until now. */
	(void)sp_ring_drain(&sp_channel_now()->ring, check, NULL, UINT32_MAX);
	(void)sp_snapshot_drain(&sp_channel_now()->snapshots, count_snapshot, NULL, UINT32_MAX);
	printf("%u threads, %u blocks, %lu samples\n", SPAWNERS * THREADS * ROUNDS,
	       atomic_load(&sp_thread_table.used), drained);
	check_blocks();
	EXPECT(sp_span_table_count() == 0);
	EXPECT(broken == 0 && (drained > 0 || SANITIZED));
	EXPECT(drained == sp_count_read(SP_COUNT_SAMPLES_PUT));
	EXPECT(sp_count_read(SP_COUNT_SIGNALS) + sp_count_read(SP_COUNT_UNSAMPLED) ==
	       drained + sp_count_read(SP_COUNT_DROP_RING_FULL) +
		       sp_count_read(SP_COUNT_DROP_REENTERED));
	printf("%u failures\n", atomic_load(&failures));
	return atomic_load(&failures) != 0;
}
