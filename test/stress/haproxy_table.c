/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that come together to copy a table of functions for the first time, and call through the
 * copy at once: each gets the same one, complete, and another table gets none.
 */
#include <pthread.h>
#include <stdio.h>

#include "preload/sdk/haproxy/haproxy_table.h"
#include "sampler/base/compiler.h"

#define THREADS 8U
#define TABLES 10000U
#define SLOTS 11U

typedef int function(void);

static int one(void)
{
	return 1;
}

static int two(void)
{
	return 2;
}

static function *const own[SLOTS] = {one, one, one, one, one, one, one, one, one, one, one};
static function *const other[SLOTS] = {one, one, one, one, one, one, one, one, one, one, one};
static const struct sp_haproxy_swap swaps[] = {{0, (const void *)two}, {0, NULL}};

static struct sp_haproxy_table table[TABLES];
static pthread_barrier_t together;
static _Atomic unsigned failures;

/*
 * The host's loads are not atomic, and another thread may be writing the same words once more: a
 * word that does not change, which is all that the sanitizer is told here.
 */
static function *word(function *const *copy, unsigned i)
{
	return (function *)atomic_load_explicit((const _Atomic uintptr_t *)copy + i,
						memory_order_relaxed);
}

static bool complete(function *const *copy)
{
	if (word(copy, 0) == NULL || word(copy, 0)() != 2)
		return false;
	for (unsigned i = 1; i < SLOTS; i++) {
		if (word(copy, i) == NULL || word(copy, i)() != 1)
			return false;
	}
	return true;
}

/* Half of them come in the very moment when another one has begun. */
static void *come(void *late)
{
	for (unsigned i = 0; i < TABLES; i++) {
		function *const *copy;

		pthread_barrier_wait(&together);
		while (late != NULL && sp_haproxy_table_own(&table[i]) == NULL)
			continue;
		copy = sp_haproxy_table_copy(&table[i], (const void *)one, own, SLOTS, swaps);
		if (copy == NULL || !complete(copy) ||
		    sp_haproxy_table_copy(&table[i], (const void *)one, own, SLOTS, swaps) !=
			    (const void *)copy ||
		    sp_haproxy_table_copy(&table[i], (const void *)one, other, SLOTS, swaps) !=
			    NULL)
			atomic_fetch_add(&failures, 1);
	}
	return NULL;
}

int main(void)
{
	pthread_t thread[THREADS];

	pthread_barrier_init(&together, NULL, THREADS);
	for (unsigned i = 0; i < THREADS; i++) {
		if (pthread_create(&thread[i], NULL, come, i % 2 != 0 ? table : NULL) != 0)
			return 1;
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	printf("%u tables, %u failures\n", TABLES, failures);
	return failures != 0;
}
