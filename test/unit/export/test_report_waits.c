/* SPDX-License-Identifier: Apache-2.0 */
/* Reports about waiting time by spanprof-report, alone and beside CPU time. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "report_unit.h"
#include "test/unit/scratch.h"

#define GET_A "00000000000000aa"
#define GET_B "00000000000000bb"
#define POST "00000000000000cc"
#define MS 1000000

static void set_up(void)
{
	scratch_make();
	unsetenv("NO_COLOR");
}

TestSuite(report_waits, .init = set_up, .fini = scratch_remove);

static const char *const parse[] = {"parse@p.c:7", "handle@h.c:20", "main"};
static const char *const lock[] = {"futex (lock)", "pthread_mutex_lock", "handle@h.c:21", "main"};
static const char *const query[] = {"recvfrom tcp 10.0.0.5:5432", "query@q.c:3", "main"};
static const char *const starved[] = {"[waiting for a CPU]"};

#define TIME(f, id, name, ms)                                                                      \
	{                                                                                          \
		f, sizeof(f) / sizeof(f[0]), id, name, NULL, 1, (ms) * (int64_t)MS, NULL, NULL     \
	}

static const struct report_stack on_cpu[] = {
	TIME(parse, GET_A, "GET", 100),
	TIME(parse, NULL, NULL, 5000),
	TIME(parse, POST, "POST", 50),
};
/* The second GET has not run long enough for a sample. */
static const struct report_stack waiting[] = {
	TIME(lock, GET_A, "GET", 500),
	TIME(lock, GET_B, "GET", 200),
	TIME(query, GET_B, "GET", 150),
	TIME(starved, GET_A, "GET", 50),
};
#define N(array) (sizeof(array) / sizeof((array)[0]))

static void write_type(const char *name, enum sp_profile_type type,
		       const struct report_stack *stack, size_t n)
{
	struct sp_bytes b = report_profile_of(type, stack, n);

	scratch_write(name, b.data, b.len);
	free(b.data);
}

Test(report_waits, are_told_beside_cpu_time)
{
	json_t *j;

	write_type("c.pb", SP_PROFILE_CPU, on_cpu, N(on_cpu));
	write_type("o.pb", SP_PROFILE_OFF_CPU, waiting, N(waiting));
	write_type("w.pb", SP_PROFILE_WALL, waiting, N(waiting));

	must_report("--span=" GET_A);
	expect_printed("0.10 s CPU");
	expect_printed("\n0.55 s of waiting are in another profile: use --type off_cpu\n");
	expect_not_printed("futex");
	/* --json has the numbers of CPU time only. */
	must_report("--json");
	j = json();
	cr_expect_eq(number_of(json_object_get(j, "total"), "ns"), 5150 * (json_int_t)MS);
	json_decref(j);
}

Test(report_waits, have_a_table_with_spans_and_calls)
{
	write_type("c.pb", SP_PROFILE_CPU, on_cpu, N(on_cpu));
	write_type("o.pb", SP_PROFILE_OFF_CPU, waiting, N(waiting));

	must_report("--type", "off_cpu", "--span-name", "GET");
	expect_printed("1 profile, 4 samples, 0.90 s off-CPU");
	expect_printed("      0.70     77.8%       0.70     77.8%  futex (lock)\n");
	expect_printed("      0.15     16.7%       0.15     16.7%  recvfrom tcp 10.0.0.5:5432\n");
	expect_printed("      0.05      5.6%       0.05      5.6%  [waiting for a CPU]\n");
	expect_not_printed("POST");
	expect_not_printed("use --type");
}

/* Short spans often have no sample of CPU time. */
Test(report_waits, are_told_of_a_span_that_has_nothing_else)
{
	write_type("c.pb", SP_PROFILE_CPU, on_cpu, N(on_cpu));
	write_type("o.pb", SP_PROFILE_OFF_CPU, waiting, N(waiting));

	cr_expect_eq(run_scratch("--span=" GET_B), 1);
	cr_expect_str_eq(output, "spanprof-report: no sample of CPU time is selected, but 0.350 s "
				 "of waiting: use --type off_cpu\n");
}

static const char *const held[] = {"held by POST in bank_charge", "futex (lock)", "handle@h.c:21",
				   "main"};
