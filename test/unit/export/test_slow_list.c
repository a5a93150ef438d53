/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of the slowest roots of an interval, its thresholds, and its JSON. The host of these tests does what
 * sp_root_durations_add() does, or lies.
 */
#include "export/profile/slow_list.h"

#include <criterion/criterion.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core_double.h"
#include "sampler/base/compiler.h"

#define WALL_NS (UINT64_C(1700000000) * SP_NS_PER_S)

static struct sp_slow_list *list;
static uint64_t random_state;

static void start(void)
{
	core_reset();
	core.roots = calloc(1, sizeof(*core.roots));
	core.config.slow = "auto";
	core.label[0] = "checkout";
	core.label[1] = "GET \"/\"";
	core.label[2] = "\xc3\xa4";
	list = sp_slow_list_new(&core.ops);
	cr_assert_not_null(list);
	random_state = 1;
}

static void end(void)
{
	sp_slow_list_free(list);
	free(core.roots);
}

TestSuite(slow_list, .init = start, .fini = end, .timeout = 60);

static struct sp_slow_root record_of(uint32_t place, uint64_t span_id, uint64_t ns)
{
	return (struct sp_slow_root){.span_id = span_id,
				     .trace_id = {1, 2, 0xff},
				     .end_ns = WALL_NS,
				     .name_id = place + 1,
				     .place = place,
				     .duration_ns = ns};
}

/* Slow roots on their way to the exporter. */
static struct sp_slow_root ring[100000];
static unsigned in_ring;
static uint64_t told;

static void root(uint32_t place, uint64_t span_id, uint64_t ns)
{
	struct sp_root_name *n = &core.roots->name[place];

	n->name_id = place + 1;
	core.roots->histogram[place].count[sp_duration_bucket(ns)]++;
	if (ns < n->threshold_ns)
		return;
	cr_assert_lt(in_ring, SP_ARRAY_LEN(ring));
	ring[in_ring++] = record_of(place, span_id, ns);
	told++;
}

static void drain(void)
{
	for (unsigned i = 0; i < in_ring; i++)
		sp_slow_list_put(list, &ring[i]);
	in_ring = 0;
}

/* The spans of the interval; NULL = it has none. */
static json_t *spans_of_interval(void)
{
	struct sp_slow_batch *b;
	struct sp_bytes text;
	json_error_t error;
	json_t *all;
	json_t *spans;

	drain();
	b = sp_slow_list_end(list, NULL);
	if (b == NULL)
		return NULL;
	cr_assert_eq(sp_slow_batch_json(b, &text), 0);
	cr_expect_leq(text.len, (size_t)SP_SLOW_BYTES_MAX);
	cr_expect_eq(text.data[text.len - 1], '\n');
	cr_expect_null(memchr(text.data, '\n', text.len - 1), "one line");
	all = json_loadb((char *)text.data, text.len, 0, &error);
	cr_assert_not_null(all, "%s", error.text);
	spans = json_object_get(
		json_array_get(
			json_object_get(json_array_get(json_object_get(all, "resourceSpans"), 0),
					"scopeSpans"),
			0),
		"spans");
	cr_assert_eq(json_array_size(spans), sp_slow_batch_roots(b));
	json_incref(spans);
	json_decref(all);
	free(text.data);
	sp_slow_batch_free(b);
	return spans;
}

static const char *text_of(const json_t *span, const char *key)
{
	const char *text = json_string_value(json_object_get(span, key));

	cr_assert_not_null(text, "%s", key);
	return text;
}

static uint64_t number_of(const json_t *span, const char *key)
{
	return strtoull(text_of(span, key), NULL, 10);
}

static uint64_t duration_of(const json_t *span)
{
	return number_of(span, "endTimeUnixNano") - number_of(span, "startTimeUnixNano");
}

/* An id as records have it in memory. */
static uint64_t id_of(const json_t *span)
{
	return __builtin_bswap64(strtoull(text_of(span, "spanId"), NULL, 16));
}

/* UINT64_MAX = it does not have that attribute. */
static uint64_t attribute(const json_t *span, const char *key)
{
	json_t *one;
	size_t i;

	json_array_foreach(
		json_object_get(span, "attributes"), i,
		one) if (strcmp(text_of(one, "key"), key) ==
			 0) return strtoull(text_of(json_object_get(one, "value"), "intValue"),
					    NULL, 10);
	return UINT64_MAX;
}

