/* SPDX-License-Identifier: Apache-2.0 */
/* From the stack map to profiles: markers, labels, splitting. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core_double.h"
#include "export/profile/encode.h"
#include "profile_reader.h"

static struct sp_modules *modules;
static struct sp_symbolizer *symbolizer;
static struct sp_pprof_limits limits;
static struct sp_stack_map *map; /* NULL = the interval has it */
static struct sp_interval *interval;
static struct sp_bounded_names *threads;
static struct sp_root_values *values;
static struct sp_series_labels *series; /* NULL = for a folder */

/* The encoded profiles. */
static profile *out[4096];
static uint64_t out_samples[4096];
static size_t out_bytes[4096];
static uint64_t out_others, out_over_series;
static bool out_all_labels; /* of the last one */
static unsigned outs;

static void set_up(void)
{
	core_reset();
	modules = sp_modules_new("/proc/self", -1);
	cr_assert_eq(sp_modules_refresh(modules), 0);
	map = sp_stack_map_new(&sp_stack_limits_default);
	symbolizer = sp_symbolizer_new(modules, &sp_symbolizer_options_default);
	limits = (struct sp_pprof_limits){SP_ENCODE_SAMPLES, SP_ENCODE_BYTES};
}

static void forget(void)
{
	while (outs != 0)
		profile_done(out[--outs]);
}

static void tear_down(void)
{
	forget();
	sp_interval_free(interval);
	sp_symbolizer_free(symbolizer);
	sp_modules_free(modules);
	sp_stack_map_free(map);
}

TestSuite(encode, .init = set_up, .fini = tear_down);

static bool with_lines;
/* The symbolizer's results and those known before exceed the limit together, so all are dropped the next time. */
static unsigned known_before;

/* Looks up consecutive addresses of this program. */
static void know(unsigned addresses)
{
	const struct sp_module *program = sp_modules_main(modules);
	struct sp_frame frame;

	for (unsigned i = 0; i < addresses; i++)
		sp_symbolize(symbolizer, program->lo + i % (program->hi - program->lo),
			     sp_modules_epoch(modules), &frame);
}

/* Makes an interval of the map, which it takes over. */
static void collect(void)
{
	sp_interval_free(interval);
	interval = sp_interval_new(&(struct sp_interval_parts){.ops = &core.ops,
							       .map = {map},
							       .threads = threads,
							       .values = values,
							       .time_ns = 1700000000000000000,
							       .duration_ns = 15000000000});
	cr_assert_not_null(interval);
	if (with_lines) {
		sp_symbolizer_begin(symbolizer);
		sp_interval_want(interval, symbolizer);
		while (sp_symbolizer_step(symbolizer, 1000000))
			;
		know(known_before);
		sp_symbolizer_end(symbolizer);
	}
	cr_assert(sp_interval_name(interval, symbolizer));
	map = NULL;
}

/* Records from to end - 1. */
static void encode_part(uint32_t from, uint32_t end)
{
	struct sp_encode_range range = {
		.interval = interval,
		.type = SP_PROFILE_CPU,
		.from = from,
		.end = end,
		.series = series,
	};
	struct sp_encoded encoded;

	while (range.from < range.end && sp_encode(&range, &limits, &encoded) == 0) {
		cr_assert_lt(outs, 4096);
		out[outs] = profile_read(encoded.bytes.data, encoded.bytes.len);
		out_bytes[outs] = encoded.bytes.len;
		cr_expect_eq(encoded.records, out[outs]->n_sample);
		for (size_t i = 0; i < out[outs]->n_sample; i++)
			cr_expect_eq(encoded.counted[i], out[outs]->sample[i]->value[0]);
		out_samples[outs++] = encoded.samples;
		out_others += encoded.others;
		out_over_series += encoded.over_series;
		out_all_labels = encoded.has_all_labels;
		sp_encoded_fini(&encoded);
		cr_assert_gt(encoded.end, range.from, "it would never end");
		range.from = encoded.end;
	}
}

