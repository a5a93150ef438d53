/* SPDX-License-Identifier: Apache-2.0 */
/* Which attributes a span gets, and their values. */
#include "preload/sdk/span_attr.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "preload/lifecycle/lifecycle.h"
#include "sampler/base/compiler.h"
#include "sampler/open_spans/span_stack.h"
#include "sampler/region/names.h"
#include "sampler/span/span.h"
#include "sampler/span/span_times.h"
#include "sampler/span/span_values.h"
#include "sampler/thread/thread.h"

/* Replaces lifecycle.c's. */
struct sp_config sp_lifecycle_settings = {
	.upload_interval_ms = 10000,
	.push_timeout_ms = 4000,
	.service_name = "shop",
};

static struct {
	unsigned n;
	const void *span;
	char key[16][64];
	char value[16][4096];
} seen;

static void set_string(void *span, const char *key, const char *value)
{
	cr_assert_lt(seen.n, 16);
	seen.span = span;
	strcpy(seen.key[seen.n], key);
	strcpy(seen.value[seen.n], value);
	seen.n++;
}

static void set_integer(void *span, const char *key, int64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "integer %lld", (long long)value);
	set_string(span, key, text);
}

static const struct sp_span_attr_set set = {.string = set_string, .integer = set_integer};

static struct sp_span_record record(bool root)
{
	const uint8_t id[8] = {0x00, 0xf0, 0x67, 0xaa, 0x0b, 0xa9, 0x02, 0xb7};
	struct sp_span_record r;

	memset(&r, 0, sizeof(r));
	memcpy(&r.span_id, id, sizeof(id));
	r.root_id = root ? r.span_id : 1;
	memset(r.trace, 0xab, sizeof(r.trace));
	r.start_ns = UINT64_C(1700000000) * SP_NS_PER_S;
	r.name_id = sp_names_intern("GET /", 5);
	r.root_name_id = r.name_id;
	return r;
}

static void apply(bool root)
{
	static int span;
	struct sp_span_record r = record(root);

	seen.n = 0;
	sp_span_attr_apply(&r, &set, &span);
	if (seen.n > 0)
		cr_assert_eq(seen.span, &span);
}

static void set_up(void)
{
	cr_assert_eq(sp_names_init(100), 0);
}

TestSuite(span_attr, .init = set_up, .timeout = 20);

Test(span_attr, only_spans_whose_id_can_be_a_label_get_any)
{
	const struct {
		enum sp_label_scope scope;
		bool root;
		unsigned n;
	} rows[] = {{SP_SCOPE_ROOT, true, 1}, {SP_SCOPE_ROOT, false, 0}, {SP_SCOPE_ALL, true, 1},
		    {SP_SCOPE_ALL, false, 1}, {SP_SCOPE_NONE, true, 0},  {SP_SCOPE_NONE, false, 0}};

	for (size_t i = 0; i < SP_ARRAY_LEN(rows); i++) {
		sp_lifecycle_settings.span_id_scope = rows[i].scope;
		apply(rows[i].root);
		cr_assert_eq(seen.n, rows[i].n, "row %zu", i);
	}
}

Test(span_attr, the_times_of_a_root_need_no_link_and_no_sample)
{
	sp_lifecycle_settings.span_cpu_time = true;
	sp_lifecycle_settings.attributes = SP_ATTRIBUTES_NEVER;
	apply(true);
	cr_assert_eq(seen.n, 1);
	cr_assert_str_eq(seen.key[0], "spanprof.cpu_time_ns");
	cr_assert_str_eq(seen.value[0], "integer 0");
	sp_lifecycle_settings.attributes = SP_ATTRIBUTES_WITH_SAMPLES;
	apply(true);
	cr_assert_eq(seen.n, 1);
	cr_assert_str_eq(seen.key[0], "spanprof.cpu_time_ns");
	sp_lifecycle_settings.attributes = SP_ATTRIBUTES_ALWAYS;
	sp_lifecycle_settings.span_id_scope = SP_SCOPE_NONE;
	apply(true);
	cr_assert_eq(seen.n, 1);
	apply(false);
	cr_assert_eq(seen.n, 0);
}

