/* SPDX-License-Identifier: Apache-2.0 */
/* spanprof-report from its command line: sums, filters, other people's files, damaged files. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export/gzip.h"
#include "export/pprof.h"
#include "export/report/load.h"
#include "profile.pb-c.h"
#include "report_unit.h"
#include "test/unit/scratch.h"

static char output[65536];

TestSuite(report, .init = scratch_make, .fini = scratch_remove);

static void add(struct sp_pprof *p, const char *leaf, const char *span_id, const char *span_name,
		int64_t samples)
{
	static const struct sp_pprof_mapping m = {0x1000, 0x2000, 0, "/bin/x", "", true, false};
	const char *const stack[] = {leaf, "handle", "main", "main"};
	uint64_t mapping, function, id[4];
	struct sp_pprof_sample s = {.location = id, .locations = 4, .count = samples};

	cr_assert_eq(sp_pprof_mapping(p, &m, &mapping), 0);
	for (unsigned i = 0; i < 4; i++) {
		cr_assert_eq(sp_pprof_function(p, stack[i], stack[i], "", &function), 0);
		cr_assert_eq(sp_pprof_location(p, mapping, 0x1000 + i,
					       &(struct sp_pprof_line){function, 0}, 1, &id[i]),
			     0);
	}
	s.ns = samples * 10000000;
	s.span_id = span_id;
	s.span_name = span_name;
	s.span_name_len = span_name != NULL ? strlen(span_name) : 0;
	s.trace_id = span_id != NULL ? "0102030405060708090a0b0c0d0e0f10" : NULL;
	cr_assert_eq(sp_pprof_sample(p, &s), 0);
}

/* Spans a (x 2 names) and b, and 4 samples outside of any. */
static struct sp_bytes make_profile(void)
{
	static const struct sp_pprof_limits limits = {1000, 1 << 20};
	static const struct sp_pprof_times times = {10000000, 1, 1};
	struct sp_pprof *p = sp_pprof_new(&limits, &times);
	struct sp_bytes b;

	add(p, "parse", "00000000000000aa", "GET /", 3);
	add(p, "render", "00000000000000aa", "GET /", 2);
	add(p, "parse", "00000000000000bb", "GET /", 1);
	add(p, "parse", "00000000000000cc", "POST /", 10);
	add(p, "main", NULL, NULL, 4);
	cr_assert_eq(sp_pprof_pack(p, &b), 0);
	sp_pprof_free(p);
	return b;
}

static void write_profile(const char *name, bool packed)
{
	struct sp_bytes b = make_profile(), z;

	if (packed) {
		cr_assert_eq(sp_gzip_pack(&b, &z), 0);
		free(b.data);
		b = z;
	}
	scratch_write(name, b.data, b.len);
	free(b.data);
}

/* Runs the tool; what it printed is in output (both streams). */
static int run(const char *a, const char *b, const char *c)
{
	return report_run((const char *const[]){a, b, c, NULL}, output, sizeof(output));
}

static bool printed(const char *part)
{
	return strstr(output, part) != NULL;
}

static json_t *json(void)
{
	json_t *j = json_loads(output, 0, NULL);

	cr_assert_not_null(j, "%s", output);
	return j;
}

static json_int_t number(json_t *j, const char *a, const char *b)
{
	return json_integer_value(json_object_get(json_object_get(j, a), b));
}

Test(report, prints_a_row_per_span_name, .timeout = 20)
{
	write_profile("a.pb.gz", true);

	cr_assert_eq(run(scratch, NULL, NULL), 0, "%s", output);

	cr_expect(printed("1 profile, 20 samples, 0.20 s CPU; in spans: 16 samples, 0.16 s CPU "
			  "(80.0 %), 3 spans\n"),
		  "%s", output);
	cr_expect(printed("        1        10       0.10   62.5%  POST /\n"), "%s", output);
	cr_expect(printed("        2         6       0.06   37.5%  GET /\n"), "%s", output);
	cr_expect(strstr(output, "POST /") < strstr(output, "GET /"), "largest first");
	cr_expect(printed("      0.14   70.0%       0.14   70.0%  parse\n"), "%s", output);
	cr_expect(printed("      0.04   20.0%       0.20  100.0%  main\n"),
		  "recursion counts once");
}