static void encode_all(void)
{
	encode_part(0, sp_encode_all(interval, SP_PROFILE_CPU).end);
}

/* Moves the records of core into the map and encodes them. */
static void encode(void)
{
	for (unsigned i = 0; i < core.records; i++) {
		const struct sp_record *r = &core.record[i];

		if (r->kind == SP_RECORD_CPU_TIME)
			(void)sp_stack_map_put_cpu_time(map, &r->cpu_time, 0, 0);
		else
			(void)sp_stack_map_put(map, &r->sample, 0, 0);
	}
	core.records = 0;
	collect();
	encode_all();
}

static uint64_t kept_samples(void)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < outs; i++) {
		cr_expect_eq(out_samples[i], (uint64_t)profile_total(out[i], 0));
		sum += out_samples[i];
	}
	return sum;
}

Test(encode, writes_ids_in_memory_order, .timeout = 20)
{
	struct sp_sample *s = core_sample(0, 1, (void *)core_reset, NULL);

	core.label[0] = "GET /";
	memcpy(&s->span_id, "\x0a\x00\x00\x00\x00\x00\x00\x0b", 8);
	memcpy(s->trace_id, "\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\xf0", 16);
	encode();

	cr_assert_eq(outs, 1);
	cr_expect_str_eq(profile_label(out[0], out[0]->sample[0], "span_id"), "0a0000000000000b");
	cr_expect_str_eq(profile_label(out[0], out[0]->sample[0], "trace_id"),
			 "0102030405060708090a0b0c0d0e0ff0");
}

/* The ring, the tables and the profile take the labels of a sample from one list. */
Test(encode, knows_each_label_of_a_sample_by_its_name, .timeout = 20)
{
	static const char *const names[] = {
#define NAME_(name) #name,
		SP_FOR_EACH_SAMPLE_LABEL(NAME_)
#undef NAME_
	};
	static const char worker[SP_THREAD_NAME_BYTES] = "worker";
	struct sp_stack_labels labels = {.span_id = 1, .name_id = 1, .blocked_by_span_id = 2};
	const uint64_t pc = (uintptr_t)core_reset;
	const struct sp_stack_wait wait = {.labels = &labels, .stack = {.pc = &pc, .depth = 1}};

	core.label[0] = "GET /";
	memset(labels.trace_id, 2, sizeof(labels.trace_id));
	threads = sp_thread_names_new(&core.ops);
	labels.thread = sp_thread_names_put(threads, worker);
	cr_assert_eq(sp_stack_map_put_wait(map, &wait), 0);
	collect();
	encode_all();

	cr_assert_eq(outs, 1);
	cr_expect_eq(out[0]->sample[0]->n_label, SP_ARRAY_LEN(names));
	for (size_t i = 0; i < SP_ARRAY_LEN(names); i++)
		cr_expect_not_null(profile_label(out[0], out[0]->sample[0], names[i]), "%s",
				   names[i]);
	sp_bounded_names_free(threads);
}

static void root_has(uint64_t root_id, const char *text)
{
	struct sp_span_values r = {.root_id = root_id,
				   .value[1] = {SP_SPAN_VALUE_TEXT, (uint16_t)strlen(text)}};

	memcpy(r.bytes, text, strlen(text));
	sp_root_values_take(values, &r);
}

static void sample_of(uint64_t span_id, uint64_t root_id)
{
	core_sample(span_id, 0, (void *)core_reset, NULL)->root_id = root_id;
	(void)sp_stack_map_put(map, &core.record[0].sample, 0, 0);
	core.records = 0;
}

static void begin_values(void)
{
	core.config.span_labels = "http.route,db.statement";
	values = sp_root_values_new(&core.ops);
}

/*
 * The values come after the sample. A root that is still open has no known values, nor has a sample without a root.
 */
