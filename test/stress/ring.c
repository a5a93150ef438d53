/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many producers and one consumer on a ring that is too small for them. Every sample carries a checksum; the samples
 * of a producer come in order; put = drained + dropped, exactly. Each sample is of a block, and a record that the
 * block was freed always has room.
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#include "sampler/region/ring.h"
#include "test/common/own_memory.h"
#include "test/common/put_sample.h"

#define PRODUCERS 8U
#define PUTS 20000U
#define RING_BYTES 32768U

static struct sp_ring ring;
static _Atomic unsigned working = PRODUCERS;
static _Atomic uint64_t blocks;

struct producer {
	uint32_t number;
	unsigned dropped;
	unsigned untold;
};

static struct {
	unsigned drained;
	unsigned freed;
	unsigned broken;
	unsigned unordered;
	uint32_t last[PRODUCERS];
} seen;

static uint64_t checksum(const struct sp_sample *s)
{
	uint64_t sum = s->name_id * UINT64_C(31) + s->tid;

	for (unsigned i = 0; i < s->depth; i++)
		sum = sum * UINT64_C(0x100000001b3) + s->pc[i];
	return sum;
}

/* weight numbers a producer's puts, from 1. */
static void check(const struct sp_record *record, void *arg)
{
	const struct sp_sample *s = &record->sample;

	(void)arg;
	if (record->kind == SP_RECORD_FREED) {
		seen.freed++;
		return;
	}
	seen.drained++;
	if (record->kind != SP_RECORD_SAMPLE || s->tid >= PRODUCERS || s->depth > SP_FRAMES_MAX ||
	    s->span_id != checksum(s)) {
		seen.broken++;
		return;
	}
	seen.unordered += s->weight <= seen.last[s->tid];
	seen.last[s->tid] = s->weight;
}

static void tell_freed(struct producer *p)
{
	uint64_t number = p->number;

	if (sp_ring_put(&ring, SP_RECORD_FREED, &number, sizeof(number)) != 0)
		p->untold++;
	atomic_fetch_sub_explicit(&blocks, 1, memory_order_release);
}

static void *produce(void *arg)
{
	struct producer *p = arg;
	static __thread struct sp_sample s;
	uint64_t state = p->number + 1;
	unsigned own = 0;

	s.tid = p->number;
	for (uint32_t n = 1; n <= PUTS; n++) {
		state = state * UINT64_C(6364136223846793005) + 1442695040888963407U;
		s.weight = n;
		s.name_id = (uint32_t)(state >> 32);
		s.depth = (uint16_t)((state >> 40) % 64);
		for (unsigned i = 0; i < s.depth; i++)
			s.pc[i] = state ^ i;
		s.span_id = checksum(&s);
		atomic_fetch_add_explicit(&blocks, 1, memory_order_relaxed);
		if (put_sample(&ring, &s) == 0) {
			own++;
		} else {
			atomic_fetch_sub_explicit(&blocks, 1, memory_order_release);
			p->dropped++;
			/* with few processors the consumer, or a thread that it waits for, needs this one */
			(void)sched_yield();
		}
		/* Now and then all at once. */
		for (; own > state >> 56; own--)
			tell_freed(p);
	}
	for (; own != 0; own--)
		tell_freed(p);
	atomic_fetch_sub(&working, 1);
	return NULL;
}

int main(void)
{
	struct producer producer[PRODUCERS];
	pthread_t thread[PRODUCERS];
	unsigned dropped = 0;
	unsigned untold = 0;
	unsigned last;

	if (ring_init(&ring, RING_BYTES) != 0)
		return 1;
	atomic_store(&sp_ring_blocks, &blocks);
	for (uint32_t i = 0; i < PRODUCERS; i++) {
		producer[i] = (struct producer){.number = i};
		if (pthread_create(&thread[i], NULL, produce, &producer[i]) != 0)
			return 1;
	}
	do {
		last = atomic_load(&working);
		(void)sp_ring_drain(&ring, check, NULL, 7);
	} while (last != 0 || sp_ring_drain(&ring, check, NULL, 7) != 0);
	for (uint32_t i = 0; i < PRODUCERS; i++) {
		(void)pthread_join(thread[i], NULL);
		dropped += producer[i].dropped;
		untold += producer[i].untold;
	}
	printf("%u put = %u drained + %u dropped; %u broken, %u out of order; %u freed, %u "
	       "untold\n",
	       PRODUCERS * PUTS, seen.drained, dropped, seen.broken, seen.unordered, seen.freed,
	       untold);
	return seen.drained + dropped != PRODUCERS * PUTS || seen.broken != 0 ||
	       seen.unordered != 0 || seen.drained < PUTS / 4 || seen.freed != seen.drained ||
	       untold != 0;
}
