/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Continuing in a new region while no other thread runs; test/stress/region_swap.c has other threads. The test is the
 * exporter.
 */
#include "sampler/sampling/region_swap.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sampler/base/counters.h"
#include "sampler/region/names.h"
#include "sampler/region/ring.h"
#include "sampler/region/root_durations.h"
#include "sampler/sampling/handler.h"
#include "sampler/unwind/object_sig.h"
#include "test/common/put_sample.h"
#include "test/unit/emulated.h"

static const uint64_t sizes[SP_REGION_PARTS] = {SP_RING_BYTES(1 << 16), SP_RING_BYTES(1 << 16),
						SP_RING_BYTES(1 << 13)};
static int64_t later_s;   /* lead of the test's clock */
static uint64_t seen[16]; /* span ids, in order */
static unsigned seen_n;
static uint64_t block; /* of the last sample */

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, now);

	now->tv_sec += later_s;
	return rc;
}

static void begin(void)
{
	int fd = sp_region_create(sizes);

	cr_assert_geq(fd, 3);
	cr_assert_eq(close(fd), 0);
	cr_assert_eq(sp_names_init(100), 0);
	sp_region_swap_first(sp_region_now());
}

Test(region_swap, tells_where_our_objects_are_mapped)
{
	struct sp_region_loss lost;

	sp_region_own_object[0] = 4096;
	sp_region_own_object[1] = 8192;
	begin();
	cr_expect_eq(sp_region_now()->own_object[0], 4096);
	cr_expect_eq(sp_region_now()->own_object[1], 8192);
	cr_assert_geq(sp_region_swap(NULL, &lost), 3);
	cr_expect_eq(sp_region_now()->own_object[1], 8192);
}

static uint64_t swap(void)
{
	struct sp_region_loss lost;
	int fd;

	errno = 4712;
	fd = sp_region_swap(NULL, &lost);
	cr_assert_geq(fd, 3);
	cr_assert_eq(errno, 4712);
	cr_assert_eq(close(fd), 0);
	return lost.samples;
}

/* Puts a record of any kind; number is in the field in which samples and CPU time have the span's id. */
static void put(struct sp_channel *o, enum sp_record_kind kind, uint64_t number)
{
	struct sp_sample s = {.span_id = number, .depth = 2};
	struct sp_cpu_time t = {.span_id = number};
	struct sp_module_event event = {.bias = number};

	if (kind == SP_RECORD_SAMPLE)
		cr_assert_eq(put_sample(&o->ring, &s), 0);
	if (kind == SP_RECORD_CPU_TIME)
		cr_assert_eq(sp_ring_put(&o->ring, kind, &t, sizeof(t)), 0);
	if (kind == SP_RECORD_MODULE_EVENT)
		cr_assert_eq(sp_ring_put(&o->ring, kind, &event, sizeof(event)), 0);
	else if (kind == SP_RECORD_FREED)
		cr_assert_eq(sp_ring_put(&o->ring, kind, &number, sizeof(number)), 0);
	else
		sp_channel_count_put(o);
}

static void note(const struct sp_record *record, void *arg)
{
	(void)arg;
	cr_assert_lt(seen_n, 16);
	seen[seen_n++] = record->kind == SP_RECORD_MODULE_EVENT ? record->module_event.bias
								: record->sample.span_id;
	if (record->kind == SP_RECORD_SAMPLE)
		block = record->sample.block;
}

/* Drains as the exporter of the region in use. */
static void drain(unsigned max)
{
	struct sp_ring ring;
	uint64_t bytes;
	void *part = sp_region_part(sp_region_now(), SP_REGION_RING, &bytes);

	seen_n = 0;
	cr_assert_eq(sp_ring_at(&ring, part, bytes), 0);
	(void)sp_ring_drain(&ring, note, NULL, max);
}

static _Atomic uint64_t *told(enum sp_counter c)
{
	return &sp_region_now()->exporter_counter[c];
}

static uint64_t all(enum sp_counter c)
{
	return sp_count_read(c) + *told(c);
}

TestSuite(region_swap, .init = begin, .timeout = 30);

