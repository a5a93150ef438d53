/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads race to remove the same entry of the table of open spans, and fork while other threads add and remove. Each
 * entry is removed by exactly one caller, and at the end the table is empty. span_storm.c tests whole spans.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sampler/open_spans/span_table.h"
#include "test/unit/core/span_remove.h"

#ifdef __SANITIZE_THREAD__
#define RACES 20000U
#else
#define RACES 1000000U
#endif
#define FORKS 20U

static _Atomic unsigned failures;

#define EXPECT(cond)                                                                               \
	do {                                                                                       \
		if (!(cond) && atomic_fetch_add(&failures, 1) < 10)                                \
			printf("line %d: not %s\n", __LINE__, #cond);                              \
	} while (0)

static uint64_t mix(uint64_t n)
{
	n *= UINT64_C(0x9e3779b97f4a7c15);
	n = (n ^ (n >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	return n ^ (n >> 27);
}

/*
 * All keys are in one window (the hash takes bits 40 to 55 of the product with its factor), so a freed entry is
 * reused where a slow remover still searches.
 */
static uint64_t crowded_key(uint64_t n)
{
	const uint64_t factor = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t inverse = factor;

	for (int i = 0; i < 6; i++)
		inverse *= 2 - factor * inverse;
	return (UINT64_C(9) << 40 | n) * inverse;
}

#define RACERS 4U
static uint64_t race_end;
static _Atomic uint64_t contested = 1;
static _Atomic uint64_t removed_total;
static _Atomic uint64_t added_total;

/*
 * All threads try to remove the current span, and the thread that succeeds adds the next one. In each round a thread
 * also adds and removes a span of its own.
 */
static void *race(void *arg)
{
	uint64_t own = ((uint64_t)(uintptr_t)arg + 1) << 32;
	struct sp_span_record r;

	/* A lost span would stay the current one for ever. */
	for (uint64_t tries = 0; tries < UINT64_C(100) * race_end; tries++) {
		uint64_t now = atomic_load(&contested);
		struct sp_span_record mine = {.span_id = crowded_key(own + 1), .handle = own + 1};

		if (now > race_end)
			return NULL;
		own++;
		EXPECT(sp_span_table_add(&mine) == 0);
		if (sp_test_span_remove(crowded_key(now), &r)) {
			struct sp_span_record next = {.span_id = crowded_key(now + 1),
						      .handle = now + 1};

			EXPECT(r.handle == now);
			atomic_fetch_add(&removed_total, 1);
			EXPECT(sp_span_table_add(&next) == 0);
			atomic_fetch_add(&added_total, 1);
			atomic_store(&contested, now + 1);
		}
		EXPECT(sp_span_table_by_id(mine.span_id, &r) && r.handle == own);
		EXPECT(sp_span_table_by_handle(own, &r) && r.span_id == mine.span_id);
		EXPECT(sp_test_span_remove(mine.span_id, &r));
		if (atomic_load(&failures) != 0)
			return NULL;
	}
	EXPECT(atomic_load(&contested) > race_end);
	return NULL;
}

static uint64_t bystander(uint64_t n)
{
	return crowded_key((UINT64_C(1) << 39) + n);
}

/*
 * The window of the racers' spans also has this number of spans that stay open. With half a line of such spans, the
 * racers' spans are on both sides of the end of the first line; with one and a half lines, on both sides of the end
 * of the second.
 */
static void races_for_one_span(unsigned bystanders)
{
	struct sp_span_record r = {.span_id = crowded_key(1), .handle = 1};
	pthread_t thread[RACERS];

	for (unsigned i = 0; i < bystanders; i++) {
		struct sp_span_record other = {.span_id = bystander(i),
					       .handle = UINT64_MAX - i * 64};

		EXPECT(sp_span_table_add(&other) == 0);
	}
	race_end = RACES / 3;
	EXPECT(sp_span_table_add(&r) == 0);
	atomic_store(&contested, 1);
	atomic_store(&added_total, 1);
	atomic_store(&removed_total, 0);
	for (unsigned i = 0; i < RACERS; i++) {
		if (pthread_create(&thread[i], NULL, race, (void *)(uintptr_t)i) != 0)
			abort();
	}
	for (unsigned i = 0; i < RACERS; i++)
		(void)pthread_join(thread[i], NULL);
	printf("%lu spans contested by %u threads beside %u, %lu removed\n",
	       (unsigned long)atomic_load(&added_total), RACERS, bystanders,
	       (unsigned long)atomic_load(&removed_total));
	EXPECT(sp_test_span_remove(crowded_key(race_end + 1), &r));
	EXPECT(atomic_load(&removed_total) + 1 == atomic_load(&added_total));
	for (unsigned i = 0; i < bystanders; i++)
		EXPECT(sp_test_span_remove(bystander(i), &r));
	EXPECT(sp_span_table_count() == 0);
}

static _Atomic bool churning = true;

static void *churn(void *arg)
{
	uint64_t n = ((uint64_t)(uintptr_t)arg + 1) << 32;
	struct sp_span_record r = {.thread = 7};

	while (atomic_load(&churning)) {
		n++;
		r.span_id = mix(n);
		r.handle = n * 64;
		EXPECT(sp_span_table_add(&r) == 0);
		EXPECT(sp_test_span_remove(mix(n), &r));
	}
	return NULL;
}

/* In the child: the forking thread's open spans are there, and no others. */
static void check_child(void)
{
	struct sp_span_record r;
	uint32_t n;

	sp_span_table_forked(1, 1, NULL, 0);
	EXPECT(sp_span_table_count() == 2);
	for (uint64_t id = 1; id <= 2; id++)
		EXPECT(sp_span_table_by_id(id, &r) && sp_span_table_by_handle(id * 64, &r));
	for (n = 2; n < SP_SPANS_MAX; n++) {
		struct sp_span_record more = {.span_id = mix(n), .handle = n * 64};

		if (sp_span_table_add(&more) != 0)
			break;
	}
	EXPECT(n == SP_SPANS_MAX);
}

static void forks_in_the_middle(void)
{
	pthread_t thread[3];
	int status;

	for (uint64_t id = 1; id <= 2; id++) {
		struct sp_span_record r = {.span_id = id, .handle = id * 64, .thread = 1};

		EXPECT(sp_span_table_add(&r) == 0);
	}
	for (uintptr_t i = 0; i < SP_ARRAY_LEN(thread); i++) {
		if (pthread_create(&thread[i], NULL, churn, (void *)i) != 0)
			abort();
	}
	fflush(NULL);
	for (unsigned i = 0; i < FORKS; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			check_child();
			fflush(NULL);
			_exit(atomic_load(&failures) != 0);
		}
		EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
	}
	atomic_store(&churning, false);
	for (unsigned i = 0; i < SP_ARRAY_LEN(thread); i++)
		(void)pthread_join(thread[i], NULL);
}

int main(void)
{
	if (sp_span_table_init() != 0)
		return 1;
	races_for_one_span(0);
	races_for_one_span(4);
	races_for_one_span(11);
	forks_in_the_middle();
	printf("%u failures\n", atomic_load(&failures));
	return atomic_load(&failures) != 0;
}
