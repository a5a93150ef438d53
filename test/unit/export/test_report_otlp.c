/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OTLP profiles of other programs for spanprof-report: content that ours never have is read, and a reference to a
 * missing item is refused with a reason. test/e2e/otlp.sh is about the profiles that we write.
 */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "export/report/otlp.h"
#include "otlp.pb-c.h"
#include "report_unit.h"
#include "sampler/base/compiler.h"
#include "test/unit/scratch.h"

TestSuite(report_otlp, .init = scratch_make, .fini = scratch_remove);

static char words[][16] = {"",           "samples", "count",  "cpu",         "nanoseconds",
			   "work",       "f.c",     "/bin/x", "thread.name", "pool",
			   "http.route", "/a",      "bytes",  "space",       "off_cpu"};
static char *texts[SP_ARRAY_LEN(words)];

enum {
	NO,
	SAMPLES,
	COUNT,
	CPU,
	NS,
	WORK,
	FILE_C,
	BIN,
	THREAD,
	POOL,
	ROUTE,
	A,
	BYTES,
	SPACE,
	OFF_CPU
};

static uint8_t trace[16] = {1}, span[8] = {2}, none[16];
static Spanprof__Otlp__Mapping mapping[2];
static Spanprof__Otlp__Function function[3];
static Spanprof__Otlp__Line line[2];
static Spanprof__Otlp__Location location[2];
static Spanprof__Otlp__Link link_[3];
static Spanprof__Otlp__AnyValue value[2];
static Spanprof__Otlp__KeyValueAndUnit attribute[3];
static Spanprof__Otlp__Stack stack[2];
static Spanprof__Otlp__Sample sample[3];
static Spanprof__Otlp__ValueType type, period;
static Spanprof__Otlp__Profile profile;
static Spanprof__Otlp__ProfilesDictionary tables;
static Spanprof__Otlp__ScopeProfiles scope;
static Spanprof__Otlp__ResourceProfiles resource;
static Spanprof__Otlp__ExportProfilesServiceRequest message;

static int32_t location_index[] = {1}, attribute_index[] = {1, 2};
static int64_t values[] = {2, 3};
static uint64_t times[] = {5, 6, 7, 8};

static void *pointers(void *body, size_t n, size_t size)
{
	static void *all[64];
	static size_t used;
	void **mine = all + used;

	cr_assert_leq(used + n, SP_ARRAY_LEN(all));
	for (size_t i = 0; i < n; i++)
		all[used++] = (char *)body + i * size;
	return mine;
}

#define POINTERS(body) pointers(body, SP_ARRAY_LEN(body), sizeof((body)[0]))

static void set_text(unsigned i, int32_t key, int32_t text, bool by_reference)
{
	spanprof__otlp__any_value__init(&value[i]);
	value[i].value_case = SPANPROF__OTLP__ANY_VALUE__VALUE_STRING_VALUE;
	value[i].string_value = texts[text];
	if (by_reference) {
		value[i].value_case = SPANPROF__OTLP__ANY_VALUE__VALUE_STRING_VALUE_STRINDEX;
		value[i].string_value_strindex = text;
	}
	spanprof__otlp__key_value_and_unit__init(&attribute[i + 1]);
	attribute[i + 1].key_strindex = key;
	attribute[i + 1].value = &value[i];
}