Test(region_swap, takes_along_what_nobody_has_taken_in_its_order)
{
	put(sp_channel_now(), SP_RECORD_SAMPLE, 1);
	put(sp_channel_now(), SP_RECORD_MODULE_EVENT, 2);
	put(sp_channel_now(), SP_RECORD_CPU_TIME, 3);
	drain(1);
	*told(SP_COUNT_SAMPLES_DRAINED) = 1;
	*told(SP_COUNT_SAMPLES_SENT) = 1;

	cr_expect_eq(swap(), 0);

	put(sp_channel_now(), SP_RECORD_SAMPLE, 4);
	drain(10);
	cr_assert_eq(seen_n, 3);
	cr_expect(seen[0] == 2 && seen[1] == 3 && seen[2] == 4);
	cr_expect_eq(sp_count_read(SP_COUNT_SAMPLES_PUT), 3);
	cr_expect_eq(all(SP_COUNT_SAMPLES_DRAINED), 1, "the rest is the exporter's to count");
	cr_expect_eq(all(SP_COUNT_SAMPLES_UNSENT), 0);
}

Test(region_swap, counts_what_the_exporter_had_in_its_hands_as_lost)
{
	for (unsigned i = 1; i <= 5; i++)
		put(sp_channel_now(), SP_RECORD_SAMPLE, i);
	drain(5);
	*told(SP_COUNT_SAMPLES_DRAINED) = 5;
	*told(SP_COUNT_SAMPLES_SENT) = 2;
	*told(SP_COUNT_UPLOADS) = 7;
	*told(SP_COUNT_UNSAMPLED_DRAINED) = 1;

	cr_expect_eq(swap(), 2);

	cr_expect_eq(all(SP_COUNT_SAMPLES_UNSENT), 2);
	cr_expect_eq(all(SP_COUNT_SAMPLES_DRAINED), 5);
	cr_expect_eq(*told(SP_COUNT_UPLOADS), 7, "it goes on from there");
	cr_expect_eq(*told(SP_COUNT_UNSAMPLED_DRAINED), 1);
	cr_expect_eq(swap(), 0, "no sample is lost twice");
}

/* Records of freed blocks are not counted when they are put, so none of them counts as a lost sample. */
Test(region_swap, carries_frees_over_besides_what_it_counts)
{
	struct sp_sample s = {.span_id = 1, .depth = 2, .block = 7};

	cr_assert_eq(put_sample(&sp_channel_now()->ring, &s), 0);
	sp_channel_count_put(sp_channel_now());
	drain(1);
	*told(SP_COUNT_SAMPLES_DRAINED) = 1;
	put(sp_channel_now(), SP_RECORD_FREED, 7);

	cr_expect_eq(swap(), 1);
	cr_expect_eq(all(SP_COUNT_SAMPLES_UNSENT), 1);
}

/* The block's end may be in the ring that nobody reads any more. */
Test(region_swap, carries_a_sample_over_without_its_block)
{
	struct sp_sample s = {.span_id = 1, .depth = 2, .block = 7};

	cr_assert_eq(put_sample(&sp_channel_now()->ring, &s), 0);
	sp_channel_count_put(sp_channel_now());
	cr_expect_eq(swap(), 0);

	drain(1);
	cr_expect_eq(seen[0], 1);
	cr_expect_eq(block, 0);
}

Test(region_swap, counts_waits_that_the_exporter_had_in_its_hands_as_lost)
{
	struct sp_region_loss lost;

	*told(SP_COUNT_WAITS) = 9;
	*told(SP_COUNT_WAITS_SENT) = 4;
	*told(SP_COUNT_WAITS_UNSENT) = 2;
	cr_assert_geq(sp_region_swap(NULL, &lost), 3);

	cr_expect_eq(lost.samples, 0);
	cr_expect_eq(lost.waits, 3);
	cr_expect_eq(*told(SP_COUNT_WAITS_UNSENT), 5);
	cr_assert_geq(sp_region_swap(NULL, &lost), 3);
	cr_expect_eq(lost.waits, 0, "no wait is lost twice");
}