static double uniform(void)
{
	random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return ((double)(random_state >> 11) + 0.5) / (double)(UINT64_C(1) << 53);
}

/*
 * A random latency from a distribution with a long tail. Each name is twice as slow as the name
 * five places before it.
 */
static uint64_t latency(uint32_t place)
{
	double normal = sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());

	return (uint64_t)(1e6 * pow(2, place / 5.0) * exp(0.5 * normal));
}

static uint64_t balance(void)
{
	return core.counter[SP_COUNT_SLOW_ROOTS_SENT] + core.counter[SP_COUNT_SLOW_ROOTS_FASTER] +
	       core.counter[SP_COUNT_SLOW_ROOTS_OTHER] + core.counter[SP_COUNT_SLOW_ROOTS_UNSENT];
}

static int descending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x < y) - (x > y);
}

#define NAMES 50U
#define INTERVALS 10U
#define EACH 2000U /* of a name in an interval: a million in all */
#define TOP (EACH / 100)

static uint64_t truth[NAMES][EACH];

Test(slow_list, has_the_slowest_hundredth_of_a_million_roots)
{
	uint64_t id = 0;
	unsigned found = 0;
	unsigned there = 0;

	for (unsigned interval = 0; interval < INTERVALS; interval++) {
		unsigned listed[NAMES] = {0};
		json_t *spans;
		json_t *span;
		size_t i;

		for (unsigned turn = 0; turn < EACH; turn++) {
			for (uint32_t place = 0; place < NAMES; place++) {
				truth[place][turn] = latency(place);
				root(place, ++id << 8 | place, truth[place][turn]);
			}
			/* A fiftieth of the interval, as the exporter comes four times a second. */
			if (turn % (EACH / 50) == 0)
				drain();
		}
		for (uint32_t place = 0; place < NAMES; place++)
			qsort(truth[place], EACH, sizeof(truth[0][0]), descending);
		spans = spans_of_interval();
		cr_assert_leq(json_array_size(spans), NAMES * TOP);
		json_array_foreach(spans, i, span)
		{
			uint32_t place = (uint32_t)(id_of(span) & 0xff);

			cr_assert_lt(place, NAMES);
			listed[place]++;
			if (interval != 0 && duration_of(span) >= truth[place][TOP - 1])
				found++;
		}
		for (uint32_t place = 0; place < NAMES; place++)
			cr_expect_leq(listed[place], TOP);
		if (interval != 0)
			there += NAMES * TOP;
		core.counter[SP_COUNT_SLOW_ROOTS_SENT] += json_array_size(spans);
		json_decref(spans);
	}
	(void)fprintf(stderr, "%u of %u of the slowest hundredth; the host told %lu of 1,000,000\n",
		      found, there, told);
	cr_expect_geq(found, there * 95 / 100, "%u of %u", found, there);
	cr_expect_leq(told, 1000000 / 100 * 3, "%lu", told);
	cr_expect_eq(balance(), told);
}

Test(slow_list, tells_quantiles_of_a_name_within_four_percent)
{
	static uint64_t all[100000];
	json_t *spans;
	json_t *span;

	for (unsigned i = 0; i < SP_ARRAY_LEN(all); i++) {
		all[i] = latency(3);
		root(0, i + 1, all[i]);
		if (i % 1000 == 0)
			drain();
	}
	qsort(all, SP_ARRAY_LEN(all), sizeof(all[0]), descending);
	spans = spans_of_interval();
	span = json_array_get(spans, 0);

	cr_expect_eq(attribute(span, "spanprof.roots.count"), SP_ARRAY_LEN(all));
	cr_expect_float_eq((double)attribute(span, "spanprof.duration.p50_ns"), (double)all[50000],
			   0.04 * (double)all[50000]);
	cr_expect_float_eq((double)attribute(span, "spanprof.duration.p90_ns"), (double)all[10000],
			   0.04 * (double)all[10000]);
	cr_expect_float_eq((double)attribute(span, "spanprof.duration.p99_ns"), (double)all[1000],
			   0.04 * (double)all[1000]);
	cr_expect_eq(id_of(span) != 0 && duration_of(span) == all[0], true, "the slowest is first");
	json_decref(spans);
}

