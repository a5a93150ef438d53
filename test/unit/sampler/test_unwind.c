/* SPDX-License-Identifier: Apache-2.0 */
/* Complete walks of unusual stacks, compared with libunwind's frame by frame. */
#include "sampler/unwind/unwind_sig.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sampler/region/region.h"
#include "test/unit/kernel_without_cfi.h"
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
/* The function that is interrupted, without a frame of its own. */
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

/* The kernel delivers pending signals in the order of their numbers. SIGUSR1, whose handler walks, comes last. */
static void deliver_at_once(const int *signo, unsigned n)
{
	sigset_t all;
	sigset_t before;

	sigfillset(&all);
	cr_assert_eq(pthread_sigmask(SIG_SETMASK, &all, &before), 0);
	for (unsigned i = 0; i < n; i++)
		cr_assert_eq(pthread_kill(pthread_self(), signo[i]), 0);
	cr_assert_eq(pthread_kill(pthread_self(), SIGUSR1), 0);
	cr_assert_eq(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
}

CALLBACK static void do_nothing(int sig, siginfo_t *si, void *context)
{
	(void)sig;
	(void)si;
	(void)context;
}

/*
 * Compares with libunwind's frames, except those of handlers that have not begun: each has a frame and a trampoline.
 */
static void expect_without_handlers(unsigned handlers)
{
	unsigned skip = 2 * handlers;

	cr_assert_eq(walk.want_depth, walk.depth + skip);
	for (unsigned i = 0; i < walk.depth; i++)
		cr_expect_eq(walk.pc[i], walk.want[i + skip], "frame %u: %#lx, libunwind %#lx", i,
			     walk.pc[i], walk.want[i + skip]);
	cr_expect_eq(walk.flags, SP_SAMPLE_ROOTED);
	cr_expect_eq(walk.failed, 0);
	cr_expect_eq(frames_in((const void *)(uintptr_t)do_nothing, CALLBACK_BYTES), 0);
}

Test(unwind, begins_with_what_a_handler_interrupts_that_has_not_begun)
{
	static const int one[] = {SIGHUP};
	static const int three[] = {SIGHUP, SIGINT, SIGQUIT};

	handle(SIGHUP, do_nothing, 0);
	handle(SIGINT, do_nothing, SA_RESTART);
	handle(SIGQUIT, do_nothing, SA_NODEFER);
	deliver_at_once(one, 1);
	expect_without_handlers(1);
	deliver_at_once(three, 3);
	expect_without_handlers(3);
}

Test(unwind, leaves_the_alternate_stack_of_a_handler_that_has_not_begun)
{
	static char space[64 * 1024];
	static const int one[] = {SIGHUP};
	stack_t alternate = {.ss_sp = space, .ss_size = sizeof(space)};

	cr_assert_eq(sigaltstack(&alternate, NULL), 0);
	handle(SIGHUP, do_nothing, SA_ONSTACK);
	deliver_at_once(one, 1);
	expect_without_handlers(1);
}

/* A function with the arguments of a handler, whose caller is no frame of the kernel's. */
static void call_handler(ucontext_t *uc)
{
#if defined(__x86_64__)
	uc->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)do_nothing;
	uc->uc_mcontext.gregs[REG_RDI] = SIGHUP;
	uc->uc_mcontext.gregs[REG_RDX] = uc->uc_mcontext.gregs[REG_RSP] + 8;
#elif defined(__aarch64__)
	uc->uc_mcontext.pc = (uintptr_t)do_nothing;
	uc->uc_mcontext.regs[0] = SIGHUP;
	uc->uc_mcontext.regs[30] = (uintptr_t)do_nothing + 8;
#endif
}

