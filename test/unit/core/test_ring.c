/* SPDX-License-Identifier: Apache-2.0 */
/* The sample ring with one thread; test/stress/ring.c is about several threads. */
#include "sampler/region/ring.h"
#include "test/common/own_memory.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "test/common/put_sample.h"

#define RING_BYTES 16384U
#define HEADER_BYTES sizeof(uint64_t)
#define SAMPLE(bytes) SP_RING_HEADER(SP_RECORD_SAMPLE, bytes)
#define PAD(bytes) SP_RING_HEADER(SP_RECORD_PAD, bytes)

static struct sp_ring ring;

/* The records in the ring, oldest first. tid identifies a sample. */
static uint32_t expected[RING_BYTES / 48];
static unsigned first;
static unsigned waiting;

static uint16_t depth_of(uint32_t tid)
{
	return (uint16_t)((tid * 2654435761U >> 7) % (SP_FRAMES_MAX + 1));
}

static uint64_t bytes_of(uint16_t depth)
{
	return HEADER_BYTES + sp_sample_bytes(depth);
}

static void fill(struct sp_sample *s, uint32_t tid, uint16_t depth)
{
	memset(s, 0xa5, sizeof(*s));
	s->span_id = tid * UINT64_C(0x9e3779b97f4a7c15);
	memset(s->trace_id, (int)tid, sizeof(s->trace_id));
	s->name_id = ~tid;
	s->tid = tid;
	s->weight = tid + 1;
	s->depth = depth;
	s->flags = (uint16_t)tid;
	s->thread_name[SP_THREAD_NAME_BYTES - 1] = '\0';
	for (uint16_t i = 0; i < depth; i++)
		s->pc[i] = s->span_id ^ i;
}

static int put(uint32_t tid, uint16_t depth)
{
	struct sp_sample s;

	fill(&s, tid, depth);
	return put_sample(&ring, &s);
}

static void check(const struct sp_record *record, void *arg)
{
	const struct sp_sample *s = &record->sample;
	struct sp_sample want;

	cr_assert_eq(record->kind, SP_RECORD_SAMPLE);
	fill(&want, s->tid, s->depth);
	cr_assert_eq(memcmp(s, &want, bytes_of(s->depth) - HEADER_BYTES), 0, "tid %u", s->tid);
	cr_assert_gt(waiting, 0U, "sample %u was never put", s->tid);
	cr_assert_eq(s->tid, expected[first], "order: %u, not %u", s->tid, expected[first]);
	first = (first + 1) % SP_ARRAY_LEN(expected);
	waiting--;
	if (arg != NULL)
		++*(unsigned *)arg;
}

static void remember(uint32_t tid)
{
	expected[(first + waiting++) % SP_ARRAY_LEN(expected)] = tid;
}

static void start(void)
{
	cr_assert_eq(ring_init(&ring, RING_BYTES), 0);
}

TestSuite(ring, .init = start, .timeout = 20);

Test(ring, drains_nothing_before_init)
{
	static struct sp_ring none;
	struct sp_sample s;

	fill(&s, 1, 1);

	cr_assert_eq(sp_ring_drain(&none, check, NULL, 1), 0);
	cr_assert_eq(put_sample(&none, &s), -ENOSPC);
}

Test(ring, can_be_filled_to_the_last_byte)
{
	uint16_t depth = 1;
	uint32_t tid = 1;

	while (RING_BYTES % bytes_of(depth) != 0)
		depth++;
	while (put(tid, depth) == 0)
		remember(tid++);

	cr_assert_eq(waiting, RING_BYTES / bytes_of(depth));
	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 1000), RING_BYTES / bytes_of(depth));
}

/* Every distance between a largest record and the ring's end, so every size of the padding. */
static _Atomic uint64_t live_blocks;

