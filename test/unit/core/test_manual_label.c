/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about manual labels on a thread's span stack. */
#include "sampler/span/manual_label.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "sampler/base/counters.h"
#include "sampler/region/names.h"
#include "sampler/span/span.h"
#include "sampler/thread/thread.h"

static void set_up(void)
{
	cr_assert_eq(sp_span_table_init(), 0);
	cr_assert_eq(sp_names_init(100), 0);
	cr_assert_eq(sp_thread_init(), 0);
}

/* The id on top of the calling thread's stack; 0 if nothing labels it. */
static uint64_t shown(void)
{
	struct sp_span_record r;

	return sp_span_stack_peek(&sp_thread_self()->spans, &r) != SP_SPAN_NONE ? r.span_id : 0;
}

static int push(uint64_t id)
{
	sp_manual_label_enter();
	return sp_manual_label_show(id, 1);
}

static const void *begin(uint64_t id)
{
	struct sp_span_start s;
	const void *handle = (const void *)(uintptr_t)(0x10000 + id * 64);

	memset(&s, 0, sizeof(s));
	s.handle = handle;
	memcpy(s.span_id, &id, sizeof(id));
	s.name = "span";
	s.name_len = 4;
	cr_assert(sp_span_started(&s));
	return handle;
}

static uint64_t root_of(const void *handle)
{
	struct sp_span_record r;

	cr_assert(sp_span_of(handle, &r));
	return r.root_id;
}

TestSuite(manual_label, .timeout = 20, .init = set_up);

Test(manual_label, the_innermost_label_counts)
{
	cr_assert_eq(push(11), 0);
	cr_assert_eq(push(12), 0);

	cr_assert_eq(shown(), 12);
	cr_assert(sp_manual_label_leave());
	cr_assert_eq(shown(), 11);
	cr_assert(sp_manual_label_leave());
	cr_assert_eq(shown(), 0);
	cr_assert_not(sp_manual_label_leave(), "there is nothing to leave");
}

Test(manual_label, a_level_without_a_label_keeps_the_one_below)
{
	(void)push(11);
	sp_manual_label_enter();

	cr_assert(sp_manual_label_leave());
	cr_assert_eq(shown(), 11);
}

Test(manual_label, leaving_ends_no_span)
{
	(void)push(11);
	(void)begin(21);

	cr_assert(sp_manual_label_leave());
	cr_assert_eq(shown(), 21);
	cr_assert_not(sp_manual_label_leave());
	cr_assert_eq(shown(), 21);
}

Test(manual_label, an_ending_span_ends_no_label)
{
	const void *outer = begin(21);

	(void)push(11);
	cr_assert(sp_span_ended(outer));
	cr_assert_eq(shown(), 11);
}

/* A scope may take everything above it along; the label's own pop then finds nothing. */
Test(manual_label, a_label_that_a_scope_took_along_is_not_looked_for_below)
{
	(void)push(11);
	sp_active_span_attached(77, NULL);
	(void)push(12);
	sp_active_span_detached(77, true);

	cr_assert(sp_manual_label_leave());
	cr_assert_eq(shown(), 11);
}

Test(manual_label, is_nobodys_root)
{
	const void *outer = begin(21);

	(void)push(11);
	cr_assert_eq(root_of(begin(22)), root_of(outer));
}

Test(manual_label, without_a_span_around_a_span_is_its_own_root)
{
	(void)push(11);
	cr_assert_eq(root_of(begin(21)), 21);
}

Test(manual_label, leaves_room_for_spans_and_counts_what_was_not_shown)
{
	uint64_t before = sp_count_read(SP_COUNT_SPAN_STACK_FULL);
	unsigned many = 3 * SP_SPAN_DEPTH_MAX;

	for (unsigned i = 0; i < many; i++)
		cr_assert_eq(push(100 + i), i < SP_MANUAL_LABEL_DEPTH_MAX ? 0 : -ENOSPC);
	cr_assert_eq(sp_count_read(SP_COUNT_SPAN_STACK_FULL),
		     before + many - SP_MANUAL_LABEL_DEPTH_MAX);
	(void)begin(21);
	cr_assert_eq(shown(), 21);

	for (unsigned i = 0; i < many; i++)
		cr_assert(sp_manual_label_leave());
	cr_assert_not(sp_manual_label_leave());
	cr_assert_eq(shown(), 21);
}
