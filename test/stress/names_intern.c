/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads intern overlapping sets of names in different orders, all starting at once. A name has one id. An id has
 * the name's text as soon as it is returned. No name is lost below the limit, and every refusal above the limit is
 * counted. Also built with TSan.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/base/counters.h"
#include "sampler/region/names.h"

#define THREADS 4U
#define NAMES 2000U
#define ROUNDS 5U
#define EXTRA 50U /* names beyond the limit, in the last phase */

static uint32_t ids[THREADS][NAMES];
static uint64_t refused[THREADS];
static pthread_barrier_t start;

static void fail(const char *what, unsigned n)
{
	fprintf(stderr, "names_intern: %s (%u)\n", what, n);
	exit(1);
}

/* Long and short names, some with a byte that has to be repaired. */
static size_t make_name(unsigned n, char *out, size_t cap)
{
	int len = snprintf(out, cap, "%s %u %.*s", n % 5 == 0 ? "caf\xe9" : "GET", n, (int)(n % 40),
			   "/a/path/that/is/of/no/further/interest/at/all");

	return (size_t)len;
}

static int text_matches(uint32_t id, unsigned n)
{
	char name[128];
	char want[16];
	size_t len;
	const char *text = sp_names_text(id, &len);

	(void)make_name(n, name, sizeof(name));
	(void)snprintf(want, sizeof(want), " %u ", n);
	return len > 0 && strstr(text, want) != NULL &&
	       strncmp(text, n % 5 == 0 ? "caf\xef\xbf\xbd" : "GET", 3) == 0;
}

static void *intern_all(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	char name[128];

	pthread_barrier_wait(&start);
	for (unsigned round = 0; round < ROUNDS; round++) {
		for (unsigned i = 0; i < NAMES; i++) {
			/* Half of the threads race on the same name, the other half start from the end. */
			unsigned n = me % 2 == 0 ? i : NAMES - 1 - i;
			uint32_t id = sp_names_intern(name, make_name(n, name, sizeof(name)));

			if (round > 0 && id != ids[me][n])
				fail("a name changed its id", n);
			if (!text_matches(id, n))
				fail("an id without its text", n);
			ids[me][n] = id;
		}
	}
	return NULL;
}

static void *intern_beyond(void *arg)
{
	unsigned me = (unsigned)(uintptr_t)arg;
	char name[128];
	size_t len;

	pthread_barrier_wait(&start);
	for (unsigned i = 0; i < EXTRA; i++) {
		uint32_t id = sp_names_intern(name, make_name(NAMES + i, name, sizeof(name)));

		if (strcmp(sp_names_text(id, &len), "(other)") != 0)
			fail("stored a name past the limit", NAMES + i);
		refused[me]++;
	}
	return NULL;
}

static void run(void *(*body)(void *))
{
	pthread_t threads[THREADS];

	pthread_barrier_init(&start, NULL, THREADS);
	for (uintptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, body, (void *)i) != 0)
			fail("cannot create a thread", (unsigned)i);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&start);
}

int main(void)
{
	uint64_t sum = 0;

	if (sp_names_init(NAMES) != 0)
		fail("no table", 0);
	run(intern_all);
	for (unsigned n = 0; n < NAMES; n++)
		for (unsigned t = 1; t < THREADS; t++)
			if (ids[t][n] != ids[0][n])
				fail("two ids for one name", n);
	if (sp_count_read(SP_COUNT_NAMES_OTHER) != 0)
		fail("lost a name below the limit", (unsigned)sp_count_read(SP_COUNT_NAMES_OTHER));
	run(intern_beyond);
	for (unsigned t = 0; t < THREADS; t++)
		sum += refused[t];
	if (sp_count_read(SP_COUNT_NAMES_OTHER) != sum)
		fail("refusals and their counter differ", (unsigned)sum);
	return 0;
}
