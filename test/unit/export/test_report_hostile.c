/* SPDX-License-Identifier: Apache-2.0 */
/* Damaged and unreasonable profiles for spanprof-report: one line names the fault, and nothing crashes. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export/profile/gzip.h"
#include "export/report/load.h"
#include "profile.pb-c.h"
#include "report_unit.h"
#include "test/unit/scratch.h"

TestSuite(report_hostile, .init = scratch_make, .fini = scratch_remove);

static int run(const char *path)
{
	return report_run((const char *const[]){path, NULL}, output, sizeof(output));
}

Test(report_hostile, says_in_one_line_which_file_is_damaged, .timeout = 60)
{
	struct sp_bytes b = report_small_profile(), z;

	cr_assert_eq(sp_gzip_pack(&b, &z), 0);
	/* A file that is cut anywhere causes neither a crash nor half a report. */
	for (size_t len = 0; len < z.len; len += 1 + z.len / 50) {
		scratch_write("cut.pb.gz", z.data, len);
		cr_expect_eq(run(in_scratch("cut.pb.gz")), 2, "%zu bytes", len);
		cr_expect_eq(strchr(output, '\n'), output + strlen(output) - 1, "%s", output);
		expect_printed("cut.pb.gz: ");
	}
	free(b.data);
	free(z.data);
	scratch_write("cut.pb.gz", "no profile at all", 17);
	cr_expect_eq(run(scratch), 2);
	cr_expect_eq(run("/nonexistent.pb"), 2);
	expect_printed("/nonexistent.pb: No such file or directory");
}

Test(report_hostile, shows_the_rest_of_a_folder_with_damaged_files, .timeout = 20)
{
	struct sp_bytes b = report_small_profile();
	char name[32];

	scratch_write("good.pb", b.data, b.len);
	scratch_write("cut.pb", b.data, b.len / 2);
	free(b.data);

	cr_expect_eq(run(scratch), 2);
	cr_expect_eq(strncmp(output, "spanprof-report: ", 17), 0, "%s", output);
	expect_printed("/cut.pb: not a pprof profile\n");
	expect_printed("1 profile, 20 samples");
	expect_printed("passed over: 1 file\n");
	/* Each file is reported once, even if it is read several times. */
	cr_expect_eq(run_scratch("--span", "00000000000000aa", "--diff"), 2);
	cr_expect_eq(report_count(output, "cut.pb"), 1, "%s", output);
	cr_expect_eq(run_scratch("--type", "inuse_space"), 2);
	cr_expect_eq(report_count(output, "cut.pb"), 1, "%s", output);
	cr_expect_eq(run_scratch("--json"), 2);
	expect_printed("\"passed_over\": 1");
	for (int i = 0; i < 50; i++) {
		(void)snprintf(name, sizeof(name), "cut%d.pb", i);
		scratch_write(name, "no profile", 10);
	}
	cr_expect_eq(run(scratch), 2);
	cr_expect_eq(report_count(output, "not a pprof profile"), 20, "%s", output);
	expect_printed("passed over: 51 files\n");
}

/* Such a file is read no further, and not unpacked. */
Test(report_hostile, reads_no_file_of_more_than_64_mib, .timeout = 60)
{
	const char *path = scratch_write("large.pb.gz", "\x1f\x8b\x08", 4);

	cr_assert_eq(truncate(path, (off_t)65 << 20), 0);
	cr_expect_eq(run(path), 2);
	cr_expect(printed("large.pb.gz: it is too large\n"), "%s", output);
}

Test(report_hostile, survives_every_flipped_bit_of_a_plain_profile, .timeout = 120)
{
	struct sp_bytes b = report_small_profile();

	for (size_t i = 0; i < b.len; i++) {
		int rc;

		b.data[i] ^= (uint8_t)(1U << i % 8);
		scratch_write("flip.pb", b.data, b.len);
		rc = run(in_scratch("flip.pb"));
		cr_assert(rc == 0 || rc == 2, "byte %zu: %d", i, rc);
		b.data[i] ^= (uint8_t)(1U << i % 8);
	}
	free(b.data);
}