Test(span_attr, the_link_names_the_type_that_has_something_of_the_span)
{
	static const struct {
		bool always, off_cpu, wall, waited, sampled, allocated, otlp;
		const char *link; /* the beginning of the link; NULL = no link */
	} rows[] = {
		{.sampled = true, .link = "process_cpu"},
		{.off_cpu = true, .link = NULL},
		{.off_cpu = true, .waited = true, .link = "off_cpu"},
		{.off_cpu = true, .sampled = true, .link = "process_cpu"},
		{.off_cpu = true, .waited = true, .sampled = true, .link = "process_cpu"},
		{.wall = true, .waited = true, .link = "wall"},
		{.wall = true, .off_cpu = true, .waited = true, .link = "wall"},
		{.wall = true, .sampled = true, .link = "wall"},
		{.always = true, .link = "process_cpu"},
		{.always = true, .off_cpu = true, .link = "process_cpu"},
		{.always = true, .off_cpu = true, .waited = true, .link = "off_cpu"},
		{.allocated = true, .link = "memory%3Aalloc_space"},
		{.allocated = true, .sampled = true, .link = "process_cpu"},
		{.off_cpu = true, .allocated = true, .link = "memory%3Aalloc_space"},
		{.off_cpu = true, .allocated = true, .waited = true, .link = "off_cpu"},
		{.wall = true, .allocated = true, .link = "memory%3Aalloc_space"},
		{.wall = true, .allocated = true, .waited = true, .link = "wall"},
		{.always = true, .allocated = true, .link = "memory%3Aalloc_space"},
		{.allocated = true, .link = "memory%3Aalloc_space%3Abytes%3Aspace%3A"},
		/* By the type of the period. */
		{.otlp = true, .sampled = true, .link = "cpu%3Acpu%3Ananoseconds%3Acpu%3A"},
		{.otlp = true,
		 .allocated = true,
		 .link = "memory%3Aalloc_space%3Abytes%3Amemory%3A"},
		{.otlp = true, .off_cpu = true, .waited = true, .link = "off_cpu%3Aoff_cpu"},
		{.otlp = true, .wall = true, .waited = true, .link = "wall%3Awall"},
	};

	sp_lifecycle_settings.profile_url = "{profile_type}";
	cr_assert_eq(sp_span_table_init(), 0);
	for (size_t i = 0; i < SP_ARRAY_LEN(rows); i++) {
		struct sp_span_record r = record(true);

		sp_lifecycle_settings.attributes =
			rows[i].always ? SP_ATTRIBUTES_ALWAYS : SP_ATTRIBUTES_WITH_SAMPLES;
		sp_lifecycle_settings.off_cpu = rows[i].off_cpu;
		sp_lifecycle_settings.wall = rows[i].wall;
		sp_lifecycle_settings.protocol = rows[i].otlp ? SP_PROTOCOL_OTLP : SP_PROTOCOL_PUSH;
		r.handle = r.span_id = r.root_id = i + 1;
		cr_assert_eq(sp_span_table_add(&r), 0);
		if (rows[i].waited)
			sp_span_table_mark_wait(r.ref, r.span_id);
		if (rows[i].sampled)
			sp_span_table_mark_sample(r.ref, r.span_id);
		if (rows[i].allocated)
			cr_assert(sp_span_table_mark_allocation(r.ref, r.span_id));
		seen.n = 0;
		sp_span_attr_apply(&r, &set, NULL);
		cr_expect_eq(seen.n, rows[i].link != NULL ? 2 : 0, "row %zu", i);
		if (seen.n == 2)
			cr_expect_eq(strncmp(seen.value[1], rows[i].link, strlen(rows[i].link)), 0,
				     "row %zu: %s", i, seen.value[1]);
		cr_assert(sp_span_table_close(&r));
		sp_span_table_release(&r);
	}
}