Test(region_swap, counts_slow_roots_that_the_exporter_had_in_its_hands_as_lost)
{
	*told(SP_COUNT_SLOW_ROOTS_DRAINED) = 20;
	*told(SP_COUNT_SLOW_ROOTS_SENT) = 1;
	*told(SP_COUNT_SLOW_ROOTS_FASTER) = 2;
	*told(SP_COUNT_SLOW_ROOTS_OTHER) = 4;
	*told(SP_COUNT_SLOW_ROOTS_UNSENT) = 8;
	(void)swap();
	cr_expect_eq(*told(SP_COUNT_SLOW_ROOTS_UNSENT), 13);
	(void)swap();
	cr_expect_eq(*told(SP_COUNT_SLOW_ROOTS_UNSENT), 13, "no root is lost twice");
	*told(SP_COUNT_SLOW_ROOTS_DRAINED) = UINT64_MAX;
	(void)swap();
	cr_expect_eq(*told(SP_COUNT_SLOW_ROOTS_UNSENT), 13, "somebody else wrote that");
}

/* The first one that is in the ring; 0 = none. */
static uint32_t name_told(void)
{
	struct sp_name_record r;
	struct sp_ring ring;
	uint64_t bytes;
	void *part = sp_region_part(sp_region_now(), SP_REGION_NAMES, &bytes);
	uint32_t kind;

	cr_assert_eq(sp_ring_at(&ring, part, bytes), 0);
	return sp_ring_take(&ring, &kind, &r, sizeof(r)) != 0 ? r.head.id : 0;
}

/* The record has a name that the new exporter does not know, and is no sample. */
Test(region_swap, carries_slow_roots_over_with_their_names)
{
	struct sp_slow_root root = {.span_id = 5, .name_id = sp_names_intern("GET /", 5)};

	cr_assert(sp_names_announce(sp_channel_now(), root.name_id));
	cr_assert_eq(name_told(), root.name_id);
	cr_assert_eq(sp_ring_put(&sp_channel_now()->ring, SP_RECORD_SLOW_ROOT, &root, sizeof(root)),
		     0);

	cr_expect_eq(swap(), 0);

	cr_expect_eq(name_told(), root.name_id);
	drain(10);
	cr_assert_eq(seen_n, 1);
	cr_expect_eq(seen[0], 5);
	cr_expect_eq(sp_count_read(SP_COUNT_DROP_SLOW_ROOTS), 0);
	cr_expect_eq(all(SP_COUNT_SAMPLES_DRAINED), 0);
}

Test(region_swap, takes_durations_of_roots_along)
{
	const uint64_t with_roots[SP_REGION_PARTS] = {sizes[0], sizes[1], sizes[2], 0,
						      sizeof(struct sp_root_durations)};
	const struct sp_root_durations *d;
	uint32_t place;
	uint64_t bytes;
	int fd = sp_region_create(with_roots);

	cr_assert_geq(fd, 3);
	cr_assert_eq(close(fd), 0);
	sp_region_swap_first(sp_region_now());
	cr_assert_eq(sp_root_durations_init(), 0);
	cr_assert(sp_root_durations_add(sp_names_intern("a", 1), 5000, &place));

	(void)swap();
	(void)sp_root_durations_add(sp_names_intern("a", 1), 5000, &place);

	d = sp_region_part(sp_region_now(), SP_REGION_ROOTS, &bytes);
	cr_assert_not_null(d);
	cr_expect_eq(d->histogram[place].count[sp_duration_bucket(5000)], 2);
}

Test(region_swap, believes_no_counts_that_somebody_else_wrote)
{
	struct sp_region_loss lost;

	put(sp_channel_now(), SP_RECORD_SAMPLE, 1);
	drain(1);
	*told(SP_COUNT_SAMPLES_SENT) = UINT64_MAX - 135;
	*told(SP_COUNT_WAITS) = 3;
	*told(SP_COUNT_WAITS_SENT) = 1000;
	cr_assert_geq(sp_region_swap(NULL, &lost), 3);

	cr_expect_eq(lost.samples, 0);
	cr_expect_eq(lost.waits, 0);
}