Test(encode, joins_values_of_attributes_by_the_root, .timeout = 20)
{
	begin_values();
	sample_of(10, 1);
	sample_of(2, 2);
	sample_of(3, 0);
	root_has(1, "SELECT ?");
	collect();
	encode_all();

	cr_assert_eq(outs, 1);
	cr_assert_eq(out[0]->n_sample, 3);
	cr_expect_str_eq(profile_label(out[0], out[0]->sample[0], "db_statement"), "SELECT ?");
	cr_expect_str_eq(profile_label(out[0], out[0]->sample[0], "span_id"), "0a00000000000000");
	for (size_t i = 0; i < 3; i++)
		cr_expect_eq(out[0]->sample[i]->n_label, i == 0 ? 2 : 1);
	sp_root_values_free(values);
}

static enum sp_latency latency_of(void *arg, const struct sp_root_end *end)
{
	(void)arg;
	return (enum sp_latency)end->duration_ns;
}

/* Roots 1 and 2 are usual, 3 is slow, 4 is open. */
Test(encode, leaves_ids_to_slow_and_open_roots, .timeout = 20)
{
	core.config.span_latency = core.config.slow_ids = true;
	values = sp_root_values_new(&core.ops);
	for (uint64_t id = 1; id <= 4; id++)
		sample_of(id, id);
	sample_of(5, 0);
	for (uint64_t id = 1; id <= 3; id++)
		sp_root_values_end(values,
				   &(struct sp_root_end){.root_id = id,
							 .duration_ns = id == 3 ? SP_LATENCY_SLOW
										: SP_LATENCY_P50});
	sp_root_values_decide(values, latency_of, NULL);
	collect();
	encode_all();

	cr_assert_eq(outs, 1);
	cr_assert_eq(out[0]->n_sample, 4);
	cr_expect_eq(out[0]->sample[0]->value[0], 2, "both usual ones");
	cr_expect_str_eq(profile_label(out[0], out[0]->sample[0], "latency"), "p50");
	cr_expect_eq(out[0]->sample[0]->n_label, 1);
	cr_expect_str_eq(profile_label(out[0], out[0]->sample[1], "latency"), "slow");
	cr_expect_str_eq(profile_label(out[0], out[0]->sample[1], "span_id"), "0300000000000000");
	cr_expect_str_eq(profile_label(out[0], out[0]->sample[2], "span_id"), "0400000000000000");
	cr_expect_eq(out[0]->sample[2]->n_label, 1);
	cr_expect_eq(out[0]->sample[3]->n_label, 0, "it has no root");
	sp_root_values_free(values);
}

/* Waits get them, too. */
Test(encode, joins_values_to_waits, .timeout = 20)
{
	struct sp_stack_labels labels = {.span_id = 1, .root_id = 1};
	const uint64_t pc = (uintptr_t)core_reset;
	const struct sp_stack_wait wait = {.labels = &labels, .stack = {.pc = &pc, .depth = 1}};

	begin_values();
	root_has(1, "SELECT ?");
	cr_assert_eq(sp_stack_map_put_wait(map, &wait), 0);
	collect();
	encode_all();
	cr_expect_str_eq(profile_label(out[0], out[0]->sample[0], "db_statement"), "SELECT ?");
	sp_root_values_free(values);
}

Test(encode, keeps_a_thousand_values_of_an_attribute_apart, .timeout = 60)
{
	char text[16];
	unsigned others = 0;

	begin_values();
	for (uint64_t id = 1; id <= 2 * (SP_INTERVAL_VALUES_MAX + 7); id++) {
		sample_of(id, id);
		(void)snprintf(text, sizeof(text), "v%u", (unsigned)(id / 2));
		root_has(id, text);
	}
	collect();
	encode_all();

	cr_assert_eq(outs, 1);
	for (size_t i = 0; i < out[0]->n_sample; i++) {
		const char *value = profile_label(out[0], out[0]->sample[i], "db_statement");

		cr_assert_not_null(value);
		others += strcmp(value, "(other)") == 0;
	}
	/* v0 has one span, the other values have two */
	cr_expect_eq(others, 2 * (SP_INTERVAL_VALUES_MAX + 7) - (2 * SP_INTERVAL_VALUES_MAX - 1));
	cr_expect_eq(core.counter[SP_COUNT_SPAN_VALUES_OTHER], others);
	sp_root_values_free(values);
}