/* The order at an end: a sample that comes after the answer would have no link. */
Test(span_attr, of_a_closed_span_are_final)
{
	const uint8_t id[8] = {1};
	struct sp_span_start s = {.handle = &sp_lifecycle_settings, .name = "span", .name_len = 4};
	struct sp_span_record r;
	struct sp_span_record active;

	memcpy(s.span_id, id, sizeof(id));
	sp_lifecycle_settings.attributes = SP_ATTRIBUTES_WITH_SAMPLES;
	cr_assert_eq(sp_thread_init(), 0);
	cr_assert_eq(sp_span_table_init(), 0);
	cr_assert(sp_span_started(&s));
	cr_assert(sp_span_of(&sp_lifecycle_settings, &r));
	cr_assert_eq(sp_span_stack_peek(&sp_thread_own->spans, &active), SP_SPAN_KNOWN);
	sp_span_table_mark_sample(active.ref, active.span_id);

	cr_assert(sp_span_close(&r));
	cr_assert_eq(sp_span_stack_peek(&sp_thread_own->spans, &active), SP_SPAN_NONE);
	cr_assert_eq(sp_span_attr_wanted(&r), SP_SPAN_ATTR_LINK);
	sp_span_table_release(&r);
}

static uint64_t no_bytes(void)
{
	return 0;
}

Test(span_attr, what_is_not_known_of_a_root_is_left_out)
{
	struct sp_span_start s = {.handle = &sp_lifecycle_settings, .span_id = {1}, .name = ""};
	struct sp_span_record r;

	sp_lifecycle_settings.span_times = true;
	cr_assert_eq(sp_thread_init(), 0);
	cr_assert_eq(sp_span_table_init(), 0);
	cr_assert_eq(sp_span_times_init(true), 0);
	cr_assert(sp_span_started(&s));
	cr_assert(sp_span_of(&sp_lifecycle_settings, &r));
	/* the thread is certainly blocked, and its runnable time is unknown */
	(void)usleep(5000);
	seen.n = 0;
	sp_span_attr_apply(&r, &set, NULL);
	cr_assert_eq(seen.n, 6);
	cr_expect_str_eq(seen.key[1], "spanprof.cpu_time_ns");
	cr_expect_str_eq(seen.key[2], "spanprof.off_cpu_time_ns");
	cr_expect_geq(strtoull(seen.value[2] + strlen("integer "), NULL, 10), 4900000);
	cr_expect_str_eq(seen.key[3], "spanprof.page_faults.major");
	cr_expect_str_eq(seen.key[4], "spanprof.context_switches.voluntary");
	cr_expect_str_neq(seen.value[4], "integer 0");
	cr_expect_str_eq(seen.key[5], "spanprof.context_switches.involuntary");
	/* allocated bytes, if allocations are counted */
	sp_span_times_allocated = no_bytes;
	seen.n = 0;
	sp_span_attr_apply(&r, &set, NULL);
	cr_assert_eq(seen.n, 7);
	cr_expect_str_eq(seen.key[6], "spanprof.allocated_bytes");
	/* the older option alone gives only this */
	sp_lifecycle_settings.span_times = false;
	sp_lifecycle_settings.span_cpu_time = true;
	seen.n = 0;
	sp_span_attr_apply(&r, &set, NULL);
	cr_assert_eq(seen.n, 2);
	/* and no attribute that the program itself has set */
	sp_lifecycle_settings.span_times = true;
	sp_span_keys_add(&r, sp_span_attr_key("spanprof.context_switches.involuntary",
					      strlen("spanprof.context_switches.involuntary")));
	seen.n = 0;
	sp_span_attr_apply(&r, &set, NULL);
	cr_assert_eq(seen.n, 2);
	/* nothing for a root in which no thread was: by the older option it has used no CPU time */
	r.ref++;
	seen.n = 0;
	sp_span_attr_apply(&r, &set, NULL);
	cr_assert_eq(seen.n, 1);
	sp_lifecycle_settings.span_times = false;
	seen.n = 0;
	sp_span_attr_apply(&r, &set, NULL);
	cr_assert_eq(seen.n, 2);
}