Test(region_swap, knows_what_was_never_sent)
{
	for (unsigned i = 1; i <= 5; i++)
		put(sp_channel_now(), SP_RECORD_SAMPLE, i);
	put(sp_channel_now(), SP_RECORD_CPU_TIME, 6);
	sp_count(SP_COUNT_UNSAMPLED);
	drain(2);
	*told(SP_COUNT_SAMPLES_DRAINED) = 2;
	*told(SP_COUNT_SAMPLES_SENT) = 1;

	cr_expect_eq(sp_region_swap_unsent(), 5);
	cr_expect_eq(swap(), 1);
	cr_expect_eq(sp_region_swap_unsent(), 4, "one is told as lost");
}

/* The swap has interrupted a handler, which writes to the old region. */
Test(region_swap, counts_what_comes_too_late)
{
	struct sp_channel *old = sp_channel_now();
	struct sp_span_counts *spans = sp_span_counts_of(3);

	cr_expect_eq(swap(), 0);
	cr_assert_neq(sp_channel_now(), old);
	put(old, SP_RECORD_SAMPLE, 1);
	put(old, SP_RECORD_CPU_TIME, 2);
	put(old, SP_RECORD_MODULE_EVENT, 3);
	atomic_fetch_add(&spans->ended, 1);
	sp_region_swap_count_late();

	cr_expect_eq(sp_count_read(SP_COUNT_SAMPLES_PUT), 2);
	cr_expect_eq(all(SP_COUNT_SAMPLES_DRAINED), 2);
	cr_expect_eq(all(SP_COUNT_SAMPLES_UNSENT), 2);
	cr_expect_eq(sp_count_read(SP_COUNT_SPANS_ENDED), 1);
	drain(10);
	cr_expect_eq(seen_n, 0);
}

/* The record is in the ring, and carried over, before its handler has counted it. */
Test(region_swap, counts_nothing_twice_that_is_carried_over_too_early)
{
	struct sp_channel *old = sp_channel_now();
	struct sp_sample s = {.span_id = 1, .depth = 2};

	cr_assert_eq(put_sample(&old->ring, &s), 0);
	cr_expect_eq(swap(), 0);
	sp_region_swap_count_late();
	cr_expect_eq(all(SP_COUNT_SAMPLES_UNSENT), 0);
	sp_channel_count_put(old);
	sp_region_swap_count_late();

	cr_expect_eq(sp_count_read(SP_COUNT_SAMPLES_PUT), 1);
	cr_expect_eq(all(SP_COUNT_SAMPLES_UNSENT), 0);
	drain(10);
	cr_expect_eq(seen_n, 1);
}

/* There was no exporter for so long that the new rings are too small, or a name found no room. */
Test(region_swap, counts_what_it_cannot_take_along)
{
	unsigned n = 0;

	for (char name[1500] = ""; n < 30; n++) {
		struct sp_sample s = {.depth = 2};

		memset(name, 'a' + (int)n % 26, sizeof(name));
		name[0] = (char)('a' + n / 26);
		s.name_id = sp_names_intern(name, sizeof(name));
		cr_assert_eq(put_sample(&sp_channel_now()->ring, &s), 0);
		sp_channel_count_put(sp_channel_now());
	}
	n -= (unsigned)swap();
	cr_expect(n > 0 && n < 10, "8 KiB of names");
	cr_expect_eq(all(SP_COUNT_SAMPLES_UNSENT), 30 - n);
	drain(15);
	cr_expect_eq(seen_n, n);
}

Test(region_swap, keeps_counters)
{
	sp_count_add(SP_COUNT_SIGNALS, 9);
	sp_count_span_started(5, 2);
	(void)swap();

	cr_expect_eq(sp_region_now()->counter[SP_COUNT_SIGNALS], 9);
	cr_expect_eq(sp_count_spans_of(2), 1);
}

/* The ids of names that the new exporter gets. */
static unsigned names_told(uint32_t ids[4])
{
	struct sp_ring *ring = &sp_channel_now()->names;
	struct sp_name_record r;
	unsigned n = 0;
	uint32_t kind;

	while (sp_ring_take(ring, &kind, &r, sizeof(r)) != 0) {
		cr_assert_lt(n, 4);
		ids[n++] = r.head.id;
	}
	return n;
}

