/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations are summed up, encoded as a separate profile, and shown by spanprof-report. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core_double.h"
#include "export/profile/encode.h"
#include "profile_reader.h"
#include "report_unit.h"
#include "test/unit/scratch.h"

#define MEAN 524288U

static struct sp_stack_map *map;
static struct sp_stack_map *allocations;

static void set_up(void)
{
	core_reset();
	core.config.alloc = true;
	core.config.alloc_interval = MEAN;
	map = sp_stack_map_new(&sp_stack_limits_default);
	allocations = sp_stack_map_new(&sp_stack_limits_default);
}

TestSuite(memory_profile, .init = set_up, .timeout = 20);

static void put(uint64_t span_id, uint64_t bytes)
{
	struct sp_sample s = {.span_id = span_id,
			      .weight = 1,
			      .depth = 1,
			      .flags = SP_SAMPLE_ROOTED,
			      .allocated = bytes,
			      .pc = {(uintptr_t)dlsym(RTLD_DEFAULT, "getenv")}};

	cr_expect_eq(sp_stack_map_put_allocation(allocations, &s, 0, 0, MEAN), SP_STACK_KEPT);
}

/* The first entry is the one for samples without room. */
static double blocks_of(uint32_t entry)
{
	return (double)sp_stack_map_entry(allocations, entry)->weight / SP_STACK_BLOCK;
}

Test(memory_profile, counts_a_sample_for_the_inverse_of_its_chance)
{
	put(1, 1);
	put(2, 1000);
	put(2, 1000);
	put(3, MEAN);
	put(4, UINT64_C(1) << 30);

	cr_expect_leq(fabs(blocks_of(1) - (MEAN + 0.5)), 0.01, "%f", blocks_of(1));
	cr_expect_eq(sp_stack_map_entry(allocations, 1)->unsampled_ns, MEAN + 1);
	cr_expect_leq(fabs(blocks_of(2) - 2 / -expm1(-1000.0 / MEAN)), 0.01, "%f", blocks_of(2));
	cr_expect_eq(sp_stack_map_entry(allocations, 2)->count, 2);
	cr_expect_leq(fabs(blocks_of(3) - 1.58198), 1e-4, "%f", blocks_of(3));
	cr_expect_eq(blocks_of(4), 1);
	cr_expect_eq(sp_stack_map_entry(allocations, 4)->unsampled_ns, UINT64_C(1) << 30);
}

/* The host may write any numbers. */
Test(memory_profile, has_sums_that_end)
{
	for (int i = 0; i < 3; i++)
		put(1, UINT64_MAX / 2);
	cr_expect_eq(sp_stack_map_entry(allocations, 1)->unsampled_ns, UINT64_MAX);
}

static struct sp_interval *interval;
static struct sp_symbolizer *symbolizer;

static profile *encode(enum sp_profile_type type, struct sp_encoded *encoded)
{
	const struct sp_pprof_limits limits = {SP_ENCODE_SAMPLES, SP_ENCODE_BYTES};
	struct sp_encode_range range = sp_encode_all(interval, type);

	cr_assert_eq(sp_encode(&range, &limits, encoded), 0);
	cr_expect_eq(encoded->samples, sp_encode_samples(&range));
	return profile_read(encoded->bytes.data, encoded->bytes.len);
}