Test(span_attr, a_root_that_was_only_runnable_says_so)
{
	struct sp_span_start s = {.handle = &sp_lifecycle_settings, .span_id = {1}, .name = ""};
	struct sp_span_record r;

	sp_lifecycle_settings.span_times = true;
	cr_assert_eq(sp_thread_init(), 0);
	cr_assert_eq(sp_span_table_init(), 0);
	cr_assert_eq(sp_span_times_init(true), 0);
	cr_assert(sp_span_started(&s));
	cr_assert(sp_span_of(&sp_lifecycle_settings, &r));
	seen.n = 0;
	sp_span_attr_apply(&r, &set, NULL);
	/* The test's runner may have stopped the thread. */
	if (seen.n == 6)
		return;
	cr_assert_eq(seen.n, 7);
	cr_expect_str_eq(seen.key[3], "spanprof.runnable_time_ns");
	cr_expect_str_eq(seen.value[3], seen.value[2]);
}

/* time() returns the second of the last tick, so a new second may have begun since. */
static unsigned long long now_s(void)
{
	struct timespec now;

	cr_assert_eq(clock_gettime(CLOCK_REALTIME, &now), 0);
	return (unsigned long long)now.tv_sec;
}

Test(span_attr, the_url_is_the_spans_and_its_range_reaches_as_far_as_a_profile_lasts)
{
	unsigned long long from;
	unsigned long long until;
	char rest[4096];

	sp_lifecycle_settings.profile_url =
		"{from_s} {until_s} {trace_id}/{span_id}/{service}/{span_name}";
	unsigned long long before = now_s();
	apply(true);
	unsigned long long after = now_s();

	cr_assert_eq(seen.n, 2);
	cr_assert_str_eq(seen.key[1], "pyroscope.profile.url");
	cr_assert_eq(sscanf(seen.value[1], "%llu %llu %4095s", &from, &until, rest), 3);
	cr_assert_eq(from, 1700000000 - 14);
	cr_assert_geq(until, before + 14);
	cr_assert_leq(until, after + 14);
	cr_assert_str_eq(rest, "abababababababababababababababab/00f067aa0ba902b7/shop/GET%20%2F");
}

Test(span_attr, the_baseline_is_the_hour_before_the_span)
{
	sp_lifecycle_settings.baseline_url =
		"{from_ms} {until_ms} {start_ms} {service}/{span_name}";
	apply(true);

	cr_assert_eq(seen.n, 2);
	cr_assert_str_eq(seen.key[1], "pyroscope.profile.baseline.url");
	cr_assert_str_eq(seen.value[1], "1699996386000 1700000000000 1700000000000 shop/GET%20%2F");
}

Test(span_attr, links_name_the_data_source)
{
	sp_lifecycle_settings.profile_datasource = "pyro-1";
	sp_lifecycle_settings.profile_url = "grafana-drilldown";
	apply(true);

	cr_assert_eq(seen.n, 2);
	cr_assert_not_null(strstr(seen.value[1], "explore?var-dataSource=pyro-1&"));
}

static void apply_to_child_of_renamed_root(void)
{
	struct sp_span_record root = record(true);
	struct sp_span_record r = record(false);

	cr_assert_eq(sp_span_table_init(), 0);
	root.handle = 1;
	cr_assert_eq(sp_span_table_add(&root), 0);
	sp_span_table_rename(&root, sp_names_intern("renamed", 7));
	r.root_id = root.span_id;
	r.span_id = 2;
	r.root_ref = root.ref;
	seen.n = 0;
	sp_span_attr_apply(&r, &set, NULL);
	cr_assert_eq(seen.n, 3);
}