static const char *const held_running[] = {"held by POST", "futex (lock)", "handle@h.c:21", "main"};
static const char *const forged[] = {"bank_charge@b.c:1", "main"};

#define HELD(f, id, name, ms, by)                                                                  \
	{                                                                                          \
		f, sizeof(f) / sizeof(f[0]), id, name, NULL, 1, (ms) * (int64_t)MS, NULL, by       \
	}

static const struct report_stack locked[] = {
	TIME(lock, GET_A, "GET", 100),
	HELD(held, GET_A, "GET", 300, POST),
	HELD(held, GET_B, "GET", 50, "00000000000000dd"),
	HELD(held_running, GET_B, "GET", 70, POST),
	HELD(held, POST, "POST", 20, "00000000000000dd"),
	HELD(forged, POST, "POST", 20, "00000000000000dd"),
};

Test(report_waits, have_a_table_of_who_held_the_locks)
{
	write_type("c.pb", SP_PROFILE_CPU, on_cpu, N(on_cpu));
	write_type("o.pb", SP_PROFILE_OFF_CPU, locked, N(locked));

	must_report("--type", "off_cpu");
	expect_printed("\n0.44 s of it waiting for locks, most for one held by POST in "
		       "bank_charge "
		       "(span " POST ")\n");
	expect_printed("samples  off-CPU s  % of spans  span_name: who holds the lock that it "
		       "waited for\n");
	expect_printed("         2      0.350     too few  GET: POST in bank_charge\n");
	expect_printed("         1      0.070     too few  GET: POST\n");
	expect_printed("         1      0.020     too few  POST: POST in bank_charge\n");
	expect_not_printed("others waited");
	must_report("--type", "off_cpu", "--top", "1");
	expect_printed(" 2 names more\n");
}

/* Two standard errors are 283 % divided by the square root of the number of looks. */
Test(report_waits, say_how_far_chance_goes)
{
	static const struct report_stack many[] = {
		{lock, N(lock), GET_A, "GET", NULL, 100, 500 * (int64_t)MS, NULL, NULL},
		{lock, N(lock), POST, "POST", NULL, 10000, 100 * (int64_t)MS, NULL, NULL},
	};

	write_type("c.pb", SP_PROFILE_CPU, on_cpu, N(on_cpu));
	write_type("o.pb", SP_PROFILE_OFF_CPU, many, N(many));
	must_report("--type", "off_cpu");
	expect_printed("  off-CPU s  % of spans    +/-  span_name\n");
	expect_printed("       0.50       83.3%    28%  GET\n");
	expect_printed("       0.10       16.7%     3%  POST\n");
	must_report("--type", "cpu");
	expect_printed("       0.10    too few samples  GET\n");
}

Test(report_waits, have_a_sentence_about_who_held_up_a_span)
{
	json_t *j;
	json_t *row;

	write_type("c.pb", SP_PROFILE_CPU, on_cpu, N(on_cpu));
	write_type("o.pb", SP_PROFILE_OFF_CPU, locked, N(locked));

	must_report("--type", "off_cpu", "--span", GET_B);
	expect_printed("\n0.12 s of it waiting for locks, most for one held by POST (span " POST
		       ")\n");
	/*
	 * The report also says how long other spans waited for the span's locks, even beside its
	 * CPU time.
	 */
	must_report("--span=00000000000000CC");
	expect_printed("\nothers waited 0.37 s for locks that it held\n");
	must_report("--type", "off_cpu", "--span=00000000000000CC");
	expect_printed("\nothers waited 0.37 s for locks that it held\n");
	/* Such waits in a baseline are not added. */
	must_report("--type", "off_cpu", "--span=00000000000000CC", "--baseline",
		    in_scratch("o.pb"));
	expect_printed("\nothers waited 0.37 s for locks that it held\n");

	must_report("--type", "off_cpu", "--json");
	j = json();
	cr_assert_eq(json_array_size(json_object_get(j, "waited_for")), 3);
	row = json_array_get(json_object_get(j, "waited_for"), 0);
	cr_expect_str_eq(text_of(row, "span_name"), "GET");
	cr_expect_str_eq(text_of(row, "held_by"), "POST in bank_charge");
	cr_expect_eq(number_of(row, "samples"), 2);
	cr_expect_eq(number_of(row, "ns"), 350 * (json_int_t)MS);
	json_decref(j);
}
