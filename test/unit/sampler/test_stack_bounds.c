/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses a walk may read, and how much it may spend to find out. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <sys/mman.h>

#include "sampler/arch_sig.h"
#include "sampler/stack_bounds_sig.h"

TestSuite(stack_bounds, .init = sp_stack_init);

Test(stack_bounds, reads_nothing_below_the_red_zone_or_past_the_end, .timeout = 20)
{
	struct sp_stack_view view;
	struct sp_stack_bounds own = {0, 0};
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	uintptr_t value;

	sp_stack_begin(&view);
	cr_assert(sp_stack_anchor(&view, &own, here));

	cr_assert(sp_stack_read(&view, here, 8, &value));
	cr_assert(sp_stack_read(&view, own.hi - 8, 8, &value));
	cr_assert_not(sp_stack_read(&view, own.hi - 7, 8, &value));
	cr_assert_not(sp_stack_read(&view, own.hi, 8, &value));
	cr_assert_not(sp_stack_read(&view, UINTPTR_MAX - 3, 8, &value));
	cr_assert_not(sp_stack_read(&view, here - SP_ARCH_RED_ZONE - 1, 8, &value));
	cr_assert_eq(SP_ARCH_RED_ZONE > 0, sp_stack_read(&view, here - 8, 8, &value));
}

Test(stack_bounds, stops_probing_when_the_budget_is_spent, .timeout = 20)
{
	size_t n = (SP_STACK_PROBES + 10) * SP_STACK_PAGE;
	char *pages = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sp_stack_view view;
	unsigned granted = 0;

	cr_assert_neq(pages, MAP_FAILED);
	sp_stack_begin(&view);
	for (size_t at = 0; at < n; at += SP_STACK_PAGE)
		granted += sp_stack_probe(&view, (uintptr_t)pages + at, 8);

	cr_assert_eq(granted, SP_STACK_PROBES);
}

Test(stack_bounds, probes_both_pages_of_a_range, .timeout = 20)
{
	char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct sp_stack_view view;

	cr_assert_neq(pages, MAP_FAILED);
	sp_stack_begin(&view);
	cr_assert(sp_stack_probe(&view, (uintptr_t)pages + 4092, 8));
	cr_assert_eq(mprotect(pages + 4096, 4096, PROT_NONE), 0);
	cr_assert_not(sp_stack_probe(&view, (uintptr_t)pages + 4092, 8));
	cr_assert(sp_stack_probe(&view, (uintptr_t)pages + 4088, 8));
	cr_assert_not(sp_stack_probe(&view, 0, 8));
}