/* There are too few roots for a hundredth of them. */
Test(slow_list, has_at_least_the_slowest_root_of_each_name)
{
	json_t *spans;

	for (unsigned interval = 0; interval < 5; interval++) {
		root(0, 1, 1000000);
		root(0, 2, 3000000 - interval * 400000);
		root(0, 3, 900000);
		root(1, 4, 70000);
		spans = spans_of_interval();

		cr_assert_eq(json_array_size(spans), 2);
		cr_expect_eq(id_of(json_array_get(spans, 0)), 2);
		cr_expect_eq(id_of(json_array_get(spans, 1)), 4);
		json_decref(spans);
	}
	cr_expect_eq(core.counter[SP_COUNT_SLOW_ROOTS_FASTER], 5 * 2);
	cr_expect_null(spans_of_interval(), "an interval without roots");
	root(1, 9, 50000);
	spans = spans_of_interval();
	cr_expect_eq(json_array_size(spans), 1, "the first one after it");
	json_decref(spans);
}

Test(slow_list, says_what_is_known_of_a_root)
{
	struct sp_slow_root r = record_of(1, 0x0807060504030201, 250);
	json_t *spans;
	json_t *span;

	root(1, 0x0807060504030201, 250);
	in_ring = 0;
	r.tid = 77;
	r.has = SP_SLOW_ROOT_CPU | SP_SLOW_ROOT_OFF_CPU | SP_SLOW_ROOT_RUNNABLE |
		SP_SLOW_ROOT_ALLOCATED;
	r.cpu_ns = 100;
	r.off_cpu_ns = 150;
	r.runnable_ns = 30;
	r.major_faults = 3;
	r.allocated = UINT64_MAX;
	sp_slow_list_put(list, &r);
	spans = spans_of_interval();
	span = json_array_get(spans, 0);

	cr_expect_str_eq(text_of(span, "spanId"), "0102030405060708");
	cr_expect_str_eq(text_of(span, "traceId"), "0102ff00000000000000000000000000");
	cr_expect_str_eq(text_of(span, "name"), "GET \"/\"");
	cr_expect_eq(json_integer_value(json_object_get(span, "kind")), 2);
	cr_expect_str_eq(text_of(span, "startTimeUnixNano"), "1699999999999999750");
	cr_expect_str_eq(text_of(span, "endTimeUnixNano"), "1700000000000000000");
	cr_expect_eq(attribute(span, "spanprof.thread.id"), 77);
	cr_expect_eq(attribute(span, "spanprof.cpu_time_ns"), 100);
	cr_expect_eq(attribute(span, "spanprof.off_cpu_time_ns"), 150);
	cr_expect_eq(attribute(span, "spanprof.runnable_time_ns"), 30);
	cr_expect_eq(attribute(span, "spanprof.page_faults.major"), 3);
	cr_expect_eq(attribute(span, "spanprof.allocated_bytes"), INT64_MAX);
	cr_expect_eq(attribute(span, "spanprof.roots.count"), 1);
	cr_expect_eq(attribute(span, "spanprof.duration.p50_ns"), 224);
	cr_expect_eq(attribute(span, "spanprof.duration.p99_ns"), 224);
	json_decref(spans);
}

Test(slow_list, leaves_out_what_is_not_known)
{
	static const char *const keys[] = {
		"spanprof.thread.id",         "spanprof.cpu_time_ns",
		"spanprof.off_cpu_time_ns",   "spanprof.runnable_time_ns",
		"spanprof.page_faults.major", "spanprof.allocated_bytes"};
	struct sp_slow_root r = record_of(2, 5, 250);
	json_t *spans;
	json_t *span;

	r.cpu_ns = r.off_cpu_ns = r.runnable_ns = r.major_faults = r.allocated = 9;
	sp_slow_list_put(list, &r);
	/* The region of the process may not be read any more. */
	free(core.roots);
	core.roots = NULL;
	spans = spans_of_interval();
	span = json_array_get(spans, 0);

	for (unsigned i = 0; i < SP_ARRAY_LEN(keys); i++)
		cr_expect_eq(attribute(span, keys[i]), UINT64_MAX, "%s", keys[i]);
	cr_expect_eq(json_array_size(json_object_get(span, "attributes")), 0);
	cr_expect_str_eq(text_of(span, "name"), "\xc3\xa4");
	json_decref(spans);
}

