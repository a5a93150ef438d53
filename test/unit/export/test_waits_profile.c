/* SPDX-License-Identifier: Apache-2.0 */
/* Waits that are summed up and encoded: as a separate profile, with CPU time, and what each one counts. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core_double.h"
#include "export/profile/encode.h"
#include "profile_reader.h"

static struct sp_modules *modules;
static struct sp_symbolizer *symbolizer;
static struct sp_interval *interval;
static struct sp_stack_map *map;
static struct sp_stack_map *waits;
static struct sp_bounded_names *names;
static profile *out;
static uint64_t out_samples;

static void set_up(void)
{
	core_reset();
	modules = sp_modules_new("/proc/self", -1);
	cr_assert_eq(sp_modules_refresh(modules), 0);
	map = sp_stack_map_new(&sp_stack_limits_default);
	waits = sp_stack_map_new(&sp_stack_limits_default);
	names = sp_wait_names_new(&core.ops);
	symbolizer = sp_symbolizer_new(modules, &sp_symbolizer_options_default);
}

static void tear_down(void)
{
	if (out != NULL)
		profile_done(out);
	if (interval == NULL) {
		sp_stack_map_free(map);
		sp_stack_map_free(waits);
	}
	sp_interval_free(interval);
	sp_symbolizer_free(symbolizer);
	sp_modules_free(modules);
	sp_bounded_names_free(names);
}

TestSuite(waits_profile, .init = set_up, .fini = tear_down, .timeout = 20);

static void wait(const char *name, uint64_t span_id, uint64_t ns)
{
	const uint64_t pc[] = {(uintptr_t)dlsym(RTLD_DEFAULT, "getenv")};
	const struct sp_stack_labels labels = {.span_id = span_id};
	const struct sp_stack_wait w = {
		.labels = &labels,
		.stack = {.pc = pc,
			  .depth = name[0] != '[',
			  .flags = SP_SAMPLE_ROOTED,
			  .wait = sp_wait_names_put(names, name)},
		.ns = ns,
	};

	cr_expect_eq(sp_stack_map_put_wait(waits, &w), SP_STACK_KEPT);
}

/* Makes an interval of all waits, and one profile of that type. */
static void encode(enum sp_profile_type type)
{
	const struct sp_pprof_limits limits = {SP_ENCODE_SAMPLES, SP_ENCODE_BYTES};
	struct sp_encode_range range;
	struct sp_encoded encoded;

	bool is_new = interval == NULL;

	if (is_new)
		interval =
			sp_interval_new(&(struct sp_interval_parts){.ops = &core.ops,
								    .map = {map, waits},
								    .wait_names = names,
								    .time_ns = 1700000000000000000,
								    .duration_ns = 1});
	cr_assert_not_null(interval);
	cr_assert(!is_new || sp_interval_name(interval, symbolizer));
	range = sp_encode_all(interval, type);
	cr_assert_eq(sp_encode(&range, &limits, &encoded), 0);
	cr_assert_eq(encoded.end, range.end);
	cr_expect_eq(encoded.samples, sp_encode_samples(&range));
	if (out != NULL)
		profile_done(out);
	out = profile_read(encoded.bytes.data, encoded.bytes.len);
	out_samples = encoded.samples;
	sp_encoded_fini(&encoded);
}

static const char *type_of(size_t i)
{
	return profile_string(out, out->sample_type[i]->type);
}

Test(waits_profile, has_what_is_waited_for_as_its_leaves)
{
	wait("read (pipe)", 1, 50);
	wait("read (pipe)", 1, 30);
	wait("read (file)", 1, 7);
	wait("[waiting for a CPU]", 2, 5);
	core.config.off_cpu = true;
	encode(SP_PROFILE_OFF_CPU);

	cr_assert_not_null(out);
	cr_expect_str_eq(type_of(0), "samples");
	cr_expect_str_eq(type_of(1), "off_cpu");
	cr_assert_not_null(out->period_type, "the server needs one");
	cr_expect_str_eq(profile_string(out, out->period_type->type), "");
	cr_expect_eq(out->period, 0);
	cr_expect_eq(out_samples, 4);
	cr_expect_eq(profile_total(out, 0), 4);
	cr_expect_eq(profile_total(out, 1), 92);
	cr_assert_eq(out->n_sample, 3);
	cr_expect_str_eq(profile_frame(out, out->sample[0], 0), "read (pipe)");
	cr_expect_str_eq(profile_frame(out, out->sample[0], 1), "getenv");
	cr_expect_eq(out->sample[0]->value[1], 80);
	cr_expect_str_eq(profile_frame(out, out->sample[1], 0), "read (file)");
	cr_expect_str_eq(profile_frame(out, out->sample[2], 0), "[waiting for a CPU]");
	cr_expect_eq(out->sample[2]->n_location_id, 1);
}

