/* SPDX-License-Identifier: Apache-2.0 */
/* The data that the runner of unit tests and a forked test share. Context: tests. */
#ifndef SP_TEST_UNIT_MAIN_H
#define SP_TEST_UNIT_MAIN_H

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define UNIT_TEXT_MAX 16384

enum unit_phase { UNIT_IN_SETUP, UNIT_IN_BODY, UNIT_IN_TEARDOWN, UNIT_AT_END };

/* Written by the test, read by the runner. */
struct unit_record {
	_Atomic int phase;
	_Atomic unsigned int passed;
	_Atomic unsigned int failed;
	_Atomic unsigned int skipped;
	_Atomic size_t used;
	char text[UNIT_TEXT_MAX];
};

/* One test, or one parameter of a test; empty before the first one. */
struct unit_item {
	struct criterion_test *const *test;
	struct criterion_test_params params;
	size_t param;
};

/* NULL if the test's suite is not declared. */
const struct criterion_suite *unit_suite(const struct criterion_test *test);

/* Runs the test in this process and ends the process. */
_Noreturn void unit_body_run(const struct unit_item *item, struct unit_record *record);

#endif