Test(span_attr, the_baseline_asks_for_the_name_that_samples_carry)
{
	sp_lifecycle_settings.span_id_scope = SP_SCOPE_ALL;
	sp_lifecycle_settings.profile_url = "{span_name}";
	sp_lifecycle_settings.baseline_url = "{span_name}";
	sp_lifecycle_settings.span_name_scope = SP_SCOPE_ROOT;
	apply_to_child_of_renamed_root();
	cr_assert_str_eq(seen.value[1], "GET%20%2F");
	cr_assert_str_eq(seen.value[2], "renamed");
	sp_lifecycle_settings.span_name_scope = SP_SCOPE_ALL;
	apply_to_child_of_renamed_root();
	cr_assert_str_eq(seen.value[2], "GET%20%2F");
}

Test(span_attr, the_legacy_preset_gives_all_there_ever_were)
{
	const char *const keys[] = {"pyroscope.profile.id", "pyroscope.profile.url",
				    "pyroscope.profile.baseline.url", "pyroscope.profile.diff.url"};

	sp_lifecycle_settings.profile_url = "pyroscope-legacy";
	sp_lifecycle_settings.baseline_url = "pyroscope-legacy";
	apply(true);

	cr_assert_eq(seen.n, 4);
	for (unsigned i = 0; i < seen.n; i++)
		cr_assert_str_eq(seen.key[i], keys[i]);
	cr_assert_str_eq(seen.value[0], "00f067aa0ba902b7");
	cr_assert_eq(strncmp(seen.value[1], "http://localhost:4040/?from=1700000000&", 39), 0);
}

Test(span_attr, without_a_name_label_there_is_no_baseline_to_find)
{
	sp_lifecycle_settings.profile_url = "grafana-drilldown";
	sp_lifecycle_settings.baseline_url = "grafana-drilldown";
	apply(true);
	cr_assert_eq(seen.n, 3);
	sp_lifecycle_settings.span_name_scope = SP_SCOPE_NONE;
	apply(true);
	cr_assert_eq(seen.n, 2);
}

Test(span_attr, a_url_that_is_too_long_is_left_out)
{
	char form[3000];

	memset(form, 'x', sizeof(form) - 1);
	form[sizeof(form) - 1] = '\0';
	sp_lifecycle_settings.profile_url = form;
	apply(true);

	cr_assert_eq(seen.n, 1);
	cr_assert_str_eq(seen.key[0], "pyroscope.profile.id");
}

static void say(const struct sp_span_record *r, const char *key)
{
	uint8_t bit = sp_span_attr_key(key, strlen(key));

	cr_assert_neq(bit, 0, "%s", key);
	sp_span_keys_add(r, bit);
}

Test(span_attr, what_the_program_has_set_itself_stays)
{
	static const char *const all[] = {"pyroscope.profile.id", "pyroscope.profile.url",
					  "pyroscope.profile.baseline.url",
					  "pyroscope.profile.diff.url", "spanprof.cpu_time_ns"};
	struct sp_span_record r = record(true);

	sp_lifecycle_settings.profile_url = "pyroscope-legacy";
	sp_lifecycle_settings.baseline_url = "pyroscope-legacy";
	sp_lifecycle_settings.profile_base_url = "http://pyroscope:4040";
	r.ref = 1;
	for (size_t i = 0; i < SP_ARRAY_LEN(all); i++) {
		unsigned before;

		seen.n = 0;
		sp_span_attr_apply(&r, &set, NULL);
		before = seen.n;
		say(&r, all[i]);
		seen.n = 0;
		sp_span_attr_apply(&r, &set, NULL);
		for (unsigned n = 0; n < seen.n; n++)
			cr_assert_str_neq(seen.key[n], all[i]);
		/* and nothing else is missing */
		cr_assert_eq(seen.n + (strncmp(all[i], "pyro", 4) == 0), before, "%s", all[i]);
	}

	/* the next span with the entry */
	r.root_id = ++r.span_id;
	seen.n = 0;
	sp_span_attr_apply(&r, &set, NULL);
	cr_assert_eq(seen.n, 4);
}