/* The old exporter has taken the name, and a sample with it is still in the ring. */
Test(region_swap, tells_the_names_of_what_it_takes_along)
{
	uint32_t get = sp_names_intern("GET /", 5);
	uint32_t put_id = sp_names_intern("PUT /", 5);
	struct sp_sample s = {.depth = 2, .name_id = get};
	static struct sp_snapshot snapshot;
	uint32_t ids[4];

	cr_assert(sp_names_announce(sp_channel_now(), get));
	cr_assert(sp_names_announce(sp_channel_now(), put_id));
	cr_assert_eq(names_told(ids), 2);
	cr_assert_eq(put_sample(&sp_channel_now()->ring, &s), 0);
	s.name_id = put_id;
	memcpy(snapshot.sample, &s, sizeof(snapshot.sample));
	cr_assert_eq(sp_ring_put(&sp_channel_now()->snapshots, SP_RECORD_SNAPSHOT, &snapshot,
				 offsetof(struct sp_snapshot, stack)),
		     0);

	(void)swap();

	cr_assert_eq(names_told(ids), 2);
	cr_expect(ids[0] == get && ids[1] == put_id);
	cr_expect(sp_names_announce(sp_channel_now(), get));
	cr_expect_eq(names_told(ids), 0);
}

Test(region_swap, tells_of_objects_again)
{
	uint64_t moves = sp_module_event_state.moves;

	(void)swap();

	cr_expect_gt(sp_module_event_state.moves, moves);
	cr_expect_eq(sp_module_event_state.ring, &sp_channel_now()->ring);
	cr_expect_eq(sp_module_event_state.again, &sp_region_now()->generation);
	cr_expect_eq(sp_channel_now()->deferred_work, &sp_region_now()->deferred_work);
}

static unsigned pages(const struct sp_ring *r)
{
	unsigned char is_there[(1 << 16) / 4096];
	unsigned n = 0;

	cr_assert_leq(r->size, 1 << 16);
	cr_assert_eq(mincore((void *)(uintptr_t)r->word, r->size, is_there), 0);
	for (unsigned i = 0; i < r->size / 4096; i++)
		n += is_there[i] & 1;
	return n;
}

/* The number of mapped regions. */
static unsigned mapped(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned n = 0;

	cr_assert_not_null(maps);
	while (fgets(line, sizeof(line), maps) != NULL)
		n += strstr(line, "memfd:spanprof") != NULL;
	(void)fclose(maps);
	return n;
}

Test(region_swap, keeps_the_addresses_of_old_regions_and_not_the_regions)
{
	struct sp_region *first = sp_region_now();

	for (unsigned i = 0; i < 3; i++)
		(void)swap();
	sp_region_swap_count_late();
	cr_expect_eq(mapped(), 4, "somebody may be writing there");
	later_s = 60;
	errno = 4711;
	sp_region_swap_count_late();

	cr_expect_eq(errno, 4711);
	cr_expect_eq(mapped(), 1);
	sp_count(SP_COUNT_SIGNALS);
	/* A thread that has read the pointer before the first swap. */
	atomic_fetch_add(&first->counter[SP_COUNT_SIGNALS], 2);
	first->spans[0].ended = 1;
	sp_region_swap_count_late();
	cr_expect_eq(sp_count_read(SP_COUNT_SIGNALS), 3, "what comes later still counts");
	cr_expect_eq(sp_count_read(SP_COUNT_SPANS_ENDED), 1);
}

Test(region_swap, gives_the_memory_of_old_rings_back_when_nobody_writes_there_any_more)
{
	struct sp_channel *old = sp_channel_now();

	if (emulated())
		cr_skip_test("the emulator does not give memory back");
	for (unsigned i = 0; i < 400; i++)
		put(old, SP_RECORD_SAMPLE, i);
	cr_assert_gt(pages(&old->ring), 4);
	(void)swap();
	sp_region_swap_count_late();
	cr_expect_gt(pages(&old->ring), 4, "somebody may be writing there");
	later_s = 60;
	errno = 4711;
	sp_region_swap_count_late();

	cr_expect_eq(errno, 4711);
	cr_expect_eq(pages(&old->ring), 0);
	put(old, SP_RECORD_SAMPLE, 1);
	sp_region_swap_count_late();
	cr_expect_eq(all(SP_COUNT_SAMPLES_UNSENT), 1, "what comes later still counts");
	cr_expect_eq(all(SP_COUNT_SAMPLES_PUT), 401);
}

