/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples of allocations, and the records that tell the exporter that a span with such samples has ended, or that a
 * block was freed.
 */
#include <string.h>

#include "sampler/base/counters.h"
#include "sampler/region/ring.h"
#include "sampler/sampling/allocation.h"
#include "sampler/sampling/handler.h"
#include "sampler/span/span_values.h"
#include "span_host.h"

#define RING 16384

static _Alignas(4096) char memory[SP_RING_BYTES(RING)];
static _Alignas(4096) char names[SP_RING_BYTES(RING)];
static struct sp_channel channel = {.number = 1};
static struct sp_ring consumer;

static void start(void)
{
	set_up();
	sp_allocation_init(1);
	sp_active_span_label_scopes =
		(struct sp_active_span_label_scopes){.id = SP_SCOPE_ALL, .name = SP_SCOPE_ALL};
	cr_assert_eq(sp_ring_at(&channel.ring, memory, sizeof(memory)), 0);
	cr_assert_eq(sp_ring_at(&channel.names, names, sizeof(names)), 0);
	cr_assert_eq(sp_ring_at(&consumer, memory, sizeof(memory)), 0);
	atomic_store(&sp_channel_open, &channel);
}

TestSuite(span_ends, .init = start, .timeout = 20);

static uint64_t seen[RING / 8];
static uint32_t kind[RING / 8];
static unsigned n;

static void keep(const struct sp_record *record, void *arg)
{
	(void)arg;
	if (record->kind == SP_RECORD_MODULE_EVENT)
		return;
	kind[n] = record->kind;
	seen[n++] = record->kind == SP_RECORD_SAMPLE ? record->sample.block : record->word;
}

/* Whether there is exactly one such record. */
static bool has(uint32_t what, uint64_t word)
{
	unsigned found = 0;

	for (unsigned i = 0; i < n; i++)
		found += kind[i] == what && seen[i] == word;
	return found == 1;
}

static void drain(void)
{
	n = 0;
	while (sp_ring_drain(&consumer, keep, NULL, 16) != 0)
		;
	cr_assert_eq(consumer.damaged, 0);
}

static bool allocate(uint64_t block)
{
	const struct sp_allocation_caller caller = {(uintptr_t)__builtin_return_address(0),
						    (uintptr_t)__builtin_frame_address(0),
						    (uintptr_t)__builtin_frame_address(0)};

	return sp_allocation_sample(sp_thread_self(), 1000, block, &caller);
}

static void finish(uint64_t id)
{
	struct sp_span_record r;

	cr_assert(sp_span_of(handle_of(id), &r));
	cr_assert(sp_span_close(&r));
	sp_span_report_end(&r);
	sp_span_table_release(&r);
}

Test(span_ends, are_told_of_spans_with_a_sampled_allocation)
{
	cr_assert(begin(1));
	cr_assert(begin_under(2, 1));
	allocate(77);
	finish(2);
	finish(1);
	drain();

	cr_expect_eq(n, 2);
	cr_expect(has(SP_RECORD_SAMPLE, 77));
	cr_expect(has(SP_RECORD_SPAN_ENDED, 2));
}

/* The exporter has samples of such roots too, to which the values belong. */
Test(span_ends, values_of_a_root_go_where_an_allocation_has_a_sample)
{
	struct sp_span_record r;

	cr_assert_eq(sp_span_values_init("n", false), 0);
	sp_active_span_label_scopes.root = true;
	for (uint64_t id = 1; id <= 2; id++) {
		cr_assert(begin(id));
		cr_assert(sp_span_of(handle_of(id), &r));
		sp_span_values_set(&r, 0, SP_SPAN_VALUE_TEXT, "x", 1);
		if (id == 1)
			allocate(77);
		cr_assert(sp_span_close(&r));
		sp_span_values_end(&r);
		sp_span_table_release(&r);
	}
	drain();

	cr_expect_eq(n, 2);
	cr_expect_eq(kind[0], SP_RECORD_SAMPLE);
	cr_expect_eq(kind[1], SP_RECORD_SPAN_VALUES);
}

/* The span's end was missed, or the span is too old: then no attributes are read. */
Test(span_ends, are_told_of_spans_that_are_given_up)
{
	struct sp_span_record r;

	cr_assert(begin(1));
	allocate(1);
	cr_assert(end(1));
	cr_assert(begin(2));
	allocate(2);
	cr_assert(sp_span_of(handle_of(2), &r));
	cr_assert(sp_span_aged(&r));
	drain();

	cr_expect(has(SP_RECORD_SPAN_ENDED, 1));
	cr_expect(has(SP_RECORD_SPAN_ENDED, 2));
}

Test(span_ends, are_told_of_manual_labels)
{
	sp_manual_label_enter();
	cr_assert_eq(sp_manual_label_show(5, 0), 0);
	allocate(1);
	sp_manual_label_enter();
	cr_assert_eq(sp_manual_label_show(6, 0), 0);
	cr_assert(sp_manual_label_exit());
	drain();
	cr_expect_eq(n, 1, "the inner one has none, and the outer one is there");
	cr_assert(sp_manual_label_exit());
	drain();
	cr_expect_eq(n, 1);
	cr_expect(has(SP_RECORD_SPAN_ENDED, 5));
}

static void show_label_with_sample(uint64_t id)
{
	sp_manual_label_enter();
	cr_assert_eq(sp_manual_label_show(id, 0), 0);
	allocate(id);
}