Test(report, adds_files_of_a_folder_up_and_leaves_others_alone, .timeout = 20)
{
	write_profile("a.pb.gz", true);
	write_profile("b.pb", false);
	write_profile(".hidden.pb.gz", true);
	scratch_write("notes.txt", "hello", 5);

	cr_assert_eq(run(scratch, NULL, NULL), 0, "%s", output);

	cr_expect(printed("2 profiles, 40 samples"), "%s", output);
}

Test(report, json_has_the_promised_keys, .timeout = 20)
{
	json_t *j, *row;

	write_profile("a.pb.gz", true);
	cr_assert_eq(run("--json", scratch, NULL), 0, "%s", output);
	j = json();

	cr_expect_eq(json_integer_value(json_object_get(j, "profiles")), 1);
	cr_expect_eq(number(j, "total", "samples"), 20);
	cr_expect_eq(number(j, "total", "ns"), 200000000);
	cr_expect_eq(number(j, "labelled", "samples"), 16);
	cr_expect_eq(number(j, "labelled", "ns"), 160000000);
	cr_expect_eq(number(j, "labelled", "spans"), 3);
	row = json_array_get(json_object_get(j, "span_names"), 1);
	cr_expect_str_eq(json_string_value(json_object_get(row, "span_name")), "GET /");
	cr_expect_eq(json_integer_value(json_object_get(row, "spans")), 2);
	cr_expect_eq(json_integer_value(json_object_get(row, "ns")), 60000000);
	cr_expect_float_eq(json_real_value(json_object_get(row, "share")), 0.375, 1e-9);
	cr_expect_eq(json_array_size(json_object_get(j, "spans")), 3);
	row = json_array_get(json_object_get(j, "spans"), 1);
	cr_expect_str_eq(json_string_value(json_object_get(row, "span_id")), "00000000000000aa");
	cr_expect_str_eq(json_string_value(json_object_get(row, "span_name")), "GET /");
	cr_expect_str_eq(json_string_value(json_object_get(row, "trace_id")),
			 "0102030405060708090a0b0c0d0e0f10");
	cr_expect_eq(json_integer_value(json_object_get(row, "samples")), 5);
	cr_expect_eq(json_integer_value(json_object_get(row, "ns")), 50000000);
	cr_expect_eq(json_array_size(json_object_get(j, "functions")), 4);
	row = json_array_get(json_object_get(j, "functions"), 0);
	cr_expect_str_eq(json_string_value(json_object_get(row, "function")), "parse");
	cr_expect_eq(json_integer_value(json_object_get(row, "self_ns")), 140000000);
	cr_expect_eq(json_integer_value(json_object_get(row, "total_ns")), 140000000);
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
	cr_assert_eq(run("--json", "--span=ffffffffffffffff", scratch), 0);
	j = json();
	cr_expect_eq(number(j, "total", "samples"), 0);
	json_decref(j);
}

static const char *status_file(const char *content)
{
	scratch_write("status", content, strlen(content));
	return in_scratch("status");
}

