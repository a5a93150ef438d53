/* SPDX-License-Identifier: Apache-2.0 */
/* The labels that threads show the exporter: in order, the newest one, and never half of one. */
#include "sampler/region/thread_labels.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/base/monotonic.h"

#define PLACES 4U

static struct sp_thread_labels_part *part;
static struct sp_thread_labels_copy copy;

static void start(void)
{
	part = calloc(1, SP_THREAD_LABELS_BYTES(PLACES));
	sp_thread_labels_use(part, SP_THREAD_LABELS_BYTES(PLACES));
}

static void end(void)
{
	sp_thread_labels_use(NULL, 0);
	free(part);
}

TestSuite(thread_labels, .init = start, .fini = end, .timeout = 30);

static void put(uint32_t block, uint32_t tid, uint64_t span_id)
{
	const struct sp_thread_labels_owner who = {.block = block, .tid = tid, .cpu_ns = tid * 10};
	struct sp_thread_label label = {
		.span_id = span_id,
		.trace = {span_id, span_id},
		.root_id = span_id,
		.name_id = (uint32_t)span_id,
	};

	sp_thread_labels_put(&who, &label);
}

static bool look(uint32_t block)
{
	return sp_thread_labels_copy(&part->thread[block], &copy);
}

Test(thread_labels, are_shown_as_they_are_now)
{
	uint64_t now = sp_monotonic_ns();

	put(1, 100, 5);
	put(1, 100, 6);
	cr_assert(look(1));
	cr_expect_eq(part->used, 2);
	cr_expect_eq(copy.tid, 100);
	cr_expect_geq(copy.off_ns + 1000, now);
	cr_expect_lt(copy.off_ns + 1000, now + SP_NS_PER_S);
	cr_expect_eq(copy.label.span_id, 6);
	cr_expect_eq(copy.label.name_id, 6);
}

Test(thread_labels, that_go_on_are_not_written_again)
{
	uint32_t n;

	put(1, 100, 5);
	cr_assert(look(1));
	n = copy.n;
	put(1, 100, 5);
	cr_assert(look(1));
	cr_expect_eq(copy.n, n);
	/* but one whose span another thread has ended does not count, and begins anew */
	sp_thread_labels_strike(1);
	cr_assert(look(1));
	cr_expect_eq(copy.label.span_id, 0);
	cr_expect_eq(copy.label.name_id, 0);
	cr_expect_eq(copy.label.trace[0], 0);
	put(1, 100, 5);
	cr_assert(look(1));
	cr_expect_neq(copy.n, n);
	cr_expect_eq(copy.label.span_id, 5);
}

Test(thread_labels, that_are_being_written_are_not_read)
{
	put(1, 100, 5);
	part->thread[1].n++;
	cr_expect_not(look(1));
	/* another thread has ended the span meanwhile */
	sp_thread_labels_strike(1);
	part->thread[1].n++;
	cr_assert(look(1));
	cr_expect_eq(copy.label.span_id, 0);
	/* A forked child may have the copy of a label that was being written. */
	part->thread[1].n++;
	put(1, 100, 7);
	cr_assert(look(1));
	cr_expect_eq(copy.label.span_id, 7);
}

Test(thread_labels, of_a_name_alone_are_labels)
{
	const struct sp_thread_labels_owner who = {.block = 1, .tid = 100};
	struct sp_thread_label label = {.name_id = 3};

	sp_thread_labels_put(&who, &label);
	cr_assert(look(1));
	cr_expect_eq(copy.label.name_id, 3);
	/* A trace alone is no label. */
	label = (struct sp_thread_label){.trace = {1, 2}};
	sp_thread_labels_put(&who, &label);
	cr_assert(look(1));
	cr_expect_eq(copy.label.trace[1], 0);
}

Test(thread_labels, of_another_thread_in_that_place_are_not_its_own)
{
	uint64_t off_ns;

	put(2, 100, 5);
	cr_assert(look(2));
	off_ns = copy.off_ns;
	sp_thread_labels_end(2);
	cr_assert(look(2));
	cr_expect_eq(copy.tid, 0);
	cr_expect_eq(copy.label.span_id, 0);
	put(2, 101, 5);
	cr_assert(look(2));
	cr_expect_eq(copy.tid, 101);
	cr_expect_eq(copy.label.span_id, 5);
	cr_expect_gt(copy.off_ns + 10, off_ns);
	cr_expect_neq(copy.off_ns, off_ns);
}

Test(thread_labels, without_a_place_are_not_shown)
{
	put(PLACES, 100, 5);
	sp_thread_labels_strike(PLACES);
	sp_thread_labels_end(PLACES);
	cr_expect_eq(part->used, 0);
	sp_thread_labels_use(NULL, 0);
	put(0, 100, 5);
	sp_thread_labels_strike(0);
	sp_thread_labels_end(0);
	cr_expect_eq(part->used, 0);
	cr_expect_null(sp_thread_labels_now());
}

Test(thread_labels, come_with_the_span_that_has_a_wait)
{
	cr_expect_eq(sp_thread_labels_take_wait(1), 0);
	sp_thread_labels_put_wait(&part->thread[1], 4711);
	cr_expect_eq(sp_thread_labels_take_wait(2), 0);
	cr_expect_eq(sp_thread_labels_take_wait(1), 4711);
	cr_expect_eq(sp_thread_labels_take_wait(1), 0, "it is taken");
	cr_expect_eq(sp_thread_labels_take_wait(PLACES), 0);
	sp_thread_labels_put_wait(&part->thread[1], 4711);
	sp_thread_labels_use(NULL, 0);
	cr_expect_eq(sp_thread_labels_take_wait(1), 0);
}

static _Atomic bool stop;

static void *write_many(void *arg)
{
	for (uint64_t id = 1; !stop; id++)
		put(0, 100, id);
	return arg;
}

Test(thread_labels, are_never_half_of_one)
{
	pthread_t thread;
	unsigned whole = 0;

	put(0, 100, 1);
	cr_assert_eq(pthread_create(&thread, NULL, write_many, NULL), 0);
	while (whole < 50000) {
		if (!look(0))
			continue;
		whole++;
		cr_assert_eq(copy.label.trace[0], copy.label.span_id);
		cr_assert_eq(copy.label.trace[1], copy.label.span_id);
		cr_assert_eq(copy.label.root_id, copy.label.span_id);
		cr_assert_eq(copy.label.name_id, copy.label.span_id);
	}
	stop = true;
	pthread_join(thread, NULL);
}