Test(slow_list, has_all_roots_from_a_duration_on)
{
	json_t *spans;
	json_t *span;
	size_t i;

	core.config.slow = "checkout=2ms, off";
	/* The first ones come before the threshold is known. */
	for (unsigned turn = 0; turn < 100; turn++) {
		root(0, turn + 1, 1000000 + turn * 20000);
		root(1, 1000 + turn, 900000000);
	}
	drain();
	cr_expect_eq(core.roots->name[0].threshold_ns, 2000000);
	cr_expect_eq(core.roots->name[1].threshold_ns, UINT64_MAX);
	spans = spans_of_interval();
	cr_expect_eq(json_array_size(spans), 50);
	json_array_foreach(spans, i, span) cr_expect_geq(duration_of(span), 2000000);
	cr_expect_eq(core.roots->name[0].threshold_ns, 2000000, "it stays");
	json_decref(spans);
}

Test(slow_list, has_a_bound_for_roots_from_a_duration_on)
{
	json_t *spans;
	json_t *span;
	size_t i;

	core.config.slow = "1ns";
	for (unsigned turn = 0; turn < 3000; turn++) {
		root(0, turn + 1, 1000 + turn);
		root(1, turn + 1, 5000000 - turn);
		root(2, turn + 1, 70);
	}
	spans = spans_of_interval();
	cr_expect_eq(json_array_size(spans), SP_SLOW_ROOTS_MAX);
	/* The slowest of each name are first. */
	json_array_foreach(spans, i, span)
	{
		uint64_t rank = i / 3;
		uint64_t ns[3] = {1000 + 2999 - rank, 5000000 - rank, 70};

		cr_expect_eq(duration_of(span), ns[i % 3], "span %zu: %lu", i, duration_of(span));
	}
	cr_expect_eq(core.counter[SP_COUNT_SLOW_ROOTS_OTHER], 9000 - SP_SLOW_ROOTS_MAX);
	json_decref(spans);
}

/* Roots that an earlier exporter has counted are not listed, but count. */
Test(slow_list, goes_on_where_another_exporter_was)
{
	json_t *spans;

	for (unsigned i = 0; i < 5000; i++)
		root(0, i + 1, 1000000 + i);
	json_decref(spans_of_interval());
	sp_slow_list_free(list);
	list = sp_slow_list_new(&core.ops);
	for (unsigned i = 0; i < 300; i++)
		root(0, i + 1, 2000000 + i);
	spans = spans_of_interval();
	cr_expect_leq(json_array_size(spans), 3, "%zu", json_array_size(spans));
	cr_expect_geq(json_array_size(spans), 1);
	cr_expect_eq(attribute(json_array_get(spans, 0), "spanprof.roots.count"), 5300);
	json_decref(spans);
}

/* Roots become slower suddenly and for good: they must not fill the ring. */
Test(slow_list, raises_the_threshold_while_roots_become_slower)
{
	uint64_t before;

	for (unsigned interval = 0; interval < 3; interval++) {
		for (unsigned i = 0; i < 5000; i++) {
			root(0, i, latency(0));
			if (i % 100 == 0)
				drain();
		}
		json_decref(spans_of_interval());
	}
	before = told;
	for (unsigned i = 0; i < 5000; i++) {
		root(0, i, 10 * latency(0));
		if (i % 100 == 0)
			drain();
	}
	cr_expect_lt(told - before, 600, "%lu", told - before);
	json_decref(spans_of_interval());
}

Test(slow_list, lowers_the_threshold_when_roots_become_faster)
{
	json_t *spans;

	for (unsigned interval = 0; interval < 2; interval++) {
		for (unsigned i = 0; i < 2000; i++)
			root(0, i + 1, 100 * latency(0));
		json_decref(spans_of_interval());
	}
	for (unsigned i = 0; i < 2000; i++)
		root(0, i + 1, latency(0));
	json_decref(spans_of_interval());
	for (unsigned i = 0; i < 2000; i++)
		root(0, i + 1, latency(0));
	spans = spans_of_interval();
	cr_expect_eq(json_array_size(spans), 20);
	json_decref(spans);
}

