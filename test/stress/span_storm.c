/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 64 threads start, nest, rename, attach, hand over, forget and end spans, while one more thread removes spans that
 * are open for too long. Every span that a thread sees on its stack meanwhile is whole and the right one. At the end
 * nothing is open and started = ended + aged.
 * Usage: span_storm [spans]
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/base/counters.h"
#include "sampler/base/log.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/region/names.h"
#include "sampler/sampling/thread_account.h"
#include "sampler/span/span.h"
#include "sampler/thread/thread.h"
#include "test/common/span_end.h"

#define THREADS 64U
#define SPANS_DEFAULT 300000UL
#define NEST_MAX 6U
#define MAX_AGE_SWEEPS 40U

static _Atomic unsigned failures;

#define EXPECT(condition)                                                                          \
	do {                                                                                       \
		if (!(condition) && atomic_fetch_add(&failures, 1) < 10)                           \
			fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                    \
	} while (0)

static unsigned long spans_per_thread;
/* Spans that one thread hands over to another. */
static _Atomic uint64_t handed_over[97];
static _Atomic uint64_t started;
static _Atomic uint64_t ended;
static _Atomic uint64_t interleaved; /* checks that found interleaved spans */
static _Atomic bool storming = true;

static const char *const names[] = {"first", "second", "third", "fourth"};

struct storm {
	uint64_t random;
	uint64_t next; /* number of the next span */
	unsigned long made;
	enum sp_activation how;
	uint8_t sdk;
	uint64_t token;
};

