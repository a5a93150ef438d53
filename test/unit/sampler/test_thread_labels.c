/* SPDX-License-Identifier: Apache-2.0 */
/* The labels that threads show the exporter: in order, the newest of them, and never half of one. */
#include "sampler/region/thread_labels.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

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
		.span_id = span_id, .trace = {span_id, span_id}, .name_id = span_id};

	sp_thread_labels_put(&who, &label);
}

static void look(uint32_t block)
{
	sp_thread_labels_copy(&part->thread[block], &copy);
}

Test(thread_labels, are_shown_with_their_times)
{
	put(1, 100, 5);
	put(1, 100, 6);
	look(1);
	cr_expect_eq(part->used, 2);
	cr_expect_eq(copy.tid, 100);
	cr_expect_eq(copy.cpu_ns, 1000);
	cr_assert_eq(copy.labels, 2);
	cr_expect_eq(copy.label[0].span_id, 5);
	cr_expect_eq(copy.label[1].name_id, 6);
	cr_expect_leq(copy.label[0].since_ns, copy.label[1].since_ns);
	cr_expect_gt(copy.label[0].since_ns, 0);
}

Test(thread_labels, that_go_on_are_not_repeated)
{
	put(1, 100, 5);
	put(1, 100, 5);
	look(1);
	cr_expect_eq(copy.labels, 1);
	/* but one that another thread has ended begins anew */
	sp_thread_labels_strike(1);
	look(1);
	cr_expect_geq(copy.struck_ns, copy.label[0].since_ns);
	put(1, 100, 5);
	look(1);
	cr_expect_eq(copy.labels, 2);
}

Test(thread_labels, of_which_the_last_are_kept)
{
	for (uint64_t id = 1; id <= 40; id++)
		put(0, 100, id);
	look(0);
	cr_expect_eq(copy.n, 40);
	cr_assert_eq(copy.labels, SP_THREAD_LABELS_KEPT - 1);
	cr_expect_eq(copy.first, 40 - copy.labels);
	for (uint32_t i = 0; i < copy.labels; i++)
		cr_expect_eq(copy.label[i].span_id, copy.first + i + 1);
}

Test(thread_labels, of_another_thread_in_that_place_are_not_its_own)
{
	put(2, 100, 5);
	sp_thread_labels_end(2);
	look(2);
	cr_expect_eq(copy.tid, 0);
	cr_expect_gt(copy.struck_ns, 0);
	put(2, 101, 6);
	look(2);
	cr_expect_eq(copy.tid, 101);
	cr_assert_eq(copy.labels, 1);
	cr_expect_eq(copy.label[0].span_id, 6);
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

Test(thread_labels, come_with_what_the_exporter_tells)
{
	struct sp_thread_waited in = {.part = 7, .last = SP_WAITED_IO};
	struct sp_thread_waited out;

	cr_expect_not(sp_thread_labels_waited(1, 7, &out));
	in.ns[SP_WAITED_IO] = 50;
	sp_thread_labels_tell(&part->thread[1], &in);
	cr_expect_not(sp_thread_labels_waited(1, 6, &out));
	cr_expect_not(sp_thread_labels_waited(2, 7, &out));
	cr_assert(sp_thread_labels_waited(1, 7, &out));
	cr_expect_eq(memcmp(&in, &out, sizeof(in)), 0);
	/* nobody is in part 0 */
	cr_expect_not(sp_thread_labels_waited(0, 0, &out));
	sp_thread_labels_use(NULL, 0);
	cr_expect_not(sp_thread_labels_waited(1, 7, &out));
}

Test(thread_labels, come_with_the_span_that_has_a_wait)
{
	cr_expect_eq(sp_thread_labels_take_note(1), 0);
	sp_thread_labels_note_wait(&part->thread[1], 4711);
	cr_expect_eq(sp_thread_labels_take_note(2), 0);
	cr_expect_eq(sp_thread_labels_take_note(1), 4711);
	cr_expect_eq(sp_thread_labels_take_note(1), 0, "it is taken");
	cr_expect_eq(sp_thread_labels_take_note(PLACES), 0);
	sp_thread_labels_note_wait(&part->thread[1], 4711);
	sp_thread_labels_use(NULL, 0);
	cr_expect_eq(sp_thread_labels_take_note(1), 0);
}

static void *tell_many(void *arg)
{
	struct sp_thread_waited w = {.part = 0};

	for (uint64_t n = 1; n <= 2000000; n++) {
		w.part = (uint32_t)n;
		for (unsigned i = 0; i < SP_WAITED_N; i++)
			w.ns[i] = n;
		sp_thread_labels_tell(&part->thread[0], &w);
	}
	return arg;
}

Test(thread_labels, are_never_told_what_is_of_another_part)
{
	struct sp_thread_waited w = {.part = 0};
	pthread_t thread;
	unsigned seen = 0;

	cr_assert_eq(pthread_create(&thread, NULL, tell_many, NULL), 0);
	while (w.part < 2000000) {
		uint32_t now = atomic_load(&part->thread[0].waited_part);

		if (now == 0 || !sp_thread_labels_waited(0, now, &w))
			continue;
		seen++;
		for (unsigned i = 0; i < SP_WAITED_N; i++)
			cr_assert_eq(w.ns[i], now);
	}
	cr_expect_gt(seen, 0);
	pthread_join(thread, NULL);
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

	cr_assert_eq(pthread_create(&thread, NULL, write_many, NULL), 0);
	for (unsigned i = 0; i < 50000; i++) {
		look(0);
		cr_assert_lt(copy.labels, SP_THREAD_LABELS_KEPT);
		for (uint32_t k = 0; k < copy.labels; k++) {
			const struct sp_thread_label *l = &copy.label[k];

			cr_assert_eq(l->span_id, (uint64_t)copy.first + k + 1);
			cr_assert_eq(l->trace[0], l->span_id);
			cr_assert_eq(l->trace[1], l->span_id);
			cr_assert_eq(l->name_id, l->span_id);
		}
	}
	stop = true;
	pthread_join(thread, NULL);
}

Test(thread_labels, copies_of_anything_are_bounded)
{
	unsigned seed = 3;

	for (unsigned i = 0; i < 5000; i++) {
		unsigned char *at = (unsigned char *)&part->thread[0];

		for (size_t n = 0; n < sizeof(part->thread[0]); n++)
			at[n] = (unsigned char)rand_r(&seed);
		look(0);
		cr_assert_lt(copy.labels, SP_THREAD_LABELS_KEPT);
		cr_assert_eq(copy.first + copy.labels, copy.n);
	}
}
