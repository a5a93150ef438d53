/* SPDX-License-Identifier: Apache-2.0 */
/* The byte reader, and every expression operation, by hand; and expressions that are malformed. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "sampler/unwind/cfi_sig.h"
#include "test/unit/sampler/dwarf_bytes.h"

#define CFA UINT64_C(0x7000)

Test(cursor, reads_both_kinds_of_leb128, .timeout = 20)
{
	struct sp_cursor c = over(BYTES(0xe5, 0x8e, 0x26, 0x7f, 0x80, 0x7f, 0x3f));

	cr_assert_eq(sp_cursor_uleb(&c), 624485);
	cr_assert_eq(sp_cursor_sleb(&c), -1);
	cr_assert_eq(sp_cursor_sleb(&c), -128);
	cr_assert_eq(sp_cursor_sleb(&c), 63);
	cr_assert_not(c.failed);
	cr_assert_eq(sp_cursor_left(&c), 0);
}

Test(cursor, refuses_leb128_that_never_ends_or_is_cut, .timeout = 20)
{
	struct sp_cursor endless =
		over(BYTES(0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01));
	struct sp_cursor cut = over(BYTES(0x80, 0x80));

	cr_assert_eq(sp_cursor_uleb(&endless), 0);
	cr_assert(endless.failed);
	cr_assert_eq(sp_cursor_sleb(&cut), 0);
	cr_assert(cut.failed);
}

Test(cursor, stays_failed_and_gives_zero, .timeout = 20)
{
	struct sp_cursor c = over(BYTES(1, 2, 3));

	cr_assert_eq(sp_cursor_unsigned(&c, 4), 0);
	cr_assert(c.failed);
	cr_assert_eq(sp_cursor_u8(&c), 0);
	cr_assert_eq(sp_cursor_left(&c), 0);
	sp_cursor_skip(&c, 1);
	cr_assert_eq(c.at[0], 1);
}

static int eval(const uint8_t *code, size_t n, uintptr_t *result)
{
	struct sp_stack_view view = memory_view();
	struct sp_regs regs = {.known = 0};
	struct sp_expr_env env = {.regs = &regs, .stack = &view, .has_cfa = true, .cfa = CFA};

	sp_regs_set(&regs, 3, (uintptr_t)memory);
	sp_regs_set(&regs, 5, 1000);
	return sp_dwarf_expr_eval(&env, over(code, n), result);
}

static void expect_value(uintptr_t want, const uint8_t *code, size_t n)
{
	uintptr_t got = ~want;

	cr_assert_eq(eval(code, n, &got), 0, "op %#x refused", code[0]);
	cr_assert_eq(got, want, "op %#x: got %#lx, want %#lx", code[n - 1], got, want);
}

static void expect_refused(const uint8_t *code, size_t n)
{
	uintptr_t got;

	cr_assert_eq(eval(code, n, &got), -EINVAL, "op %#x accepted", code[0]);
}

Test(dwarf_expr, starts_with_the_cfa_of_a_register_rule, .timeout = 20)
{
	expect_value(CFA, (const uint8_t[]){0}, 0);
	expect_value(CFA + 5, BYTES(0x23, 5));
}

Test(dwarf_expr, starts_empty_for_the_cfa_itself, .timeout = 20)
{
	struct sp_stack_view view = memory_view();
	struct sp_regs regs = {.known = 0};
	struct sp_expr_env env = {.regs = &regs, .stack = &view};
	uintptr_t got;

	cr_assert_eq(sp_dwarf_expr_eval(&env, over("", 0), &got), -EINVAL);
	cr_assert_eq(sp_dwarf_expr_eval(&env, over("\x9c", 1), &got), -EINVAL);
}

Test(dwarf_expr, pushes_constants, .timeout = 20)
{
	expect_value(0, BYTES(0x30));
	expect_value(31, BYTES(0x4f));
	expect_value(0xfe, BYTES(0x08, 0xfe));
	expect_value((uintptr_t)-2, BYTES(0x09, 0xfe));
	expect_value(0xfffe, BYTES(0x0a, 0xfe, 0xff));
	expect_value((uintptr_t)-2, BYTES(0x0b, 0xfe, 0xff));
	expect_value(0xfffffffe, BYTES(0x0c, 0xfe, 0xff, 0xff, 0xff));
	expect_value((uintptr_t)-2, BYTES(0x0d, 0xfe, 0xff, 0xff, 0xff));
	expect_value(0x0807060504030201, BYTES(0x0e, 1, 2, 3, 4, 5, 6, 7, 8));
	expect_value(0x0807060504030201, BYTES(0x0f, 1, 2, 3, 4, 5, 6, 7, 8));
	expect_value(0x0807060504030201, BYTES(0x03, 1, 2, 3, 4, 5, 6, 7, 8));
	expect_value(300, BYTES(0x10, 0xac, 0x02));
	expect_value((uintptr_t)-1, BYTES(0x11, 0x7f));
	expect_value(CFA, BYTES(0x9c));
}

Test(dwarf_expr, reads_registers_and_memory, .timeout = 20)
{
	expect_value(1000 - 8, BYTES(0x75, 0x78));
	expect_value(1000 + 8, BYTES(0x92, 5, 8));
	expect_value(0xfedcba9876543210, BYTES(0x73, 8, 0x06));
	expect_value(0x10, BYTES(0x73, 8, 0x94, 1));
	expect_value(0x3210, BYTES(0x73, 8, 0x94, 2));
	expect_value(0x76543210, BYTES(0x73, 8, 0x94, 4));
	expect_value(0xfedcba9876543210, BYTES(0x73, 8, 0x94, 8));
	expect_value(0x5432, BYTES(0x73, 9, 0x94, 2));
}

Test(dwarf_expr, calculates, .timeout = 20)
{
	expect_value(0x0c & 0x0a, BYTES(0x3c, 0x3a, 0x1a));
	expect_value(0x0c | 0x0a, BYTES(0x3c, 0x3a, 0x21));
	expect_value(0x0c ^ 0x0a, BYTES(0x3c, 0x3a, 0x27));
	expect_value(22, BYTES(0x3c, 0x3a, 0x22));
	expect_value(2, BYTES(0x3c, 0x3a, 0x1c));
	expect_value(120, BYTES(0x3c, 0x3a, 0x1e));
	expect_value((uintptr_t)-5, BYTES(0x35, 0x1f));
	expect_value(5, BYTES(0x11, 0x7b, 0x19));
	expect_value(5, BYTES(0x35, 0x19));
	expect_value(~(uintptr_t)5, BYTES(0x35, 0x20));
	expect_value(5 + 300, BYTES(0x35, 0x23, 0xac, 0x02));
	expect_value(5, BYTES(0x35, 0x96));
}

Test(dwarf_expr, shifts_by_any_amount, .timeout = 20)
{
	expect_value(5 << 3, BYTES(0x35, 0x33, 0x24));
	expect_value(5 >> 1, BYTES(0x35, 0x31, 0x25));
	expect_value((uintptr_t)-3, BYTES(0x11, 0x7b, 0x31, 0x26));
	expect_value(0, BYTES(0x35, 0x08, 64, 0x24));
	expect_value(0, BYTES(0x11, 0x7b, 0x08, 200, 0x25));
	expect_value((uintptr_t)-1, BYTES(0x11, 0x7b, 0x08, 200, 0x26));
}

Test(dwarf_expr, compares_as_signed, .timeout = 20)
{
	/* -1 against 1, and 1 against 1, for eq ge gt le lt ne */
	static const bool less[] = {false, false, false, true, true, true};
	static const bool same[] = {true, true, false, true, false, false};

	for (uint8_t i = 0; i < 6; i++) {
		expect_value(less[i], BYTES(0x11, 0x7f, 0x31, (uint8_t)(0x29 + i)));
		expect_value(same[i], BYTES(0x31, 0x31, (uint8_t)(0x29 + i)));
	}
}