static void expect_an_end(uint64_t id)
{
	drain();
	cr_expect_eq(n, 1);
	cr_expect(has(SP_RECORD_SPAN_ENDED, id));
}

Test(span_ends, are_told_of_each_of_manual_labels_that_nest)
{
	show_label_with_sample(5);
	sp_manual_label_enter();
	show_label_with_sample(6);
	drain();
	cr_assert(sp_manual_label_exit());
	expect_an_end(6);
	cr_assert(sp_manual_label_exit());
	drain();
	cr_expect_eq(n, 0, "a level without a label");
	show_label_with_sample(7);
	drain();
	cr_assert(sp_manual_label_exit());
	expect_an_end(7);
	cr_assert(sp_manual_label_exit());
	expect_an_end(5);
	sp_manual_label_enter();
	cr_assert_eq(sp_manual_label_show(8, 0), 0);
	cr_assert(sp_manual_label_exit());
	drain();
	cr_expect_eq(n, 0, "the next one on that level has no sample");
}

/* The end of a scope removes all labels above it. */
Test(span_ends, are_told_of_a_manual_label_that_went_with_a_scope)
{
	sp_active_span_attach(32, 1);
	show_label_with_sample(5);
	sp_active_span_detached(32, true);
	drain();
	cr_assert(sp_manual_label_exit());
	expect_an_end(5);
}

Test(span_ends, are_told_of_the_label_around_a_span_with_samples_of_its_own)
{
	show_label_with_sample(5);
	cr_assert(begin(1));
	allocate(77);
	drain();
	cr_assert(sp_manual_label_exit());
	expect_an_end(5);
}

/* A child that goes on has the label of its root. */
Test(span_ends, are_told_behind_a_sample_that_comes_later)
{
	sp_active_span_label_scopes.id = SP_SCOPE_ROOT;
	cr_assert(begin(1));
	cr_assert(begin_under(2, 1));
	cr_assert(end(1));
	allocate(77);
	drain();

	cr_expect_eq(n, 2);
	cr_expect_eq(kind[0], SP_RECORD_SAMPLE);
	cr_expect(has(SP_RECORD_SPAN_ENDED, 1));
}

static _Atomic uint64_t blocks;

/* Fills the ring with samples. Returns the number of blocks, which are numbered from 1. */
static uint64_t fill(void)
{
	atomic_store(&sp_ring_blocks, &blocks);
	do
		blocks++;
	while (allocate(blocks));
	return --blocks;
}

static void free_all(void)
{
	for (; blocks != 0; blocks--)
		sp_allocation_freed(blocks);
}

Test(span_ends, leave_a_quarter_of_the_ring_to_samples_of_cpu_time)
{
	struct sp_sample s = {.weight = 1};
	uint64_t bytes = 0;

	cr_assert(begin(1));
	(void)fill();
	cr_expect_eq(sp_count_read(SP_COUNT_DROP_ALLOCATIONS), 1);
	while (sp_ring_put(&channel.ring, SP_RECORD_SAMPLE, &s, sp_sample_bytes(0)) == 0)
		bytes += sizeof(uint64_t) + sp_sample_bytes(0);
	cr_expect_gt(bytes, channel.ring.size / 5);
	cr_expect_leq(bytes, channel.ring.size / 4);
}

Test(span_ends, that_find_no_room_are_counted)
{
	uint64_t put;

	cr_assert(begin(1));
	put = fill();
	while (sp_ring_put(&channel.ring, SP_RECORD_SPAN_ENDED, &put, sizeof(put)) == 0)
		;
	finish(1);
	cr_expect_eq(sp_count_read(SP_COUNT_DROP_SPAN_ENDS), 1);
	cr_expect_eq(sp_count_read(SP_COUNT_DROP_RING_FULL), 1);
	cr_expect_eq(sp_count_read(SP_COUNT_SAMPLES_PUT), put);
}

/* At any offset in the ring, also if the record of a freed block has to wrap around its end. */
Test(span_ends, all_blocks_in_a_full_ring_can_be_told)
{
	uint64_t put;

	cr_assert(begin(1));
	for (unsigned i = 0; i < 200; i++) {
		put = fill();
		cr_assert_gt(put, 50);
		free_all();
		drain();
		cr_assert_eq(n, 2 * put);
		for (uint64_t block = 1; block <= put; block++)
			cr_assert(has(SP_RECORD_FREED, block));
		sp_allocation_freed(0);
		drain();
	}
	cr_expect_eq(sp_count_read(SP_COUNT_DROP_FREED), 0);
	cr_expect_eq(sp_count_read(SP_COUNT_SAMPLES_PUT) + 200, sp_count_read(SP_COUNT_FREED));
}

/* More blocks are freed than there is room for: put = drained + dropped. */
Test(span_ends, blocks_that_find_no_room_are_counted)
{
	uint64_t freed;
	uint64_t put;

	put = fill();
	freed = 10 * put;
	for (uint64_t block = 1; block <= freed; block++)
		sp_allocation_freed(block);
	drain();
	cr_expect_eq(sp_count_read(SP_COUNT_FREED), freed);
	cr_expect_geq(n, 2 * put);
	cr_expect_eq(n - put + sp_count_read(SP_COUNT_DROP_FREED), freed);
}

Test(span_ends, a_block_that_nobody_follows_is_counted)
{
	cr_assert(begin(1));
	allocate(0);
	cr_expect_eq(sp_count_read(SP_COUNT_BLOCKS_NO_ROOM), 1);
	drain();
	cr_expect(has(SP_RECORD_SAMPLE, 0));
}