Test(report, explains_a_status_file, .timeout = 20)
{
	const char *path = status_file(
		"{\"version\":\"1\",\"pid\":7,\"service\":\"shop\",\"state\":\"active\","
		"\"sdks\":[{\"name\":\"an-sdk\",\"method\":\"functions\",\"spans_started\":3,"
		"\"not_understood\":[{\"fact\":\"a thing\",\"instead\":\"another way\"}]}],"
		"\"signal\":\"RTMIN+27\",\"threads\":{\"armed\":4,\"unarmed\":9,\"blocking_"
		"signal\":3,\"over_limit\":5,"
		"\"refused\":0},"
		"\"samples\":{\"put\":10,\"drained\":10,\"with_span\":0,\"without_span\":10},"
		"\"spans\":{\"started\":3,\"ended\":2,\"open\":1,\"aged\":0},"
		"\"loss\":{\"dropped_ring_full\":0,\"files_failed\":2,\"new_reason\":1},"
		"\"push\":{\"address\":\"http://p\",\"last_status\":401,"
		"\"last_error\":\"status 401: \\u001b[31mwho?\",\"last_success_unix_ms\":null,"
		"\"attempts\":5,\"server_time_skew_ms\":7200000}}");

	cr_expect_eq(run("--status", path, NULL), 0);

	cr_expect(printed("shop, process 7, spanprof 1, written 0 s ago") ||
		  printed("shop, process 7, spanprof 1, written 1 s ago"));
	cr_expect(printed("active: samples are taken"));
	cr_expect(printed("an-sdk: 3 spans, seen by its functions\n"
			  "          not understood: a thing; another way\n"));
	cr_expect(printed(
		"threads   4 sampled by RTMIN+27, 9 not: 3 block the signal, 5 over half of "
		"RLIMIT_SIGPENDING\n"));
	cr_expect(
		printed("0 in spans, 10 outside; are the spans attached where the work is done?"));
	cr_expect(printed("lost      2 profiles could not be written into SPANPROF_OUTPUT_DIR"));
	cr_expect(printed("lost      1 new_reason"));
	cr_expect_not(printed("ring full"));
	cr_expect(printed("to http://p, 5 tries, last success never"));
	cr_expect(printed("the last try failed: status 401:  [31mwho?"));
	cr_expect(printed("the server's is 7200 s ahead of this one"));
}

Test(report, a_strange_status_file_is_one_line, .timeout = 20)
{
	static const char *const strange[] = {"", "[]", "{\"a\":1}", "{\"samples\":", "\xff"};

	for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++)
		cr_expect_eq(run("--status", status_file(strange[i]), NULL), 2, "%zu", i);
	/* Whatever is where it should not be is read as nothing. */
	cr_expect_eq(run("--status",
			 status_file("{\"samples\":1,\"sdks\":{},\"loss\":[1],\"push\":{},"
				     "\"spans\":\"x\",\"threads\":null,\"state\":3}"),
			 NULL),
		     0);
	cr_expect_eq(run("--status", scratch, NULL), 2);
	cr_expect_eq(run("--status", "/does/not/exist", NULL), 2);
	/* What is quoted of it cannot speak to the terminal, nor can texts of Latin-1. */
	cr_expect_eq(run("--status", status_file("{\"samples\":\x1b[2J"), NULL), 2);
	cr_expect_not(printed("\x1b"));
	cr_expect_eq(run("--status", status_file("{\"samples\":1,\"state\":\"\\u009b2J\"}"), NULL),
		     0);
	cr_expect_not(printed("\xc2\x9b"));
}

Test(report, limits_the_functions, .timeout = 20)
{
	write_profile("a.pb.gz", true);

	cr_assert_eq(run("--top=1", scratch, NULL), 0);

	cr_expect(printed("parse"));
	cr_expect_not(printed("render"));
	cr_expect_eq(run("--top=x", scratch, NULL), 1);
	cr_expect_eq(run("--top=0", scratch, NULL), 1);
	cr_expect_eq(run("--top=-1", scratch, NULL), 1);
}

Test(report, explains_itself, .timeout = 20)
{
	cr_expect_eq(run("--help", NULL, NULL), 0);
	cr_expect(printed("--span-name NAME"));
	cr_expect_eq(run("--version", NULL, NULL), 0);
	cr_expect(printed("spanprof-report 0."));
	cr_expect_eq(run(NULL, NULL, NULL), 1);
	cr_expect_eq(run("--nonsense", NULL, NULL), 1);
	cr_expect_eq(run(scratch, NULL, NULL), 1);
	cr_expect(printed("no profiles found"));
}