Test(memory_profile, has_the_types_that_go_and_pyroscope_know)
{
	struct sp_modules *modules = sp_modules_new("/proc/self", -1);
	struct sp_sample cpu = {.weight = 3, .flags = SP_SAMPLE_ROOTED, .span_id = 7};
	struct sp_encoded encoded;
	profile *p;

	cr_assert_eq(sp_modules_refresh(modules), 0);
	symbolizer = sp_symbolizer_new(modules, &sp_symbolizer_options_default);
	put(7, MEAN);
	put(0, 8 * MEAN);
	cr_expect_eq(sp_stack_map_put(map, &cpu, 0, 0), SP_STACK_KEPT);
	interval = sp_interval_new(&(struct sp_interval_parts){
		.ops = &core.ops,
		.map = {[SP_MAP_SAMPLES] = map, [SP_MAP_ALLOCATIONS] = allocations},
		.duration_ns = 1});
	cr_assert(sp_interval_name(interval, symbolizer));

	p = encode(SP_PROFILE_MEMORY, &encoded);
	cr_expect_str_eq(sp_profile_type_row(SP_PROFILE_MEMORY)->names.series, "memory");
	cr_expect_str_eq(profile_string(p, p->sample_type[0]->type), "alloc_objects");
	cr_expect_str_eq(profile_string(p, p->sample_type[0]->unit), "count");
	cr_expect_str_eq(profile_string(p, p->sample_type[1]->type), "alloc_space");
	cr_expect_str_eq(profile_string(p, p->sample_type[1]->unit), "bytes");
	cr_expect_str_eq(profile_string(p, p->period_type->type), "space");
	cr_expect_str_eq(profile_string(p, p->period_type->unit), "bytes");
	cr_expect_eq(p->period, MEAN);
	cr_expect_eq(encoded.samples, 2);
	cr_assert_eq(p->n_sample, 2);
	cr_expect_str_eq(profile_frame(p, p->sample[0], 0), "getenv");
	cr_expect_eq(p->sample[0]->value[0], 1);
	cr_expect_eq(p->sample[0]->value[1], 829411);
	cr_expect_eq(p->sample[1]->value[1], 4195712);
	profile_done(p);
	sp_encoded_fini(&encoded);

	/* The profile of CPU time has no part of it. */
	p = encode(SP_PROFILE_CPU, &encoded);
	cr_expect_eq(encoded.samples, 1);
	cr_expect_eq(profile_total(p, 0), 1);
	profile_done(p);
	sp_encoded_fini(&encoded);
	sp_interval_free(interval);
	sp_symbolizer_free(symbolizer);
	sp_modules_free(modules);
}

static void set_up_report(void)
{
	scratch_make();
	unsetenv("NO_COLOR");
}

TestSuite(memory_report, .init = set_up_report, .fini = scratch_remove);

static const char *const parse[] = {"parse@p.c:7", "handle@h.c:20", "main"};
static const char *const copy[] = {"copy@c.c:3", "main"};

static const struct report_stack on_cpu[] = {
	{parse, 3, "00000000000000aa", "GET", NULL, 10, 0, NULL, NULL},
};
static const struct report_stack allocated[] = {
	{parse, 3, "00000000000000aa", "GET", NULL, 3000, 30 << 20, NULL, NULL},
	{copy, 2, NULL, NULL, NULL, 1000, 10 << 20, NULL, NULL},
};

static void write_type(const char *name, enum sp_profile_type type,
		       const struct report_stack *stack, size_t n)
{
	struct sp_bytes b = report_profile_of(type, stack, n);

	scratch_write(name, b.data, b.len);
	free(b.data);
}

Test(memory_report, tells_blocks_and_bytes)
{
	json_t *j;

	write_type("c.pb", SP_PROFILE_CPU, on_cpu, 1);
	write_type("m.pb", SP_PROFILE_MEMORY, allocated, 2);

	cr_assert_eq(run_scratch("--type", "alloc_space"), 0, "%s", output);
	cr_expect(printed("1 profile, 4000 blocks, 40.00 MiB allocated; in spans: 3000 blocks, "
			  "30.00 MiB allocated (75.0 %), 1 span\n"),
		  "%s", output);
	cr_expect(printed("    spans    blocks        MiB  % of spans  span_name\n"
			  "        1      3000      30.00      100.0%  GET\n"),
		  "%s", output);
	cr_expect(printed("  self MiB  % of all  total MiB  % of all  function\n"
			  "     30.00     75.0%      30.00     75.0%  parse\n"),
		  "%s", output);
	cr_assert_eq(run_scratch("--type", "alloc_space", "--json"), 0, "%s", output);
	j = json();
	cr_expect_eq(json_integer_value(json_object_get(json_object_get(j, "total"), "bytes")),
		     40 << 20);
	cr_expect_eq(json_integer_value(json_object_get(json_object_get(j, "labelled"), "blocks")),
		     3000);
	json_decref(j);
}