/* Adds a wait of ns for a lock, whose owner is in a span with that name, and in that function. */
static void wait_for(uint32_t owner, const char *function, uint64_t ns)
{
	const uint64_t pc[] = {
		function != NULL ? (uintptr_t)dlsym(RTLD_DEFAULT, function) : 0,
		(uintptr_t)dlsym(RTLD_DEFAULT, "getenv"),
	};
	const struct sp_stack_labels labels = {.span_id = 1, .blocked_by_span_id = 2};
	const struct sp_stack_wait w = {
		.labels = &labels,
		.stack = {.pc = pc + (function == NULL),
			  .depth = 1 + (function != NULL),
			  .flags = SP_SAMPLE_ROOTED,
			  .wait = sp_wait_names_put(names, "futex (lock)"),
			  .owner = owner,
			  .has_owner_pc = function != NULL},
		.ns = ns,
	};

	cr_expect_eq(sp_stack_map_put_wait(waits, &w), SP_STACK_KEPT);
}

static size_t sample_of(const char *leaf)
{
	size_t i = 0;

	while (i < out->n_sample && strcmp(profile_frame(out, out->sample[i], 0), leaf) != 0)
		i++;
	cr_assert_lt(i, out->n_sample, "%s", leaf);
	return i;
}

Test(waits_profile, tells_who_holds_the_lock_below_the_wait)
{
	static const struct {
		uint32_t owner;
		const char *function;
		const char *frame;
		uint64_t ns;
	} owners[] = {
		{1, "setenv", "held by GET /checkout in setenv", 50},
		{1, "unsetenv", "held by GET /checkout in unsetenv", 8},
		{1, NULL, "held by GET /checkout", 7},
		{2, "setenv", "held by GET / in setenv", 5},
		{SP_STACK_OWNER_UNNAMED, "setenv", "held by a span in setenv", 3},
	};

	core.label[0] = "GET /checkout";
	core.label[1] = "GET /";
	for (size_t i = 0; i < sizeof(owners) / sizeof(owners[0]); i++)
		for (unsigned k = 0; k < 2; k++)
			wait_for(owners[i].owner, owners[i].function, owners[i].ns);
	wait("futex (lock)", 1, 2);
	encode(SP_PROFILE_OFF_CPU);

	cr_assert_eq(out->n_sample, 6);
	for (size_t i = 0; i < sizeof(owners) / sizeof(owners[0]); i++) {
		const Spanprof__Pprof__Sample *s = out->sample[sample_of(owners[i].frame)];

		cr_expect_eq(s->n_location_id, 3);
		cr_expect_str_eq(profile_frame(out, s, 1), "futex (lock)");
		cr_expect_str_eq(profile_frame(out, s, 2), "getenv");
		cr_expect_eq((uint64_t)s->value[1], 2 * owners[i].ns);
		cr_expect_not_null(profile_label(out, s, "blocked_by_span_id"));
	}
	cr_expect_null(
		profile_label(out, out->sample[sample_of("futex (lock)")], "blocked_by_span_id"));
}

Test(waits_profile, tells_a_deadlock_by_spans_and_functions)
{
	static const struct {
		enum sp_symbolize_mode mode;
		const char *text;
	} modes[] = {
		{SP_SYMBOLIZE_FULL, "thread 11 (teller) in GET /checkout in getenv waits for a "
				    "lock of thread 12 (bad name) in a "
				    "span in setenv, which waits for a lock of thread 13 () in GET "
				    "/, which waits for one of "
				    "the first"},
		{SP_SYMBOLIZE_OFF, "thread 11 (teller) in GET /checkout at libc.so.6+0x"},
	};
	const struct sp_interval_thread threads[] = {
		{.tid = 11,
		 .name_id = 1,
		 .name = "teller",
		 .pc = (uintptr_t)dlsym(RTLD_DEFAULT, "getenv") + 1},
		{.tid = 12,
		 .name = "bad\nname",
		 .pc = (uintptr_t)dlsym(RTLD_DEFAULT, "setenv") + 1},
		{.tid = 13, .name_id = 2},
	};
	struct sp_interval_parts parts = {
		.ops = &core.ops, .wait_names = names, .deadlock = threads, .deadlocked = 3};
	char text[512];

	core.label[0] = "GET /checkout";
	core.label[1] = "GET /";
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		struct sp_symbolizer_options options = sp_symbolizer_options_default;
		struct sp_symbolizer *s;
		struct sp_interval *locked = sp_interval_new(&parts);

		options.mode = modes[i].mode;
		s = sp_symbolizer_new(modules, &options);
		cr_assert(sp_interval_name(locked, s));
		sp_interval_deadlock(locked, text, sizeof(text));
		cr_expect_eq(strncmp(text, modes[i].text, strlen(modes[i].text)), 0, "%s", text);
		sp_interval_free(locked);
		sp_symbolizer_free(s);
	}
}