static void expect_build_id(const char *text, uint64_t pc)
{
	const struct sp_module *mod = sp_modules_find(modules, pc, 0);
	char hex[2 * SP_BUILD_ID_MAX + 1];

	cr_assert_neq(mod->build_id_len, 0);
	for (size_t i = 0; i < mod->build_id_len; i++)
		(void)snprintf(hex + 2 * i, 3, "%02x", mod->build_id[i]);
	cr_expect_str_eq(text, hex);
}

/* Size of a profile with 50 roots of one sample each. */
static size_t bytes_of_roots(bool has_ids, bool has_traces)
{
	forget();
	if (map == NULL)
		map = sp_stack_map_new(&sp_stack_limits_default);
	for (unsigned i = 1; i <= 50; i++) {
		struct sp_sample *s = core_sample(has_ids ? i : 0, 0, (void *)core_reset, NULL);

		if (has_traces)
			memset(s->trace_id, (int)i, sizeof(s->trace_id));
	}
	encode();
	cr_assert_eq(outs, 1);
	return out_bytes[0];
}

/*
 * A span's id takes 18 bytes, a trace's 34, and each reference to one of them 6 or 7. Without both all samples are
 * one.
 */
Test(encode, ids_cost_the_bytes_that_the_manual_says, .timeout = 20)
{
	size_t all = bytes_of_roots(true, true), spans = bytes_of_roots(true, false);
	size_t none = bytes_of_roots(false, false);

	cr_expect_geq(all - spans, 50 * (34 + 6));
	cr_expect_leq(all - spans, 50 * (34 + 7) + 20);
	cr_expect_eq(out[0]->n_sample, 1);
	cr_expect_geq(spans - none, 50 * (18 + 6));
}

Test(encode, bounds_the_labels_of_a_server, .timeout = 20)
{
	core.label[0] = "a";
	core.label[1] = "b";
	core_sample(1, 1, (void *)core_reset, NULL);
	core_sample(2, 2, (void *)core_reset, NULL);
	core_sample(3, 2, (void *)core_reset, NULL);
	series = sp_series_labels_new("trace_id=", 1);
	encode();

	cr_assert_eq(out[0]->n_sample, 3);
	cr_expect_str_eq(profile_label(out[0], out[0]->sample[0], "span_name"), "a");
	cr_expect_str_eq(profile_label(out[0], out[0]->sample[1], "span_name"), "(other)");
	cr_expect_null(profile_label(out[0], out[0]->sample[0], "trace_id"));
	cr_expect_not_null(profile_label(out[0], out[0]->sample[1], "span_id"));
	cr_expect_eq(out_over_series, 2);
	sp_series_labels_free(series);
	series = NULL;
	forget();
	encode_all();
	cr_expect_str_eq(profile_label(out[0], out[0]->sample[1], "span_name"), "b");
}

Test(encode, begins_with_the_program_and_shares_locations, .timeout = 20)
{
	void *getenv_ = dlsym(RTLD_DEFAULT, "getenv");

	core_sample(1, 0, getenv_, (void *)core_reset, NULL);
	core_sample(2, 0, getenv_, (void *)core_logged, NULL);
	encode();

	cr_assert_eq(outs, 1);
	cr_expect_str_eq(strrchr(profile_string(out[0], out[0]->mapping[0]->filename), '/'),
			 "/test_encode");
	cr_expect_eq(out[0]->n_mapping, 2);
	for (size_t i = 0; i < 2; i++)
		expect_build_id(profile_string(out[0], out[0]->mapping[i]->build_id),
				i == 0 ? (uintptr_t)core_reset : (uintptr_t)getenv_);
	cr_expect_eq(out[0]->n_location, 3);
	cr_expect_eq(out[0]->sample[0]->location_id[0], out[0]->sample[1]->location_id[0]);
	for (size_t i = 0; i < out[0]->n_location; i++) {
		const Spanprof__Pprof__Location *l = out[0]->location[i];
		const Spanprof__Pprof__Mapping *m = out[0]->mapping[l->mapping_id - 1];

		cr_expect(l->address >= m->memory_start && l->address < m->memory_limit);
	}
}

