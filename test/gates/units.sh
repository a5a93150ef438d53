#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# test/common/unit_main.c runs the tests that Criterion's macros define. It distinguishes every way for a test to end.
# The process that forks has one thread and refuses to have more, because a forked child would wait for ever for a
# lock that another thread held.
set -euo pipefail
# shellcheck source=test/gates/seed.bash
source "$(dirname "$0")/seed.bash"

# seed_units NAME [FLAG]...: makes a program from the tests on stdin.
seed_units()
{
	local name=$1

	shift
	cat >"$work/$name.c"
	gcc -std=gnu11 -D_GNU_SOURCE= -I. -O1 "$@" -o "$work/$name" "$work/$name.c" \
		test/common/unit_main.c test/common/unit_body.c -lcriterion
}

# expect_result PATTERN: a line of the last results.
expect_result()
{
	grep -qxE -- "$1" "$work/tap" || {
		echo "no line is: $1"
		cat "$work/tap"
		exit 1
	}
}

seed_units good <<'C'
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

static int suite_begun, test_begun, mine;

static void begin_suite(void) { suite_begun = 1; }
static void begin_test(void) { test_begun = suite_begun; }

TestSuite(good, .init = begin_suite, .timeout = 20);
Test(good, passes, .init = begin_test) { cr_assert(test_begun); cr_expect_eq(1, 1); }
Test(good, has_memory_of_its_own_1) { cr_assert_eq(mine++, 0); }
Test(good, has_memory_of_its_own_2) { cr_assert_eq(mine++, 0); }
Test(good, is_skipped) { cr_skip_test("no %s for it", "kernel"); }
Test(good, is_disabled, .disabled = true) { cr_assert(0); }
Test(good, ends_by_a_signal, .signal = SIGTERM) { raise(SIGTERM); }
Test(good, ends_by_a_status, .exit_code = 7) { _exit(7); }
Test(good, has_no_descriptors) { closefrom(0); cr_assert(1); }
Test(good, is_forked_by_a_process_of_one_thread)
{
	char path[64];
	DIR *tasks;
	int n = 0;

	snprintf(path, sizeof(path), "/proc/%d/task", getppid());
	tasks = opendir(path);
	for (struct dirent *e = readdir(tasks); e != NULL; e = readdir(tasks))
		n += *e->d_name != '.';
	cr_assert_eq(n, 1, "%d threads", n);
}
ParameterizedTestParameters(good, of_numbers)
{
	static int numbers[] = {4, 5};

	return cr_make_param_array(int, numbers, 2);
}
ParameterizedTest(int *number, good, of_numbers) { cr_assert(*number == 4 || *number == 5); }
C
for jobs in 1 3; do
	expect_pass "$work/good" --tap="$work/tap" --jobs "$jobs"
	expect_result '1\.\.11'
	[[ $(grep -c '^ok - ' "$work/tap") == 11 ]] || { cat "$work/tap"; exit 1; }
	expect_result 'ok - good::is_skipped # SKIP no kernel for it \(.*s\)'
	expect_result 'ok - good::is_disabled # SKIP disabled .*'
	expect_result 'ok - good::of_numbers\[1\] .*'
done
expect_pass "$work/good" --tap="$work/tap" --filter 'good/passes'
expect_result '1\.\.1'
expect_fail 'no such test' "$work/good" --filter 'good/passed'

# The runner counts one failure for each of these tests, even if another test ends the program.
seed_units bad -pthread <<'C'
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void refuse(void) { cr_assert(0, "refused"); }
static void note(void) { write(1, "torn down\n", 10); }
static void *assert_in_thread(void *nothing) { cr_assert_eq(1, 2, "in a thread"); return nothing; }

Test(bad, fails) { cr_assert_eq(2, 3, "not %d", 5); }
Test(bad, is_torn_down_after_a_failure, .fini = note) { cr_assert(0); }
Test(bad, expects_and_goes_on) { cr_expect(0, "first"); cr_expect(0, "second"); }
Test(bad, fails_in_its_setup, .init = refuse) {}
Test(bad, fails_in_its_teardown, .fini = refuse) {}
Test(bad, fails_in_a_thread)
{
	pthread_t thread;

	pthread_create(&thread, NULL, assert_in_thread, NULL);
	pthread_join(thread, NULL);
}
Test(bad, fails_in_a_child)
{
	if (fork() == 0)
		cr_assert(0, "in a child");
	wait(NULL);
}
Test(bad, crashes) { cr_assert(1); raise(SIGSEGV); }
Test(bad, crashes_otherwise, .signal = SIGSEGV) { raise(SIGTERM); }
Test(bad, does_not_crash, .signal = SIGSEGV) {}
Test(bad, has_another_status, .exit_code = 7) { _exit(3); }
Test(bad, ends_its_process) { _exit(0); }
Test(bad, hangs, .timeout = 0.2) { pause(); }
C
! "$work/bad" --tap="$work/tap" --jobs 2 >"$work/output" 2>&1 || { echo 'bad tests pass'; exit 1; }
expect_result '1\.\.13'
[[ $(grep -c '^not ok - ' "$work/tap") == 13 ]] || { cat "$work/tap"; exit 1; }
grep -qx 'torn down' "$work/output"
for words in 'not 5' first second refused 'in a thread' 'in a child'; do
	expect_result "  .*\\.c:[0-9]+: $words"
done
expect_result 'not ok - bad::crashes ended by signal 11, not 0, after 1 assertions .*'
expect_result 'not ok - bad::ends_its_process the process ended before the test .*'
expect_result 'not ok - bad::hangs timed out .*'

seed_units threads -pthread <<'C'
#include <criterion/criterion.h>
#include <pthread.h>
#include <unistd.h>

static void *wait_for_nothing(void *nothing) { pause(); return nothing; }

__attribute__((constructor)) static void begin(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, wait_for_nothing, NULL);
}

Test(threads, never_begins) {}
C
expect_fail 'second thread' "$work/threads"
