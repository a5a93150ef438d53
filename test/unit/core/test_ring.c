/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the sample ring with one thread; test/stress/ring.c has the threads. */
#include "sampler/ring.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#define RING_BYTES 16384U
#define HEADER_BYTES sizeof(uint64_t)

static struct sp_ring ring;

/* What is in the ring, oldest first: samples are told apart by tid. */
static uint32_t expected[RING_BYTES / 48];
static unsigned first;
static unsigned waiting;

static uint16_t depth_of(uint32_t tid)
{
	return (uint16_t)((tid * 2654435761U >> 7) % (SP_FRAMES_MAX + 1));
}

static uint64_t bytes_of(uint16_t depth)
{
	return HEADER_BYTES + offsetof(struct sp_sample, pc) + depth * sizeof(uint64_t);
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
	for (uint16_t i = 0; i < depth; i++)
		s->pc[i] = s->span_id ^ i;
}

static int put(uint32_t tid, uint16_t depth)
{
	struct sp_sample s;

	fill(&s, tid, depth);
	return sp_ring_put(&ring, &s);
}

static void check(const struct sp_sample *s, void *arg)
{
	struct sp_sample want;

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
	cr_assert_eq(sp_ring_init(&ring, RING_BYTES), 0);
}

TestSuite(ring, .init = start, .timeout = 20);

Test(ring, drains_nothing_before_init)
{
	static struct sp_ring none;
	struct sp_sample s;

	fill(&s, 1, 1);

	cr_assert_eq(sp_ring_drain(&none, check, NULL, 1), 0);
	cr_assert_eq(sp_ring_put(&none, &s), -ENOSPC);
}

Test(ring, hands_out_samples_in_order_whole)
{
	unsigned seen = 0;

	for (uint32_t tid = 1; tid <= 3; tid++) {
		cr_assert_eq(put(tid, depth_of(tid)), 0);
		remember(tid);
	}

	cr_assert_eq(sp_ring_drain(&ring, check, &seen, 100), 3);
	cr_assert_eq(seen, 3);
	cr_assert_eq(sp_ring_drain(&ring, check, &seen, 100), 0);
}

Test(ring, hands_out_at_most_max)
{
	for (uint32_t tid = 1; tid <= 5; tid++) {
		cr_assert_eq(put(tid, 0), 0);
		remember(tid);
	}

	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 0), 0);
	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 2), 2);
	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), 3);
}

Test(ring, keeps_the_smallest_and_the_largest_sample)
{
	cr_assert_eq(put(1, 0), 0);
	remember(1);
	cr_assert_eq(put(2, SP_FRAMES_MAX), 0);
	remember(2);

	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), 2);
}

Test(ring, refuses_a_depth_that_no_sample_has)
{
	struct sp_sample s;

	fill(&s, 1, SP_FRAMES_MAX);
	s.depth = SP_FRAMES_MAX + 1;

	cr_assert_eq(sp_ring_put(&ring, &s), -ENOSPC);
	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 1), 0);
}

Test(ring, full_refuses_the_new_sample_and_keeps_the_old)
{
	const uint16_t depth = 11; /* 8 + 40 + 88 = 136 bytes do not divide the ring's size */
	uint32_t tid = 1;

	while (put(tid, depth) == 0)
		remember(tid++);

	cr_assert_eq(waiting, RING_BYTES / bytes_of(depth));
	cr_assert_eq(put(tid, depth), -ENOSPC);
	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 1000), RING_BYTES / bytes_of(depth));
	cr_assert_eq(put(tid, depth), 0);
	remember(tid);
	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 1000), 1);
}

Test(ring, can_be_filled_to_the_last_byte)
{
	const uint16_t depth = 8; /* 128 bytes divide it */
	uint32_t tid = 1;

	cr_assert_eq(RING_BYTES % bytes_of(depth), 0);
	while (put(tid, depth) == 0)
		remember(tid++);

	cr_assert_eq(waiting, RING_BYTES / bytes_of(depth));
	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 1000), RING_BYTES / bytes_of(depth));
}

/* Every distance that a largest record can have from the ring's end, so every size of the pad. */
Test(ring, wraps_at_every_offset)
{
	uint32_t tid = 0;

	for (uint64_t offset = 0; offset < RING_BYTES; offset += sizeof(uint64_t)) {
		memset(&ring, 0, sizeof(ring));
		start();
		/* as if this much had gone through before */
		atomic_store(&ring.head, RING_BYTES + offset);
		atomic_store(&ring.tail, RING_BYTES + offset);
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
		cr_assert_eq(atomic_load(&ring.head), atomic_load(&ring.tail));
	}
}

Test(ring, counts_on_past_the_largest_offset)
{
	atomic_store(&ring.head, UINT64_MAX - 1023);
	atomic_store(&ring.tail, UINT64_MAX - 1023);

	for (uint32_t tid = 1; tid <= 3; tid++) {
		cr_assert_eq(put(tid, 100), 0);
		remember(tid);
	}

	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), 3);
}

Test(ring, is_empty_after_a_reset)
{
	cr_assert_eq(put(1, 10), 0);
	cr_assert_eq(put(2, 20), 0);

	sp_ring_reset(&ring);

	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), 0);
	cr_assert_eq(put(3, 30), 0);
	remember(3);
	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), 1);
}

/* A header that is still zero: the producer was interrupted before it finished. */
Test(ring, waits_for_a_record_that_is_not_finished)
{
	uint64_t unfinished = bytes_of(5);

	cr_assert_eq(put(1, 5), 0);
	remember(1);
	atomic_fetch_add(&ring.head, unfinished);
	cr_assert_eq(put(2, 5), 0);
	remember(2);

	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), 1);
	atomic_store(&ring.word[unfinished / 8], SP_RING_PAD | unfinished);
	cr_assert_eq(sp_ring_drain(&ring, check, NULL, 100), 1);
}