Test(report, says_in_one_line_which_file_is_damaged, .timeout = 60)
{
	struct sp_bytes b = make_profile(), z;

	cr_assert_eq(sp_gzip_pack(&b, &z), 0);
	/* Every way of being cut short: never a crash, never a half report. */
	for (size_t len = 0; len < z.len; len += 1 + z.len / 50) {
		scratch_write("cut.pb.gz", z.data, len);
		if (len == 0)
			continue;
		cr_expect_eq(run(scratch, NULL, NULL), 2, "%zu bytes", len);
		cr_expect_eq(strchr(output, '\n'), output + strlen(output) - 1, "%s", output);
		cr_expect(printed("cut.pb.gz: "));
	}
	free(b.data);
	free(z.data);
	scratch_write("cut.pb.gz", "no profile at all", 17);
	cr_expect_eq(run(scratch, NULL, NULL), 2);
	cr_expect_eq(run("/nonexistent.pb", NULL, NULL), 2);
	cr_expect(printed("/nonexistent.pb: No such file or directory"));
}

Test(report, survives_every_flipped_bit_of_a_plain_profile, .timeout = 120)
{
	struct sp_bytes b = make_profile();

	for (size_t i = 0; i < b.len; i++) {
		int rc;

		b.data[i] ^= (uint8_t)(1U << i % 8);
		scratch_write("flip.pb", b.data, b.len);
		rc = run(in_scratch("flip.pb"), NULL, NULL);
		cr_assert(rc == 0 || rc == 2, "byte %zu: %d", i, rc);
		b.data[i] ^= (uint8_t)(1U << i % 8);
	}
	free(b.data);
}

static void write_message(const char *name, const Spanprof__Pprof__Profile *p)
{
	size_t len = spanprof__pprof__profile__get_packed_size(p);
	uint8_t *data = malloc(len);

	spanprof__pprof__profile__pack(p, data);
	scratch_write(name, data, len);
	free(data);
}

static void ignore(void *arg, const struct sp_report_sample *s)
{
	(void)arg;
	(void)s;
}

Test(report, proves_every_index, .timeout = 20)
{
	struct sp_bytes b = make_profile();
	Spanprof__Pprof__Profile *p = spanprof__pprof__profile__unpack(NULL, b.len, b.data);
	int64_t *const text[] = {&p->sample[0]->label[0]->key, &p->sample[0]->label[0]->str,
				 &p->function[0]->name,        &p->mapping[0]->filename,
				 &p->sample_type[0]->type,     &p->sample_type[1]->unit};
	uint64_t *const id[] = {&p->sample[0]->location_id[0],
				&p->location[0]->line[0]->function_id, &p->location[0]->mapping_id};

	for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
		const int64_t bad[] = {-1, (int64_t)p->n_string_table, INT64_MAX};
		int64_t good = *text[i];

		for (size_t k = 0; k < 3; k++) {
			*text[i] = bad[k];
			write_message("bad.pb", p);
			cr_expect_eq(run(in_scratch("bad.pb"), NULL, NULL), 2, "text %zu", i);
			cr_expect(printed("a string that is not there"), "%s", output);
		}
		*text[i] = good;
	}
	for (size_t i = 0; i < sizeof(id) / sizeof(id[0]); i++) {
		uint64_t good = *id[i];

		*id[i] = 4000;
		write_message("bad.pb", p);
		cr_expect_eq(run(in_scratch("bad.pb"), NULL, NULL), 2, "id %zu", i);
		cr_expect(printed("that is not there"), "%s", output);
		*id[i] = good;
	}
	p->location[1]->id = p->location[0]->id;
	write_message("bad.pb", p);
	cr_expect_eq(run(in_scratch("bad.pb"), NULL, NULL), 2);
	cr_expect(printed("two locations with the same id"), "%s", output);
	p->location[1]->id = 2;
	p->sample[0]->n_value = 1;
	write_message("bad.pb", p);
	cr_expect_eq(run(in_scratch("bad.pb"), NULL, NULL), 2);
	cr_expect(printed("wrong number of values"), "%s", output);
	p->sample[0]->n_value = 2;
	write_message("bad.pb", p);
	cr_expect_eq(run(in_scratch("bad.pb"), NULL, NULL), 0, "%s", output);
	spanprof__pprof__profile__free_unpacked(p, NULL);
	free(b.data);
}

