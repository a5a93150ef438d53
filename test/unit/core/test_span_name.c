/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about the names of spans that are renamed. */
#include "sampler/span/span.h"

#include <criterion/criterion.h>

#include "test/unit/core/span_host.h"

TestSuite(span_name, .init = set_up, .timeout = 20);

Test(span_name, shows_the_name_it_was_given_last)
{
	struct sp_span_record r;

	begin(1);
	rename_to(1, "first");
	cr_assert(shows("first", "first"));
	rename_to(1, "second");
	cr_assert(shows("second", "second"));

	cr_assert(sp_span_of(handle_of(1), &r));
	cr_assert_eq(r.name_id, sp_names_intern("second", 6));
	cr_assert_eq(r.root_name_id, r.name_id);
}

Test(span_name, a_renamed_root_renames_its_children_and_not_the_reverse)
{
	begin(1);
	begin(2);
	rename_to(1, "root");
	rename_to(2, "child");
	cr_assert(shows("child", "root"));
	rename_to(1, "other root");
	cr_assert(shows("child", "other root"));

	begin(3);
	rename_to(3, "grandchild");
	cr_assert(shows("grandchild", "other root"), "also where it was renamed before the start");
	end(3);
	end(2);
	cr_assert(shows("other root", "other root"));
}

static void *rename_1_and_2(void *arg)
{
	(void)arg;
	rename_to(1, "elsewhere");
	rename_to(2, "child");
	return NULL;
}

Test(span_name, renamed_on_another_thread_shows_it_on_its_own)
{
	begin(1);
	begin(2);

	run(rename_1_and_2);

	cr_assert(shows("child", "elsewhere"));
}

Test(span_name, keeps_its_roots_last_name_only_while_the_root_is_open)
{
	struct sp_span_record e;

	begin(1);
	begin(2);
	end(1);

	cr_assert_not(sp_span_renamed(handle_of(1), "late", 4));
	cr_assert_eq(sp_span_stack_peek(&sp_thread_own->spans, &e), SP_SPAN_KNOWN);
	cr_assert_eq(e.root_id, 1);
	cr_assert_not(shows("late", "late"));
}
