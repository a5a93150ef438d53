/* SPDX-License-Identifier: Apache-2.0 */
/* Whole walks, compared frame by frame with libunwind's, at the places where stacks are odd. */
#include "sampler/unwind/unwind_sig.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unwind_unit.h"

TestSuite(unwind, .init = setup, .timeout = 20);

static void *find_nothing(const char *name)
{
	(void)name;
	return NULL;
}

Test(unwind_init, says_so_when_the_c_library_is_too_old, .timeout = 20)
{
	cr_assert_eq(sp_unwind_init(find_nothing), -ENOSYS);
}

Test(unwind, equals_libunwind_below_a_system_call)
{
	raise(SIGUSR1);

	expect_same(SP_SAMPLE_ROOTED);
}

#if defined(__x86_64__)
/* An interruption inside the function itself, which has no frame of its own. */
CALLBACK static int leaf(int x)
{
	__asm__ volatile("int3");
	return x + 1;
}

Test(unwind, equals_libunwind_in_a_leaf_function)
{
	handle(SIGTRAP, on_signal, 0);

	cr_assert_eq(leaf(1), 2);

	expect_same(SP_SAMPLE_ROOTED);
	cr_assert_eq(frames_in((const void *)(uintptr_t)leaf, CALLBACK_BYTES), 1);
}
#endif

Test(unwind, gives_the_same_frames_from_remembered_rows)
{
	for (int i = 0; i < 3; i++) {
		raise(SIGUSR1);

		expect_same(SP_SAMPLE_ROOTED);
	}
}

Test(unwind, equals_libunwind_in_deep_recursion)
{
	recurse(300, 16);

	expect_same(SP_SAMPLE_ROOTED);
	cr_assert_gt(walk.depth, 300);
}

Test(unwind, flags_a_stack_deeper_than_the_limit)
{
	depth_limit = 100;
	recurse(300, 16);

	cr_assert_eq(walk.depth, 100);
	cr_assert_eq(walk.flags, SP_SAMPLE_TRUNCATED);
	cr_assert_eq(walk.failed, 0);
	cr_assert_arr_eq(walk.pc, walk.want, 100 * sizeof(walk.pc[0]));
}

Test(unwind, a_limit_of_the_exact_depth_cuts_nothing)
{
	raise(SIGUSR1);
	depth_limit = walk.depth;
	raise(SIGUSR1);

	cr_assert_eq(walk.depth, depth_limit);
	cr_assert_eq(walk.flags, SP_SAMPLE_ROOTED);
}

Test(unwind, goes_on_in_a_second_place_where_the_first_is_full)
{
	unsigned depth;

	recurse(40, 16);
	depth = walk.depth;
	split = true;
	for (near_limit = 0; near_limit <= depth + 1; near_limit++) {
		depth_limit = SP_FRAMES_MAX;
		recurse(40, 16);
		expect_same(SP_SAMPLE_ROOTED);
		depth_limit = near_limit + 3;
		recurse(40, 16);
		cr_assert_eq(walk.depth, depth_limit < depth ? depth_limit : depth);
		cr_assert_arr_eq(walk.pc, walk.want, walk.depth * sizeof(walk.pc[0]));
		cr_assert_eq(walk.flags,
			     depth_limit < depth ? SP_SAMPLE_TRUNCATED : SP_SAMPLE_ROOTED);
	}
}

Test(unwind, writes_nothing_for_a_limit_of_zero)
{
	depth_limit = 0;
	raise(SIGUSR1);

	cr_assert_eq(walk.depth, 0);
}

CALLBACK static int compare_and_raise(const void *a, const void *b)
{
	raise(SIGUSR1);
	return *(const char *)a - *(const char *)b;
}

Test(unwind, equals_libunwind_in_a_callback_of_the_c_library)
{
	char v[] = "dcba";

	qsort(v, 4, 1, compare_and_raise);

	expect_same(SP_SAMPLE_ROOTED);
	cr_assert_eq(frames_in((const void *)(uintptr_t)compare_and_raise, CALLBACK_BYTES), 1);
}

CALLBACK static void raise_again(int sig, siginfo_t *si, void *context)
{
	(void)sig;
	(void)si;
	(void)context;
	raise(SIGUSR1);
	__asm__ volatile(""); /* no tail call */
}

Test(unwind, equals_libunwind_through_a_signal_frame)
{
	handle(SIGUSR2, raise_again, 0);

	raise(SIGUSR2);

	expect_same(SP_SAMPLE_ROOTED);
	cr_assert_eq(frames_in((const void *)(uintptr_t)raise_again, CALLBACK_BYTES), 1);
}

Test(unwind, equals_libunwind_from_an_alternate_stack_to_the_threads_own)
{
	static char space[64 * 1024];
	stack_t alternate = {.ss_sp = space, .ss_size = sizeof(space)};
	struct sp_stack_bounds before;

	raise(SIGUSR1);
	before = bounds;
	cr_assert_eq(sigaltstack(&alternate, NULL), 0);
	handle(SIGUSR2, raise_again, SA_ONSTACK);

	raise(SIGUSR2);

	expect_same(off_stack());
	cr_assert_eq(frames_in((const void *)(uintptr_t)raise_again, CALLBACK_BYTES), 1);
	cr_assert_eq(bounds.hi, before.hi);
}

CALLBACK static void *thread_main(void *arg)
{
	raise(SIGUSR1);
	return arg;
}