static void make_tables(void)
{
	spanprof__otlp__profiles_dictionary__init(&tables);
	for (size_t i = 0; i < SP_ARRAY_LEN(words); i++)
		texts[i] = words[i];
	for (size_t i = 0; i < 2; i++) {
		spanprof__otlp__mapping__init(&mapping[i]);
		spanprof__otlp__location__init(&location[i]);
		spanprof__otlp__line__init(&line[i]);
		spanprof__otlp__stack__init(&stack[i]);
	}
	for (size_t i = 0; i < 3; i++) {
		spanprof__otlp__function__init(&function[i]);
		spanprof__otlp__link__init(&link_[i]);
	}
	spanprof__otlp__key_value_and_unit__init(&attribute[0]);
	mapping[1].memory_limit = 4096;
	mapping[1].filename_strindex = BIN;
	/* Two functions with the same name. */
	function[1].name_strindex = function[2].name_strindex = WORK;
	function[1].filename_strindex = function[2].filename_strindex = FILE_C;
	/* The first line has no function. */
	line[1].function_index = 2;
	line[1].line = 7;
	location[1].mapping_index = 1;
	location[1].n_lines = 2;
	location[1].lines = POINTERS(line);
	link_[1].trace_id = (ProtobufCBinaryData){16, trace};
	link_[1].span_id = (ProtobufCBinaryData){8, span};
	link_[2].trace_id = (ProtobufCBinaryData){16, none};
	link_[2].span_id = (ProtobufCBinaryData){8, none};
	set_text(0, THREAD, POOL, false);
	set_text(1, ROUTE, A, true);
	stack[1].n_location_indices = 1;
	stack[1].location_indices = location_index;
	tables.n_mapping_table = tables.n_location_table = tables.n_stack_table = 2;
	tables.n_function_table = tables.n_link_table = tables.n_attribute_table = 3;
	tables.n_string_table = SP_ARRAY_LEN(texts);
	tables.mapping_table = POINTERS(mapping);
	tables.location_table = POINTERS(location);
	tables.function_table = POINTERS(function);
	tables.link_table = POINTERS(link_);
	tables.attribute_table = POINTERS(attribute);
	tables.stack_table = POINTERS(stack);
	tables.string_table = texts;
}

/*
 * Makes a profile with a period of 10 ms: 5 samples in a span, 2 with time stamps and no span, and 4 with time stamps
 * only, in a link of zeroes.
 */
static void make(void)
{
	make_tables();
	for (size_t i = 0; i < 3; i++) {
		spanprof__otlp__sample__init(&sample[i]);
		sample[i].stack_index = 1;
		sample[i].values = values;
		sample[i].timestamps_unix_nano = times;
	}
	sample[0].link_index = 1;
	sample[0].n_values = 2;
	sample[0].n_attribute_indices = 2;
	sample[0].attribute_indices = attribute_index;
	sample[1].n_values = 1;
	sample[1].n_timestamps_unix_nano = 2;
	sample[2].n_timestamps_unix_nano = 4;
	sample[2].link_index = 2;
	spanprof__otlp__value_type__init(&type);
	spanprof__otlp__value_type__init(&period);
	type.type_strindex = SAMPLES;
	type.unit_strindex = COUNT;
	period.type_strindex = CPU;
	period.unit_strindex = NS;
	spanprof__otlp__profile__init(&profile);
	profile.sample_type = &type;
	profile.period_type = &period;
	profile.period = 10000000;
	profile.n_samples = 3;
	profile.samples = POINTERS(sample);
	spanprof__otlp__scope_profiles__init(&scope);
	scope.n_profiles = 1;
	scope.profiles = pointers(&profile, 1, sizeof(profile));
	spanprof__otlp__resource_profiles__init(&resource);
	resource.n_scope_profiles = 1;
	resource.scope_profiles = pointers(&scope, 1, sizeof(scope));
	spanprof__otlp__export_profiles_service_request__init(&message);
	message.n_resource_profiles = 1;
	message.resource_profiles = pointers(&resource, 1, sizeof(resource));
	message.dictionary = &tables;
}

/* Runs the tool with that option, on a file with that profile. */
static int run(const char *option, const char *argument)
{
	size_t len = spanprof__otlp__export_profiles_service_request__get_packed_size(&message);
	uint8_t *bytes = malloc(len);

	spanprof__otlp__export_profiles_service_request__pack(&message, bytes);
	scratch_write("other.otlp", bytes, len);
	free(bytes);
	return report_run((const char *const[]){option, argument, scratch, NULL}, output,
			  sizeof(output));
}

Test(report_otlp, is_read_as_anybody_writes_it, .timeout = 20)
{
	make();

	cr_assert_eq(run("--folded", "--lines"), 0, "%s", output);
	cr_expect_str_eq(output, "work (f.c:7) 110000000\n");
	cr_assert_eq(run("--json", "--by=http.route"), 0, "%s", output);
	expect_printed("{\"samples\": 11, \"ns\": 110000000}");
	expect_printed("\"span_id\": \"0200000000000000\"");
	expect_printed("\"value\": \"/a\", \"samples\": 5");
	cr_assert_eq(run("--json", "--by=thread_name"), 0, "%s", output);
	expect_printed("\"value\": \"pool\", \"samples\": 5");
}

/*
 * A period of one nanosecond gives time, but no number of samples; without a period of CPU time the values count as
 * they are.
 */