Test(ring, has_a_reserve_until_three_quarters_are_in_use_or_kept)
{
	const struct sp_ring none = {0};
	const uint64_t word = 1;
	uint64_t used = 0;

	cr_expect_not(sp_ring_has_reserve(&none));
	for (; sp_ring_has_reserve(&ring); used += HEADER_BYTES + sizeof(word))
		cr_assert_eq(sp_ring_put(&ring, SP_RECORD_FREED, &word, sizeof(word)), 0);
	cr_expect_eq(used, RING_BYTES / 4 * 3);
	(void)sp_ring_take(&ring, &(uint32_t){0}, &(uint64_t){0}, sizeof(word));
	cr_expect(sp_ring_has_reserve(&ring), "what is taken is free");
	atomic_store(&live_blocks, 1);
	atomic_store(&sp_ring_blocks, &live_blocks);
	cr_expect_not(sp_ring_has_reserve(&ring), "a block keeps two words, and one for all");
}

Test(ring, wraps_at_every_offset)
{
	uint32_t tid = 0;

	for (uint64_t offset = 0; offset < RING_BYTES; offset += sizeof(uint64_t)) {
		memset(&ring, 0, sizeof(ring));
		start();
		/* as if this many bytes had already passed through the ring */
		atomic_store(&ring.ends->head, RING_BYTES + offset);
		atomic_store(&ring.ends->tail, RING_BYTES + offset);
		ring.taken = RING_BYTES + offset;
		for (int i = 0; i < 3; i++) {
			cr_assert_eq(put(++tid, SP_FRAMES_MAX), 0, "offset %lu", offset);
			remember(tid);
		}

		cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), 3, "offset %lu", offset);
		for (size_t i = 0; i < RING_BYTES / sizeof(uint64_t); i++)
			cr_assert_eq(atomic_load(&ring.word[i]), 0, "offset %lu word %zu", offset,
				     i);
	}
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407U;
	return *state >> 33;
}

Test(ring, loses_nothing_but_what_it_refused)
{
	uint32_t tid = 0;

	for (uint64_t seed = 1; seed <= 200; seed++) {
		uint64_t state = seed;
		unsigned refused = 0;
		unsigned drained = 0;
		unsigned tried = 0;

		while (tried < 500) {
			if (next_random(&state) % 3 != 0) {
				tried++;
				tid++;
				int rc = put(tid, depth_of(tid));

				cr_assert(rc == 0 || rc == -ENOSPC);
				if (rc == 0)
					remember(tid);
				else
					refused++;
			} else {
				unsigned max = (unsigned)(next_random(&state) % 8);

				drained += sp_ring_drain(&ring, check, NULL, max);
			}
		}
		drained += sp_ring_drain(&ring, check, NULL, 1000);

		cr_assert_eq(drained + refused, tried, "seed %lu", seed);
		cr_assert_eq(waiting, 0U, "seed %lu", seed);
		cr_assert_eq(atomic_load(&ring.ends->head), atomic_load(&ring.ends->tail));
	}
}

Test(ring, counts_on_past_the_largest_offset)
{
	atomic_store(&ring.ends->head, UINT64_MAX - 1023);
	atomic_store(&ring.ends->tail, UINT64_MAX - 1023);
	ring.taken = UINT64_MAX - 1023;

	for (uint32_t tid = 1; tid <= 3; tid++) {
		cr_assert_eq(put(tid, 100), 0);
		remember(tid);
	}

	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), 3);
}

/* The words of a record behind its header. */
static void write_words(uint64_t at, const struct sp_sample *s, uint64_t bytes)
{
	for (size_t i = 0; i < bytes / 8; i++)
		atomic_store(&ring.word[at / 8 + 1 + i], ((const uint64_t *)s)[i]);
}

/* A header that is still zero: the producer was interrupted in the middle of its record. */
Test(ring, waits_for_a_record_that_is_not_finished)
{
	uint64_t at;
	struct sp_sample s;

	cr_assert_eq(put(1, 5), 0);
	remember(1);
	fill(&s, 7, 5);
	at = atomic_fetch_add(&ring.ends->head, bytes_of(5));
	write_words(at, &s, bytes_of(5) - HEADER_BYTES);
	remember(7);
	cr_assert_eq(put(2, 5), 0);
	remember(2);

	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), 1);
	atomic_store(&ring.word[at / 8], SAMPLE(sp_sample_bytes(5)));
	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), 2);
}

