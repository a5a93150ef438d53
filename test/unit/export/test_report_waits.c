/* SPDX-License-Identifier: Apache-2.0 */
/* What spanprof-report makes of CPU time and waiting time together: where the time of spans went. */
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
static const char *const parse_deeply[] = {"parse@p.c:7", "parse@p.c:7", "handle@h.c:20", "main"};
static const char *const lock[] = {"futex (lock)", "pthread_mutex_lock", "handle@h.c:21", "main"};
static const char *const query[] = {"recvfrom tcp 10.0.0.5:5432", "query@q.c:3", "main"};
static const char *const starved[] = {"[waiting for a CPU]"};

#define TIME(f, id, name, ms)                                                                      \
	{                                                                                          \
		f, sizeof(f) / sizeof(f[0]), id, name, NULL, 1, (ms) * (int64_t)MS, NULL           \
	}

static const struct report_stack on_cpu[] = {
	TIME(parse, GET_A, "GET", 60),
	TIME(parse_deeply, GET_A, "GET", 40),
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

static void write_wall(void)
{
	struct report_stack all[N(on_cpu) + N(waiting)];

	memcpy(all, on_cpu, sizeof(on_cpu));
	memcpy(all + N(on_cpu), waiting, sizeof(waiting));
	write_type("w.pb", SP_PROFILE_WALL, all, N(all));
}

static void expect_row(const json_t *rows, size_t i, const char *name, const json_int_t want[5])
{
	static const char *const keys[] = {"spans", "wall_ns", "cpu_ns", "runnable_ns",
					   "blocked_ns"};
	const json_t *row = json_array_get(rows, i);

	cr_expect_str_eq(json_string_value(json_object_get(row, "span_name")), name);
	for (size_t k = 0; k < N(keys); k++)
		cr_expect_eq(json_integer_value(json_object_get(row, keys[k])),
			     k == 0 ? want[k] : want[k] * MS, "%s: %s", name, keys[k]);
}

static void expect_times(void)
{
	json_t *j;
	const json_t *rows;
	const json_t *stack;

	cr_assert_eq(run_scratch("--json"), 0, "%s", output);
	j = json();
	rows = json_object_get(j, "span_times");
	cr_assert_eq(json_array_size(rows), 2, "%s", output);
	expect_row(rows, 0, "GET", (const json_int_t[]){2, 1000, 100, 50, 850});
	expect_row(rows, 1, "POST", (const json_int_t[]){1, 50, 50, 0, 0});
	stack = json_array_get(json_object_get(json_array_get(rows, 0), "stacks"), 0);
	cr_expect_str_eq(json_string_value(json_object_get(stack, "state")), "blocked");
	cr_expect_str_eq(json_string_value(json_object_get(stack, "stack")),
			 "futex (lock) < pthread_mutex_lock < handle < main");
	cr_expect_eq(json_integer_value(json_object_get(stack, "ns")), 700 * (json_int_t)MS);
	/* The other numbers are still those of CPU time alone. */
	cr_expect_eq(json_integer_value(json_object_get(json_object_get(j, "total"), "ns")),
		     5150 * (json_int_t)MS);
	json_decref(j);
}

Test(report_waits, are_added_to_cpu_time)
{
	write_type("c.pb", SP_PROFILE_CPU, on_cpu, N(on_cpu));
	write_type("o.pb", SP_PROFILE_OFF_CPU, waiting, N(waiting));
	expect_times();
}

Test(report_waits, may_come_first_and_from_a_profile_of_both)
{
	write_wall();
	write_type("z.pb", SP_PROFILE_CPU, on_cpu, N(on_cpu));
	expect_times();
}

Test(report_waits, count_once_where_all_types_are_there)
{
	write_type("c.pb", SP_PROFILE_CPU, on_cpu, N(on_cpu));
	write_type("o.pb", SP_PROFILE_OFF_CPU, waiting, N(waiting));
	write_wall();
	expect_times();
}

Test(report_waits, have_a_table_with_the_largest_stacks)
{
	write_type("c.pb", SP_PROFILE_CPU, on_cpu, N(on_cpu));
	write_type("o.pb", SP_PROFILE_OFF_CPU, waiting, N(waiting));
	cr_assert_eq(run_scratch("--span-name", "GET"), 0, "%s", output);
	cr_expect(printed("\n        2       1.00       0.10       0.05       0.85  GET\n"), "%s",
		  output);
	cr_expect(printed(" 70.0%  blocked   futex (lock) < pthread_mutex_lock < handle < main\n"));
	cr_expect(printed(" 15.0%  blocked   recvfrom tcp 10.0.0.5:5432 < query < main\n"));
	cr_expect(printed(" 10.0%  CPU       parse < handle < main\n"));
	cr_expect(printed("  5.0%  runnable  [waiting for a CPU]\n"));
	cr_expect_not(printed("POST"));
}

Test(report_waits, are_not_there_without_profiles_of_them)
{
	write_type("c.pb", SP_PROFILE_CPU, on_cpu, N(on_cpu));
	cr_assert_eq(run_scratch("--json"), 0);
	cr_expect_not(printed("span_times"));
	cr_assert_eq(run_scratch("--top", "9"), 0);
	cr_expect_not(printed("blocked s"));
	write_type("o.pb", SP_PROFILE_OFF_CPU, waiting, N(waiting));
	/* nor where one type alone was asked for */
	cr_assert_eq(run_scratch("--type", "off_cpu"), 0);
	cr_expect_not(printed("blocked s"));
}