Test(encode, marks_what_is_missing_of_a_stack, .timeout = 20)
{
	core_sample(1, 0, NULL);
	core_sample(2, 0, (void *)core_reset, NULL)->flags = 0;
	core_sample(3, 0, (void *)core_reset, NULL)->flags = SP_SAMPLE_TRUNCATED;
	core_sample(4, 0, (void *)core_reset, NULL);
	encode();

	cr_assert_eq(outs, 1);
	cr_assert_eq(out[0]->n_sample, 4);
	cr_expect_str_eq(profile_frame(out[0], out[0]->sample[0], 0), "[unknown]");
	cr_expect_str_eq(profile_frame(out[0], out[0]->sample[1], 1), "[incomplete]");
	cr_expect_str_eq(profile_frame(out[0], out[0]->sample[2], 1), "[truncated]");
	cr_expect_eq(out[0]->sample[3]->n_location_id, 1);
}

/* The base address of the object that contains that function. */
static uint64_t base_of(const void *function)
{
	Dl_info info;

	cr_assert(dladdr(function, &info));
	return (uintptr_t)info.dli_fbase;
}

Test(encode, leaves_out_frames_of_our_own_objects, .timeout = 20)
{
	uint64_t own[SP_REGION_OBJECTS] = {1, 0};

	own[1] = base_of((const void *)(uintptr_t)core_reset);
	sp_modules_set_own(modules, own);
	core_sample(1, 0, (void *)core_reset, (void *)strtol, (void *)core_reset, NULL);
	core_sample(2, 0, (void *)core_reset, (void *)strtol, NULL)->flags = 0;
	core_sample(3, 0, (void *)core_reset, NULL);
	encode();

	cr_assert_eq(outs, 1);
	cr_assert_eq(out[0]->n_sample, 3);
	cr_expect_eq(out[0]->sample[0]->n_location_id, 1, "it is complete as it was");
	cr_expect_str_neq(profile_frame(out[0], out[0]->sample[0], 0), "core_reset");
	cr_expect_eq(out[0]->sample[1]->n_location_id, 2);
	cr_expect_str_eq(profile_frame(out[0], out[0]->sample[1], 1), "[incomplete]");
	cr_expect_eq(out[0]->sample[2]->n_location_id, 1);
	cr_expect_str_eq(profile_frame(out[0], out[0]->sample[2], 0), "[unknown]");
}

Test(encode, leaves_out_frames_of_our_own_objects_without_their_names, .timeout = 20)
{
	struct sp_symbolizer_options options = sp_symbolizer_options_default;
	const uint64_t own[SP_REGION_OBJECTS] = {base_of((const void *)(uintptr_t)core_reset), 0};
	struct sp_modules *copy;

	sp_modules_set_own(modules, own);
	copy = sp_modules_copy(modules);
	cr_assert_not_null(copy);
	options.mode = SP_SYMBOLIZE_OFF;
	sp_symbolizer_free(symbolizer);
	symbolizer = sp_symbolizer_new(copy, &options);
	core_sample(1, 0, (void *)core_reset, (void *)strtol, NULL);
	encode();

	cr_assert_eq(outs, 1);
	cr_expect_eq(out[0]->sample[0]->n_location_id, 1);
	sp_symbolizer_free(symbolizer);
	symbolizer = NULL;
	sp_modules_free(copy);
}