Test(slow_list, survives_what_a_host_may_say)
{
	struct sp_slow_root r = record_of(SP_ROOT_PLACES, 1, 5);
	json_t *spans;
	json_t *span;
	size_t i;

	sp_slow_list_put(list, &r);
	r.place = UINT32_MAX;
	sp_slow_list_put(list, &r);
	cr_expect_eq(core.counter[SP_COUNT_SLOW_ROOTS_UNSENT], 2);
	r = record_of(SP_ROOT_NAMES, 1, UINT64_MAX);
	sp_slow_list_put(list, &r);
	r = record_of(0, 2, UINT64_MAX - 1);
	r.has = UINT32_MAX;
	r.cpu_ns = r.off_cpu_ns = r.runnable_ns = r.major_faults = r.allocated = UINT64_MAX;
	sp_slow_list_put(list, &r);
	for (uint32_t place = 0; place < SP_ROOT_PLACES; place++) {
		core.roots->name[place].name_id = UINT32_MAX;
		for (uint32_t b = 0; b < SP_DURATION_BUCKETS; b++)
			core.roots->histogram[place].count[b] = UINT64_MAX - b;
	}
	spans = spans_of_interval();
	cr_assert_eq(json_array_size(spans), 2);
	json_array_foreach(spans, i, span)
	{
		cr_expect_eq(number_of(span, "startTimeUnixNano"), 0);
		cr_expect_eq(attribute(span, "spanprof.roots.count"),
			     SP_DURATION_BUCKETS * SP_COUNT_MOST);
		cr_expect_leq(attribute(span, "spanprof.duration.p99_ns"),
			      UINT64_C(1) << SP_DURATION_BITS);
	}
	json_decref(spans);
	/* Counts that go down, and thresholds that are overwritten. */
	memset(core.roots, 0x5a, sizeof(*core.roots));
	cr_expect_null(spans_of_interval());
	memset(core.roots, 0, sizeof(*core.roots));
	cr_expect_null(spans_of_interval());
}

/* Each byte of these names takes six in JSON. */
Test(slow_list, is_bounded_by_the_length_of_names)
{
	static char longest[2049];
	json_t *spans;

	memset(longest, '\x01', sizeof(longest) - 1);
	core.label[0] = longest;
	core.config.slow = "1ns";
	for (unsigned i = 0; i < 900; i++)
		root(0, i + 1, 1000);
	spans = spans_of_interval();
	cr_expect_gt(json_array_size(spans), 100);
	cr_expect_lt(json_array_size(spans), 900);
	cr_expect_eq(core.counter[SP_COUNT_SLOW_ROOTS_OTHER], 900 - json_array_size(spans));
	json_decref(spans);
}

Test(slow_list, counts_what_it_gives_up)
{
	root(0, 1, 1000);
	root(1, 2, 1000);
	drain();
	sp_slow_list_abandon(list);
	cr_expect_eq(core.counter[SP_COUNT_SLOW_ROOTS_UNSENT], 2);
	sp_slow_list_abandon(list);
	cr_expect_eq(core.counter[SP_COUNT_SLOW_ROOTS_UNSENT], 2);
	sp_slow_list_abandon(NULL);
	sp_slow_list_put(NULL, &ring[0]);
	cr_expect_null(sp_slow_list_end(NULL, NULL));
}

Test(slow_list, names_the_service_and_the_process)
{
	static const char begin[] =
		"{\"resourceSpans\":[{\"resource\":{\"attributes\":[{\"key\":\"service.name\","
		"\"value\":"
		"{\"stringValue\":\"shop\"}},{\"key\":\"process.pid\",\"value\":{\"intValue\":"
		"\"4711\"}}]},"
		"\"scopeSpans\":[{\"scope\":{\"name\":\"spanprof\"},\"spans\":[{\"traceId\":";
	struct sp_slow_batch *b;
	struct sp_bytes text;

	root(0, 1, 1000);
	drain();
	b = sp_slow_list_end(list, NULL);
	cr_assert_not_null(b);
	cr_assert_eq(sp_slow_batch_json(b, &text), 0);
	cr_expect_eq(strncmp((char *)text.data, begin, strlen(begin)), 0, "%.*s", (int)text.len,
		     (char *)text.data);
	free(text.data);
	sp_slow_batch_free(b);
}

static enum sp_latency class_of(uint32_t place, uint64_t ns)
{
	return sp_slow_list_latency(list, &(struct sp_root_end){.place = place, .duration_ns = ns});
}

static void ended(uint32_t place, uint64_t ns)
{
	core.roots->name[place].name_id = place + 1;
	core.roots->histogram[place].count[sp_duration_bucket(ns)]++;
}

