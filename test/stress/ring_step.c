/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts into the ring one instruction at a time. After each instruction a second producer puts a sample, and the
 * consumer drains all samples that are complete. The interrupted put must succeed, because the ring is never full,
 * and nothing may be lost or damaged.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/region/ring.h"
#include "test/common/own_memory.h"
#include "test/common/put_sample.h"
#include "test/stress/trap_step.h"

#define RING_BYTES 16384U
#define DEPTH 3U
/* Greater than that of the interrupted put: then the consumer passes all that the put had seen of the ring. */
#define OTHERS_DEPTH 9U

static struct sp_ring ring;
static unsigned stop;
static unsigned others_at;
static unsigned others_put;
static unsigned drained;
static bool broken;

static void fill(struct sp_sample *s, uint32_t tid, uint16_t depth)
{
	memset(s, 0, sizeof(*s));
	s->tid = tid;
	s->span_id = tid * UINT64_C(0x9e3779b97f4a7c15);
	s->depth = depth;
	for (unsigned i = 0; i < depth; i++)
		s->pc[i] = s->span_id + i;
}

static void check(const struct sp_record *record, void *arg)
{
	const struct sp_sample *s = &record->sample;
	static struct sp_sample want;

	(void)arg;
	drained++;
	fill(&want, s->tid, s->tid == 1 ? DEPTH : OTHERS_DEPTH);
	broken |= memcmp(s, &want, sp_sample_bytes(want.depth)) != 0;
}

static void others(int signo)
{
	static struct sp_sample s;

	(void)signo;
	if (++stop != others_at)
		return;
	fill(&s, 2, OTHERS_DEPTH);
	others_put += put_sample(&ring, &s) == 0;
	(void)sp_ring_drain(&ring, check, NULL, 100);
}

/* Returns whether the others came before the put had ended. */
static bool interrupted_at(unsigned n, uint64_t offset)
{
	static struct sp_sample s;
	int rc;

	/* as if offset bytes had passed */
	atomic_store(&ring.ends->head, offset);
	atomic_store(&ring.ends->tail, offset);
	ring.taken = offset;
	fill(&s, 1, DEPTH);
	stop = 0;
	others_at = n;
	others_put = 0;
	drained = 0;

	trap_step_on();
	rc = put_sample(&ring, &s);
	trap_step_off();
	others_at = 0;
	(void)sp_ring_drain(&ring, check, NULL, 100);

	if (rc != 0 || drained != 1 + others_put || broken || (stop >= n && others_put != 1)) {
		printf("offset %" PRIu64 ", instruction %u: put %d, %u of %u drained%s\n", offset,
		       n, rc, drained, 1 + others_put, broken ? ", broken" : "");
		exit(1);
	}
	return stop >= n;
}

int main(void)
{
	/* the start, the middle, and each size of the padding before the end */
	const uint64_t offsets[] = {0,
				    4096,
				    RING_BYTES - 8,
				    RING_BYTES - 64,
				    RING_BYTES - 72,
				    RING_BYTES - 80,
				    RING_BYTES - 136,
				    RING_BYTES - 144};
	unsigned runs = 0;

	if (!TRAP_STEP_POSSIBLE) {
		puts("single-stepping by the trap flag needs x86-64 without sanitizer");
		return TRAP_STEP_SKIPPED;
	}
	if (ring_init(&ring, RING_BYTES) != 0 || trap_step_init(others) != 0)
		return 1;
	for (size_t i = 0; i < SP_ARRAY_LEN(offsets); i++) {
		unsigned n = 1;

		while (interrupted_at(n, offsets[i]))
			n++;
		runs += n;
	}
	printf("%u interruptions, %u instructions in the last put, all samples whole\n", runs,
	       stop);
	return runs < 100; /* a put has at least a dozen instructions at each offset */
}
