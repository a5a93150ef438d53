/* SPDX-License-Identifier: Apache-2.0 */
/* Steps by cached rules give the same results as the general form, and handle only rules of the common kind. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>

#include "sampler/unwind/object_sig.h"
#include "sampler/unwind/rule_cache_sig.h"

#define WORDS 32U
#define LEAF UINT64_C(0x100010)
#define CALLER UINT64_C(0x100020)
#define OTHER UINT64_C(0x200040)
#define PCS 8U

/* A page and a half, so that addresses in it are far from 0. */
static uintptr_t stack[WORDS] __attribute__((aligned(64)));
static struct sp_walk w;
static uint64_t pc[PCS];

static struct sp_cfi_row row_by(unsigned cfa_reg, int32_t cfa_value)
{
	struct sp_cfi_row row = {.return_reg = SP_ARCH_REG_RETURN};

	row.rules.cfa_how = SP_CFI_REGISTER;
	row.rules.cfa_reg = (uint8_t)cfa_reg;
	row.rules.cfa_value = cfa_value;
	row.rules.how[SP_ARCH_REG_RETURN] = SP_CFI_OFFSET;
	row.rules.value[SP_ARCH_REG_RETURN] = -8;
	return row;
}

static void save(struct sp_cfi_row *row, unsigned reg, int32_t value)
{
	row->rules.how[reg] = SP_CFI_OFFSET;
	row->rules.value[reg] = value;
}

static void keep(uint64_t at, unsigned object, const struct sp_cfi_row *row)
{
	struct sp_compact_rule form;

	cr_assert(sp_compact_rule_make(row, &form));
	sp_rule_cache_keep(at, w.objects.entry[object].identity, &form);
}

/* An interrupted leaf with a frame of four words. The last one has its caller's address. */
static void setup(void)
{
	cr_assert_eq(sp_rule_cache_init(), 0);
	for (unsigned i = 0; i < WORDS; i++)
		stack[i] = 0x1000 + i;
	stack[3] = CALLER + 1;
	w.stack.floor = w.stack.lo = (uintptr_t)stack;
	w.stack.ceiling = (uintptr_t)(stack + WORDS);
	w.interrupted = true;
	sp_regs_set_pc(&w.regs, LEAF);
	sp_regs_set(&w.regs, SP_ARCH_REG_SP, (uintptr_t)stack);
	w.objects.entry[0] = (struct sp_cached_object){.start = 0x100000, .end = 0x200000};
	w.objects.entry[1] = (struct sp_cached_object){.start = 0x200000, .end = 0x300000};
	w.objects.entry[0].identity = sp_object_mix(0, 1);
	w.objects.entry[1].identity = sp_object_mix(0, 2);
	w.objects.n = 2;
}

TestSuite(fast_path, .init = setup, .timeout = 20);

Test(fast_path, goes_where_the_general_form_goes)
{
	static const unsigned reg[] = {0, 1, 2, 3, 4, 5, SP_ARCH_REG_FP, 8, 9, 10, 11};

	for (unsigned saved = 0; saved <= sizeof(reg) / sizeof(reg[0]); saved++) {
		struct sp_cfi_row row = row_by(SP_ARCH_REG_SP, 16 * 8);
		struct sp_regs want = w.regs;
		struct sp_walk here = w;

		stack[15] = CALLER + 1;
		for (unsigned i = 0; i < saved; i++)
			save(&row, reg[i], -16 - 8 * (int32_t)((7 * i + 3) % 11));
		keep(LEAF + saved, 0, &row);
		here.regs.pc = LEAF + saved;
		cr_assert_eq(sp_cfi_apply(&row, &want, &here.stack), 1);

		cr_assert_eq(sp_fast_path(&here, pc, 1), 1);

		cr_assert_eq(pc[0], LEAF + saved);
		cr_assert(!here.interrupted);
		cr_assert_eq(here.regs.pc, CALLER + 1);
		cr_assert_eq(memcmp(&here.regs, &want, sizeof(want)), 0, "%u saved", saved);
	}
}