static void ignore(void *arg, const struct sp_report_sample *s)
{
	(void)arg;
	(void)s;
}

Test(report_hostile, proves_every_index, .timeout = 20)
{
	struct sp_bytes b = report_small_profile();
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
			report_write("bad.pb", p);
			cr_expect_eq(run(in_scratch("bad.pb")), 2, "text %zu", i);
			expect_printed("a string that is not there");
		}
		*text[i] = good;
	}
	for (size_t i = 0; i < sizeof(id) / sizeof(id[0]); i++) {
		uint64_t good = *id[i];

		*id[i] = 4000;
		report_write("bad.pb", p);
		cr_expect_eq(run(in_scratch("bad.pb")), 2, "id %zu", i);
		expect_printed("that is not there");
		*id[i] = good;
	}
	p->location[1]->id = p->location[0]->id;
	report_write("bad.pb", p);
	cr_expect_eq(run(in_scratch("bad.pb")), 2);
	expect_printed("two locations with the same id");
	p->location[1]->id = 2;
	p->sample[0]->n_value = 1;
	report_write("bad.pb", p);
	cr_expect_eq(run(in_scratch("bad.pb")), 2);
	expect_printed("wrong number of values");
	p->sample[0]->n_value = 2;
	report_write("bad.pb", p);
	cr_expect_eq(run(in_scratch("bad.pb")), 0, "%s", output);
	spanprof__pprof__profile__free_unpacked(p, NULL);
	free(b.data);
}

/* In a foreign folder a link can lead to a device, and opening a device may have an effect. */
Test(report_hostile, opens_nothing_but_files, .timeout = 20)
{
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	struct inotify_event event;

	cr_assert_eq(mkfifo(in_scratch("device.pb"), 0600), 0);
	cr_assert_geq(inotify_add_watch(watch, in_scratch("device.pb"), IN_OPEN), 0);
	cr_expect_eq(run(scratch), 2);
	expect_printed("device.pb: not a regular file\n");
	cr_expect_lt(read(watch, &event, sizeof(event)), 0);
	close(open(in_scratch("device.pb"), O_RDONLY | O_NONBLOCK));
	cr_expect_eq(read(watch, &event, sizeof(event)), sizeof(event));
	close(watch);
}

/* A value can be 2^63 - 1: the sum of two of them fits, that of three does not. */
Test(report_hostile, has_no_sums_that_do_not_fit, .timeout = 20)
{
	struct sp_bytes b = report_small_profile();
	Spanprof__Pprof__Profile *p = spanprof__pprof__profile__unpack(NULL, b.len, b.data);

	for (size_t value = 0; value < 2; value++) {
		for (size_t i = 0; i < p->n_sample; i++)
			p->sample[i]->value[value] = i < 2 ? INT64_MAX : 0;
		report_write("huge.pb", p);
		cr_expect_eq(run(in_scratch("huge.pb")), 0, "%s", output);
		p->sample[2]->value[value] = INT64_MAX;
		report_write("huge.pb", p);
		cr_expect_eq(run(in_scratch("huge.pb")), 2, "%s", output);
		expect_printed("its values are too large to be summed up");
		p->sample[2]->value[value] = 0;
	}
	spanprof__pprof__profile__free_unpacked(p, NULL);
	free(b.data);
}

/* Memory may run out at every step of the reading: nothing is lost or freed twice, and the report says so. */
Test(report_hostile, says_that_a_profile_takes_too_much_memory, .timeout = 60)
{
	struct sp_bytes b = report_small_profile();
	const struct sp_report_sink sink = {.sample = ignore};
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

Test(report_hostile, names_a_location_within_the_budget, .timeout = 60)
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
	report_write("long.pb", &p);
	free(file);

	cr_assert_eq(run(scratch), 0, "%s", output);

	expect_printed("fff!0x0\n");
	cr_expect_lt(strlen(output), 2000);
}
