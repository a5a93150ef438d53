/* SPDX-License-Identifier: Apache-2.0 */
/* Waits that the exporter has put into a profile, and the spans that have one then. */
#include "sampler/span/shown_label.h"

#include <stdlib.h>

#include "sampler/region/thread_labels.h"
#include "span_host.h"

#define PLACES 64U

static struct sp_thread_labels_part *part;

static void start(void)
{
	set_up();
	part = calloc(1, SP_THREAD_LABELS_BYTES(PLACES));
	sp_thread_labels_use(part, SP_THREAD_LABELS_BYTES(PLACES));
	sp_shown_label_notes_waits = true;
}

TestSuite(shown_label, .init = start, .timeout = 20);

/* As the exporter does, of the calling thread. */
static void put_wait(uint64_t id)
{
	sp_thread_labels_note_wait(&part->thread[sp_thread_own->index], id);
}

/* What was closed and not released, as between the two steps of an end. */
static struct sp_span_record closed[10];

static bool has_wait(uint64_t id)
{
	struct sp_span_record r = closed[id];

	if (r.span_id == 0)
		cr_assert(sp_span_of(handle_of(id), &r));
	return sp_span_table_has_wait(&r) && !sp_span_table_has_sample(&r);
}

static void close_span(uint64_t id)
{
	cr_assert(sp_span_of(handle_of(id), &closed[id]));
	cr_assert(sp_span_close(&closed[id]));
}

Test(shown_label, of_a_span_that_waits_is_noted_when_it_ends)
{
	cr_assert(begin(1));
	put_wait(1);
	close_span(1);
	cr_expect(has_wait(1));
}

Test(shown_label, of_a_span_that_waits_is_noted_when_another_begins)
{
	cr_assert(begin(1));
	put_wait(1);
	cr_assert(begin(2));
	put_wait(2);
	cr_assert(begin(3));
	cr_expect(has_wait(1));
	cr_expect(has_wait(2));
	cr_expect_not(has_wait(3));
}

static void *close_first(void *arg)
{
	close_span(1);
	return arg;
}

Test(shown_label, of_a_span_that_waits_is_noted_where_another_thread_ends_it)
{
	cr_assert(begin(1));
	put_wait(1);
	run(close_first);
	cr_expect(has_wait(1));
}

/* It has ended meanwhile, or was never there: the exporter may be any program that has the memory. */
Test(shown_label, of_a_span_that_is_not_open_is_not_noted)
{
	cr_assert(begin(1));
	cr_assert(end(1));
	cr_assert(begin(2));
	put_wait(1);
	cr_assert(begin(3));
	put_wait(UINT64_MAX);
	close_span(3);
	close_span(2);
	cr_expect_not(has_wait(2));
	cr_expect_not(has_wait(3));
}

Test(shown_label, is_not_noted_where_nobody_asks_for_it)
{
	sp_shown_label_notes_waits = false;
	cr_assert(begin(1));
	put_wait(1);
	close_span(1);
	cr_expect_not(has_wait(1));
}