static uint64_t mix(uint64_t n)
{
	n = (n + 1) * UINT64_C(0x9e3779b97f4a7c15);
	n = (n ^ (n >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	return n ^ (n >> 27);
}

static unsigned dice(struct storm *s, unsigned faces)
{
	s->random = s->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (unsigned)(s->random >> 33) % faces;
}

static const void *object(uint64_t number)
{
	return (const void *)(uintptr_t)(number * 64);
}

/* The spans of one tree have successive numbers; this is the number of its root. */
static uint64_t root_number(uint64_t number)
{
	return number - number % NEST_MAX;
}

/* A span whose parent was too old before its start is a root itself. */
static bool is_ancestor(uint64_t id, uint64_t number)
{
	for (uint64_t n = root_number(number); n <= number; n++) {
		if (mix(n) == id)
			return true;
	}
	return false;
}

/* Every other tree belongs to an SDK whose spans are found by their id. */
static bool is_by_id(uint64_t number)
{
	return number / NEST_MAX % 2 != 0;
}

static uint64_t begin(struct storm *s, uint64_t parent)
{
	uint64_t number = s->next++;
	uint64_t id = mix(number);
	uint64_t parent_id = parent != 0 ? mix(parent) : 0;
	struct sp_span_start start = {
		.handle = object(number), .how = s->how, .sdk = s->sdk, .has_parent = true};

	memcpy(start.span_id, &id, sizeof(id));
	memcpy(start.parent_id, &parent_id, sizeof(parent_id));
	memcpy(start.trace_id, &id, sizeof(id));
	memcpy(start.trace_id + 8, &number, sizeof(number));
	start.name = names[number % 4];
	start.name_len = strlen(start.name);
	start.by_id = is_by_id(number);
	if (start.by_id ? sp_span_started_by_id(&start, sp_span_name(start.name, start.name_len))
			: sp_span_started(&start))
		atomic_fetch_add_explicit(&started, 1, memory_order_relaxed);
	return number;
}

static void end(uint64_t number)
{
	uint32_t ref;

	if (!is_by_id(number)) {
		if (span_ended(object(number)))
			atomic_fetch_add_explicit(&ended, 1, memory_order_relaxed);
		return;
	}
	ref = sp_span_close_by_id(mix(number), object(number));
	if (ref == 0)
		return;
	atomic_fetch_add_explicit(&ended, 1, memory_order_relaxed);
	sp_span_table_free(ref);
}

static void rename_one(uint64_t number, const char *name)
{
	struct sp_span_record r;

	if (!is_by_id(number))
		(void)sp_span_renamed(object(number), name, strlen(name));
	else if (sp_span_of_id(mix(number), object(number), &r))
		sp_span_rename(&r, name, strlen(name));
}

static bool is_name(uint32_t id)
{
	size_t len;
	const char *text = sp_names_text(id, &len);

	for (unsigned i = 0; i < SP_ARRAY_LEN(names); i++) {
		if (strcmp(text, names[i]) == 0)
			return true;
	}
	return false;
}

/* Checks the label of a sample now. */
static void look(void)
{
	struct sp_span_record e;
	uint64_t number;
	uint64_t id;

	if (sp_thread_own == NULL)
		return;
	switch (sp_span_stack_peek(&sp_thread_own->spans, &e)) {
	case SP_SPAN_INTERLEAVED:
		atomic_fetch_add_explicit(&interleaved, 1, memory_order_relaxed);
		return;
	case SP_SPAN_NONE:
	case SP_SPAN_FORGOTTEN:
		return;
	case SP_SPAN_LABEL:
		EXPECT(false);
		return;
	case SP_SPAN_ROOT_ALONE:
		EXPECT(e.span_id == 0 && e.name_id == 0 && e.root_id == e.trace[0]);
		break;
	case SP_SPAN_KNOWN:
		EXPECT(e.span_id == e.trace[0] && is_name(e.name_id));
		break;
	}
	id = e.trace[0];
	number = e.trace[1];
	EXPECT(mix(number) == id);
	EXPECT(is_ancestor(e.root_id, number));
	EXPECT(is_name(e.root_name_id));
	sp_span_table_mark_sample(e.ref, e.span_id);
	sp_span_table_mark_sample(e.root_ref, e.root_id);
}

/* Works for another thread's span for a while, and may end it before the detach. */
static void attach(struct storm *s, uint64_t number)
{
	uint64_t id = mix(number);
	uint64_t token = ++s->token;

	if (is_by_id(number))
		(void)sp_active_span_attach(token, id);
	else
		(void)sp_active_span_attached(token, (const uint8_t *)&id);
	look();
	if (dice(s, 2) == 0)
		end(number);
	look();
	sp_active_span_detached(token, dice(s, 2) == 0);
}

static void part_with(struct storm *s, uint64_t number)
{
	uint64_t other;

	if (dice(s, 1000) == 0) /* forgotten */
		return;
	switch (dice(s, 8)) {
	case 0:
		other = atomic_exchange(&handed_over[dice(s, SP_ARRAY_LEN(handed_over))], number);
		if (other != 0 && s->how == SP_ACTIVATION_SCOPE)
			attach(s, other);
		if (other != 0)
			end(other);
		break;
	default:
		end(number);
	}
}

static void tree(struct storm *s)
{
	uint64_t span[NEST_MAX];
	unsigned n = 1 + dice(s, NEST_MAX);
	const char *name;

	s->next = root_number(s->next + NEST_MAX - 1);
	s->made += n;
	for (unsigned i = 0; i < n; i++) {
		span[i] = begin(s, i > 0 ? span[dice(s, i)] : 0);
		look();
	}
	name = names[dice(s, 4)];
	rename_one(span[dice(s, n)], name);
	/* in random order: swaps the next one to end with the last one */
	for (unsigned left = n; left > 0; left--) {
		unsigned pick = dice(s, 4) == 0 ? dice(s, left) : left - 1;
		uint64_t number = span[pick];

		span[pick] = span[left - 1];
		part_with(s, number);
		look();
	}
}

static void *storm(void *arg)
{
	uint64_t thread = (uint64_t)(uintptr_t)arg;
	const enum sp_activation kinds[] = {SP_ACTIVATION_START, SP_ACTIVATION_NONE,
					    SP_ACTIVATION_SCOPE};
	struct storm s = {
		.random = mix(thread),
		.next = (thread + 1) << 32,
		.how = kinds[thread % 3],
		.sdk = (uint8_t)(thread % 5),
	};

	while (s.made < spans_per_thread)
		tree(&s);
	sp_thread_ended();
	return NULL;
}

/* One sweep is one second. */
static void *age(void *arg)
{
	uint64_t second = 1;

	(void)arg;
	sp_thread_excluded = true;
	while (atomic_load(&storming))
		while (!sp_span_age_sweep(second++ * SP_NS_PER_S, MAX_AGE_SWEEPS * SP_NS_PER_S))
			continue;
	while (!sp_span_age_sweep((second + MAX_AGE_SWEEPS) * SP_NS_PER_S,
				  MAX_AGE_SWEEPS * SP_NS_PER_S))
		continue;
	while (!sp_span_age_sweep((second + 2 * MAX_AGE_SWEEPS) * SP_NS_PER_S,
				  MAX_AGE_SWEEPS * SP_NS_PER_S))
		continue;
	return NULL;
}

static void run(void)
{
	pthread_t thread[THREADS];
	pthread_t ager;

	if (pthread_create(&ager, NULL, age, NULL) != 0)
		abort();
	for (unsigned i = 0; i < THREADS; i++) {
		if (pthread_create(&thread[i], NULL, storm, (void *)(uintptr_t)i) != 0)
			abort();
	}
	for (unsigned i = 0; i < THREADS; i++)
		(void)pthread_join(thread[i], NULL);
	atomic_store(&storming, false);
	(void)pthread_join(ager, NULL);
}

int main(int argc, char **argv)
{
	unsigned long spans = argc > 1 ? strtoul(argv[1], NULL, 10) : SPANS_DEFAULT;
	uint64_t aged;

	spans_per_thread = spans / THREADS + 1;
	if (sp_names_init(100) != 0 || sp_thread_init() != 0 || sp_span_table_init() != 0)
		return 1;
	sp_log_set_level(SP_LOG_NONE);
	run();
	aged = sp_count_read(SP_COUNT_SPANS_AGED);
	printf("%lu spans started, %lu ended, %lu aged out, %u open; %lu looks at spans that "
	       "interleave, %lu refused\n",
	       (unsigned long)atomic_load(&started), (unsigned long)atomic_load(&ended),
	       (unsigned long)aged, sp_span_table_count(), (unsigned long)atomic_load(&interleaved),
	       (unsigned long)sp_count_read(SP_COUNT_SPAN_TABLE_FULL));
	/* if the sweeps are slow, forgotten spans may fill the table */
	EXPECT(atomic_load(&started) + sp_count_read(SP_COUNT_SPAN_TABLE_FULL) >= spans);
	EXPECT(atomic_load(&started) == sp_count_read(SP_COUNT_SPANS_STARTED));
	EXPECT(atomic_load(&ended) == sp_count_read(SP_COUNT_SPANS_ENDED));
	EXPECT(atomic_load(&started) == atomic_load(&ended) + aged);
	EXPECT(sp_span_table_count() == 0);
	EXPECT(aged > 0 && atomic_load(&interleaved) > 0);
	printf("%u failures\n", atomic_load(&failures));
	return atomic_load(&failures) != 0;
}