Test(report_otlp, knows_what_values_stand_for, .timeout = 20)
{
	make();
	profile.period = 1;
	cr_assert_eq(run("--json", "--top=1"), 0, "%s", output);
	expect_printed("{\"samples\": 0, \"ns\": 11}");
	profile.period_type = NULL;
	type.type_strindex = CPU;
	type.unit_strindex = NS;
	profile.period = 0;
	cr_assert_eq(run("--json", "--top=1"), 0, "%s", output);
	expect_printed("{\"samples\": 3, \"ns\": 11}");
}

/* Profiles in any order: the last one says nothing about those before it. */
Test(report_otlp, of_several_types_is_shown_by_type, .timeout = 20)
{
	Spanprof__Otlp__ValueType waits = SPANPROF__OTLP__VALUE_TYPE__INIT;
	Spanprof__Otlp__Profile of[2];

	make();
	waits.type_strindex = OFF_CPU;
	waits.unit_strindex = NS;
	of[0] = of[1] = profile;
	of[1].sample_type = &waits;
	of[1].period_type = &waits;
	scope.n_profiles = 2;
	scope.profiles = POINTERS(of);
	cr_assert_eq(run("--json", "--top=1"), 0, "%s", output);
	expect_printed("\"profiles\": 1");
	expect_printed("{\"samples\": 11, \"ns\": 110000000}");
	cr_assert_eq(run("--json", "--type=off_cpu"), 0, "%s", output);
	expect_printed("\"profiles\": 1");
}

/* A profile has one value: blocks and their bytes are two profiles of the same samples. */
Test(report_otlp, puts_blocks_and_bytes_together, .timeout = 20)
{
	static int64_t bytes[] = {4096, 512};
	Spanprof__Otlp__ValueType of_bytes = SPANPROF__OTLP__VALUE_TYPE__INIT;
	Spanprof__Otlp__Profile of[2];
	Spanprof__Otlp__Sample other[3];

	make();
	of_bytes.type_strindex = SPACE;
	of_bytes.unit_strindex = BYTES;
	profile.period_type = &of_bytes;
	profile.period = 1024;
	of[0] = of[1] = profile;
	of[1].sample_type = &of_bytes;
	memcpy(other, sample, sizeof(other));
	for (size_t i = 0; i < 3; i++)
		other[i].values = bytes;
	other[2].n_values = 1;
	of[1].samples = POINTERS(other);
	scope.n_profiles = 2;
	scope.profiles = POINTERS(of);
	cr_assert_eq(run("--json", "--type=space"), 0, "%s", output);
	expect_printed("{\"blocks\": 11, \"bytes\": 12800}");
	cr_assert_eq(report_run((const char *const[]){"--json", "--type=space", "--by=http.route",
						      scratch, NULL},
				output, sizeof(output)),
		     0, "%s", output);
	expect_printed("{\"value\": \"/a\", \"blocks\": ");
	/* A profile of other samples is shown separately. */
	other[2].stack_index = 0;
	cr_assert_eq(run("--json", "--type=space"), 0, "%s", output);
	expect_printed("{\"blocks\": 12, \"bytes\": 12800}");
}

/*
 * The numbers of samples and their CPU time are two profiles as well; CPU time between samples is in the second one
 * only.
 */
Test(report_otlp, puts_samples_and_cpu_time_together, .timeout = 20)
{
	static int64_t ns[] = {50000001, 20000000};
	Spanprof__Otlp__ValueType of_time = SPANPROF__OTLP__VALUE_TYPE__INIT;
	Spanprof__Otlp__Profile of[2];
	Spanprof__Otlp__Sample other[3];

	make();
	of_time.type_strindex = CPU;
	of_time.unit_strindex = NS;
	of[0] = of[1] = profile;
	of[0].n_samples = 2;
	of[1].sample_type = &of_time;
	memcpy(other, sample, sizeof(other));
	for (size_t i = 0; i < 3; i++)
		other[i].values = ns;
	other[0].n_values = other[2].n_values = 1;
	of[1].samples = POINTERS(other);
	scope.n_profiles = 2;
	scope.profiles = POINTERS(of);
	cr_assert_eq(run("--json", "--by=http.route"), 0, "%s", output);
	expect_printed("{\"samples\": 7, \"ns\": 150000003}");
	expect_printed("\"value\": \"/a\", \"samples\": 5, \"ns\": 50000001");
	/* Numbers of other samples are a separate profile: multiplied by their period they are shown as CPU time. */
	other[0].stack_index = other[1].stack_index = 0;
	cr_assert_eq(run("--json", "--top=1"), 0, "%s", output);
	expect_printed("{\"samples\": 22, \"ns\": 220000003}");
}