Test(fast_path, goes_on_from_caller_to_caller_and_from_object_to_object)
{
	struct sp_cfi_row row = row_by(SP_ARCH_REG_SP, 32);

	keep(LEAF, 0, &row);
	keep(CALLER, 0, &row);
	keep(OTHER, 1, &row);
	stack[7] = OTHER + 1;
	stack[11] = CALLER + 1;
	stack[15] = LEAF + 4;

	cr_assert_eq(sp_fast_path(&w, pc, PCS), 4);

	cr_assert_eq(pc[0], LEAF);
	cr_assert_eq(pc[1], CALLER);
	cr_assert_eq(pc[2], OTHER);
	cr_assert_eq(pc[3], CALLER);
	cr_assert_eq(w.regs.pc, LEAF + 4);
	cr_assert_eq(w.regs.r[SP_ARCH_REG_SP], (uintptr_t)(stack + 16));
}

Test(fast_path, takes_no_more_steps_than_asked_for)
{
	struct sp_cfi_row row = row_by(SP_ARCH_REG_SP, 32);

	keep(LEAF, 0, &row);
	keep(CALLER, 0, &row);
	stack[7] = CALLER + 1;

	cr_assert_eq(sp_fast_path(&w, pc, 0), 0);
	cr_assert_eq(sp_fast_path(&w, pc, 2), 2);
	cr_assert_eq(pc[2], 0);
}

Test(fast_path, counts_from_a_register_that_an_earlier_frame_saved)
{
	struct sp_cfi_row row = row_by(SP_ARCH_REG_SP, 32);
	struct sp_cfi_row by_fp = row_by(SP_ARCH_REG_FP, 16);

	save(&row, SP_ARCH_REG_FP, -16);
	stack[2] = (uintptr_t)(stack + 8);
	stack[9] = OTHER + 1;
	keep(LEAF, 0, &row);
	keep(CALLER, 0, &by_fp);

	cr_assert_eq(sp_fast_path(&w, pc, PCS), 2);
	cr_assert_eq(w.regs.pc, OTHER + 1);
	cr_assert_eq(w.regs.r[SP_ARCH_REG_SP], (uintptr_t)(stack + 10));
}

#if SP_ARCH_REG_RETURN != SP_ARCH_REG_PC
/* A leaf without a frame, and then a caller with the same rule: the caller's register holds no return address. */
Test(fast_path, follows_a_return_address_in_its_register_once)
{
	struct sp_cfi_row row = row_by(SP_ARCH_REG_SP, 0);

	row.rules.how[SP_ARCH_REG_RETURN] = SP_CFI_SAME;
	keep(LEAF, 0, &row);
	keep(CALLER, 0, &row);
	cr_assert_eq(sp_fast_path(&w, pc, PCS), 0, "its register is not known");
	sp_regs_set(&w.regs, SP_ARCH_REG_RETURN, CALLER + 1);

	cr_assert_eq(sp_fast_path(&w, pc, PCS), 1);
	cr_assert_eq(pc[0], LEAF);
	cr_assert_eq(w.regs.pc, CALLER + 1);
	cr_assert_eq(w.regs.r[SP_ARCH_REG_SP], (uintptr_t)stack);
}
#endif

/* The fast path refuses the step, and nothing has changed. */
static void expect_none(const struct sp_cfi_row *row, const char *why)
{
	struct sp_walk before = w;

	keep(LEAF, 0, row);
	w.objects.last = before.objects.last = &w.objects.entry[0];
	cr_assert_eq(sp_fast_path(&w, pc, PCS), 0, "%s", why);
	cr_assert_eq(memcmp(&w, &before, sizeof(w)), 0, "%s", why);
}

