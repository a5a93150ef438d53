/* SPDX-License-Identifier: Apache-2.0 */
/* What only this double refuses, and what the server silently does where it is lenient. */
#include <criterion/criterion.h>
#include <string.h>

#include "test/pyroscope/tests/fixture.h"

static const uint64_t stack[] = {3, 2, 1};
static const int64_t value[] = {1, 10000000};

static struct fixture strict;
static struct fixture lenient;

static void setup(void)
{
	fixture_init(&strict, (struct pd_options){0});
	fixture_init(&lenient, (struct pd_options){.lenient = true});
}

static void teardown(void)
{
	fixture_fini(&strict);
	fixture_fini(&lenient);
}

TestSuite(strict, .init = setup, .fini = teardown, .timeout = 20);

/* The strict one refuses what make() makes; the lenient one takes it. */
static void both(void (*make)(struct pb_profile *p), const char *message)
{
	make(&strict.p);
	fixture_refused(&strict, PD_INVALID_ARGUMENT, "strict", message);
	make(&lenient.p);
	cr_expect_eq(fixture_push(&lenient), 0, "%s", lenient.e.message.at);
}

static void with_sample(struct pb_profile *p)
{
	pb_span(p, 1, FIXTURE_SPAN, "GET /", FIXTURE_TRACE);
}

static void key_twice(struct pb_profile *p)
{
	struct pd_text labels = {0};

	with_sample(p);
	pb_label(&labels, pb_new_string(p, "span_id", 7), pb_string(p, FIXTURE_SPAN), 0);
	pb_sample(p, stack, 3, value, 2, &labels);
}

static void mapping_zero(struct pb_profile *p)
{
	with_sample(p);
	pb_mapping(p, 0, 0, true);
}

static void mapping_missing(struct pb_profile *p)
{
	with_sample(p);
	pb_location(p, 9, 0, 1);
}

static void mapping_twice(struct pb_profile *p)
{
	with_sample(p);
	pb_mapping(p, 1, 0, true);
}

static void function_missing(struct pb_profile *p)
{
	with_sample(p);
	pb_location(p, 9, 1, 77);
}

static void location_missing(struct pb_profile *p)
{
	static const uint64_t dangling[] = {77};

	with_sample(p);
	pb_sample(p, dangling, 1, value, 2, NULL);
}

static void location_without_lines(struct pb_profile *p)
{
	with_sample(p);
	pb_location(p, 9, 1, 0);
}

static void comment_out_of_range(struct pb_profile *p)
{
	with_sample(p);
	pb_number(&p->body, 13, 9999);
}

Test(strict, refuses_what_the_server_overlooks)
{
	both(key_twice, "string in the table twice ('span_id')");
	both(mapping_zero, "mapping id is 0");
	both(mapping_missing, "location without an existing mapping (9)");
	both(mapping_twice, "mapping id twice (1)");
	both(function_missing, "location with a missing function (9)");
	both(location_missing, "sample with a missing location (1)");
	both(location_without_lines, "location without lines in a mapping that has functions (9)");
	both(comment_out_of_range, "comment string index out of range");
	cr_expect_eq(strict.d.stats.profiles, 0);
	cr_expect_eq(lenient.d.stats.losses.unresolved_samples, 1);
	cr_expect_eq(lenient.d.stats.losses.unusable_locations, 1);
	cr_expect_eq(lenient.d.stats.losses.locations_without_lines, 1);
}

Test(strict, reports_lineless_locations_of_unsymbolized_mappings)
{
	with_sample(&strict.p);
	pb_mapping(&strict.p, 2, 0, false);
	pb_location(&strict.p, 9, 2, 0);
	fixture_accepted(&strict);
	cr_expect_eq(strict.d.stats.losses.locations_without_lines, 1);
	cr_expect_eq(pd_losses_total(&strict.d.stats.losses), 0);
}

static void without_period_type(struct pb_profile *p, bool zero_sample)
{
	static const int64_t zeros[] = {0, 0};
	struct pd_text unused = pb_finish(p);

	pd_text_fini(&unused);
	pb_string(p, "");
	pb_value_type(p, 1, "samples", "count");
	pb_value_type(p, 1, "cpu", "nanoseconds");
	pb_number(&p->body, 9, (uint64_t)FIXTURE_NOW);
	pb_mapping(p, 1, 0, true);
	for (uint64_t i = 1; i <= 3; i++) {
		pb_function(p, i, pb_string(p, "fn"));
		pb_location(p, i, 1, i);
	}
	with_sample(p);
	if (zero_sample)
		pb_sample(p, stack, 3, zeros, 2, NULL);
}