/* Memory in use, some of it in a span that is still open. */
static const struct report_stack in_use[] = {
	{parse, 3, NULL, "GET", NULL, 300, 3 << 20, NULL, NULL},
	{parse, 3, "00000000000000ab", "GET", NULL, 200, 2 << 20, NULL, NULL},
	{copy, 2, NULL, NULL, NULL, 100, 1 << 20, NULL, NULL},
};

Test(memory_report, tells_what_spans_have_left_behind)
{
	json_t *j;

	write_type("c.pb", SP_PROFILE_CPU, on_cpu, 1);
	write_type("m.pb", SP_PROFILE_MEMORY, allocated, 2);
	write_type("i.pb", SP_PROFILE_IN_USE, in_use, 3);

	cr_assert_eq(run_scratch("--type", "inuse_space"), 0, "%s", output);
	cr_expect(printed("1 profile, 600 blocks, 6.00 MiB in use; in spans: 500 blocks, 5.00 MiB "
			  "in use (83.3 %), 1 span\n"),
		  "%s", output);
	cr_expect(printed("     open    blocks        MiB  % of spans  span_name: allocated in the "
			  "span and in use after its end\n"
			  "        1       300       3.00       60.0%  GET\n"),
		  "%s", output);
	cr_expect(printed("span_id           span_name of an open span\n"
			  "                200      2.000       40.0%  00000000000000ab  GET\n"),
		  "%s", output);
	cr_assert_eq(run_scratch("--type", "inuse_space", "--json"), 0, "%s", output);
	j = json();
	cr_expect_eq(json_integer_value(json_object_get(json_object_get(j, "total"), "bytes")),
		     6 << 20);
	cr_expect_eq(json_integer_value(json_object_get(
			     json_array_get(json_object_get(j, "span_names"), 0), "bytes")),
		     3 << 20);
	json_decref(j);
}

/* As an exporter does, the file's name has the time at which its profile began. */
static void write_in_use(const char *name, size_t n, int64_t time_s)
{
	struct sp_bytes b = report_profile_of_at(SP_PROFILE_IN_USE, in_use, n, time_s);

	scratch_write(name, b.data, b.len);
	free(b.data);
}

/*
 * Memory in use at one time and at a later time is not added. The last profile of a process may be in several files.
 */
Test(memory_report, has_the_last_of_each_process)
{
	write_in_use("spanprof-a-b-7-19700101T000140Z-0000000a-000001-inuse.pb", 3, 100);
	write_in_use("spanprof-a-b-7-19700101T000320Z-0000000a-000002-inuse.pb", 1, 200);
	write_in_use("spanprof-a-b-7-19700101T000320Z-0000000a-000003-inuse.pb", 1, 200);
	/* Another process of that id, and one that has freed everything. */
	write_in_use("spanprof-a-b-7-19700101T000310Z-0000000b-000001-inuse.pb", 2, 190);
	write_in_use("spanprof-a-b-8-19700101T000140Z-0000000a-000001-inuse.pb", 3, 100);
	write_in_use("spanprof-a-b-8-19700101T000320Z-0000000a-000002-inuse.pb", 0, 200);

	cr_assert_eq(run_scratch("--type", "inuse_space"), 0, "%s", output);
	cr_expect(printed("4 profiles, 1100 blocks, 11.00 MiB in use;"), "%s", output);
	/* At an earlier time other profiles were the last ones. */
	cr_assert_eq(run_scratch("--type", "inuse_space", "--to", "1970-01-01T00:02:30Z"), 0, "%s",
		     output);
	cr_expect(printed("2 profiles, 1200 blocks, 12.00 MiB in use;"), "%s", output);
	/* If the processes are unknown, all profiles are shown. */
	write_in_use("other.pb", 1, 10);
	cr_assert_eq(run_scratch("--type", "inuse_space"), 0, "%s", output);
	cr_expect(printed("5 profiles, 1400 blocks, 14.00 MiB in use;"), "%s", output);
}