Test(encode, shows_cpu_time_between_samples_above_the_start_routine, .timeout = 20)
{
	core_cpu_time(1, (void *)core_reset, 5000000000);
	core_cpu_time(1, (void *)core_reset, 1);
	core_cpu_time(0, NULL, 7);
	core_sample(1, 0, (void *)core_reset, NULL);
	encode();

	cr_assert_eq(outs, 1);
	cr_assert_eq(out[0]->n_sample, 3);
	cr_expect_str_eq(profile_frame(out[0], out[0]->sample[0], 0), "[unsampled cpu]");
	cr_expect_str_eq(profile_frame(out[0], out[0]->sample[0], 1), "core_reset");
	cr_expect_eq(out[0]->sample[0]->n_location_id, 2);
	cr_expect_not_null(profile_label(out[0], out[0]->sample[0], "span_id"));
	cr_expect_eq(out[0]->sample[0]->value[0], 0);
	cr_expect_eq(out[0]->sample[0]->value[1], 5000000001);
	cr_expect_str_eq(profile_frame(out[0], out[0]->sample[1], 0), "[unsampled cpu]");
	cr_expect_eq(out[0]->sample[1]->n_location_id, 1);
	cr_expect_eq(kept_samples(), 1);
}

Test(encode, keeps_sums_that_no_host_can_have_from_going_round, .timeout = 20)
{
	core_cpu_time(1, NULL, UINT64_MAX);
	core_cpu_time(2, NULL, INT64_MAX);
	for (unsigned i = 0; i < 10; i++)
		core_sample(3, 0, NULL)->weight = UINT32_MAX;
	core.config.sample_rate_hz = 1;
	encode();

	cr_assert_eq(outs, 1);
	cr_assert_eq(out[0]->n_sample, 3);
	for (unsigned i = 0; i < 3; i++)
		cr_expect_eq(out[0]->sample[i]->value[1], INT64_MAX, "sample %u", i);
}

Test(encode, shows_other_for_stacks_over_the_limit, .timeout = 20)
{
	static const struct sp_stack_limits one = {2, 100, 100};

	sp_stack_map_free(map);
	map = sp_stack_map_new(&one);
	core_sample(1, 0, (void *)core_reset, NULL);
	core_sample(1, 0, (void *)core_logged, NULL)->weight = 5;
	encode();

	cr_assert_eq(outs, 1);
	cr_assert_eq(out[0]->n_sample, 2);
	cr_expect_str_eq(profile_frame(out[0], out[0]->sample[1], 0), "(other)");
	cr_expect_not_null(profile_label(out[0], out[0]->sample[1], "span_id"));
	cr_expect_eq(profile_total(out[0], 1), 60000000, "the time must stay");
}

static unsigned count_label(const profile *p, const profile_sample *s, const char *key)
{
	unsigned n = 0;

	for (size_t i = 0; i < s->n_label; i++)
		n += strcmp(profile_string(p, s->label[i]->key), key) == 0;
	return n;
}

static void put_named(const char *name, uint64_t span_id)
{
	struct sp_sample *s = core_sample(span_id, 0, (void *)core_reset, NULL);

	strcpy(s->thread_name, name);
	(void)sp_stack_map_put(map, s, 0, sp_thread_names_put(threads, s->thread_name));
	core.records = 0;
}

Test(encode, names_the_thread_of_each_sample_once, .timeout = 20)
{
	static const struct sp_stack_limits two = {100, 4, 100};
	static const char *const expected[] = {"(unknown)", "a", "b", "(unknown)"};

	threads = sp_thread_names_new(&core.ops);
	sp_stack_map_free(map);
	map = sp_stack_map_new(&two);
	put_named("a", 1);
	put_named("b", 1);
	put_named("a", 1);
	put_named("", 1);
	put_named("c", 1); /* the fifth entry: "(other)", without a label */
	encode();

	cr_assert_eq(outs, 1);
	cr_assert_eq(out[0]->n_sample, 4);
	for (size_t i = 0; i < 4; i++) {
		cr_expect_str_eq(profile_label(out[0], out[0]->sample[i], "thread_name"),
				 expected[i]);
		cr_expect_eq(count_label(out[0], out[0]->sample[i], "thread_name"), 1);
	}
	cr_expect_eq(out[0]->sample[1]->value[0], 2, "equal names are one row");
	sp_bounded_names_free(threads);
}