Test(region_swap, waits_where_all_places_were_in_use_a_moment_ago)
{
	struct sp_region *last;
	struct sp_region_loss lost;

	for (unsigned i = 1; i < SP_REGIONS_MAX; i++)
		(void)swap();
	last = sp_region_now();

	later_s = 61;
	cr_expect_eq(sp_region_swap(NULL, &lost), -EADDRNOTAVAIL);
	cr_expect_eq(sp_region_now(), last);
	later_s = 63;
	(void)swap();
	cr_expect_neq(sp_region_now(), last);
}

/* A long-lived worker whose siblings, which start its exporters, come and go. */
Test(region_swap, may_be_done_for_as_long_as_the_process_lives)
{
	struct sp_region *met[4 * SP_REGIONS_MAX];
	unsigned places = 0;
	unsigned k;

	for (unsigned i = 0; i < SP_ARRAY_LEN(met); i++) {
		later_s += 5;
		if (i % SP_REGIONS_MAX < 2)
			put(sp_channel_now(), SP_RECORD_SAMPLE, i);
		cr_assert_eq(swap(), 0);
		sp_region_swap_count_late();
		cr_assert_eq(sp_region_now()->pid, (uint32_t)getpid());
		cr_assert_eq(sp_region_now()->mapped_at, (uintptr_t)sp_region_now());
		for (k = 0; k < places && met[k] != sp_region_now(); k++)
			;
		met[k] = sp_region_now();
		places += k == places;
	}
	cr_expect_leq(places, SP_REGIONS_MAX);
	later_s += 5;
	sp_region_swap_count_late();
	cr_expect_eq(mapped(), 1);
	cr_expect_eq(sp_count_read(SP_COUNT_SAMPLES_PUT), 8);
	drain(16);
	cr_expect_eq(seen_n, 8, "%u are carried over", seen_n);
}

/* A thread has read the pointer earlier, and was not checked since. */
Test(region_swap, counts_what_came_late_before_another_region_is_at_that_address)
{
	struct sp_region *first = sp_region_now();

	(void)swap();
	later_s = 60;
	sp_region_swap_count_late();
	sp_count(SP_COUNT_SIGNALS);
	atomic_fetch_add(&first->counter[SP_COUNT_SIGNALS], 2);
	later_s = 120;
	(void)swap();
	cr_expect_eq(sp_region_now(), first);
	cr_expect_eq(sp_count_read(SP_COUNT_SIGNALS), 3);
}

/* The process that watches the exporter of a former region writes its end there. */
Test(region_swap, leaves_the_addresses_of_one_that_is_known_by_them)
{
	struct sp_region *first = sp_region_now();
	struct sp_region_loss lost;

	for (unsigned i = 0; i < 4; i++) {
		later_s += 120;
		cr_assert_eq(close(sp_region_swap(first, &lost)), 0);
		cr_expect_neq(sp_region_now(), first);
		sp_region_swap_count_late();
	}
	later_s += 120;
	(void)swap();
	cr_expect_eq(sp_region_now(), first);
}

/* A handler that was stopped for that long goes on to write there. */
Test(region_swap, leaves_the_rings_where_they_are_at_the_same_addresses)
{
	struct sp_channel *old = sp_channel_now();
	uint32_t number = old->number;

	for (unsigned i = 0; i < 2; i++) {
		(void)swap();
		later_s += 60;
		sp_region_swap_count_late();
		later_s += 60;
	}
	cr_expect_eq(sp_channel_now(), old);
	cr_expect_neq(old->number, number, "names are told anew");
	put(old, SP_RECORD_SAMPLE, 5);
	drain(10);
	cr_expect_eq(seen_n, 1);
	cr_expect_eq(seen[0], 5);
}

