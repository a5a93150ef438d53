/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads put samples and intern names while the region is exchanged, as often as possible. A thread plays the
 * exporter of each region and ends in the middle of its work: it does not count some of its last records, and does
 * not send others. In the end all sums are exact, and no sample has the name of another sample.
 */
#include "sampler/sampling/region_swap.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sampler/base/counters.h"
#include "sampler/base/monotonic.h"
#include "sampler/region/names.h"
#include "sampler/region/region.h"
#include "sampler/region/ring.h"
#include "sampler/sampling/handler.h"

#define PRODUCERS 4U
/* New names come all the time, most of them while the region is exchanged. */
#define NAMES 80000U
#define IDS ((1U << 19) + 1) /* slots of the table, and one for none */
#define ROUND_NS (150 * SP_NS_PER_MS)
#define KEPT 7U /* an exporter sends one sample in this many late, and loses it when it ends */

static _Atomic bool stopping;
static _Atomic bool swapping;
static _Atomic unsigned failures;
static _Atomic uint64_t attempts;
static _Atomic uint64_t dropped;
static _Atomic uint32_t next_name;

#define EXPECT(condition)                                                                          \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);                     \
			atomic_fetch_add(&failures, 1);                                            \
		}                                                                                  \
	} while (0)

static uint32_t intern(uint64_t number)
{
	char name[32];

	return sp_names_intern(name, (size_t)snprintf(name, sizeof(name), "name-%lu", number));
}

/* Like the handler, which reads the channel once. */
static void put(enum sp_record_kind kind, const void *record, uint64_t bytes, uint32_t name_id)
{
	struct sp_channel *o = sp_channel_now();

	atomic_fetch_add(&attempts, 1);
	if (sp_names_announce(o, name_id) && sp_ring_put(&o->ring, kind, record, bytes) == 0) {
		sp_channel_count_put(o);
		return;
	}
	atomic_fetch_add(&dropped, 1);
	sp_count(SP_COUNT_DROP_RING_FULL);
}

static bool is_time_for_new_names(void)
{
	uint32_t n = atomic_load(&next_name);

	return n < NAMES && (atomic_load(&swapping) || atomic_load(&attempts) % 16 == 0);
}

static void *produce(void *arg)
{
	struct sp_sample s = {.depth = 3, .tid = (uint32_t)(uintptr_t)arg};
	struct sp_cpu_time t = {.tid = s.tid, .ns = 1};

	while (!atomic_load(&stopping)) {
		s.span_id = is_time_for_new_names() ? atomic_fetch_add(&next_name, 1)
						    : atomic_load(&next_name) / 2;
		s.name_id = intern(s.span_id);
		t.span_id = s.span_id;
		t.name_id = s.name_id;
		sp_count(SP_COUNT_SIGNALS);
		if (s.span_id % 5 == 0)
			put(SP_RECORD_CPU_TIME, &t, sizeof(t), t.name_id);
		else
			put(SP_RECORD_SAMPLE, &s, sp_sample_bytes(s.depth), s.name_id);
		(void)sched_yield();
	}
	return NULL;
}

struct exporter {
	pthread_t thread;
	struct sp_region *region;
	_Atomic bool killed;
	_Atomic bool finished; /* it ended by itself, and has counted all that it took */
	struct sp_ring ring;
	struct sp_ring names;
	uint32_t number[IDS]; /* number of the name + 1, by its id; 0 = not reported */
	unsigned taken;
};

/* Two threads may report the same name at once. */
static void take_names(struct exporter *x)
{
	struct sp_name_record r;
	uint32_t kind;

	while (sp_ring_take(&x->names, &kind, &r, sizeof(r)) != 0) {
		uint32_t number = UINT32_MAX;

		EXPECT(kind == SP_RECORD_NAME && r.head.id < IDS);
		r.text[r.head.len] = '\0';
		if (strcmp(r.text, "(other)") != 0)
			number = 1 + (uint32_t)strtoul(r.text + strlen("name-"), NULL, 10);
		EXPECT(x->number[r.head.id] == 0 || x->number[r.head.id] == number);
		x->number[r.head.id] = number;
	}
}

/*
 * The name was reported before it was used; if another thread has not finished an earlier record, the name's record
 * may not be visible yet.
 */
static void check_name(struct exporter *x, uint32_t name_id, uint64_t span_id)
{
	uint32_t number;

	for (take_names(x); x->number[name_id] == 0; take_names(x))
		(void)sched_yield();
	number = x->number[name_id];
	if (number != span_id + 1 && number != UINT32_MAX) {
		printf("name %u instead of %lu\n", number - 1, span_id);
		atomic_fetch_add(&failures, 1);
	}
}

static void count(const struct exporter *x, enum sp_counter c)
{
	atomic_fetch_add(&x->region->exporter_counter[c], 1);
}

static void take(const struct sp_record *record, void *arg)
{
	bool is_sample = record->kind == SP_RECORD_SAMPLE;
	struct exporter *x = arg;

	if (is_sample)
		check_name(x, record->sample.name_id, record->sample.span_id);
	else
		check_name(x, record->cpu_time.name_id, record->cpu_time.span_id);
	/* Killed after it had taken the record, before it counted. */
	if (atomic_load(&x->killed))
		return;
	count(x, SP_COUNT_SAMPLES_DRAINED);
	if (!is_sample)
		count(x, SP_COUNT_UNSAMPLED_DRAINED);
	else if (x->taken++ % KEPT != 0)
		count(x, SP_COUNT_SAMPLES_SENT);
}