static uint64_t next_of(uint64_t bytes)
{
	return atomic_fetch_add(&ring.ends->head, bytes);
}

static void expect_empty(void)
{
	cr_assert_eq(ring.taken, atomic_load(&ring.ends->head));
	cr_assert_eq(atomic_load(&ring.ends->tail), ring.taken);
	for (size_t i = 0; i < RING_BYTES / sizeof(uint64_t); i++)
		cr_assert_eq(atomic_load(&ring.word[i]), 0, "word %zu", i);
}

Test(ring, is_as_large_as_its_memory_allows)
{
	static _Alignas(4096) char memory[4096 * 8];
	struct sp_ring view;

	cr_assert_eq(sp_ring_at(&view, memory, sizeof(memory)), 0);
	cr_expect_eq(view.size, 16384, "a power of two behind the first page");
	cr_expect_eq((uintptr_t)view.word - (uintptr_t)memory, SP_RING_WORDS_AT);
	cr_assert_eq(sp_ring_at(&view, memory, 4096 * 5), 0);
	cr_expect_eq(view.size, 16384);
	cr_expect_eq(sp_ring_at(&view, memory, 4096 * 2), -EINVAL);
	cr_expect_null(view.word);
}

Test(ring, another_view_goes_on_where_the_first_one_was)
{
	struct sp_ring other;

	cr_assert_eq(put(1, 5), 0);
	remember(1);
	cr_assert_eq(put(2, 7), 0);
	remember(2);
	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 1), 1);

	cr_assert_eq(sp_ring_at(&other, ring.ends, SP_RING_BYTES(RING_BYTES)), 0);
	cr_expect_eq(sp_ring_drain(&other, check, NULL, 100), 1);
}

/* Each wrong length of a record is detected, and later records are drained again. */
Test(ring, throws_away_what_cannot_be_and_goes_on)
{
	const uint64_t lies[] = {SAMPLE(0),
				 SAMPLE(1),
				 SAMPLE(sp_sample_bytes(5) + 1),
				 SAMPLE(bytes_of(5)), /* one word beyond the head */
				 SAMPLE(RING_BYTES),
				 SAMPLE(SP_RING_LENGTH(UINT64_MAX)),
				 SAMPLE(SP_RING_LENGTH(UINT64_MAX) - 7),
				 PAD(0),
				 PAD(8),
				 PAD(RING_BYTES),
				 1,
				 UINT64_MAX};

	for (size_t i = 0; i < SP_ARRAY_LEN(lies); i++) {
		uint64_t at = ring.taken;

		cr_assert_eq(put(1, 5), 0);
		atomic_store(&ring.word[at % RING_BYTES / 8], lies[i]);

		cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), 0, "lie %zu", i);
		cr_expect_eq(ring.damaged, i + 1, "lie %zu", i);
		expect_empty();
		cr_assert_eq(put(2, 3), 0);
		remember(2);
		cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), 1, "lie %zu", i);
	}
}

Test(ring, believes_no_head_that_is_out_of_reach)
{
	const uint64_t lies[] = {RING_BYTES + 8, UINT64_MAX, UINT64_C(1) << 63, 12};

	for (size_t i = 0; i < SP_ARRAY_LEN(lies); i++) {
		atomic_store(&ring.ends->head, ring.taken + lies[i]);

		cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), 0, "lie %zu", i);
		cr_expect_eq(ring.damaged, i + 1, "lie %zu", i);
		cr_expect_lt(atomic_load(&ring.ends->head) - ring.taken, 8);
		atomic_store(&ring.ends->head, ring.taken);
	}
	cr_assert_eq(put(2, 3), 0);
	remember(2);
	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), 1);
}

Test(ring, takes_the_tail_from_nobody)
{
	cr_assert_eq(put(1, 5), 0);
	remember(1);
	atomic_store(&ring.ends->tail, 4711);

	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), 1);
	cr_expect_eq(atomic_load(&ring.ends->tail), ring.taken);
	cr_expect_eq(ring.damaged, 0);
}

