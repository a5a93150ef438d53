/* SPDX-License-Identifier: Apache-2.0 */
/* Each limit and structural rule of the server: the bad profile refused, its neighbour taken. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "test/pyroscope/tests/fixture.h"

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

static const uint64_t stack[] = {3, 2, 1};
static const int64_t value[] = {1, 10000000};

static struct fixture f;

static void setup(void)
{
	fixture_init(&f, (struct pd_options){0});
}

static void teardown(void)
{
	fixture_fini(&f);
}

TestSuite(validate, .init = setup, .fini = teardown, .timeout = 60);

static void good_sample(void)
{
	pb_span(&f.p, 1, FIXTURE_SPAN, "GET /", FIXTURE_TRACE);
}

static void restart(int64_t time_nanos)
{
	struct pd_text unused = pb_finish(&f.p);

	pd_text_fini(&unused);
	pb_start(&f.p, time_nanos);
}

static void refused(const char *message)
{
	fixture_refused(&f, PD_INVALID_ARGUMENT, "malformed_profile", message);
}

Test(validate, takes_a_good_profile_and_drops_nothing)
{
	good_sample();
	fixture_accepted(&f);
	cr_expect_eq(pd_losses_total(&f.d.stats.losses), 0);
	cr_expect_eq(f.d.stats.samples, 1);
}

Test(validate, refuses_what_is_no_pprof_with_500)
{
	struct pd_text empty = pb_finish(&f.p);

	pd_text_fini(&empty);
	pd_text_adds(&f.p.body, "no pprof");
	fixture_refused(&f, PD_UNKNOWN, "undecodable", "not a pprof");
	empty = pb_finish(&f.p);
	pd_text_fini(&empty);
	pd_text_adds(&f.p.body, "\x1f\x8b\x08 not gzip");
	fixture_refused(&f, PD_UNKNOWN, "undecodable", "gzip");
}

Test(validate, takes_16000_samples_and_no_more)
{
	for (size_t n = 15999; n <= 16001; n++) {
		for (size_t i = 0; i < n; i++)
			pb_sample(&f.p, stack, 3, value, 2, NULL);
		if (n <= 16000)
			fixture_accepted(&f);
		else
			fixture_refused(&f, PD_INVALID_ARGUMENT, "samples_limit",
					"(max_profile_stacktrace_samples, actual: 16001, "
					"limit: 16000)");
	}
	cr_expect_eq(f.d.stats.losses.merged_samples, 15998 + 15999);
}

Test(validate, takes_100_labels_on_a_sample_and_no_more)
{
	for (size_t n = 99; n <= 101; n++) {
		struct pd_text labels = {0};
		int64_t span = pb_string(&f.p, "span_id");
		int64_t id = pb_string(&f.p, FIXTURE_SPAN);

		/* The same one: more than 30 different names would be refused for that. */
		for (size_t i = 0; i < n; i++)
			pb_label(&labels, span, id, 0);
		pb_sample(&f.p, stack, 3, value, 2, &labels);
		if (n <= 100)
			fixture_accepted(&f);
		else
			fixture_refused(&f, PD_INVALID_ARGUMENT, "sample_labels_limit",
					"(max_profile_stacktrace_sample_labels, actual: 101, "
					"limit: 100)");
	}
	cr_expect_eq(f.d.stats.losses.repeated_sample_labels, 98 + 99);
}

/* A good profile with an unknown field that fills it up to bytes, or at most two less. */
static void make_of_size(size_t bytes)
{
	size_t room;
	char *filler;

	good_sample();
	/* Tag and length of the field take five or six bytes. */
	room = bytes - f.p.body.len - f.p.strings.len - 6;
	filler = calloc(1, room);
	pb_bytes(&f.p.body, 100, filler, room);
	free(filler);
}

Test(validate, takes_2_mib_at_once_and_no_more)
{
	make_of_size((2U << 20) - 100);
	fixture_accepted(&f);
	make_of_size((2U << 20) + 2);
	fixture_refused(&f, PD_RESOURCE_EXHAUSTED, "rate_limited",
			"push rate limit (4.0 MiB) exceeded while adding 2.0 MiB");
	make_of_size((4U << 20) - 100);
	fixture_refused(&f, PD_RESOURCE_EXHAUSTED, "rate_limited", "adding 4.0 MiB");
}

Test(validate, the_burst_is_exact)
{
	const size_t labels = sizeof("__name__process_cpuservice_namesvc") - 1;

	good_sample();
	f.d.limits.burst_bytes = f.p.body.len + f.p.strings.len + labels;
	fixture_accepted(&f);
	good_sample();
	f.d.limits.burst_bytes--;
	fixture_refused(&f, PD_RESOURCE_EXHAUSTED, "rate_limited", "push rate limit");
}