Test(unwind, begins_with_a_handler_that_the_program_calls)
{
	handle(SIGHUP, do_nothing, 0);
	spoil = call_handler;
	raise(SIGUSR1);

	cr_expect_gt(walk.depth, 0);
	cr_expect_eq(walk.pc[0], (uint64_t)(uintptr_t)do_nothing);
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

	/* 4.8 MB in frames of 32 KiB: more pages than one walk may check. */
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

/* Code that belongs to no object. */
static uint8_t *generate(const uint8_t *code, size_t bytes)
{
	uint8_t *jit = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(jit, MAP_FAILED);
	return memcpy(jit, code, bytes);
}

Test(unwind, follows_frame_pointers_where_there_is_no_cfi)
{
	/* push rbp; mov rsp, rbp; call *rdi; pop rbp; ret */
	static const uint8_t code[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3};
	uint8_t *jit = generate(code, sizeof(code));
	void (*jitted)(void (*)(void));

	*(void **)&jitted = jit;

	jitted(call_raise);

	cr_assert_eq(frames_in(jit, sizeof(code)), 1);
	cr_assert_eq(frames_in((const void *)(uintptr_t)call_raise, CALLBACK_BYTES), 1);
	cr_assert_eq(walk.failed + ((walk.flags & SP_SAMPLE_ROOTED) != 0), 1);
	/* The caller of the code is this test, built with frame pointers or without. */
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

/* libunwind would read code at any address that such a word gives. */
static void ask_no_reference(ucontext_t *uc)
{
	(void)uc;
}

/*
 * The instructions behind the call say where the function returns to. So no frame is guessed, and the stack is
 * complete.
 */
Test(unwind, returns_from_code_that_only_gives_back_its_frame)
{
	static const struct {
		uint8_t byte[24];
		unsigned bytes;
	} code[] = {
		/* sub 8, rsp; call *rdi; add 8, rsp; ret, as Python's trampolines */
		{{0x48, 0x83, 0xec, 8, 0xff, 0xd7, 0x48, 0x83, 0xc4, 8, 0xc3}, 11},
		/* push rbx; push r12; sub 0x108, rsp; call *rdi; add 0x108, rsp; pop r12; pop rbx; ret */
		{{0x53, 0x41, 0x54, 0x48, 0x81, 0xec, 8, 1,    0,    0,    0xff, 0xd7,
		  0x48, 0x81, 0xc4, 8,    1,    0,    0, 0x41, 0x5c, 0x5b, 0xc3},
		 23},
		/* push rbp; mov rsp, rbp; sub 0x40, rsp; call *rdi; leave; ret */
		{{0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x40, 0xff, 0xd7, 0xc9, 0xc3}, 12},
		/* push rbp; xor ebp, ebp; call *rdi; pop rbp; ret: the frame pointer is data */
		{{0x55, 0x31, 0xed, 0xff, 0xd7, 0x5d, 0xc3}, 7},
	};
	static __typeof__(walk) direct;

	call_raise();
	memcpy(&direct, &walk, sizeof(direct));
	for (size_t i = 0; i < sizeof(code) / sizeof(code[0]); i++) {
		uint8_t *jit = generate(code[i].byte, code[i].bytes);
		void (*jitted)(void (*)(void));

		*(void **)&jitted = jit;
		spoil = ask_no_reference;
		jitted(call_raise);
		cr_expect_eq(walk.flags, SP_SAMPLE_ROOTED, "%zu: flags %#x", i, walk.flags);
		cr_expect_eq(frames_in(jit, code[i].bytes), 1, "%zu", i);
		cr_expect_eq(frames_in((const void *)(uintptr_t)call_raise, CALLBACK_BYTES), 1);
		/* The same callers as without that code, except for the address of this function's call. */
		cr_assert_eq(walk.depth, direct.depth + 1);
		cr_expect_arr_eq(&walk.pc[walk.depth - 3], &direct.pc[direct.depth - 3],
				 3 * sizeof(walk.pc[0]));
	}
}

/* Java's interpreter does this: its functions push a return address and jump to the next one. */
Test(unwind, follows_frame_pointers_through_generated_code_that_jumps)
{
	static const uint8_t code[] = {
		0x55, 0x48, 0x89, 0xe5,                         /* push rbp; mov rsp, rbp */
		0x48, 0x8d, 0x05, 11,   0,    0,    0,    0x50, /* lea 22(code), rax; push rax */
		0xeb, 10,                                       /* jmp 24(code) */
		0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x5d, 0xc3, /* pop rbp; ret */
		0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3,
	};
	uint8_t *jit = generate(code, sizeof(code));
	void (*jitted)(void (*)(void));

	*(void **)&jitted = jit;
	spoil = ask_no_reference;

	jitted(call_raise);

	cr_expect_eq(frames_in(jit, 22), 1);
	cr_expect_eq(frames_in(jit + 22, sizeof(code) - 22), 1);
	cr_expect_eq(frames_in((const void *)(uintptr_t)call_raise, CALLBACK_BYTES), 1);
	cr_expect_geq(walk.pc[walk.depth - 1] - (uint64_t)(uintptr_t)jit, sizeof(code));
}

static bool ends_in_kernel(void)
{
	return walk.pc[walk.depth - 1] - (uint64_t)(uintptr_t)call_without_cfi < 24;
}

/* The exporter has found no file with call frame information that is not in memory. */
static void has_no_frame_tables(void)
{
	atomic_store_explicit(&sp_region_now()->no_frame_tables, 1, memory_order_relaxed);
}

/* The file may have call frame information, until the exporter has checked. */
Test(unwind, leaves_code_without_call_frame_information_to_the_exporter)
{
	spoil = ask_no_reference;
	call_without_cfi(call_raise, NULL);

	cr_expect_eq(walk.flags, SP_SAMPLE_RETRY, "flags %#x", walk.flags);
	cr_expect_eq(walk.failed, 0);
	cr_expect(ends_in_kernel());

	/* This also holds if the walk went on by a guess, and if it would reach a root. */
	call_without_cfi(call_raise, (void *)(uintptr_t)after_call);
	cr_expect_eq(walk.flags & SP_SAMPLE_RETRY, SP_SAMPLE_RETRY);
	has_no_frame_tables();
	call_without_cfi(call_raise, (void *)(uintptr_t)after_call);
	cr_expect_eq(walk.flags & SP_SAMPLE_RETRY, 0);
}

Test(unwind, takes_no_kernel_in_assembly_for_the_root)
{
	spoil = ask_no_reference;
	has_no_frame_tables();
	call_without_cfi(call_raise, NULL);

	cr_expect_eq(walk.flags, 0, "flags %#x", walk.flags);
	cr_expect_eq(walk.failed, 1);
	cr_expect(ends_in_kernel());
	cr_expect_eq(frames_in((const void *)(uintptr_t)call_raise, CALLBACK_BYTES), 1);
}

Test(unwind, takes_no_word_for_a_return_address_that_no_call_has_left)
{
	static const char data[] = "data";
	const void *words[] = {(void *)(uintptr_t)after_no_call, data, &walk, (void *)4097,
			       (void *)(uintptr_t)call_without_cfi};

	spoil = ask_no_reference;
	has_no_frame_tables();
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		call_without_cfi(call_raise, words[i]);

		cr_expect_eq(walk.flags, 0, "word %zu: flags %#x", i, walk.flags);
		cr_expect_eq(walk.failed, 1);
		cr_expect(ends_in_kernel(), "word %zu", i);
	}
	call_without_cfi(call_raise, (void *)(uintptr_t)after_call);
	cr_expect_eq(frames_in((const void *)((uintptr_t)after_call - 1), 1), 1);
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

/* It would continue at the call that ends a signal handler, but is no such frame. */
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