Test(ring, hands_out_no_sample_that_is_longer_or_shorter_than_it_says)
{
	const uint64_t depth_word = offsetof(struct sp_sample, weight) / 8;

	cr_assert_eq(offsetof(struct sp_sample, depth) / 8, depth_word);
	for (unsigned depth = 0; depth < 0x10000; depth += depth < 16 ? 1 : 4095) {
		uint64_t at = ring.taken % RING_BYTES / 8;
		struct sp_sample s;
		uint64_t word;

		cr_assert_eq(put(1, 5), 0);
		if (depth == 5)
			remember(1);
		fill(&s, 1, 5);
		s.depth = (uint16_t)depth;
		memcpy(&word, (char *)&s + depth_word * 8, sizeof(word));
		if (SP_RING_KIND(atomic_load(&ring.word[at])) == SP_RECORD_PAD)
			at = 0;
		atomic_store(&ring.word[at + 1 + depth_word], word);

		cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), depth == 5, "depth %u", depth);
	}
	cr_expect_eq(ring.damaged, 16 + 16 - 1);
}

/* One record of each kind, and its length. */
static const struct {
	enum sp_record_kind kind;
	uint64_t bytes;
} kinds[] = {
	{SP_RECORD_SAMPLE, offsetof(struct sp_sample, pc) + 5 * sizeof(uint64_t)},
	{SP_RECORD_CPU_TIME, sizeof(struct sp_cpu_time)},
	{SP_RECORD_MODULE_EVENT, sizeof(struct sp_module_event)},
};

/* Puts a record that claims to be a sample of 5 frames and is long enough for any kind, then a sample. */
static void put_before_a_sample(uint32_t kind, uint64_t bytes)
{
	static struct sp_sample s;

	fill(&s, 1, 5);
	cr_assert_leq(bytes, sizeof(s));
	cr_assert_eq(sp_ring_put(&ring, (enum sp_record_kind)kind, &s, bytes), 0);
	cr_assert_eq(put(2, 3), 0);
}

/* Only the damaged record is lost, because its length may be right. */
static void expect_passed(uint32_t kind, uint64_t bytes)
{
	uint64_t damaged = ring.damaged;

	put_before_a_sample(kind, bytes);
	remember(2);

	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), 1, "kind %u, %lu bytes", kind, bytes);
	cr_expect_eq(ring.damaged, damaged + 1, "kind %u, %lu bytes", kind, bytes);
	expect_empty();
}

Test(ring, counts_and_passes_records_of_no_kind_that_shares_it)
{
	static const uint32_t others[] = {0, SP_RECORD_SNAPSHOT, SP_RECORD_SNAPSHOT + 1, 128, 255};

	for (size_t i = 0; i < SP_ARRAY_LEN(others); i++)
		expect_passed(others[i], kinds[0].bytes);
}

Test(ring, counts_and_passes_records_that_are_not_as_long_as_their_kind)
{
	for (size_t i = 0; i < SP_ARRAY_LEN(kinds); i++) {
		expect_passed(kinds[i].kind, sizeof(uint64_t));
		expect_passed(kinds[i].kind, kinds[i].bytes - sizeof(uint64_t));
		expect_passed(kinds[i].kind, kinds[i].bytes + sizeof(uint64_t));
	}
}

/* The ring of snapshots and the ring of names each have one kind of record. */
Test(ring, passes_to_a_record_of_every_kind)
{
	uint64_t record[2] = {1};
	uint32_t kind;

	for (uint32_t i = SP_RECORD_SAMPLE; i <= SP_RECORD_NAME; i++) {
		(void)next_of(sizeof(record));
		cr_assert_eq(sp_ring_put(&ring, i, record, sizeof(record)), 0);

		cr_expect(sp_ring_pass(&ring));
		cr_expect_eq(sp_ring_take(&ring, &kind, record, sizeof(record)), sizeof(record),
			     "kind %u", i);
		cr_expect_eq(kind, i);
	}
}

