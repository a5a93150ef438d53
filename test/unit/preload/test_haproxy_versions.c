/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about which releases of opentelemetry-c-wrapper may be touched. */
#include "preload/sdk/haproxy/haproxy_versions.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "preload/sdk/haproxy/haproxy_table.h"
#include "sampler/base/compiler.h"

TestSuite(haproxy_versions, .timeout = 20);

Test(haproxy_versions, knows_every_release)
{
	static const struct {
		const char *version;
		unsigned offset;
		unsigned slots;
	} known[] = {
		{"1.0.0-1", 16, 9},  {"1.0.1-22", 16, 9},        {"1.0.2-333", 16, 9},
		{"1.1.0-1", 16, 9},  {"2.0.0-1", 16, 9},         {"2.1.0-1", 16, 9},
		{"2.2.0-1", 16, 9},  {"2.2.1-999999999", 16, 9}, {"3.0.0-1", 32, 10},
		{"3.1.0-1", 32, 10}, {"3.2.0-1", 32, 10},        {"3.3.0-1234", 32, 11},
	};

	for (size_t i = 0; i < SP_ARRAY_LEN(known); i++) {
		struct sp_haproxy_layout l = {0, 0};

		cr_assert(sp_haproxy_layout_of(known[i].version, &l), "%s", known[i].version);
		cr_assert_eq(l.ops_offset, known[i].offset, "%s", known[i].version);
		cr_assert_eq(l.tracer_slots, known[i].slots, "%s", known[i].version);
	}
}

Test(haproxy_versions, refuses_everything_else)
{
	static const char *const strange[] = {
		"",
		"0.9.0-1",
		"0.0.0-1",
		"1.0.3-1",
		"1.2.0-1",
		"2.2.2-1",
		"2.3.0-1",
		"3.0.1-1",
		"3.3.1-1",
		"3.4.0-1",
		"4.0.0-1",
		"13.3.0-1",
		"3.30.0-1",
		"3.2.0-0",
		"3.3.0-0",
		"3.3.0",
		"3.3.0-",
		"3.3.0-1a",
		"3.3.0-1 ",
		" 3.3.0-1",
		"3.3-1",
		"3.3.0.0-1",
		"v3.3.0-1",
		"+3.3.0-1",
		"-3.3.0-1",
		"03.3.0-1",
		"3.03.0-1",
		"3.3.0-01",
		"3.3.0--1",
		"3..0-1",
		"3.3.0-rc1",
		"garbage",
		"4294967299.3.0-1",
		"3.3.0-4294967297",
		"3.3.0-1\n",
		"3.3.0-00000000000000000000000000000000000000000000000000000000000000000001",
	};

	for (size_t i = 0; i < SP_ARRAY_LEN(strange); i++) {
		struct sp_haproxy_layout l = {0, 0};

		cr_assert_not(sp_haproxy_layout_of(strange[i], &l), "%s", strange[i]);
	}
	cr_assert_not(sp_haproxy_layout_of(NULL, &(struct sp_haproxy_layout){0, 0}));
}

static void nothing(void)
{
}

static void replacement(void)
{
}

static const void *const table[] = {(const void *)nothing, (const void *)nothing,
				    (const void *)nothing};
static const void *const half[] = {(const void *)nothing, (const void *)abs};
static const void *const data[] = {(const void *)nothing, (const void *)table};
static const void *const empty[] = {(const void *)nothing, NULL};

Test(haproxy_versions, accepts_a_table_of_the_same_object)
{
	cr_assert(sp_haproxy_table_ok((const void *)nothing, table, SP_ARRAY_LEN(table)));
}

Test(haproxy_versions, refuses_tables_that_are_not_all_of_one_object)
{
	const void *libc = dlsym(RTLD_DEFAULT, "getpagesize");
	const void *copy[3];

	memcpy(copy, table, sizeof(copy));

	cr_assert_not(sp_haproxy_table_ok((const void *)nothing, half, 2), "a slot elsewhere");
	cr_assert_not(sp_haproxy_table_ok((const void *)nothing, data, 2), "a slot with data");
	cr_assert_not(sp_haproxy_table_ok((const void *)nothing, empty, 2), "an empty slot");
	cr_assert_not(sp_haproxy_table_ok((const void *)nothing, copy, 3), "on the stack");
	cr_assert_not(sp_haproxy_table_ok(libc, table, 3), "another object's");
	cr_assert_not(sp_haproxy_table_ok((const void *)nothing, NULL, 3), "none");
	cr_assert_not(sp_haproxy_table_ok((const void *)nothing, (const void *)8, 3), "no memory");
	cr_assert_not(sp_haproxy_table_ok((const void *)nothing, (const char *)table + 1, 2),
		      "odd");
	cr_assert_not(
		sp_haproxy_table_ok((const void *)nothing, (const void *)(UINTPTR_MAX - 7), 3),
		"the end of memory");
	cr_assert_not(sp_haproxy_table_ok(copy, table, 3), "of no object");
}

Test(haproxy_versions, copies_one_table_and_replaces_some_functions)
{
	static const struct sp_haproxy_swap swaps[] = {{1, (const void *)replacement}, {0, NULL}};
	static const void *const other[] = {(const void *)nothing, (const void *)nothing,
					    (const void *)nothing};
	static struct sp_haproxy_table t;
	const void *own = (const void *)nothing;
	const void *const *copy;

	cr_assert_null(sp_haproxy_table_copy(&t, own, half, 2, swaps));
	cr_assert_null(sp_haproxy_table_own(&t));
	copy = sp_haproxy_table_copy(&t, own, table, 3, swaps);

	cr_assert_not_null(copy);
	cr_assert_eq(copy[0], table[0]);
	cr_assert_eq(copy[1], (const void *)replacement);
	cr_assert_eq(copy[2], table[2]);
	cr_assert_eq(sp_haproxy_table_own(&t), (const void *)table);
	cr_assert_eq(sp_haproxy_table_copy(&t, own, table, 3, swaps), copy, "and only once");
	cr_assert_null(sp_haproxy_table_copy(&t, own, other, 3, swaps), "a second table");
}
