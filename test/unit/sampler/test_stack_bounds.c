/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses a walk may read, and how much checking them may cost. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

#include "sampler/base/arch_sig.h"
#include "sampler/unwind/stack_bounds_sig.h"
#include "test/unit/emulated.h"

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

/* The stack of a coroutine, whose end is unknown. */
Test(stack_bounds, reads_to_the_last_byte_before_an_unreadable_page, .timeout = 20)
{
	char *pages =
		mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uintptr_t end = (uintptr_t)pages + 8192;
	struct sp_stack_bounds own = {0, 0};
	struct sp_stack_view view;
	uintptr_t value;

	cr_assert_neq(pages, MAP_FAILED);
	cr_assert_eq(mprotect(pages + 8192, 4096, PROT_NONE), 0);
	for (unsigned bytes = 1; bytes <= 8; bytes *= 2) {
		for (uintptr_t addr = end - 16; addr <= end; addr++) {
			bool inside = addr + bytes <= end;

			/* the page is new to the view, known to it, or adjoins a known one */
			for (int known = 0; known < 3; known++) {
				sp_stack_begin(&view);
				cr_assert_not(sp_stack_anchor(&view, &own, (uintptr_t)pages));
				if (known > 0)
					cr_assert(sp_stack_read(
						&view, end - 4096 * (uintptr_t)known, 8, &value));
				cr_assert_eq(sp_stack_read(&view, addr, bytes, &value), inside,
					     "%u bytes, %lu before the end", bytes, end - addr);
			}
		}
	}
}

#define PAGES 16U
static char *two_stacks;

static void *anchor_both(void *arg)
{
	struct sp_stack_bounds own = {0, 0};
	struct sp_stack_view view;

	sp_stack_begin(&view);
	*(bool *)arg = sp_stack_anchor(&view, &own, (uintptr_t)__builtin_frame_address(0)) &&
		       !sp_stack_anchor(&view, &own, (uintptr_t)two_stacks + 2 * SP_STACK_PAGE) &&
		       own.lo >= (uintptr_t)two_stacks + (PAGES + 1) * SP_STACK_PAGE;
	return NULL;
}

/* The other stack may be anywhere, also directly below the stack of the thread that runs it. */
Test(stack_bounds, a_stack_below_an_unreadable_page_is_another_one, .timeout = 20)
{
	size_t stack = (size_t)PAGES * SP_STACK_PAGE;
	pthread_attr_t attr;
	pthread_t thread;
	bool told_apart = false;

	if (!has_small_stacks())
		cr_skip_test("no small stacks here");

	two_stacks = mmap(NULL, 2 * stack + SP_STACK_PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	cr_assert_neq(two_stacks, MAP_FAILED);
	cr_assert_eq(mprotect(two_stacks + stack, SP_STACK_PAGE, PROT_NONE), 0);
	cr_assert_eq(pthread_attr_init(&attr), 0);
	cr_assert_eq(pthread_attr_setstack(&attr, two_stacks + stack + SP_STACK_PAGE, stack), 0);
	cr_assert_eq(pthread_create(&thread, &attr, anchor_both, &told_apart), 0);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_assert_eq(pthread_attr_destroy(&attr), 0);
	cr_assert(told_apart);
}