Test(dwarf_expr, moves_stack_entries, .timeout = 20)
{
	expect_value(2, BYTES(0x31, 0x12, 0x22));             /* dup plus */
	expect_value(1, BYTES(0x31, 0x32, 0x13));             /* drop */
	expect_value(1, BYTES(0x31, 0x32, 0x14));             /* over */
	expect_value(1, BYTES(0x31, 0x32, 0x33, 0x15, 2));    /* pick 2 */
	expect_value(1, BYTES(0x31, 0x32, 0x16));             /* swap */
	expect_value(2, BYTES(0x31, 0x32, 0x33, 0x17));       /* rot: 3 1 2 */
	expect_value(1, BYTES(0x31, 0x32, 0x33, 0x17, 0x13)); /* below it */
	expect_value(3, BYTES(0x31, 0x32, 0x33, 0x17, 0x13, 0x13));
}

Test(dwarf_expr, branches, .timeout = 20)
{
	expect_value(7, BYTES(0x37, 0x2f, 1, 0, 0x30)); /* skip over lit0 */
	expect_value(7, BYTES(0x37, 0x31, 0x28, 1, 0, 0x30));
	expect_value(0, BYTES(0x37, 0x30, 0x28, 1, 0, 0x30));
	/* lit5; loop: lit1 minus dup bra loop */
	expect_value(0, BYTES(0x35, 0x31, 0x1c, 0x12, 0x28, 0xfa, 0xff));
}

Test(dwarf_expr, refuses_what_is_malformed, .timeout = 20)
{
	uint8_t deep[64];

	memset(deep, 0x31, sizeof(deep));
	expect_refused(deep, sizeof(deep));         /* overflow */
	expect_refused(BYTES(0x13, 0x13));          /* underflow */
	expect_refused(BYTES(0x13));                /* no result */
	expect_refused(BYTES(0x15, 9));             /* pick below the bottom */
	expect_refused(BYTES(0x0c, 1, 2));          /* cut operand */
	expect_refused(BYTES(0x2f, 0xfd, 0xff));    /* skip to itself for ever */
	expect_refused(BYTES(0x2f, 1, 0));          /* past the end */
	expect_refused(BYTES(0x2f, 0xfc, 0xff));    /* before the start */
	expect_refused(BYTES(0x2f, 0));             /* cut distance */
	expect_refused(BYTES(0x74, 0));             /* a register that is not known */
	expect_refused(BYTES(0x92, 0xff, 0x7f, 0)); /* one that does not exist */
	expect_refused(BYTES(0x30, 0x06));          /* memory that may not be read */
	expect_refused(BYTES(0x73, 25, 0x06));      /* half of it may not */
	expect_refused(BYTES(0x73, 0, 0x94, 3));    /* a size that is none */
	expect_refused(BYTES(0x94));
	expect_refused(BYTES(0x97)); /* push_object_address */
	expect_refused(BYTES(0x1b)); /* div could trap */
	expect_refused(BYTES(0xff));
}