Test(region_swap, makes_no_region_over_one_of_another_size)
{
	const uint64_t larger[SP_REGION_PARTS] = {2 * sizes[0], sizes[1], sizes[2]};
	struct sp_region *r = sp_region_now();

	cr_expect_eq(sp_region_make(larger, &r), -EINVAL);
	r = &sp_region_nowhere;
	cr_expect_eq(sp_region_make(sizes, &r), -EINVAL);
	cr_expect_eq(mapped(), 1);
}

#ifndef __SANITIZE_ADDRESS__ /* AddressSanitizer maps terabytes */
/* Old regions stay mapped, and the host needs its address space itself. */
Test(region_swap, is_not_done_where_regions_would_take_an_eighth_of_the_address_space)
{
	const uint64_t large[SP_REGION_PARTS] = {sizes[0], sizes[1], 100 << 20};
	struct rlimit limit = {.rlim_cur = UINT64_C(1) << 30, .rlim_max = RLIM_INFINITY};
	struct sp_region *last;
	struct sp_region_loss lost;

	if (emulated())
		cr_skip_test("the emulator does not have that limit");
	cr_assert_geq(sp_region_create(large), 3);
	sp_region_swap_first(sp_region_now());
	last = sp_region_now();
	cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
	cr_expect_eq(sp_region_swap(NULL, &lost), -ENOSPC);
	cr_expect_eq(sp_region_now(), last);

	limit.rlim_cur *= 2;
	cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
	(void)swap();
	limit.rlim_cur /= 2;
	cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
	cr_expect_eq(sp_region_swap(NULL, &lost), -EADDRNOTAVAIL, "the first one rests");
	later_s += 60;
	sp_region_swap_count_late();
	later_s += 60;
	(void)swap();
	cr_expect_eq(sp_region_now(), last);
}
#endif

static int has_rings_of_its_own(void)
{
	const uint64_t others[SP_REGION_PARTS] = {sizes[2], sizes[1], sizes[0]};
	struct sp_ring ring;
	uint64_t bytes;
	void *part;

	sp_counters_reset();
	sp_region_swap_forked();
	sp_region_forked();
	cr_assert_geq(sp_region_create(others), 3);
	sp_region_swap_first(sp_region_now());
	for (unsigned i = 0; i < 3; i++) {
		(void)swap();
		part = sp_region_part(sp_region_now(), SP_REGION_RING, &bytes);
		cr_assert_eq(sp_ring_at(&ring, part, bytes), 0);
		if (sp_channel_now()->ring.word != ring.word ||
		    sp_channel_now()->ring.size != ring.size)
			return 1;
	}
	return 0;
}

/* The child may have the same addresses with other rings. */
Test(region_swap, of_a_forked_child_knows_nothing_of_its_parents_regions)
{
	int status = -1;
	pid_t pid;

	for (unsigned i = 1; i < 4; i++)
		(void)swap();
	pid = fork();
	if (pid == 0)
		_exit(has_rings_of_its_own());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
}

/* The parent's exchange of regions may have been at any step. */
Test(region_swap, is_over_in_a_forked_child)
{
	uint32_t id = sp_names_intern("GET /", 5);
	uint32_t ids[4];
	int status = -1;
	pid_t pid;

	cr_assert(sp_names_announce(sp_channel_now(), id));

	for (unsigned i = 1; i < SP_REGIONS_MAX; i++)
		(void)swap();
	pid = fork();
	if (pid == 0) {
		sp_counters_reset();
		sp_region_swap_forked();
		sp_region_forked();
		cr_assert_eq(sp_channel_now()->ring.word, NULL);
		cr_assert_geq(sp_region_create(sizes), 3);
		cr_assert_eq(mapped(), 1);
		sp_region_swap_first(sp_region_now());
		cr_assert_eq(sp_names_intern("GET /", 5), id);
		cr_assert_neq(sp_names_intern("of the child", 12), id);
		cr_assert(sp_names_announce(sp_channel_now(), id));
		cr_assert_eq(names_told(ids), 1);
		put(sp_channel_now(), SP_RECORD_SAMPLE, 1);
		(void)swap();
		drain(10);
		_exit(seen_n == 1 && sp_count_read(SP_COUNT_SAMPLES_PUT) == 1 ? 0 : 1);
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(status, 0);
}