/* A thousand roots take 1 to 1,000 ms; a bucket is at most 6.3 % wide. */
Test(slow_list, tells_how_long_a_root_took_among_those_of_its_name)
{
	unsigned n[SP_LATENCIES] = {0};

	cr_expect_eq(class_of(0, 1000), SP_LATENCY_UNKNOWN);
	for (uint64_t ms = 1; ms <= 1000; ms++)
		ended(0, ms * 1000000);
	ended(1, 500);
	sp_slow_list_update(list);
	for (uint64_t ms = 1; ms <= 1000; ms++)
		n[class_of(0, ms * 1000000)]++;

	cr_expect(n[SP_LATENCY_P50] >= 500 && n[SP_LATENCY_P50] <= 532, "%u", n[SP_LATENCY_P50]);
	cr_expect(n[SP_LATENCY_P50] + n[SP_LATENCY_P90] >= 900 &&
			  n[SP_LATENCY_P50] + n[SP_LATENCY_P90] <= 957,
		  "%u", n[SP_LATENCY_P90]);
	cr_expect_leq(n[SP_LATENCY_SLOW], 10);
	cr_expect_eq(class_of(0, 1200 * UINT64_C(1000000)), SP_LATENCY_SLOW);
	cr_expect_eq(class_of(0, 0), SP_LATENCY_P50);
	cr_expect_eq(class_of(2, 5), SP_LATENCY_UNKNOWN, "no root has that name");
	cr_expect_eq(class_of(SP_ROOT_PLACES, 5), SP_LATENCY_UNKNOWN);
	cr_expect_eq(class_of(1, 500), SP_LATENCY_P50, "the only one is not slow");
	cr_expect_eq(sp_slow_list_latency(NULL, &(struct sp_root_end){.place = 0}),
		     SP_LATENCY_UNKNOWN);
	sp_slow_list_update(NULL);
}

Test(slow_list, takes_the_slowest_of_few_for_slow_only_if_it_stands_out)
{
	for (unsigned i = 0; i < 9; i++) {
		ended(0, 1000000);
		ended(1, 1000000);
	}
	ended(0, 5000000);
	ended(1, 1000000);
	sp_slow_list_update(list);
	cr_expect_eq(class_of(0, 5000000), SP_LATENCY_SLOW);
	cr_expect_eq(class_of(0, 1000000), SP_LATENCY_P50);
	cr_expect_eq(class_of(1, 1000000), SP_LATENCY_P50);
}

Test(slow_list, goes_by_the_duration_that_the_user_has_set)
{
	core.config.slow = "checkout=5ms,off";
	for (unsigned i = 1; i <= 10; i++) {
		ended(0, i * UINT64_C(1000000));
		ended(1, i * UINT64_C(1000000));
	}
	sp_slow_list_update(list);
	cr_expect_eq(class_of(0, 4999999), SP_LATENCY_P50);
	cr_expect_eq(class_of(0, 5000000), SP_LATENCY_SLOW);
	cr_expect_eq(class_of(0, 10000000), SP_LATENCY_SLOW);
	for (unsigned i = 1; i <= 20; i++)
		cr_expect_neq(class_of(1, i * UINT64_C(1000000)), SP_LATENCY_SLOW);
}

Test(slow_list, has_the_values_of_attributes_and_the_error)
{
	struct sp_span_values values = {.root_id = 5, .value[1] = {SP_SPAN_VALUE_TEXT, 4}};
	struct sp_slow_root r = record_of(0, 5, 250);
	struct sp_root_values *known;
	struct sp_slow_batch *b;
	struct sp_bytes text;

	core.config.span_labels = "http.route,user.id";
	core.config.span_latency = true;
	known = sp_root_values_new(&core.ops);
	memcpy(values.bytes, "a\"b\\", 4);
	sp_root_values_take(known, &values);
	r.has = SP_SLOW_ROOT_ERROR;
	sp_slow_list_put(list, &r);
	sp_slow_list_put(list, &(struct sp_slow_root){.span_id = 6, .place = 1, .duration_ns = 9});
	b = sp_slow_list_end(list, known);
	cr_assert_not_null(b);
	cr_expect_eq(sp_slow_batch_id(b, 0), 5);
	sp_root_values_free(known);
	cr_assert_eq(sp_slow_batch_json(b, &text), 0);
	cr_expect_not_null(
		strstr((char *)text.data,
		       "{\"key\":\"user.id\",\"value\":{\"stringValue\":\"a\\\"b\\\\\"}}"),
		"%s", (char *)text.data);
	cr_expect_null(strstr((char *)text.data, "http.route"));
	cr_expect_null(strstr((char *)text.data, "latency"));
	cr_expect_not_null(strstr((char *)text.data, "\"status\":{\"code\":2}"));
	cr_expect_null(strstr(strstr((char *)text.data, "\"status\"") + 1, "\"status\""),
		       "the other one has none");
	free(text.data);
	sp_slow_batch_free(b);
}