Test(encode, sends_losses_as_comments, .timeout = 20)
{
	bool found = false;

	core.counter[SP_COUNT_DROP_RING_FULL] = 12;
	core.counter[SP_COUNT_SIGNALS] = 99;
	core_sample(1, 0, (void *)core_reset, NULL);
	encode();

	cr_assert_eq(outs, 1);
	cr_expect_str_eq(profile_string(out[0], out[0]->comment[0]), "spanprof 0.1.0");
	for (size_t i = 0; i < out[0]->n_comment; i++) {
		const char *text = profile_string(out[0], out[0]->comment[i]);

		found = found || strcmp(text, "dropped_ring_full=12") == 0;
		cr_expect_null(strstr(text, "signals="));
	}
	cr_expect(found);
}

/* n distinct samples of one frame each. */
static void put_distinct(unsigned n)
{
	struct sp_sample s = {.weight = 1, .depth = 1, .flags = SP_SAMPLE_ROOTED};

	for (unsigned i = 0; i < n; i++) {
		s.span_id = i + 1;
		s.pc[0] = (uintptr_t)core_reset;
		(void)sp_stack_map_put(map, &s, 0, 0);
	}
}

Test(encode, fills_a_profile_to_the_sample_limit_and_not_beyond, .timeout = 60)
{
	static const unsigned n[] = {SP_ENCODE_SAMPLES - 1, SP_ENCODE_SAMPLES,
				     SP_ENCODE_SAMPLES + 1};
	static const unsigned profiles[] = {1, 1, 2};

	for (size_t i = 0; i < 3; i++) {
		forget();
		sp_stack_map_free(map);
		map = sp_stack_map_new(&sp_stack_limits_default);
		put_distinct(n[i]);
		collect();
		encode_all();
		cr_expect_eq(outs, profiles[i], "%u samples in %u profiles", n[i], outs);
		cr_expect_eq(kept_samples(), n[i]);
	}
}

Test(encode, splits_at_the_byte_limit_without_losing_a_sample, .timeout = 60)
{
	limits.bytes = 20000;
	put_distinct(3000);
	collect();
	encode_all();

	cr_expect_gt(outs, 5);
	for (unsigned i = 0; i < outs; i++) {
		cr_expect_leq(out_bytes[i], 20000);
		cr_expect(i + 1 == outs || out_bytes[i] > 19000, "%zu bytes are a poor fill",
			  out_bytes[i]);
		cr_expect_eq(out[i]->time_nanos, 1700000000000000000);
	}
	cr_expect_eq(kept_samples(), 3000);
}

Test(encode, keeps_the_time_of_a_stack_that_fits_no_profile, .timeout = 60)
{
	struct sp_sample s = {.span_id = 1, .weight = 1, .flags = SP_SAMPLE_ROOTED};

	s.depth = SP_FRAMES_MAX;
	for (unsigned i = 0; i < s.depth; i++)
		s.pc[i] = (uintptr_t)core_reset + i;
	(void)sp_stack_map_put(map, &s, 0, 0);
	core_sample(2, 0, (void *)core_reset, NULL);
	limits.bytes = 1500;
	encode();

	cr_expect_eq(kept_samples(), 2);
	cr_expect_eq(out_others, 1);
	cr_expect_str_eq(profile_frame(out[0], out[0]->sample[0], 0), "(other)");
}