Test(unwind, equals_libunwind_in_a_thread)
{
	pthread_t t;

	cr_assert_eq(pthread_create(&t, NULL, thread_main, NULL), 0);
	cr_assert_eq(pthread_join(t, NULL), 0);

	expect_same(SP_SAMPLE_ROOTED);
	cr_assert_eq(frames_in((const void *)(uintptr_t)thread_main, CALLBACK_BYTES), 1);
}

static void *thread_deep(void *arg)
{
	recurse(90, 8000);
	return arg;
}

Test(unwind, proves_the_stack_of_a_thread_up_to_its_control_block)
{
	pthread_t t;

	cr_assert_eq(pthread_create(&t, NULL, thread_deep, NULL), 0);
	cr_assert_eq(pthread_join(t, NULL), 0);

	expect_same(SP_SAMPLE_ROOTED);
	cr_assert_leq(bounds.lo, walk.sp);
	cr_assert_gt(bounds.hi, walk.sp + 90 * 8000);
}

Test(unwind, proves_a_very_deep_stack_over_several_walks)
{
	int walks = 0;

	/* 4.8 MB in frames of 32 KiB: more pages than one walk may probe. */
	do {
		recurse(150, 32 * 1024);
	} while (bounds.lo > walk.sp && ++walks < 10);

	cr_assert_gt(walks, 1);
	cr_assert_leq(bounds.lo, walk.sp);
	expect_same(SP_SAMPLE_ROOTED);
}

Test(unwind, finds_the_stack_again_in_a_forked_child)
{
	raise(SIGUSR1);
	expect_same(SP_SAMPLE_ROOTED);

	pid_t child = fork();

	if (child == 0) {
		raise(SIGUSR1);
		_exit(walk.flags == SP_SAMPLE_ROOTED && walk.depth == walk.want_depth ? 0 : 1);
	}
	int status;

	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
}

/* --- Code without call frame information ------------------------------------------------------- */

#if defined(__x86_64__)
CALLBACK static void call_raise(void)
{
	raise(SIGUSR1);
	__asm__ volatile(""); /* no tail call */
}

Test(unwind, follows_frame_pointers_where_there_is_no_cfi)
{
	/* push rbp; mov rsp, rbp; call *rdi; pop rbp; ret */
	static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
	uint8_t *jit = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void (*jitted)(void (*)(void));

	cr_assert_neq(jit, MAP_FAILED);
	memcpy(jit, code, sizeof(code));
	*(void **)&jitted = jit;

	jitted(call_raise);

	cr_assert_eq(frames_in(jit, sizeof(code)), 1);
	cr_assert_eq(frames_in((const void *)(uintptr_t)call_raise, CALLBACK_BYTES), 1);
	cr_assert_eq(walk.failed + ((walk.flags & SP_SAMPLE_ROOTED) != 0), 1);
	/* The caller of the code is this test, built with frame pointers or not. */
	for (unsigned i = 0; i + 1 < walk.depth; i++) {
		Dl_info here;
		Dl_info self;

		if (walk.pc[i] - (uint64_t)(uintptr_t)jit >= sizeof(code))
			continue;
		cr_assert_neq(dladdr((void *)walk.pc[i + 1], &here), 0);
		cr_assert_neq(dladdr((void *)(uintptr_t)call_raise, &self), 0);
		cr_assert_eq(here.dli_fbase, self.dli_fbase);
	}
}

/* Its CFA is an expression (breg7 16, dup, drop) with an operation that only the exporter knows. */
__asm__(".pushsection .text\n"
	".type call_by_expression, @function\n"
	"call_by_expression:\n"
	".cfi_startproc\n"
	"subq $8, %rsp\n"
	".cfi_escape 0x0f, 4, 0x77, 16, 0x12, 0x13\n"
	"call *%rdi\n"
	"addq $8, %rsp\n"
	"ret\n"
	".cfi_endproc\n"
	".size call_by_expression, . - call_by_expression\n"
	".popsection\n");
void call_by_expression(void (*callback)(void));

/* It would go on with the call that ends a handler of a signal, and is none. */
__asm__(".pushsection .text\n"
	".type call_before_sigreturn, @function\n"
	"call_before_sigreturn:\n"
	".cfi_startproc\n"
	"subq $8, %rsp\n"
	".cfi_adjust_cfa_offset 8\n"
	"call *%rdi\n"
	"movq $15, %rax\n"
	"syscall\n"
	".cfi_endproc\n"
	".size call_before_sigreturn, . - call_before_sigreturn\n"
	".popsection\n");
void call_before_sigreturn(void (*callback)(void));

static jmp_buf back;

CALLBACK static void raise_and_leave(void)
{
	raise(SIGUSR1);
	longjmp(back, 1);
}

Test(unwind, takes_no_function_for_the_end_of_a_handler_whose_frame_it_knows)
{
	if (setjmp(back) == 0)
		call_before_sigreturn(raise_and_leave);

	cr_assert_eq(walk.flags, SP_SAMPLE_ROOTED, "flags %#x", walk.flags);
	cr_assert_eq(frames_in((const void *)(uintptr_t)call_before_sigreturn, 16), 1);
}

Test(unwind, leaves_what_it_does_not_know_to_the_exporter)
{
	call_by_expression(call_raise);

	cr_assert_eq(walk.flags, SP_SAMPLE_RETRY, "flags %#x", walk.flags);
	cr_assert_eq(walk.failed, 0);
	cr_assert_eq(walk.pc[walk.depth - 1] - (uint64_t)(uintptr_t)call_by_expression < 16, 1);
}
#endif
