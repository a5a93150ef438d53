/* SPDX-License-Identifier: Apache-2.0 */
/* What /proc says about a thread, and texts that it should never contain. */
#include "export/off_cpu/task.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(task, .timeout = 20);

Test(task, times_are_read)
{
	struct sp_task_times t;

	cr_assert(sp_task_times_parse("17842900 31337 42\n", &t));
	cr_expect_eq(t.cpu_ns, 17842900);
	cr_expect_eq(t.delay_ns, 31337);
	cr_expect_eq(t.slices, 42);
	cr_assert(sp_task_times_parse("18446744073709551615 0 1\n", &t));
	cr_expect_eq(t.cpu_ns, UINT64_MAX);
}

Test(task, times_that_are_none_are_refused)
{
	static const char *const bad[] = {
		"",
		"\n",
		"1",
		"1 2",
		"1 2\n",
		" 1 2 3\n",
		"-1 2 3\n",
		"1  2 3\n",
		"x 2 3\n",
		"1 2 x\n",
		"18446744073709551616 2 3\n",
		"1 2 3",
	};
	struct sp_task_times t;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_not(sp_task_times_parse(bad[i], &t), "%s", bad[i]);
}

Test(task, runs_or_is_blocked_as_its_state_says)
{
	static const char *const bad[] = {"", "1", "1 (x", "1 (x)", "1 (x) ", "1 (x) ?", "1 (x)R"};
	struct sp_task_place p;

	cr_assert(sp_task_state_parse("1 (x) R 1 1\n", &p));
	cr_expect_eq(p.state, SP_TASK_RUNS);
	cr_assert(sp_task_state_parse("1 (a) R (b) S 1 1\n", &p));
	cr_expect_eq(p.state, SP_TASK_HIDDEN);
	cr_assert(sp_task_state_parse("1 (x) D 1 1\n", &p));
	cr_expect_eq(p.state, SP_TASK_HIDDEN);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_not(sp_task_state_parse(bad[i], &p), "%s", bad[i]);
	cr_assert_eq(sp_task_state_read("/proc/self", (uint32_t)getpid(), &p), 0);
	cr_expect_eq(p.state, SP_TASK_RUNS);
	cr_expect_eq(sp_task_state_read("/proc/self", 1U << 30, &p), -ESRCH);
}

/* Some files stay open, and those of other threads are opened each time. */
Test(task, times_are_those_of_the_kernel)
{
	static struct sp_task_file file[200];
	struct sp_task_times first, second;
	uint32_t tid = (uint32_t)getpid();

	for (unsigned i = 0; i < 200; i++)
		cr_assert(sp_task_times_read(&file[i], "/proc/self", tid, &first));
	cr_expect_neq(file[0].file, 0);
	cr_expect_eq(file[199].file, 0);
	cr_assert(sp_task_times_read(&file[0], "/proc/self", tid, &second));
	cr_expect_geq(second.cpu_ns, first.cpu_ns);
	cr_expect_gt(second.slices, 0);
	for (unsigned i = 0; i < 200; i++)
		sp_task_file_close(&file[i]);
	cr_assert(sp_task_times_read(&file[199], "/proc/self", tid, &second));
	cr_expect_neq(file[199].file, 0);
	sp_task_file_close(&file[199]);
	cr_expect_not(sp_task_times_read(&file[0], "/proc/self", 1U << 30, &second));
	cr_expect_eq(file[0].file, 0);
}

Test(task, place_is_a_system_call)
{
	struct sp_task_place p;

	cr_assert(sp_task_place_parse(
		"230 0x1 0x0 0x7ffd0 0x7ffd8 0x0 0x5 0x7ffd3a1b2c40 0x7f12deadbeef\n", &p));
	cr_expect_eq(p.state, SP_TASK_CALLS);
	cr_expect_eq(p.number, 230);
	cr_expect_eq(p.arg[0], 1);
	cr_expect_eq(p.arg[5], 5);
	cr_expect_eq(p.sp, 0x7ffd3a1b2c40);
	cr_expect_eq(p.pc, 0x7f12deadbeef);
}

Test(task, place_is_in_the_kernel_without_a_call)
{
	struct sp_task_place p;

	cr_assert(sp_task_place_parse("-1 0x7ffd3a1b2c40 0x7f12deadbeef\n", &p));
	cr_expect_eq(p.state, SP_TASK_IN_KERNEL);
	cr_expect_eq(p.sp, 0x7ffd3a1b2c40);
	cr_expect_eq(p.pc, 0x7f12deadbeef);
}

Test(task, runs)
{
	struct sp_task_place p;

	cr_assert(sp_task_place_parse("running\n", &p));
	cr_expect_eq(p.state, SP_TASK_RUNS);
	cr_expect_eq(p.sp, 0);
}

Test(task, place_that_is_none_is_refused)
{
	static const char *const bad[] = {
		"",
		"running",
		"running \n",
		"0",
		"0 0x1 0x2 0x3 0x4 0x5 0x6 0x7\n",
		"0 0x1 0x2 0x3 0x4 0x5 0x6 0x7 8\n",
		"0 1 0x2 0x3 0x4 0x5 0x6 0x7 0x8\n",
		"-1 0x1\n",
		"-2 0x1 0x2\n",
		"-1 0x 0x2\n",
		"0 0x1 0x2 0x3 0x4 0x5 0x6 0x10000000000000000 0x8\n",
		"0  0x1 0x2 0x3 0x4 0x5 0x6 0x7 0x8\n",
	};
	struct sp_task_place p;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_not(sp_task_place_parse(bad[i], &p), "%s", bad[i]);
}

/* Texts that are cut and changed anywhere, in memory that ends with the text. */
Test(task, no_text_is_read_beyond_its_end)
{
	static const char whole[] =
		"230 0x1 0x0 0x7ffd0 0x7ffd8 0x0 0x5 0x7ffd3a1b2c40 0x7f12deadbeef\n";
	unsigned seed = 1;

	for (unsigned i = 0; i < 20000; i++) {
		size_t len = (unsigned)rand_r(&seed) % sizeof(whole);
		char *text = malloc(len + 1);
		struct sp_task_place p;
		struct sp_task_times t;

		memcpy(text, whole, len);
		text[len] = '\0';
		for (unsigned n = 0; n < 2 && len != 0; n++)
			text[(unsigned)rand_r(&seed) % len] = (char)(rand_r(&seed) % 255 + 1);
		(void)sp_task_place_parse(text, &p);
		(void)sp_task_times_parse(text, &t);
		free(text);
	}
}