Test(span_attr, keys_that_only_look_like_ours_are_the_programs_alone)
{
	static const char *const other[] = {"",
					    "pyroscope.profile",
					    "pyroscope.profile.ix",
					    "pyroscope.profile.id.of",
					    "spanprof.cpu_time_ms",
					    "pyroscope.profile.baseline.url2",
					    "spanprof.context_switches.involuntary2"};

	for (size_t i = 0; i < SP_ARRAY_LEN(other); i++)
		cr_assert_eq(sp_span_attr_key(other[i], strlen(other[i])), 0, "%s", other[i]);
}

Test(span_attr, what_was_set_is_known_in_a_forked_child)
{
	struct sp_span_record r = record(true);
	struct sp_span_record after;

	cr_assert_eq(sp_span_table_init(), 0);
	for (uint64_t i = 0; i < 3; i++) {
		r.span_id = r.root_id = i + 1;
		r.handle = i + 1;
		r.thread = (uint16_t)i;
		cr_assert_eq(sp_span_table_add(&r), 0);
	}
	say(&r, "pyroscope.profile.id");
	sp_span_table_forked(2, 2, NULL, 0);
	cr_assert(sp_span_table_by_id(3, &after));
	cr_assert_neq(after.ref, r.ref);
	cr_assert_neq(sp_span_keys(&after), 0);
}

Test(span_attr, tells_which_spans_may_get_one_at_all)
{
	static const struct {
		enum sp_attributes_mode attributes;
		enum sp_label_scope scope;
		bool cpu_time;
		bool times;
		bool values; /* turned on from this test on */
		enum sp_span_attr_when when;
	} rows[] = {
		{SP_ATTRIBUTES_NEVER, SP_SCOPE_ROOT, false, false, false, SP_SPAN_ATTR_NONE},
		{SP_ATTRIBUTES_ALWAYS, SP_SCOPE_NONE, false, false, false, SP_SPAN_ATTR_NONE},
		{SP_ATTRIBUTES_ALWAYS, SP_SCOPE_ROOT, false, false, false, SP_SPAN_ATTR_EACH},
		{SP_ATTRIBUTES_WITH_SAMPLES, SP_SCOPE_ALL, false, false, false, SP_SPAN_ATTR_NOTED},
		{SP_ATTRIBUTES_NEVER, SP_SCOPE_NONE, true, false, false, SP_SPAN_ATTR_EACH},
		{SP_ATTRIBUTES_NEVER, SP_SCOPE_ROOT, false, true, false, SP_SPAN_ATTR_EACH},
		{SP_ATTRIBUTES_NEVER, SP_SCOPE_ROOT, false, false, true, SP_SPAN_ATTR_NOTED},
		{SP_ATTRIBUTES_NEVER, SP_SCOPE_ALL, false, false, true, SP_SPAN_ATTR_EACH},
	};

	for (unsigned i = 0; i < SP_ARRAY_LEN(rows); i++) {
		sp_lifecycle_settings.attributes = rows[i].attributes;
		sp_lifecycle_settings.span_id_scope = rows[i].scope;
		sp_lifecycle_settings.span_cpu_time = rows[i].cpu_time;
		sp_lifecycle_settings.span_times = rows[i].times;
		if (rows[i].values)
			cr_assert_eq(sp_span_values_init("http.route", false), 0);
		cr_expect_eq(sp_span_attr_when(), rows[i].when, "row %u", i);
	}
}
