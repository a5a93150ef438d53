/* SPDX-License-Identifier: Apache-2.0 */
/* The labels of samples, and the spans that the handler marks as sampled. */
#include "sampler/sampling/handler.h"

#include "sampled_host.h"
#include "test/common/span_end.h"

static struct sp_span_record span(uint64_t id)
{
	struct sp_span_record r;

	cr_assert(sp_span_of((const void *)(uintptr_t)(id * 64), &r));
	return r;
}

TestSuite(handler_labels, .init = prepare, .timeout = 20);

Test(handler_labels, are_of_the_local_root_by_default)
{
	(void)enrol_without_timer();
	start_span(1);
	start_span(2);
	expire();

	cr_assert_eq(drain(), 1);
	cr_assert_eq(last.span_id, 1);
	cr_assert_eq(last.name_id, span(1).name_id);
	cr_assert_eq(last.trace_id[0], 0x5a);
	cr_assert_eq(last.trace_id[15], 0x5a);
}

Test(handler_labels, are_of_the_active_span_on_request)
{
	config.span_id_scope = SP_SCOPE_ALL;
	config.span_name_scope = SP_SCOPE_ALL;
	prepare();
	(void)enrol_without_timer();
	start_span(1);
	start_span(2);
	expire();

	cr_assert_eq(drain(), 1);
	cr_assert_eq(last.span_id, 2);
	cr_assert_eq(last.name_id, span(2).name_id);
	cr_assert_neq(span(2).name_id, span(1).name_id);
}

Test(handler_labels, that_were_switched_off_are_left_out)
{
	config.span_id_scope = SP_SCOPE_NONE;
	config.span_name_scope = SP_SCOPE_NONE;
	config.trace_id = false;
	prepare();
	(void)enrol_without_timer();
	start_span(1);
	expire();

	cr_assert_eq(drain(), 1);
	cr_assert_eq(last.span_id, 0);
	cr_assert_eq(last.name_id, 0);
	cr_assert_eq(last.trace_id[0], 0);
}

static void end_span(uint64_t id)
{
	struct sp_span_record r = span(id);

	cr_assert(sp_span_close(&r));
	sp_span_table_release(&r);
}

/* Starts spans until the stack is full, and ends all that have a frame. */
static void start_deeper_than_the_stack(void)
{
	prepare();
	(void)enrol_without_timer();
	for (uint64_t id = 1; id <= SP_SPAN_DEPTH_MAX + 1; id++)
		start_span(id);
	for (uint64_t id = SP_SPAN_DEPTH_MAX + 1; id > SP_SPAN_FORGET; id--)
		end_span(id);
	expire();
	cr_assert_eq(drain(), 1);
}

Test(handler_labels, of_what_has_no_frame_any_more_are_the_roots)
{
	start_deeper_than_the_stack();

	cr_assert_eq(last.span_id, 1);
	cr_assert_neq(last.name_id, 0);
	cr_assert_neq(last.trace_id[0], 0);
	cr_assert_eq(sp_count_read(SP_COUNT_SAMPLES_TOO_DEEP), 0, "no loss");
}

Test(handler_labels, of_what_has_no_frame_any_more_are_none_where_each_has_its_own)
{
	config.span_id_scope = SP_SCOPE_ALL;
	config.span_name_scope = SP_SCOPE_ALL;
	start_deeper_than_the_stack();

	cr_assert_eq(last.span_id, 0);
	cr_assert_eq(last.name_id, 0);
	cr_assert_eq(last.trace_id[0], 0);
	cr_assert_eq(sp_count_read(SP_COUNT_SAMPLES_TOO_DEEP), 1);
}

Test(handler_labels, of_what_has_no_frame_any_more_are_no_loss_where_one_of_two_is_wanted)
{
	config.span_id_scope = SP_SCOPE_NONE;
	start_deeper_than_the_stack();

	cr_assert_eq(last.span_id, 0);
	cr_assert_neq(last.name_id, 0);
	cr_assert_eq(sp_count_read(SP_COUNT_SAMPLES_TOO_DEEP), 0);
}

Test(handler_labels, of_what_has_no_frame_any_more_are_none_where_nobody_knows_the_root)
{
	start_deeper_than_the_stack();
	end_span(1);
	expire();
	cr_assert_eq(drain(), 1);
	cr_assert_eq(last.span_id, 0);
	cr_assert_eq(sp_count_read(SP_COUNT_SAMPLES_TOO_DEEP), 1);
	for (uint64_t id = SP_SPAN_FORGET; id > 1; id--)
		end_span(id);
	expire();
	cr_assert_eq(drain(), 1);
	cr_assert_eq(sp_count_read(SP_COUNT_SAMPLES_TOO_DEEP), 1, "nothing is open any more");
}

Test(handler_labels, of_what_has_no_frame_any_more_have_no_name_where_each_has_its_own_name)
{
	config.span_name_scope = SP_SCOPE_ALL;
	start_deeper_than_the_stack();

	cr_assert_eq(last.span_id, 1);
	cr_assert_eq(last.name_id, 0, "that of the last one on the stack is another");
}

static bool has_sample(uint64_t id)
{
	struct sp_span_record r = span(id);

	return sp_span_table_has_sample(&r);
}

Test(handler_labels, mark_the_root_that_its_childrens_samples_carry)
{
	config.attributes = SP_ATTRIBUTES_WITH_SAMPLES;
	prepare();
	(void)enrol_without_timer();
	start_span(1);
	start_span(2);
	cr_assert_not(has_sample(1));
	expire();

	cr_assert(has_sample(1));
	cr_assert_not(has_sample(2), "no sample carries its id");
}

Test(handler_labels, mark_the_span_itself_where_each_has_its_own)
{
	config.attributes = SP_ATTRIBUTES_WITH_SAMPLES;
	config.span_id_scope = SP_SCOPE_ALL;
	prepare();
	(void)enrol_without_timer();
	start_span(1);
	start_span(2);
	expire();

	cr_assert_not(has_sample(1));
	cr_assert(has_sample(2));
}

static void *sampled_child(void *arg)
{
	const uint64_t parent = 1;
	const uint64_t id = 2;
	struct sp_span_start s = {
		.handle = arg, .has_parent = true, .name = "child", .name_len = 5};

	memcpy(s.span_id, &id, sizeof(id));
	memcpy(s.parent_id, &parent, sizeof(parent));
	(void)enrol_without_timer();
	cr_assert(sp_span_started(&s));
	expire();
	return NULL;
}

Test(handler_labels, mark_the_root_from_another_thread)
{
	static char object;
	pthread_t thread;

	config.attributes = SP_ATTRIBUTES_WITH_SAMPLES;
	prepare();
	(void)enrol_without_timer();
	start_span(1);
	cr_assert_eq(pthread_create(&thread, NULL, sampled_child, &object), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);

	cr_assert(has_sample(1));
}

Test(handler_labels, of_a_lost_sample_mark_no_span)
{
	config.attributes = SP_ATTRIBUTES_WITH_SAMPLES;
	prepare();
	(void)enrol_without_timer();
	while (sp_count_read(SP_COUNT_DROP_RING_FULL) == 0)
		expire();
	start_span(1);
	expire();
	cr_assert_not(has_sample(1));
	(void)drain();
	expire();

	cr_assert(has_sample(1));
}

Test(handler_labels, are_none_after_the_end)
{
	(void)enrol_without_timer();
	start_span(1);
	cr_assert(span_ended((const void *)(uintptr_t)64));
	expire();

	cr_assert_eq(drain(), 1);
	cr_assert_eq(last.span_id, 0);
	cr_assert_eq(last.trace_id[0], 0);
}
