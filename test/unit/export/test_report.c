/* SPDX-License-Identifier: Apache-2.0 */
/* spanprof-report from its command line: sums, filters, files of other programs. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export/profile/gzip.h"
#include "export/profile/pprof.h"
#include "export/report/load.h"
#include "profile.pb-c.h"
#include "report_unit.h"
#include "test/unit/scratch.h"

TestSuite(report, .init = scratch_make, .fini = scratch_remove);

static void write_profile(const char *name, bool packed)
{
	struct sp_bytes b = report_small_profile(), z;

	if (packed) {
		cr_assert_eq(sp_gzip_pack(&b, &z), 0);
		free(b.data);
		b = z;
	}
	scratch_write(name, b.data, b.len);
	free(b.data);
}

/* Runs the tool; output has both streams. */
static int run(const char *a, const char *b, const char *c)
{
	return report_run((const char *const[]){a, b, c, NULL}, output, sizeof(output));
}

static json_int_t number(json_t *j, const char *a, const char *b)
{
	return number_of(json_object_get(j, a), b);
}

Test(report, prints_a_row_per_span_name, .timeout = 20)
{
	write_profile("a.pb.gz", true);

	cr_assert_eq(run(scratch, NULL, NULL), 0, "%s", output);

	expect_printed("1 profile, 20 samples, 0.20 s CPU; in spans: 16 samples, 0.16 s CPU "
		       "(80.0 %), 3 spans\n");
	expect_printed("        1        10       0.10       62.5%    45%  POST /\n");
	expect_printed("        2         6       0.06       37.5%    68%  GET /\n");
	/* Shares of different wholes have different headings. */
	expect_printed("    spans   samples      CPU s  % of spans    +/-  span_name\n");
	expect_printed("                  1      0.010     too few  00000000000000bb  GET /\n");
	expect_printed("    self s  % of all    total s  % of all  function\n");
	cr_expect(strstr(output, "POST /") < strstr(output, "GET /"), "largest first");
	expect_printed("      0.14     70.0%       0.14     70.0%  parse\n");
	cr_expect(printed("      0.04     20.0%       0.20    100.0%  main\n"),
		  "recursion counts once");
}

Test(report, adds_files_of_a_folder_up_and_leaves_others_alone, .timeout = 20)
{
	write_profile("a.pb.gz", true);
	write_profile("b.pb", false);
	write_profile(".hidden.pb.gz", true);
	scratch_write("notes.txt", "hello", 5);

	cr_assert_eq(run(scratch, NULL, NULL), 0, "%s", output);

	expect_printed("2 profiles, 40 samples");
}

/*
 * Old files may be removed while a report is made, so a link to nothing is listed and then not found, too. The last
 * files before a loss of power are empty.
 */
Test(report, passes_over_files_of_a_folder_that_went_or_are_empty, .timeout = 20)
{
	write_profile("a.pb.gz", true);
	write_profile("b.pb", false);
	scratch_write("empty.pb.gz", "", 0);
	cr_assert_eq(symlink("nothing", in_scratch("gone.pb.gz")), 0);

	cr_assert_eq(run(scratch, NULL, NULL), 0, "%s", output);
	expect_printed("2 profiles, 40 samples");
	cr_assert_eq(run("--baseline", scratch, scratch), 0, "%s", output);

	cr_expect_eq(run(in_scratch("empty.pb.gz"), NULL, NULL), 2);
	expect_printed("empty.pb.gz: it is empty\n");
	cr_expect_eq(run(scratch, in_scratch("gone.pb.gz"), NULL), 2);
	expect_printed("gone.pb.gz: No such file or directory\n");
	cr_expect_eq(run("--baseline", in_scratch("empty.pb.gz"), scratch), 2);
	expect_printed("empty.pb.gz: it is empty\n");
}

static int64_t add_string(Spanprof__Pprof__Profile *p, const char *s)
{
	p->string_table =
		realloc(p->string_table, (p->n_string_table + 1) * sizeof(*p->string_table));
	p->string_table[p->n_string_table] = strdup(s);
	return (int64_t)p->n_string_table++;
}