/* A producer was killed in the middle of its record, after it had written a part of it. */
Test(ring, passes_what_a_dead_producer_has_not_finished)
{
	struct sp_sample s;

	cr_assert_eq(put(1, 5), 0);
	remember(1);
	fill(&s, 7, 20);
	s.pc[3] = SAMPLE(8); /* looks like a header, but the words behind it do not fit */
	s.pc[4] = 8;         /* the same with another kind */
	write_words(next_of(bytes_of(20)), &s, bytes_of(9));
	cr_assert_eq(put(2, 5), 0);
	remember(2);
	cr_assert_eq(put(3, 200), 0);
	remember(3);
	(void)next_of(bytes_of(4));

	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), 1);
	cr_assert(sp_ring_pass(&ring));
	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), 2);
	cr_assert(sp_ring_pass(&ring), "the last one has nothing behind it");
	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), 0);
	cr_assert_not(sp_ring_pass(&ring));
	cr_expect_eq(ring.unfinished, 2);
	cr_expect_eq(ring.damaged, 0);
	expect_empty();
}

static void ignore(const struct sp_record *record, void *arg)
{
	const struct sp_sample *s = &record->sample;
	const struct sp_cpu_time *t = &record->cpu_time;

	cr_assert_geq(record->kind, SP_RECORD_SAMPLE);
	cr_assert(record->kind <= SP_RECORD_SLOW_ROOT || record->kind == SP_RECORD_ROOT_END);
	if (record->kind == SP_RECORD_SAMPLE) {
		cr_assert_leq(s->depth, SP_FRAMES_MAX);
		cr_assert_eq(s->thread_name[SP_THREAD_NAME_BYTES - 1], 0);
	}
	if (record->kind == SP_RECORD_CPU_TIME)
		cr_assert_eq(t->thread_name[SP_THREAD_NAME_BYTES - 1], 0);
	++*(uint64_t *)arg;
}

static void accept_root(const struct sp_record *record, void *arg)
{
	cr_assert_eq(record->kind, SP_RECORD_SLOW_ROOT);
	*(uint64_t *)arg += record->slow_root.span_id;
}

Test(ring, hands_out_slow_roots_only_if_they_are_whole)
{
	struct sp_slow_root root[2] = {{.span_id = 7}};
	uint64_t sum = 0;

	cr_assert_eq(sp_ring_put(&ring, SP_RECORD_SLOW_ROOT, root, sizeof(root[0]) - 8), 0);
	cr_assert_eq(sp_ring_put(&ring, SP_RECORD_SLOW_ROOT, root, sizeof(root[0])), 0);
	cr_assert_eq(sp_ring_put(&ring, SP_RECORD_SLOW_ROOT, root, sizeof(root[0]) + 8), 0);
	cr_expect_eq(sp_ring_drain(&ring, accept_root, &sum, 10), 1);
	cr_expect_eq(sum, 7);
	cr_expect_eq(ring.damaged, 2);
}

static void accept_end(const struct sp_record *record, void *arg)
{
	cr_assert_eq(record->kind, SP_RECORD_ROOT_END);
	*(uint64_t *)arg += record->root_end.root_id;
}

Test(ring, hands_out_ends_of_roots_only_if_they_are_whole)
{
	struct sp_root_end end[2] = {{.root_id = 7}};
	uint64_t sum = 0;

	cr_assert_eq(sp_ring_put(&ring, SP_RECORD_ROOT_END, end, sizeof(end[0]) - 8), 0);
	cr_assert_eq(sp_ring_put(&ring, SP_RECORD_ROOT_END, end, sizeof(end[0])), 0);
	cr_assert_eq(sp_ring_put(&ring, SP_RECORD_ROOT_END, end, sizeof(end[0]) + 8), 0);
	cr_expect_eq(sp_ring_drain(&ring, accept_end, &sum, 10), 1);
	cr_expect_eq(sum, 7);
	cr_expect_eq(ring.damaged, 2);
}

static struct sp_span_values values_of(uint16_t type, uint16_t bytes)
{
	return (struct sp_span_values){.root_id = 1, .value[1] = {type, bytes}};
}

static void accept(const struct sp_record *record, void *arg)
{
	cr_assert_eq(record->kind, SP_RECORD_SPAN_VALUES);
	++*(unsigned *)arg;
}