Test(validate, the_size_is_exact_plain_and_gzipped)
{
	good_sample();
	f.d.limits.profile_bytes = f.p.body.len + f.p.strings.len;
	fixture_accepted(&f);
	good_sample();
	f.d.limits.profile_bytes--;
	fixture_refused(&f, PD_INVALID_ARGUMENT, "profile_size_limit",
			"payload size exceeds limit of");
	for (int more = 0; more <= 1; more++) {
		struct pd_text plain;

		good_sample();
		plain = pb_finish(&f.p);
		f.d.limits.profile_bytes = plain.len - (size_t)more;
		f.p.body = pb_gzip(&plain);
		if (more == 0)
			fixture_accepted(&f);
		else
			fixture_refused(&f, PD_INVALID_ARGUMENT, "profile_size_limit",
					"payload size exceeds limit of");
		pd_text_fini(&plain);
	}
}

Test(validate, refuses_more_than_4_mib_before_the_rate)
{
	make_of_size((4U << 20) + 2);
	fixture_refused(&f, PD_INVALID_ARGUMENT, "profile_size_limit", "limit of 4.2 MB");
}

Test(validate, refuses_times_outside_the_window)
{
	static const struct {
		int64_t offset;
		bool good;
	} cases[] = {
		{-3600 * NS_PER_S + NS_PER_MS, true},  {-3600 * NS_PER_S, false},
		{600 * NS_PER_S - NS_PER_MS, true},    {600 * NS_PER_S, false},
		{-3600 * NS_PER_S - NS_PER_MS, false}, {600 * NS_PER_S + NS_PER_MS, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		restart(FIXTURE_NOW + cases[i].offset);
		good_sample();
		if (cases[i].good)
			fixture_accepted(&f);
		else
			fixture_refused(&f, PD_INVALID_ARGUMENT, "not_in_ingestion_window",
					"profile with labels '{__name__=\"process_cpu\", "
					"service_name=\"svc\"}' is outside of ingestion window");
	}
	restart(FIXTURE_NOW - 7200 * NS_PER_S);
	good_sample();
	fixture_refused(&f, PD_INVALID_ARGUMENT, "not_in_ingestion_window",
			"(profile timestamp: 2023-11-14 20:13:20 +0000 UTC, the ingestion window "
			"starts at 2023-11-14 21:13:20 +0000 UTC and ends at 2023-11-14 22:23:20 "
			"+0000 UTC)");
}

Test(validate, replaces_a_missing_time_and_counts_it)
{
	restart(0);
	good_sample();
	fixture_accepted(&f);
	cr_expect_eq(f.d.stats.losses.replaced_times, 1);
	cr_expect_eq(f.d.first->profile.time_nanos, FIXTURE_NOW);
}

Test(validate, refuses_ids_of_zero)
{
	good_sample();
	pb_location(&f.p, 0, 1, 1);
	refused("location id is 0");
	good_sample();
	pb_function(&f.p, 0, 0);
	refused("function id is 0");
}

Test(validate, wants_one_value_per_sample_type)
{
	for (size_t n = 1; n <= 3; n++) {
		const int64_t values[] = {1, 2, 3};

		pb_sample(&f.p, stack, 3, values, n, NULL);
		if (n == 2)
			fixture_accepted(&f);
		else
			refused("sample value length mismatch");
	}
}

Test(validate, wants_a_sample_type)
{
	struct pd_text empty = pb_finish(&f.p);

	pd_text_fini(&empty);
	pb_string(&f.p, "");
	refused("empty profile");
}

Test(validate, wants_string_zero_to_be_empty)
{
	struct pd_text empty = pb_finish(&f.p);

	pd_text_fini(&empty);
	pb_string(&f.p, "cpu");
	pb_value_type(&f.p, 1, "cpu", "nanoseconds");
	refused("string 0 should be empty string");
}

Test(validate, refuses_a_dash_in_a_sample_type)
{
	pb_value_type(&f.p, 1, "off-cpu", "nanoseconds");
	refused("sample type contains -");
	pb_value_type(&f.p, 1, "off_cpu", "nano-seconds");
	fixture_push(&f);
	cr_expect_eq(f.e.code, PD_OK, "only the type is restricted: %s", f.e.message.at);
}

Test(validate, refuses_string_indexes_out_of_range)
{
	for (int64_t over = 0; over <= 1; over++) {
		struct pd_text labels = {0};
		int64_t key = pb_string(&f.p, "key");

		pb_label(&labels, key, key + over, 0);
		pb_sample(&f.p, stack, 3, value, 2, &labels);
		if (over == 0)
			fixture_accepted(&f);
		else
			refused("sample label string index out of range");
	}
	good_sample();
	pb_mapping(&f.p, 9, f.p.string_count - 1, true);
	fixture_accepted(&f);
	good_sample();
	pb_function(&f.p, 9, f.p.string_count);
	refused("function name string index out of range");
	good_sample();
	pb_function(&f.p, 9, -1);
	refused("function name string index out of range");
	good_sample();
	pb_mapping(&f.p, 9, f.p.string_count, true);
	refused("mapping file name string index out of range");
	for (uint64_t over = 0; over <= 1; over++) {
		struct pd_text mapping = {0};

		good_sample();
		pb_number(&mapping, 1, 9);
		pb_number(&mapping, 6, (uint64_t)f.p.string_count - 1 + over);
		pb_message(&f.p.body, 3, &mapping);
		if (over == 0)
			fixture_accepted(&f);
		else
			refused("mapping build id string index out of range");
	}
}

Test(validate, refuses_sample_types_out_of_range)
{
	static const char *const messages[] = {"sample type type string index out of range",
					       "sample type unit string index out of range"};
	static const int64_t three[] = {1, 10000000, 1};

	for (uint32_t field = 1; field <= 2; field++)
		for (uint64_t over = 0; over <= 1; over++) {
			struct pd_text type = {0};

			pb_sample(&f.p, stack, 3, three, 3, NULL);
			pb_number(&type, field, (uint64_t)f.p.string_count - 1 + over);
			pb_message(&f.p.body, 1, &type);
			if (over == 0)
				fixture_accepted(&f);
			else
				refused(messages[field - 1]);
		}
}

Test(validate, refuses_invalid_utf8_anywhere_in_the_table)
{
	good_sample();
	pb_new_string(&f.p, "a\xff", 2);
	refused("invalid utf8 string hex: 61ff");
	good_sample();
	pb_new_string(&f.p, "a\xc3\xbf", 3);
	fixture_accepted(&f);
}

Test(validate, cuts_stacks_at_1000_frames_on_the_leaf_side)
{
	uint64_t deep[1001];

	for (size_t i = 0; i < 1001; i++)
		deep[i] = i == 0 ? 3 : 1;
	pb_sample(&f.p, deep, 1000, value, 2, NULL);
	fixture_accepted(&f);
	cr_expect_eq(f.d.stats.losses.truncated_stacks, 0);
	cr_expect_eq(f.d.last->row[0].location_id[0], 3);
	pb_sample(&f.p, deep, 1001, value, 2, NULL);
	fixture_accepted(&f);
	cr_expect_eq(f.d.stats.losses.truncated_stacks, 1);
	cr_expect_eq(f.d.stats.losses.truncated_frames, 1);
	cr_expect_eq(f.d.last->row[0].locations, 1000);
	cr_expect_eq(f.d.last->row[0].location_id[0], 1);
}

Test(validate, cuts_strings_at_65535_bytes_and_keeps_the_tail)
{
	static char text[65536];

	memset(text, 'x', sizeof(text));
	text[0] = 'h';
	for (size_t n = 65535; n <= 65536; n++) {
		good_sample();
		pb_function(&f.p, 9, pb_new_string(&f.p, text, n));
		fixture_accepted(&f);
		cr_expect_eq(f.d.stats.losses.cut_strings, n - 65535);
	}
	cr_expect_eq(pd_profile_string(&f.d.last->profile,
				       pd_profile_function(&f.d.last->profile, 9)->name)
			     .at[0],
		     'x');
}

Test(validate, applies_label_limits_to_every_split_series)
{
	for (size_t n = 28; n <= 29; n++) {
		struct pd_text labels = {0};

		for (size_t i = 0; i < n; i++) {
			char name[32];

			snprintf(name, sizeof(name), "label%zu", i);
			pb_label(&labels, pb_string(&f.p, name), pb_string(&f.p, "v"), 0);
		}
		pb_sample(&f.p, stack, 3, value, 2, &labels);
		if (n == 28)
			fixture_accepted(&f);
		else
			fixture_refused(&f, PD_INVALID_ARGUMENT, "max_label_names_per_series",
					"has 31 label names; limit 30");
	}
	for (size_t n = 2048; n <= 2049; n++) {
		char name[2050];
		struct pd_text labels = {0};

		memset(name, 'n', n);
		name[n] = '\0';
		good_sample();
		pb_label(&labels, pb_string(&f.p, "span_name"), pb_string(&f.p, name), 0);
		pb_sample(&f.p, stack, 3, value, 2, &labels);
		if (n == 2048)
			fixture_accepted(&f);
		else
			fixture_refused(&f, PD_INVALID_ARGUMENT, "label_value_too_long",
					"label value too long");
	}
}