/* Writes the small profile with such a value in its first sample, and 0 in all others. */
static void write_values(const char *name, const char *type, const char *unit, int64_t value,
			 int64_t period)
{
	struct sp_bytes b = report_small_profile();
	Spanprof__Pprof__Profile *p = spanprof__pprof__profile__unpack(NULL, b.len, b.data);

	p->sample_type[1]->type = add_string(p, type);
	p->sample_type[1]->unit = add_string(p, unit);
	p->period = period;
	for (size_t i = 0; i < p->n_sample; i++)
		p->sample[i]->value[1] = i == 0 ? value : 0;
	report_write(name, p);
	spanprof__pprof__profile__free_unpacked(p, NULL);
	free(b.data);
}

Test(report, reads_values_in_units_of_other_writers, .timeout = 20)
{
	static const struct {
		const char *type, *unit;
		int64_t value;
		const char *sum;
	} cases[] = {
		{"cpu", "nanoseconds", 3000000000, "3.00 s CPU;"},
		{"cpu", "microseconds", 3000000, "3.00 s CPU;"},
		{"cpu", "milliseconds", 3000, "3.00 s CPU;"},
		{"cpu", "seconds", 3, "3.00 s CPU;"},
		{"cpu", "minutes", 2, "120.00 s CPU;"},
		{"wait", "us", 500000, "0.50 s CPU;"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		write_values("a.pb", cases[i].type, cases[i].unit, cases[i].value, 10000000);
		cr_expect_eq(run(scratch, NULL, NULL), 0, "%s", output);
		expect_printed(cases[i].sum);
	}
	write_values("a.pb", "alloc_space", "kilobytes", 2048, 0);
	cr_expect_eq(run("--type", "alloc_space", scratch), 0, "%s", output);
	expect_printed("2.00 MiB allocated;");
	write_values("a.pb", "cpu", "hours", INT64_MAX / 3600, 0);
	cr_expect_eq(run(scratch, NULL, NULL), 2);
	expect_printed("a.pb: its values are too large\n");
	write_values("a.pb", "cpu", "widgets", 3, 10000000);
	cr_expect_eq(run(scratch, NULL, NULL), 2);
	expect_printed("a.pb: its values are in no unit of time or memory\n");
	write_values("a.pb", "cpu", "seconds", -3, 10000000);
	cr_expect_eq(run(scratch, NULL, NULL), 2);
	expect_printed("a.pb: it has negative values, as the difference of two profiles has\n");
}

Test(report, takes_the_period_of_a_profile_that_only_counts_samples, .timeout = 20)
{
	write_values("a.pb", "events", "count", 300, 10000000);
	cr_expect_eq(run(scratch, NULL, NULL), 0, "%s", output);
	expect_printed("3.00 s CPU;");
	write_values("a.pb", "events", "count", 300, 0);
	cr_expect_eq(run(scratch, NULL, NULL), 2);
	expect_printed("a.pb: its values are in no unit of time or memory\n");
}

Test(report, json_has_the_promised_keys, .timeout = 20)
{
	json_t *j, *row;

	write_profile("a.pb.gz", true);
	cr_assert_eq(run("--json", scratch, NULL), 0, "%s", output);
	j = json();

	cr_expect_eq(number_of(j, "profiles"), 1);
	cr_expect_eq(number(j, "total", "samples"), 20);
	cr_expect_eq(number(j, "total", "ns"), 200000000);
	cr_expect_eq(number(j, "labelled", "samples"), 16);
	cr_expect_eq(number(j, "labelled", "ns"), 160000000);
	cr_expect_eq(number(j, "labelled", "spans"), 3);
	row = json_array_get(json_object_get(j, "span_names"), 1);
	cr_expect_str_eq(text_of(row, "span_name"), "GET /");
	cr_expect_eq(number_of(row, "spans"), 2);
	cr_expect_eq(number_of(row, "ns"), 60000000);
	cr_expect_float_eq(real_of(row, "share"), 0.375, 1e-9);
	cr_expect_eq(json_array_size(json_object_get(j, "spans")), 3);
	row = json_array_get(json_object_get(j, "spans"), 1);
	cr_expect_str_eq(text_of(row, "span_id"), "00000000000000aa");
	cr_expect_str_eq(text_of(row, "span_name"), "GET /");
	cr_expect_str_eq(text_of(row, "trace_id"), "0102030405060708090a0b0c0d0e0f10");
	cr_expect_eq(number_of(row, "samples"), 5);
	cr_expect_eq(number_of(row, "ns"), 50000000);
	cr_expect_eq(json_array_size(json_object_get(j, "functions")), 4);
	row = json_array_get(json_object_get(j, "functions"), 0);
	cr_expect_str_eq(text_of(row, "function"), "parse");
	cr_expect_eq(number_of(row, "self_ns"), 140000000);
	cr_expect_eq(number_of(row, "total_ns"), 140000000);
	json_decref(j);
}

/* CPU time between samples has no samples, and some writers round their times down to nothing. */
Test(report, names_a_span_without_any_time, .timeout = 20)
{
	static const char *const frame[] = {"main"};
	const struct report_stack stack[] = {STACK(frame, "00000000000000aa", "GET /", 0),
					     STACK(frame, "00000000000000bb", "POST /", 1)};
	json_t *j, *row;

	report_write_stacks("a.pb", stack, 2, 0);
	cr_assert_eq(run("--json", scratch, NULL), 0, "%s", output);
	j = json();

	row = json_array_get(json_object_get(j, "spans"), 1);
	cr_expect_str_eq(text_of(row, "span_id"), "00000000000000aa");
	cr_expect_str_eq(text_of(row, "span_name"), "GET /");
	row = json_array_get(json_object_get(j, "span_names"), 1);
	cr_expect_eq(number_of(row, "spans"), 1);
	json_decref(j);
}

Test(report, filters, .timeout = 20)
{
	json_t *j;

	write_profile("a.pb.gz", true);
	cr_assert_eq(run("--json", "--span=00000000000000AA", scratch), 0, "%s", output);
	j = json();
	cr_expect_eq(number(j, "total", "samples"), 5);
	cr_expect_eq(json_array_size(json_object_get(j, "spans")), 1);
	json_decref(j);
	cr_assert_eq(run("--json", "--span-name=POST /", scratch), 0, "%s", output);
	j = json();
	cr_expect_eq(number(j, "total", "samples"), 10);
	json_decref(j);
	cr_assert_eq(run("--json", "--trace=0102030405060708090a0b0c0d0e0f10", scratch), 0);
	j = json();
	cr_expect_eq(number(j, "total", "samples"), 16);
	json_decref(j);
}

/* Functions with the same self time are sorted by their total time. */
Test(report, puts_callers_before_what_they_call, .timeout = 20)
{
	static const char *const through[] = {"leaf", "called", "calls"};
	static const char *const directly[] = {"leaf", "calls"};
	static const struct report_stack stack[] = {STACK(through, "00000000000000aa", "GET", 1),
						    STACK(directly, "00000000000000aa", "GET", 1)};
	static const char *const order[] = {"leaf", "calls", "called"};
	json_t *j, *row;

	report_write_stacks("a.pb", stack, 2, 0);
	cr_assert_eq(run("--json", scratch, NULL), 0, "%s", output);
	j = json();
	for (size_t i = 0; i < 3; i++) {
		row = json_array_get(json_object_get(j, "functions"), i);
		cr_expect_str_eq(text_of(row, "function"), order[i]);
	}
	json_decref(j);
}

Test(report, limits_the_functions, .timeout = 20)
{
	write_profile("a.pb.gz", true);

	cr_assert_eq(run("--top=1", scratch, NULL), 0);

	expect_printed("parse");
	expect_not_printed("render");
	cr_expect_eq(run("--top=x", scratch, NULL), 1);
	cr_expect_eq(run("--top=0", scratch, NULL), 1);
	cr_expect_eq(run("--top=-1", scratch, NULL), 1);
}

Test(report, explains_itself, .timeout = 20)
{
	cr_expect_eq(run("--help", NULL, NULL), 0);
	expect_printed("--span-name NAME");
	cr_expect_eq(run("--version", NULL, NULL), 0);
	expect_printed("spanprof-report 0.");
	cr_expect_eq(run(NULL, NULL, NULL), 1);
	cr_expect_eq(run("--nonsense", NULL, NULL), 1);
	cr_expect_eq(run("--serve=x", scratch, NULL), 1);
	cr_expect_eq(run("--serve=65536", scratch, NULL), 1);
	expect_printed("--serve needs a port");
	cr_expect_eq(run("--serve=0", "--json", scratch), 1);
	cr_expect_eq(run(scratch, NULL, NULL), 1);
	expect_printed("no profiles found");
}

Test(report, reads_profiles_of_other_writers, .timeout = 20)
{
	/* Ids that do not start at 1, inlined lines, no count type, an old label key, a location
	 * without function, a numeric label. */
	static char s0[] = "", s1[] = "cpu", s2[] = "nanoseconds", s3[] = "profile_id",
		    s4[] = "00000000000000aa", s5[] = "inlined", s6[] = "outer",
		    s7[] = "/lib/libx.so", s8[] = "bytes";
	char *strings[] = {s0, s1, s2, s3, s4, s5, s6, s7, s8};
	Spanprof__Pprof__ValueType type = SPANPROF__PPROF__VALUE_TYPE__INIT;
	Spanprof__Pprof__ValueType *types[] = {&type};
	Spanprof__Pprof__Function f[2] = {SPANPROF__PPROF__FUNCTION__INIT,
					  SPANPROF__PPROF__FUNCTION__INIT};
	Spanprof__Pprof__Function *fs[] = {&f[0], &f[1]};
	Spanprof__Pprof__Line l[2] = {SPANPROF__PPROF__LINE__INIT, SPANPROF__PPROF__LINE__INIT};
	Spanprof__Pprof__Line *ls[] = {&l[0], &l[1]};
	Spanprof__Pprof__Mapping m = SPANPROF__PPROF__MAPPING__INIT;
	Spanprof__Pprof__Mapping *ms[] = {&m};
	Spanprof__Pprof__Location loc[2] = {SPANPROF__PPROF__LOCATION__INIT,
					    SPANPROF__PPROF__LOCATION__INIT};
	Spanprof__Pprof__Location *locs[] = {&loc[0], &loc[1]};
	Spanprof__Pprof__Label label[2] = {SPANPROF__PPROF__LABEL__INIT,
					   SPANPROF__PPROF__LABEL__INIT};
	Spanprof__Pprof__Label *labels[] = {&label[0], &label[1]};
	Spanprof__Pprof__Sample s = SPANPROF__PPROF__SAMPLE__INIT;
	Spanprof__Pprof__Sample *ss[] = {&s};
	Spanprof__Pprof__Profile p = SPANPROF__PPROF__PROFILE__INIT;
	uint64_t ids[] = {500, 600};
	int64_t values[] = {30000000};

	type.type = 1;
	type.unit = 2;
	f[0].id = 70;
	f[0].name = 5;
	f[1].id = 80;
	f[1].name = 6;
	l[0].function_id = 70;
	l[1].function_id = 80;
	m.id = 9;
	m.filename = 7;
	loc[0].id = 600;
	loc[0].mapping_id = 9;
	loc[0].address = 0xabc;
	loc[1].id = 500;
	loc[1].n_line = 2;
	loc[1].line = ls;
	label[0].key = 8;
	label[0].num = 512;
	label[1].key = 3;
	label[1].str = 4;
	s.n_location_id = 2;
	s.location_id = ids;
	s.n_value = 1;
	s.value = values;
	s.n_label = 2;
	s.label = labels;
	p.n_string_table = 9;
	p.string_table = strings;
	p.n_sample_type = 1;
	p.sample_type = types;
	p.n_function = 2;
	p.function = fs;
	p.n_mapping = 1;
	p.mapping = ms;
	p.n_location = 2;
	p.location = locs;
	p.n_sample = 1;
	p.sample = ss;
	p.period = 10000000;
	report_write("other.pprof", &p);

	cr_assert_eq(run(scratch, NULL, NULL), 0, "%s", output);

	expect_printed("1 profile, 3 samples, 0.03 s CPU");
	expect_printed("(no span_name)");
	expect_printed("      0.03    100.0%       0.03    100.0%  inlined\n");
	expect_printed("      0.00      0.0%       0.03    100.0%  outer\n");
	expect_printed("      0.00      0.0%       0.03    100.0%  libx.so!0xabc\n");
}
