/* SPDX-License-Identifier: Apache-2.0 */
/* Finds one line of a file that may be longer than the buffer. */
#include "sampler/base/process.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char path[64];
static char line[SP_PROC_STATUS_LINE];

static void set_up(void)
{
	strcpy(path, "/tmp/spanprof-test-XXXXXX");
	cr_assert_eq(close(mkstemp(path)), 0);
}

static void tear_down(void)
{
	(void)unlink(path);
}

TestSuite(proc_status, .init = set_up, .fini = tear_down, .timeout = 20);

/* Writes the lines behind a list of that many groups. */
static void write_status(unsigned groups, const char *rest)
{
	FILE *f = fopen(path, "w");

	cr_assert_not_null(f);
	(void)fputs("Name:\tSigQ:\nGroups:\t", f);
	for (unsigned i = 0; i < groups; i++)
		(void)fputc('0', f);
	(void)fputs(rest, f);
	cr_assert_eq(fclose(f), 0);
}

Test(proc_status, is_the_line_wherever_it_lies)
{
	for (unsigned groups = 0; groups < 5000; groups += groups < 900 || groups > 1100 ? 97 : 1) {
		write_status(groups, "\nSigQ:\t18/96551\nSigBlk:\t0000000000000000\n");
		cr_assert_eq(sp_proc_line(path, "SigQ:", line, sizeof(line)), 1, "%u", groups);
		cr_assert_str_eq(line, "SigQ:\t18/96551", "%u", groups);
	}
}

Test(proc_status, is_no_line_that_ends_too_early_or_is_not_there)
{
	write_status(2000, "\nSigQ:\t18/9655");
	cr_expect_eq(sp_proc_line(path, "SigQ:", line, sizeof(line)), 0);
	write_status(2000, "\nSigPnd:\t0\n");
	cr_expect_eq(sp_proc_line(path, "SigQ:", line, sizeof(line)), 0);
	write_status(0, "");
	cr_expect_eq(sp_proc_line(path, "SigQ:", line, sizeof(line)), 0);
	write_status(5000, "SigQ:\n");
	cr_expect_eq(sp_proc_line(path, "SigQ:", line, sizeof(line)), 0);
}

Test(proc_status, is_the_first_line_as_well)
{
	write_status(0, "");
	cr_expect_eq(sp_proc_line(path, "Name", line, sizeof(line)), 1);
	cr_expect_str_eq(line, "Name:\tSigQ:");
}

Test(proc_status, is_cut_where_it_has_no_room)
{
	write_status(100,
		     "\nSigQ:\t11111111111111111111111111111111111111111111111111111111111111\n");
	cr_expect_eq(sp_proc_line(path, "SigQ:", line, sizeof(line)), 1);
	cr_expect_eq(strlen(line), SP_PROC_STATUS_LINE - 1);
}

Test(proc_status, is_read_no_further_than_asked)
{
	struct sp_proc_lines l;

	write_status(5000, "\nSigQ:\t18/96551\n");
	cr_assert(sp_proc_open(&l, path, 3000));
	cr_expect_not_null(sp_proc_next(&l));
	cr_expect_null(sp_proc_next(&l));
	cr_expect_eq(lseek(l.fd, 0, SEEK_CUR), 3000, "the long line was passed over to its end");
	sp_proc_close(&l);
}

Test(proc_status, cannot_be_read_of_what_is_not_there)
{
	cr_expect_eq(sp_proc_line("/nowhere", "SigQ:", line, sizeof(line)), -1);
}