/*
 * Our exporter leaves out the numbers of samples where all are 0. Of another program's CPU time without numbers, the
 * period gives the number.
 */
Test(report_otlp, has_no_samples_where_ours_has_no_numbers, .timeout = 20)
{
	static int64_t ns[] = {50000001};
	static char ours[] = "spanprof", other[] = "other";
	Spanprof__Otlp__InstrumentationScope of;

	make();
	spanprof__otlp__instrumentation_scope__init(&of);
	type.type_strindex = CPU;
	type.unit_strindex = NS;
	profile.n_samples = 1;
	sample[0].n_values = 1;
	sample[0].values = ns;
	of.name = other;
	scope.scope = &of;
	cr_assert_eq(run("--json", "--top=1"), 0, "%s", output);
	expect_printed("{\"samples\": 5, \"ns\": 50000001}");
	of.name = ours;
	cr_assert_eq(run("--json", "--top=1"), 0, "%s", output);
	expect_printed("{\"samples\": 0, \"ns\": 50000001}");
}

Test(report_otlp, refuses_what_is_not_there, .timeout = 60)
{
	static const struct {
		int32_t *index;
		const char *words;
	} wrong[] = {
		{&sample[0].stack_index, "refers to a stack"},
		{&sample[0].link_index, "refers to a label"},
		{&attribute_index[1], "refers to a label"},
		{&attribute[1].key_strindex, "refers to a string"},
		{&mapping[1].filename_strindex, "refers to a string"},
		{&function[2].name_strindex, "refers to a string"},
		{&function[2].system_name_strindex, "refers to a string"},
		{&function[2].filename_strindex, "refers to a string"},
		{&location[1].mapping_index, "refers to a mapping"},
		{&line[1].function_index, "refers to a function"},
		{&location_index[0], "refers to a location"},
		{&type.type_strindex, "refers to a string"},
		{&type.unit_strindex, "refers to a string"},
		{&period.type_strindex, "refers to a string"},
		{&period.unit_strindex, "refers to a string"},
	};

	make();
	for (size_t i = 0; i < SP_ARRAY_LEN(wrong); i++) {
		int32_t good = *wrong[i].index;

		/* The second value is the first index that is not in the table of strings, and in no other table. */
		for (unsigned k = 0; k < 3; k++) {
			*wrong[i].index =
				(const int32_t[]){-1, (int32_t)SP_ARRAY_LEN(words), 10000}[k];
			cr_expect_eq(run("--folded", "--lines"), 2, "%zu: %s", i, output);
			cr_expect(printed(wrong[i].words), "%zu: %s", i, output);
		}
		*wrong[i].index = good;
	}
	profile.sample_type = NULL;
	cr_expect_eq(run("--folded", "--lines"), 2);
	expect_printed("it has no sample types");
}

static int pieces; /* pieces of memory that were not freed */

static void *counted_alloc(void *arg, size_t size)
{
	(void)arg;
	pieces++;
	return malloc(size);
}

static void counted_free(void *arg, void *piece)
{
	(void)arg;
	pieces -= piece != NULL;
	free(piece);
}

static int take_none(void *arg, Spanprof__Pprof__Profile *p)
{
	(void)arg;
	(void)p;
	return -1;
}

/* --serve reads a file that it refuses again every two seconds. */
Test(report_otlp, keeps_nothing_of_what_it_refuses, .timeout = 20)
{
	ProtobufCAllocator memory = {counted_alloc, counted_free, NULL};
	struct sp_bytes bytes;
	const char *why;

	make();
	for (unsigned i = 0; i < 2; i++) {
		tables.n_string_table = i == 0 ? 0 : SP_ARRAY_LEN(texts);
		bytes.len =
			spanprof__otlp__export_profiles_service_request__get_packed_size(&message);
		bytes.data = malloc(bytes.len);
		spanprof__otlp__export_profiles_service_request__pack(&message, bytes.data);
		cr_expect_eq(sp_report_otlp(&bytes, &memory, take_none, NULL, &why), -1);
		cr_expect_eq(pieces, 0, "%u: %d pieces", i, pieces);
		free(bytes.data);
	}
}