/* Memory may run out at every step of the reading: nothing is lost or freed twice, and it is told. */
Test(report, says_that_a_profile_takes_too_much_memory, .timeout = 60)
{
	struct sp_bytes b = make_profile();
	const struct sp_report_sink sink = {ignore, NULL};
	unsigned refused = 0;
	size_t budget = 0;
	char why[SP_REPORT_ERROR];

	while (budget < (1 << 20) && sp_report_load(&b, budget, &sink, why) != 0) {
		cr_assert_str_eq(why, "reading it takes too much memory", "%zu bytes", budget);
		budget += 64;
		refused++;
	}
	cr_expect_gt(refused, 50);
	cr_expect_lt(budget, 1 << 16);
	free(b.data);
}

Test(report, names_a_location_within_the_budget, .timeout = 60)
{
	static char empty[] = "", unit[] = "nanoseconds";
	char *file = malloc(1 << 20);
	char *strings[] = {empty, unit, file};
	Spanprof__Pprof__ValueType type = SPANPROF__PPROF__VALUE_TYPE__INIT;
	Spanprof__Pprof__ValueType *types[] = {&type};
	Spanprof__Pprof__Mapping m = SPANPROF__PPROF__MAPPING__INIT;
	Spanprof__Pprof__Mapping *ms[] = {&m};
	Spanprof__Pprof__Location loc = SPANPROF__PPROF__LOCATION__INIT;
	Spanprof__Pprof__Location *locs[] = {&loc};
	Spanprof__Pprof__Sample s = SPANPROF__PPROF__SAMPLE__INIT;
	Spanprof__Pprof__Sample *ss[] = {&s};
	Spanprof__Pprof__Profile p = SPANPROF__PPROF__PROFILE__INIT;
	uint64_t ids[] = {1};
	int64_t values[] = {1};

	memset(file, 'f', 1 << 20);
	file[(1 << 20) - 1] = '\0';
	type.unit = 1;
	m.id = loc.id = loc.mapping_id = 1;
	m.filename = 2;
	s.n_location_id = s.n_value = 1;
	s.location_id = ids;
	s.value = values;
	p.n_string_table = 3;
	p.string_table = strings;
	p.n_sample_type = p.n_mapping = p.n_location = p.n_sample = 1;
	p.sample_type = types;
	p.mapping = ms;
	p.location = locs;
	p.sample = ss;
	write_message("long.pb", &p);
	free(file);

	cr_assert_eq(run(scratch, NULL, NULL), 0, "%s", output);

	cr_expect(printed("fff!0x0\n"), "%s", output);
	cr_expect_lt(strlen(output), 2000);
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
	write_message("other.pprof", &p);

	cr_assert_eq(run(scratch, NULL, NULL), 0, "%s", output);

	cr_expect(printed("1 profile, 3 samples, 0.03 s CPU"), "%s", output);
	cr_expect(printed("(no span_name)"), "%s", output);
	cr_expect(printed("      0.03  100.0%       0.03  100.0%  inlined\n"), "%s", output);
	cr_expect(printed("      0.00    0.0%       0.03  100.0%  outer\n"), "%s", output);
	cr_expect(printed("      0.00    0.0%       0.03  100.0%  libx.so!0xabc\n"), "%s", output);
}