Test(waits_profile, of_both_stands_for_waits_alone)
{
	struct sp_sample *s = core_sample(1, 0, dlsym(RTLD_DEFAULT, "getenv"), NULL);

	(void)sp_stack_map_put(map, s, 0, 0);
	wait("read (pipe)", 1, 50);
	core.config.wall = true;
	encode(SP_PROFILE_WALL);

	cr_assert_not_null(out);
	cr_expect_str_eq(type_of(1), "wall");
	cr_expect_str_eq(profile_string(out, out->period_type->type), "wall");
	cr_expect_eq(out_samples, 1);
	cr_expect_eq(profile_total(out, 0), 2);
	cr_expect_eq(profile_total(out, 1), 10000050);
	/* and counts nothing if waits have a profile of their own as well */
	core.config.off_cpu = true;
	encode(SP_PROFILE_WALL);
	cr_expect_eq(out_samples, 0);
}

Test(waits_profile, of_cpu_time_is_as_it_was)
{
	struct sp_sample *s = core_sample(1, 0, dlsym(RTLD_DEFAULT, "getenv"), NULL);

	(void)sp_stack_map_put(map, s, 0, 0);
	wait("read (pipe)", 1, 50);
	encode(SP_PROFILE_CPU);
	cr_assert_not_null(out);
	cr_expect_str_eq(type_of(1), "cpu");
	cr_expect_eq(out_samples, 1);
}

/* Adds n names. name gets the last one; returns its id. */
static uint32_t put_names(unsigned n, char name[300])
{
	uint32_t last = 0;

	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(name, 300, "read /file/%u", i);
		last = sp_wait_names_put(names, name);
		cr_expect_neq(last, 0);
	}
	return last;
}

/* The names may contain files and addresses, and each is a string of every profile. */
Test(waits_profile, has_a_bound_on_names)
{
	char name[300];
	uint32_t last = put_names(SP_WAIT_NAMES_MAX + 5, name);

	cr_expect_str_eq(sp_wait_names_text(names, last), "read (other)");
	cr_expect_eq(core.counter[SP_COUNT_WAIT_NAMES_OTHER], 5);
	cr_expect_str_eq(
		sp_wait_names_text(names, sp_wait_names_put(names, "connect tcp 10.0.0.1:80")),
		"connect (other)");
	cr_expect_str_eq(sp_wait_names_text(names, sp_wait_names_put(names, "fsync")),
			 "fsync (other)");
	cr_expect_str_eq(sp_wait_names_text(names, sp_wait_names_put(names, "[waiting for a CPU]")),
			 "[waiting for a CPU]");
	memset(name, 'x', 40);
	strcpy(name + 40, " file");
	cr_expect_str_eq(sp_wait_names_text(names, sp_wait_names_put(names, name)), "(other)");
	cr_expect_eq(sp_wait_names_text(names, sp_wait_names_put(names, name + 1))[0], 'x');
	/* There are few system calls; their number is bounded all the same. */
	for (unsigned i = 0; i < 1000; i++) {
		(void)snprintf(name, sizeof(name), "call%u file", i);
		last = sp_wait_names_put(names, name);
	}
	cr_expect_str_eq(sp_wait_names_text(names, last), "(other)");
	cr_expect_eq(sp_wait_names_put(names, "read /file/0"),
		     sp_wait_names_put(names, "read /file/0"));
	cr_expect_str_eq(sp_wait_names_text(names, sp_wait_names_put(names, "read /file/0")),
			 "read /file/0");
	cr_expect_str_eq(sp_wait_names_text(names, sp_wait_names_put(names, "")), "(other)");
	cr_expect_str_eq(sp_wait_names_text(names, UINT32_MAX), "(other)");
}

/* A server may have more client addresses within minutes. */
Test(waits_profile, has_names_again_after_one_that_had_too_many)
{
	char name[300];
	uint32_t id = put_names(SP_WAIT_NAMES_MAX + 1, name);

	sp_wait_names_clear(names);
	cr_expect_str_eq(sp_wait_names_text(names, id), "(other)");
	id = sp_wait_names_put(names, name);
	cr_expect_str_eq(sp_wait_names_text(names, id), name);
}

Test(waits_profile, has_names_of_any_bytes_as_text)
{
	char name[400];

	memset(name, 0xff, sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	wait(name, 1, 1);
	encode(SP_PROFILE_OFF_CPU);
	/* profile_read() refuses a text that is no UTF-8 */
	cr_assert_not_null(out);
	cr_expect_lt(strlen(profile_frame(out, out->sample[0], 0)), SP_WAIT_NAME_BYTES);
}