/* A folder gets all labels. If a server gets all of them as well, both get one profile. */
Test(encode, says_whether_a_server_gets_all_labels, .timeout = 20)
{
	struct sp_stack_labels labels = {.span_id = 1};
	const uint64_t pc = (uintptr_t)core_reset;
	const struct sp_stack_wait wait = {.labels = &labels, .stack = {.pc = &pc, .depth = 1}};

	labels.trace_id[0] = 1;
	cr_assert_eq(sp_stack_map_put_wait(map, &wait), 0);
	collect();
	encode_all();
	cr_expect(out_all_labels, "for a folder");
	series = sp_series_labels_new(NULL, 10);
	encode_all();
	cr_expect(out_all_labels);
	sp_series_labels_free(series);
	series = sp_series_labels_new("trace_id=", 10);
	encode_all();
	cr_expect_not(out_all_labels);
	sp_series_labels_free(series);

	map = sp_stack_map_new(&sp_stack_limits_default);
	labels.blocked_by_span_id = 2;
	cr_assert_eq(sp_stack_map_put_wait(map, &wait), 0);
	collect();
	series = sp_series_labels_new(NULL, 10);
	encode_all();
	cr_expect_not(out_all_labels, "holders of locks are for folders");
	sp_series_labels_free(series);
	series = NULL;
}

/* A name that is replaced by "(other)" is in the folder. */
Test(encode, says_that_a_server_gets_another_label, .timeout = 20)
{
	core.label[0] = "GET /";
	core.label[1] = "POST /";
	core_sample(1, 1, (void *)core_reset, NULL);
	core_sample(2, 2, (void *)core_reset, NULL);
	series = sp_series_labels_new(NULL, 1);
	encode();
	cr_expect_eq(out_over_series, 1);
	cr_expect_not(out_all_labels);
	sp_series_labels_free(series);
	series = NULL;
}

Test(encode, gives_the_same_bytes_for_the_same_samples, .timeout = 20)
{
	put_distinct(100);
	collect();
	encode_all();
	encode_all();

	cr_assert_eq(outs, 2);
	cr_expect_eq(out_bytes[1], out_bytes[0]);
	cr_expect_eq(out[0]->n_sample, out[1]->n_sample);
}

Test(encode, leaves_objects_to_the_server_when_symbolization_is_off, .timeout = 20)
{
	struct sp_symbolizer_options off = sp_symbolizer_options_default;
	const struct sp_module *self = sp_modules_main(modules);
	const profile_location *l;

	off.mode = SP_SYMBOLIZE_OFF;
	sp_symbolizer_free(symbolizer);
	symbolizer = sp_symbolizer_new(modules, &off);
	core_sample(0, 0, (void *)core_reset, (void *)core_logged, (void *)16, NULL);
	encode();

	cr_assert_eq(outs, 1);
	cr_expect_eq(out[0]->n_mapping, 2, "one of the program, one of what nobody knows");
	cr_assert_eq(out[0]->n_location, 3);
	l = out[0]->location[0];
	cr_expect_eq(l->address, (uintptr_t)core_reset - self->bias);
	cr_expect_eq(l->mapping_id, out[0]->location[1]->mapping_id);
	cr_expect_eq(l->n_line, 0);
	cr_expect_not(out[0]->mapping[l->mapping_id - 1]->has_functions);
	cr_expect_neq(out[0]->mapping[l->mapping_id - 1]->build_id, 0);
	cr_expect_eq(out[0]->location[2]->n_line, 1);
	cr_expect_str_eq(profile_frame(out[0], out[0]->sample[0], 2), "[unknown]");
}

static void expect_lines(void)
{
	bool lines = false;

	core_sample(0, 0, (void *)core_reset, NULL);
	(void)sp_stack_map_put(map, &core.record[0].sample, 0, 0);
	core.records = 0;
	with_lines = true;
	encode();

	cr_assert_eq(outs, 1);
	for (size_t i = 0; i < out[0]->n_location; i++) {
		const profile_location *l = out[0]->location[i];
		const char *file = profile_string(
			out[0], out[0]->function[l->line[0]->function_id - 1]->filename);

		cr_expect(out[0]->mapping[l->mapping_id - 1]->has_line_numbers);
		lines = lines || (l->line[0]->line > 50 && strstr(file, "core_double.c") != NULL);
	}
	cr_expect(lines);
}

Test(encode, writes_files_lines_and_inlined_functions, .timeout = 20)
{
	expect_lines();
}

Test(encode, what_was_prepared_has_its_lines_however_much_is_known, .timeout = 60)
{
	known_before = 300000;
	expect_lines();
}
