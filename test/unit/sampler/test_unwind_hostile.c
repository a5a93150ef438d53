/* SPDX-License-Identifier: Apache-2.0 */
/* Walks from contexts that are plainly wrong, which must end and not crash. */
#include "unwind_unit.h"

#if defined(__x86_64__)
TestSuite(unwind_hostile, .init = setup, .timeout = 20);

static void set_reg(ucontext_t *uc, unsigned reg, uintptr_t value)
{
	uc->uc_mcontext.gregs[sp_arch_greg(reg)] = (greg_t)value;
}

static uintptr_t bad_value;
static unsigned bad_reg;

static void spoil_register(ucontext_t *uc)
{
	set_reg(uc, bad_reg, bad_value);
}

static void spoil_pc_and_fp(ucontext_t *uc)
{
	set_reg(uc, SP_ARCH_REG_PC, 16);
	set_reg(uc, SP_ARCH_REG_FP, bad_value);
}

static const uintptr_t bad_values[] = {
	0,
	1,
	8,
	4095,
	4096,
	0x7fffffffffffUL,
	0x800000000000UL,
	0xffff800000000000UL,
	(uintptr_t)-4096,
	(uintptr_t)-16,
	(uintptr_t)-8,
	(uintptr_t)-1,
};

#define BAD_VALUES (sizeof(bad_values) / sizeof(bad_values[0]))

Test(unwind_hostile, gives_the_leaf_alone_when_sp_is_garbage)
{
	spoil = spoil_register;
	bad_reg = SP_ARCH_REG_SP;
	for (size_t i = 0; i < BAD_VALUES; i++) {
		bad_value = bad_values[i];
		raise(SIGUSR1);

		cr_assert_eq(walk.depth, 1, "sp %#lx", bad_value);
		cr_assert_eq(walk.flags, SP_SAMPLE_OFF_STACK);
		cr_assert_eq(walk.failed, 1);
	}
}

Test(unwind_hostile, gives_the_leaf_alone_when_pc_and_fp_are_garbage)
{
	spoil = spoil_pc_and_fp;
	for (size_t i = 0; i < BAD_VALUES; i++) {
		bad_value = bad_values[i];
		raise(SIGUSR1);

		cr_assert_eq(walk.depth, 1, "fp %#lx", bad_value);
		cr_assert_eq(walk.pc[0], 16);
		cr_assert_eq(walk.flags, 0);
		cr_assert_eq(walk.failed, 1);
	}
}

Test(unwind_hostile, survives_a_garbage_value_in_any_register)
{
	spoil = spoil_register;
	for (bad_reg = 0; bad_reg < SP_ARCH_REGS; bad_reg++) {
		for (size_t i = 0; i < BAD_VALUES; i++) {
			bad_value = bad_values[i];
			recurse(3, 16);

			cr_assert_geq(walk.depth, 1);
			cr_assert_leq(walk.depth, SP_FRAMES_MAX);
		}
	}
}

static char off_stack_page[8192];

static void spoil_stack_contents(ucontext_t *uc)
{
	uintptr_t page = ((uintptr_t)off_stack_page + 4095) & ~(uintptr_t)4095;

	set_reg(uc, SP_ARCH_REG_SP, page);
	set_reg(uc, SP_ARCH_REG_FP, page);
}

Test(unwind_hostile, survives_random_stack_contents)
{
	uint64_t seed = 88172645463325252;

	spoil = spoil_stack_contents;
	for (unsigned round = 0; round < 300; round++) {
		for (size_t i = 0; i < sizeof(off_stack_page); i += 8) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			/* One word in four is a code address, so that walks go on for a while. */
			uint64_t word = (seed & 3) != 0 ? seed : (uint64_t)(uintptr_t)raise + 40;

			memcpy(off_stack_page + i, &word, 8);
		}
		raise(SIGUSR1);

		cr_assert_geq(walk.depth, 1);
		cr_assert_eq(walk.flags & SP_SAMPLE_OFF_STACK, SP_SAMPLE_OFF_STACK);
	}
}
#else
Test(unwind_hostile, names_registers_of_another_processor)
{
	cr_skip_test("its contexts are of x86-64");
}
#endif