/* Lengths that do not add up, and unknown types: a reader of values may rely on their form. */
Test(ring, hands_out_values_of_spans_only_if_they_have_their_form)
{
	static const struct {
		uint16_t type;
		uint16_t bytes;
		uint64_t padded;
		bool good;
	} cases[] = {
		{SP_SPAN_VALUE_TEXT, 3, 8, true},
		{SP_SPAN_VALUE_TEXT, SP_SPAN_VALUE_BYTES, SP_SPAN_VALUE_BYTES, true},
		{SP_SPAN_VALUE_DOUBLE, 8, 8, true},
		{SP_SPAN_VALUE_NONE, 0, 0, true},
		{SP_SPAN_VALUE_TEXT, 3, 16, false},
		{SP_SPAN_VALUE_TEXT, 9, 8, false},
		{SP_SPAN_VALUE_TEXT, 0, 0, false},
		{SP_SPAN_VALUE_TEXT, SP_SPAN_VALUE_BYTES + 1, SP_SPAN_VALUE_BYTES + 8, false},
		{SP_SPAN_VALUE_INT64, 4, 8, false},
		{SP_SPAN_VALUE_NONE, 8, 8, false},
		{SP_SPAN_VALUE_TYPES, 8, 8, false},
		{UINT16_MAX, UINT16_MAX, 8, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct sp_span_values v = values_of(cases[i].type, cases[i].bytes);
		uint64_t damaged = ring.damaged;
		unsigned n = 0;

		cr_assert_eq(sp_ring_put(&ring, SP_RECORD_SPAN_VALUES, &v,
					 SP_SPAN_VALUES_HEAD_BYTES + cases[i].padded),
			     0);
		(void)sp_ring_drain(&ring, accept, &n, 10);
		cr_expect_eq(n, cases[i].good, "case %zu", i);
		cr_expect_eq(ring.damaged, damaged + !cases[i].good, "case %zu", i);
	}
}

static void take_word(const struct sp_record *record, void *arg)
{
	cr_assert_eq(record->kind, SP_RECORD_FREED);
	*(uint64_t *)arg = record->word;
}

Test(ring, hands_out_words_that_are_one)
{
	const uint64_t words[2] = {42, 43};
	uint64_t word = 0;

	cr_assert_eq(sp_ring_put(&ring, SP_RECORD_FREED, words, 16), 0);
	cr_expect_eq(sp_ring_drain(&ring, take_word, &word, 10), 0);
	cr_expect_eq(ring.damaged, 1);
	cr_assert_eq(sp_ring_put(&ring, SP_RECORD_FREED, words, 8), 0);
	cr_expect_eq(sp_ring_drain(&ring, take_word, &word, 10), 1);
	cr_expect_eq(word, 42);
}

/* Draining ends with any words in the ring, and afterwards goes on where the producers write. */
Test(ring, survives_any_words)
{
	uint64_t state = 42;
	uint64_t seen = 0;

	for (unsigned round = 0; round < 2000; round++) {
		/* most of these words are plausible headers */
		uint64_t mask = next_random(&state) % 2 ? SP_RING_HEADER(7, 0x1f8) : UINT64_MAX;

		for (unsigned i = 0; i < 200; i++)
			atomic_store(&ring.word[next_random(&state) % (RING_BYTES / 8)],
				     (next_random(&state) << 33 | next_random(&state)) & mask);
		if (next_random(&state) % 4 == 0)
			atomic_store(&ring.ends->head, next_random(&state) * 8);
		else
			atomic_store(&ring.ends->head, ring.taken + next_random(&state) % 2049 * 8);

		while (sp_ring_drain(&ring, ignore, &seen, 50) != 0)
			;
		for (unsigned n = 0; sp_ring_pass(&ring); n++) {
			cr_assert_leq(n, RING_BYTES / 8);
			(void)sp_ring_drain(&ring, ignore, &seen, UINT32_MAX);
		}
		cr_assert_eq(ring.taken, atomic_load(&ring.ends->head));
	}
	for (size_t i = 0; i < RING_BYTES / 8; i++)
		atomic_store(&ring.word[i], 0);
	cr_assert_eq(put(1, 10), 0);
	remember(1);
	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), 1);
}