Test(fast_path, leaves_frames_that_are_not_proven_readable)
{
	struct sp_cfi_row row = row_by(SP_ARCH_REG_SP, 32);

	save(&row, SP_ARCH_REG_FP, -32);
	w.stack.lo = (uintptr_t)(stack + 1);
	expect_none(&row, "a page that was not asked for");
	w.stack.lo = w.stack.ceiling;
	expect_none(&row, "nothing was asked for");
	w.stack.lo = (uintptr_t)stack;
	w.stack.floor = (uintptr_t)(stack + 1);
	expect_none(&row, "below the stack");
	w.stack.floor = (uintptr_t)stack;
	w.stack.ceiling = (uintptr_t)(stack + 3);
	expect_none(&row, "above the stack");
	w.stack.ceiling = 0;
	expect_none(&row, "no stack");
	w.stack.ceiling = UINTPTR_MAX;
	w.regs.r[SP_ARCH_REG_SP] = UINTPTR_MAX - 15;
	expect_none(&row, "around the end of all addresses");
	w.regs.r[SP_ARCH_REG_SP] = (uintptr_t)stack + 4;
	expect_none(&row, "not at a word");
}

/* A stack that is not the thread's own. */
Test(fast_path, goes_as_far_as_pages_were_asked_for)
{
	struct sp_cfi_row row = row_by(SP_ARCH_REG_SP, 32);
	struct sp_walk here = w;

	keep(LEAF, 0, &row);
	keep(CALLER, 0, &row);
	keep(OTHER, 1, &row);
	stack[7] = OTHER + 1;
	stack[11] = CALLER + 1;
	here.stack.lo = here.stack.ceiling;
	here.stack.probed_lo = (uintptr_t)stack;
	here.stack.probed_hi = (uintptr_t)(stack + 8);

	cr_assert_eq(sp_fast_path(&here, pc, PCS), 2);
	cr_assert_eq(here.regs.pc, OTHER + 1);
	here = w;
	here.stack.lo = here.stack.ceiling = (uintptr_t)(stack + 8);
	here.stack.probed_lo = (uintptr_t)stack;
	here.stack.probed_hi = (uintptr_t)(stack + WORDS);
	cr_assert_eq(sp_fast_path(&here, pc, PCS), 2, "no further than the stack is known");
	here = w;
	here.stack.floor = (uintptr_t)(stack + 4);
	here.stack.lo = here.stack.ceiling;
	here.stack.probed_lo = (uintptr_t)stack;
	here.stack.probed_hi = (uintptr_t)(stack + 8);
	cr_assert_eq(sp_fast_path(&here, pc, PCS), 0, "below the stack");
	here = w;
	here.stack.lo = here.stack.ceiling;
	here.stack.probed_lo = (uintptr_t)stack - 4096;
	here.stack.probed_hi = (uintptr_t)stack;
	cr_assert_eq(sp_fast_path(&here, pc, PCS), 0, "asked for elsewhere");
}

Test(fast_path, leaves_what_is_not_the_common_kind)
{
	struct sp_cfi_row row = row_by(SP_ARCH_REG_FP, 32);

	expect_none(&row, "a register that is not known");
	sp_regs_set(&w.regs, SP_ARCH_REG_FP, (uintptr_t)stack);
	row = row_by(SP_ARCH_REG_FP, 32);
	w.regs.r[SP_ARCH_REG_SP] = (uintptr_t)(stack + 8);
	expect_none(&row, "a caller below its callee");
	w.regs.r[SP_ARCH_REG_SP] = (uintptr_t)(stack + 4);
	expect_none(&row, "a caller where its callee is");
	setup();
	stack[3] = 0;
	row = row_by(SP_ARCH_REG_SP, 32);
	expect_none(&row, "a return address that says outermost");
	stack[3] = CALLER + 1;
	row.rules.how[SP_ARCH_REG_RETURN] = SP_CFI_UNDEFINED;
	expect_none(&row, "outermost");
}

Test(fast_path, leaves_frames_without_a_row)
{
	w.objects.last = &w.objects.entry[0];

	cr_assert_eq(sp_fast_path(&w, pc, PCS), 0);
	w.objects.entry[0].identity = 0;
	cr_assert_eq(sp_fast_path(&w, pc, PCS), 0);
}