Test(strict, wants_a_period_type_without_which_the_server_panics)
{
	without_period_type(&strict.p, false);
	fixture_refused(&strict, PD_INVALID_ARGUMENT, "strict", "no period_type");
	without_period_type(&lenient.p, false);
	fixture_accepted(&lenient);
	without_period_type(&lenient.p, true);
	fixture_refused(&lenient, PD_UNKNOWN, "panic", "nil pointer");
}

/* Pushes one sample with one label; the strict double takes it and counts the loss. */
static uint64_t losses_of(const char *key, const char *text, int64_t number)
{
	struct pd_text labels = {0};
	uint64_t before = pd_losses_total(&strict.d.stats.losses);

	pb_label(&labels, pb_string(&strict.p, key), text != NULL ? pb_string(&strict.p, text) : 0,
		 number);
	pb_sample(&strict.p, stack, 3, value, 2, &labels);
	fixture_accepted(&strict);
	return pd_losses_total(&strict.d.stats.losses) - before;
}

Test(strict, counts_labels_that_the_server_drops)
{
	const struct pd_losses *l = &strict.d.stats.losses;

	cr_expect_eq(losses_of("thread_id", NULL, 7), 1);
	cr_expect_eq(l->numeric_labels, 1);
	cr_expect_eq(losses_of("service_name", "other", 0), 1);
	cr_expect_eq(l->shadowed_sample_labels, 1);
	cr_expect_eq(losses_of("span_name", "fine", 0), 0);
}

Test(strict, counts_span_ids_that_are_none)
{
	static const char *const bad[] = {"9a517183f26a089", "9a517183f26a089d0",
					  "9a517183f26a089g", "0000000000000000"};
	const struct pd_losses *l = &strict.d.stats.losses;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_expect_eq(losses_of("span_id", bad[i], 0), 1, "%s", bad[i]);
		cr_expect_eq(strict.d.last->row[0].span_id, 0);
	}
	cr_expect_eq(l->invalid_span_ids, 4);
	cr_expect_eq(losses_of("span_id", "9A517183F26A089D", 0), 0);
	cr_expect_eq(strict.d.last->row[0].span_id, 0x9a517183f26a089d);
	cr_expect_eq(losses_of("trace_id", FIXTURE_SPAN, 0), 1);
	cr_expect_eq(l->invalid_trace_ids, 1);
	cr_expect_eq(losses_of("trace_id", FIXTURE_TRACE, 0), 0);
}

Test(strict, renames_profile_id_and_notes_it)
{
	cr_expect_eq(losses_of("profile_id", FIXTURE_SPAN, 0), 0);
	cr_expect_eq(strict.d.stats.losses.renamed_profile_ids, 1);
	cr_expect_eq(strict.d.last->row[0].span_id, 0x9a517183f26a089d);
}

Test(strict, counts_samples_that_the_server_drops)
{
	static const int64_t zeros[] = {0, 0};
	static const int64_t negative[] = {1, -1};
	const struct pd_losses *l = &strict.d.stats.losses;

	pb_sample(&strict.p, stack, 3, zeros, 2, NULL);
	pb_sample(&strict.p, stack, 3, negative, 2, NULL);
	with_sample(&strict.p);
	fixture_accepted(&strict);
	cr_expect(l->zero_samples == 1 && l->negative_samples == 1);
	cr_expect_eq(strict.d.last->rows, 1);
	pb_sample(&strict.p, stack, 3, zeros, 2, NULL);
	cr_expect_eq(fixture_push(&strict), 0);
	cr_expect_eq(l->empty_profiles, 1);
	cr_expect_eq(strict.d.stats.profiles, 1);
}

Test(strict, merges_equal_samples_but_not_across_spans)
{
	pb_span(&strict.p, 1, FIXTURE_SPAN, "GET /", FIXTURE_TRACE);
	pb_span(&strict.p, 2, FIXTURE_SPAN, "GET /", FIXTURE_TRACE);
	pb_span(&strict.p, 4, "00000000000000ab", "GET /", FIXTURE_TRACE);
	pb_span(&strict.p, 8, NULL, "GET /", NULL);
	fixture_accepted(&strict);
	cr_expect_eq(strict.d.last->rows, 3);
	cr_expect_eq(strict.d.last->series_count, 1);
	cr_expect_eq(strict.d.stats.losses.merged_samples, 1);
	cr_expect_eq(strict.d.last->row[2].value[0], 3, "%ld",
		     (long)strict.d.last->row[2].value[0]);
}
