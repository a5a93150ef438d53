/* SPDX-License-Identifier: Apache-2.0 */
/* Walks on stacks that the program made itself, where the first function has no caller. */
#include <sys/mman.h>

#include "unwind_unit.h"

TestSuite(unwind_coroutine, .init = setup, .timeout = 20);

static ucontext_t main_context;
static ucontext_t coroutine_context;

CALLBACK static void coroutine(void)
{
	raise(SIGUSR1);
	/* no tail call */
	__asm__ volatile("");
}

/*
 * The caller of a coroutine was never called. Our walk is exact there; libunwind has no rule for it and may follow
 * the frame pointer.
 */
static void expect_same_of_coroutine(uint16_t flags)
{
	cr_assert_gt(walk.depth, 0);
	cr_assert_geq(walk.want_depth, walk.depth);
	walk.want_depth = walk.depth;
	walk.want[walk.want_depth - 1]++;
	expect_same(flags);
}

Test(unwind_coroutine, equals_libunwind)
{
	static char space[64 * 1024];
	struct sp_stack_bounds before;

	raise(SIGUSR1);
	before = bounds;
	getcontext(&coroutine_context);
	coroutine_context.uc_stack.ss_sp = space;
	coroutine_context.uc_stack.ss_size = sizeof(space);
	coroutine_context.uc_link = &main_context;
	makecontext(&coroutine_context, coroutine, 0);

	cr_assert_eq(swapcontext(&main_context, &coroutine_context), 0);

	expect_same_of_coroutine(off_stack());
	cr_assert_eq(frames_in((const void *)(uintptr_t)coroutine, CALLBACK_BYTES), 1);
	cr_assert(emulated() || memcmp(&bounds, &before, sizeof(bounds)) == 0);
}

#if defined(__x86_64__)
CALLBACK static void fiber(void)
{
	raise(SIGUSR1);
	setcontext(&main_context);
}

/* Boost.Context's make_fcontext() does this: code without description, entered by a jump. */
Test(unwind_coroutine, ends_at_the_frame_pointer_that_was_pushed_for_a_caller)
{
	/* push rbp; jmp *rbx; and at 8 the end of the process */
	static const uint8_t code[] = {0x55, 0xff, 0xe3, 0xcc, 0xcc, 0xcc, 0xcc, 0xcc, 0xf4};
	static char space[64 * 1024] __attribute__((aligned(16)));
	uint8_t *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	greg_t *reg = coroutine_context.uc_mcontext.gregs;

	cr_assert_neq(page, MAP_FAILED);
	memcpy(page, code, sizeof(code));
	getcontext(&coroutine_context);
	reg[REG_RIP] = (greg_t)(uintptr_t)page;
	reg[REG_RSP] = (greg_t)(uintptr_t)(space + sizeof(space));
	reg[REG_RBP] = (greg_t)(uintptr_t)(page + 8);
	reg[REG_RBX] = (greg_t)(uintptr_t)fiber;
	cr_assert_eq(swapcontext(&main_context, &coroutine_context), 0);

	cr_assert_eq(walk.flags, SP_SAMPLE_ROOTED | off_stack());
	cr_assert_eq(walk.failed, 0);
	cr_assert_eq(frames_in((const void *)(uintptr_t)fiber, CALLBACK_BYTES), 1);
	cr_assert_eq(walk.pc[walk.depth - 1], (uintptr_t)page + 8);
}
#endif

Test(unwind_coroutine, is_walked_whose_stack_ends_at_an_unreadable_page)
{
	char *space = mmap(NULL, 16384, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(space, MAP_FAILED);
	cr_assert_eq(mprotect(space + 4096, 8192, PROT_READ | PROT_WRITE), 0);
	getcontext(&coroutine_context);
	coroutine_context.uc_stack.ss_sp = space + 4096;
	coroutine_context.uc_stack.ss_size = 8192;
	coroutine_context.uc_link = &main_context;
	makecontext(&coroutine_context, coroutine, 0);

	/* The handler needs more room than that stack has. */
	static char handlers[65536];
	stack_t alternate = {.ss_sp = handlers, .ss_size = sizeof(handlers)};

	cr_assert_eq(sigaltstack(&alternate, NULL), 0);
	handle(SIGUSR1, on_signal, SA_ONSTACK);
	cr_assert_eq(swapcontext(&main_context, &coroutine_context), 0);

	expect_same_of_coroutine(SP_SAMPLE_ROOTED | SP_SAMPLE_OFF_STACK);
}
