/* SPDX-License-Identifier: Apache-2.0 */
/* The reentrancy guard. */
#include "preload/lifecycle/state.h"

#include <criterion/criterion.h>
#include <setjmp.h>

static jmp_buf out;
static int inner_outermost;

static __attribute__((noinline)) void hook_inside(void)
{
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	inner_outermost = g.outermost;
	sp_reentrancy_guard_exit(g);
}

static __attribute__((noinline)) int hook(bool nested, bool jump)
{
	struct sp_reentrancy_guard g = sp_reentrancy_guard_enter();

	if (nested)
		hook_inside();
	if (jump)
		longjmp(out, 1);
	sp_reentrancy_guard_exit(g);
	return g.outermost;
}

/* A hook that is called deeper in the stack than the hook that longjmp() left. */
static __attribute__((noinline)) int hook_deeper(void)
{
	volatile char room[512];

	room[0] = 0;
	return hook(true, false) + room[0];
}

TestSuite(reentrancy_guard, .timeout = 20);

Test(reentrancy_guard, the_outermost_call_counts_alone)
{
	inner_outermost = -1;

	cr_assert(hook(true, false));
	cr_assert_eq(inner_outermost, 0);
	cr_assert_eq(sp_reentrancy_guard_frame, 0);
	cr_assert(hook(false, false), "and the next one counts again");
}

Test(reentrancy_guard, inside_is_told_by_the_frame)
{
	sp_reentrancy_guard_frame = 1000;

	cr_assert(sp_reentrancy_guard_inside(999));
	cr_assert_not(sp_reentrancy_guard_inside(1000));
	cr_assert_not(sp_reentrancy_guard_inside(1001));
	sp_reentrancy_guard_frame = 0;
	cr_assert_not(sp_reentrancy_guard_inside(1));
}

Test(reentrancy_guard, a_call_left_by_longjmp_does_not_silence_later_ones)
{
	if (setjmp(out) == 0)
		(void)hook(false, true);
	cr_assert_neq(sp_reentrancy_guard_frame, 0, "the guard was not left");

	cr_assert(hook(true, false), "from the same place");
	cr_assert_eq(inner_outermost, 0);
	cr_assert(hook_deeper());
}