static void *export(void *arg)
{
	struct exporter *x = arg;

	while (!atomic_load(&x->killed) && !atomic_load(&x->finished)) {
		(void)sp_ring_drain(&x->ring, take, x, 50);
		(void)sched_yield();
	}
	(void)sp_ring_drain(&x->ring, take, x, 3);
	return NULL;
}

static void begin(struct exporter *x)
{
	uint64_t bytes;
	void *part;

	memset(x, 0, sizeof(*x));
	x->region = sp_region_now();
	part = sp_region_part(x->region, SP_REGION_RING, &bytes);
	EXPECT(sp_ring_at(&x->ring, part, bytes) == 0);
	part = sp_region_part(x->region, SP_REGION_NAMES, &bytes);
	EXPECT(sp_ring_at(&x->names, part, bytes) == 0);
	if (pthread_create(&x->thread, NULL, export, x) != 0)
		abort();
}

static void kill_exporter(struct exporter *x)
{
	atomic_store(&x->killed, true);
	(void)pthread_join(x->thread, NULL);
}

static void rest(uint64_t ns)
{
	struct timespec ts = {(time_t)(ns / SP_NS_PER_S), (long)(ns % SP_NS_PER_S)};

	(void)nanosleep(&ts, NULL);
}

static uint64_t total(enum sp_counter c)
{
	return sp_count_read(c) + atomic_load(&sp_region_now()->exporter_counter[c]);
}

/* The last exporter lives to the end, and sends then what it has kept. */
static void finish(struct exporter *x)
{
	uint64_t known;

	while (atomic_load(&x->ring.ends->head) != atomic_load(&x->ring.ends->tail))
		(void)sched_yield();
	atomic_store(&x->finished, true);
	(void)pthread_join(x->thread, NULL);
	known = atomic_load(&x->region->exporter_counter[SP_COUNT_SAMPLES_SENT]) +
		atomic_load(&x->region->exporter_counter[SP_COUNT_SAMPLES_UNSENT]) +
		atomic_load(&x->region->exporter_counter[SP_COUNT_UNSAMPLED_DRAINED]);
	atomic_fetch_add(&x->region->exporter_counter[SP_COUNT_SAMPLES_SENT],
			 atomic_load(&x->region->exporter_counter[SP_COUNT_SAMPLES_DRAINED]) -
				 known);
}

static void check_sums(uint64_t lost)
{
	uint64_t put = sp_count_read(SP_COUNT_SAMPLES_PUT);
	uint64_t unsampled = total(SP_COUNT_UNSAMPLED_DRAINED);
	uint64_t accounted = total(SP_COUNT_SAMPLES_SENT) + total(SP_COUNT_SAMPLES_UNSENT);

	printf("%lu put, %lu dropped, %lu drained, %lu sent, %lu lost (%lu with exporters)\n", put,
	       atomic_load(&dropped), total(SP_COUNT_SAMPLES_DRAINED), total(SP_COUNT_SAMPLES_SENT),
	       total(SP_COUNT_SAMPLES_UNSENT), lost);
	EXPECT(put + atomic_load(&dropped) == atomic_load(&attempts));
	EXPECT(sp_count_read(SP_COUNT_SIGNALS) == atomic_load(&attempts));
	EXPECT(sp_count_read(SP_COUNT_DROP_RING_FULL) == atomic_load(&dropped));
	EXPECT(put == total(SP_COUNT_SAMPLES_DRAINED));
	EXPECT(put == accounted + unsampled);
	EXPECT(lost > 0 && lost <= total(SP_COUNT_SAMPLES_UNSENT));
}

int main(void)
{
	const uint64_t bytes[SP_REGION_PARTS] = {SP_RING_BYTES(1 << 18), SP_RING_BYTES(1 << 18),
						 SP_RING_BYTES(1 << 17)};
	static struct exporter exporter;
	pthread_t producer[PRODUCERS];
	uint64_t all_lost = 0;
	struct sp_region_loss lost;
	int fd = sp_region_create(bytes);

	EXPECT(fd >= 0 && close(fd) == 0);
	EXPECT(sp_names_init(NAMES) == 0);
	sp_region_swap_first(sp_region_now());
	begin(&exporter);
	for (uintptr_t i = 0; i < PRODUCERS; i++)
		if (pthread_create(&producer[i], NULL, produce, (void *)(i + 1)) != 0)
			abort();
	for (unsigned n = 1; n < SP_REGIONS_MAX; n++) {
		rest(ROUND_NS);
		kill_exporter(&exporter);
		atomic_store(&swapping, true);
		fd = sp_region_swap(NULL, &lost);
		atomic_store(&swapping, false);
		EXPECT(fd >= 0 && close(fd) == 0);
		all_lost += lost.samples;
		begin(&exporter);
		sp_region_swap_count_late();
	}
	EXPECT(sp_region_swap(NULL, &lost) < 0);
	rest(ROUND_NS);
	atomic_store(&stopping, true);
	for (unsigned i = 0; i < PRODUCERS; i++)
		(void)pthread_join(producer[i], NULL);
	sp_region_swap_count_late();
	finish(&exporter);
	check_sums(all_lost);
	printf("%u names, of which %lu are \"(other)\"\n", atomic_load(&next_name),
	       sp_count_read(SP_COUNT_NAMES_OTHER));
	printf("%u failures\n", atomic_load(&failures));
	return atomic_load(&failures) != 0;
}