/* Each profile covers ten seconds, so a process that still lives there would have a later profile. */
Test(memory_report, has_no_memory_of_processes_that_have_ended)
{
	write_in_use("spanprof-a-7-19700101T000140Z-0000000a-000001-inuse.pb", 3, 100);
	write_in_use("spanprof-a-8-19700101T000150Z-0000000b-000001-inuse.pb", 1, 110);

	cr_assert_eq(run_scratch("--type", "inuse_space"), 0, "%s", output);
	cr_expect(printed("2 profiles, 900 blocks, 9.00 MiB in use;"), "%s", output);
	write_in_use("spanprof-a-8-19700101T000152Z-0000000b-000002-inuse.pb", 1, 112);
	cr_assert_eq(run_scratch("--type", "inuse_space"), 0, "%s", output);
	cr_expect(printed("1 profile, 300 blocks, 3.00 MiB in use;"), "%s", output);
	cr_assert_eq(run_scratch("--type", "inuse_space", "--to", "1970-01-01T00:01:56Z"), 0, "%s",
		     output);
	cr_expect(printed("2 profiles, 900 blocks, 9.00 MiB in use;"), "%s", output);
}

static void write_damaged(const char *name)
{
	scratch_write(name, "no profile", 10);
}

/* If a damaged file is opened, there is a message. */
Test(memory_report, opens_no_older_file_of_a_process)
{
	write_damaged("spanprof-a-7-19700101T000130Z-0000000a-000001-inuse.pb");
	write_damaged("spanprof-a-7-19700101T000139Z-0000000a-000002-inuse.pb");
	write_in_use("spanprof-a-7-19700101T000140Z-0000000a-000003-inuse.pb", 3, 100);
	/*
	 * Older files of a process that has ended are not opened either, nor files of other types.
	 */
	write_damaged("spanprof-a-8-19700101T000040Z-0000000b-000001-inuse.pb");
	write_in_use("spanprof-a-8-19700101T000050Z-0000000b-000002-inuse.pb", 2, 50);
	write_damaged("spanprof-a-7-19700101T000140Z-0000000a-000004.pb");
	write_damaged("spanprof-a-7-19700101T000140Z-0000000a-000005-memory.pb");

	cr_assert_eq(run_scratch("--type", "inuse_space"), 0, "%s", output);
	cr_expect(printed("1 profile, 600 blocks, 6.00 MiB in use;"), "%s", output);
	cr_expect_not(printed("not a pprof profile"), "%s", output);
	/* With an earlier --to, these files are the last ones. */
	cr_assert_eq(run_scratch("--type", "inuse_space", "--to", "1970-01-01T00:01:40Z"), 2, "%s",
		     output);
	cr_expect(printed("000002-inuse.pb: not a pprof profile\n"), "%s", output);
	cr_expect(printed("000001-inuse.pb: not a pprof profile\n"), "%s", output);
}

/* The last file before a loss of power may be damaged: the one before it is shown. */
Test(memory_report, has_the_last_that_can_be_read)
{
	write_in_use("spanprof-a-7-19700101T000130Z-0000000a-000001-inuse.pb", 1, 90);
	write_in_use("spanprof-a-7-19700101T000140Z-0000000a-000002-inuse.pb", 3, 100);
	write_damaged("spanprof-a-7-19700101T000150Z-0000000a-000003-inuse.pb");
	write_damaged("spanprof-a-7-19700101T000140Z-0000000a-000004-inuse.pb");

	cr_assert_eq(run_scratch("--type", "inuse_space"), 2, "%s", output);
	cr_expect(printed("1 profile, 600 blocks, 6.00 MiB in use;"), "%s", output);
	cr_expect(printed("000003-inuse.pb: not a pprof profile\n"), "%s", output);
	cr_expect(printed("000004-inuse.pb: not a pprof profile\n"), "%s", output);
	cr_expect_not(printed("000001-inuse.pb"), "%s", output);
}

Test(memory_report, is_not_added_to_time)
{
	write_type("m.pb", SP_PROFILE_MEMORY, allocated, 2);

	cr_expect_eq(run_scratch("--top=5"), 1);
	cr_expect(
		printed("no profiles of CPU time found, but of memory: use --type alloc_space\n"));
	write_type("c.pb", SP_PROFILE_CPU, on_cpu, 1);
	cr_assert_eq(run_scratch("--top=5"), 0, "%s", output);
	cr_expect(printed("1 profile, 10 samples, 0.10 s CPU"), "%s", output);
	cr_expect(printed("\nallocations are in another profile: use --type alloc_space\n"), "%s",
		  output);
}
