/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole walks from inside a signal handler, compared frame by frame with libunwind's, at the places
 * where stacks are odd; and walks from contexts that are plainly wrong, which must end and not
 * crash. libunwind is loaded with dlopen, so that this program needs no more than the shipped
 * objects do. The comparison is safe here because every signal is raised by the test itself.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include "sampler/arch_sig.h"
#include "sampler/counters.h"
#include "sampler/rule_cache.h"
#include "sampler/sample.h"
#include "sampler/unwind_sig.h"
#include "test/common/walk.h"
#include "test/unit/emulated.h"

#define STRING_(x) #x
#define STRING(x) STRING_(x)

static struct {
	__typeof__(&unw_init_local2) init_local2;
	__typeof__(&unw_step) step;
	__typeof__(&unw_get_reg) get_reg;
} lib;

/* What the handler saw. */
struct walk {
	unsigned depth;
	unsigned want_depth;
	uint16_t flags;
	uintptr_t sp;
	uint64_t failed; /* how often SP_COUNT_UNWIND_FAILED was counted */
	uint64_t pc[SP_FRAMES_MAX];
	uint64_t want[SP_FRAMES_MAX];
};

static struct walk walk;
static struct sp_stack_bounds bounds;
static unsigned depth_limit = SP_FRAMES_MAX;
static bool split; /* into two places, the first of which has room for so many: */
static unsigned near_limit;
static void (*spoil)(ucontext_t *uc);

static void *find_symbol(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

/* libunwind's walk in sample.h's convention: exact where interrupted and in the trampoline. */
static unsigned reference_walk(const ucontext_t *uc, uint64_t *pc, unsigned max)
{
	unw_context_t context;
	unw_cursor_t cursor;
	bool exact = true;
	unsigned n = 0;
	unw_word_t ip;

	memcpy(&context, uc, sizeof(context));
	if (lib.init_local2(&cursor, &context, UNW_INIT_SIGNAL_FRAME) != 0)
		return 0;
	do {
		bool trampoline;

		if (n == max || lib.get_reg(&cursor, UNW_REG_IP, &ip) != 0 || ip == 0)
			break;
		/* unw_is_signal_frame (1.6.2) says no to glibc's, although it steps through it. */
		trampoline = sp_arch_is_sigreturn((const uint8_t *)ip);
		pc[n++] = ip - (exact || trampoline ? 0 : 1);
		exact = trampoline;
	} while (lib.step(&cursor) > 0);
	return n;
}

static void walk_split(const ucontext_t *uc)
{
	static uint64_t near[SP_FRAMES_MAX];
	static uint64_t far[SP_FRAMES_MAX];
	const struct sp_unwind_room room[2] = {{near, near_limit}, {far, depth_limit - near_limit}};
	unsigned n;

	walk.depth = sp_unwind_walk(uc, &bounds, room, &walk.flags);
	n = walk.depth < near_limit ? walk.depth : near_limit;
	memcpy(walk.pc, near, n * sizeof(near[0]));
	memcpy(walk.pc + n, far, (walk.depth - n) * sizeof(far[0]));
}

static void on_signal(int sig, siginfo_t *si, void *context)
{
	uint64_t failed = sp_count_read(SP_COUNT_UNWIND_FAILED);
	ucontext_t copy;

	(void)sig;
	(void)si;
	memcpy(&copy, context, sizeof(copy));
	if (spoil != NULL)
		spoil(&copy);
	else
		walk.want_depth = reference_walk(&copy, walk.want, SP_FRAMES_MAX);
	walk.sp = sp_arch_context_reg(&copy, SP_ARCH_REG_SP);
	if (split)
		walk_split(&copy);
	else
		walk.depth = walk_stack(&copy, &bounds, walk.pc, depth_limit, &walk.flags);
	walk.failed = sp_count_read(SP_COUNT_UNWIND_FAILED) - failed;
}

static void handle(int sig, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};

	sigemptyset(&sa.sa_mask);
	cr_assert_eq(sigaction(sig, &sa, NULL), 0);
}

static void *must(const char *name)
{
	static void *handle_;
	void *symbol;

	if (handle_ == NULL)
		handle_ = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
	cr_assert_not_null(handle_);
	symbol = dlsym(handle_, name);
	cr_assert_not_null(symbol, "%s", name);
	return symbol;
}

static void setup(void)
{
	*(void **)&lib.init_local2 = must(STRING(unw_init_local2));
	*(void **)&lib.step = must(STRING(unw_step));
	*(void **)&lib.get_reg = must(STRING(unw_get_reg));
	cr_assert_eq(sp_unwind_init(find_symbol), 0);
	cr_assert_eq(sp_rule_cache_init(), 0);
	handle(SIGUSR1, on_signal, 0);
}

static void expect_same(uint16_t flags)
{
	cr_assert_gt(walk.want_depth, 1);
	for (unsigned i = 0; i < walk.depth && i < walk.want_depth; i++)
		cr_assert_eq(walk.pc[i], walk.want[i], "frame %u: %#lx, libunwind %#lx", i,
			     walk.pc[i], walk.want[i]);
	cr_assert_eq(walk.depth, walk.want_depth);
	cr_assert_eq(walk.flags, flags, "flags %#x", walk.flags);
	cr_assert_eq(walk.failed, 0);
}

/* An emulator may put the initial stack right above the program, where everything seems near. */
static uint16_t off_stack(void)
{
	return emulated() ? SP_SAMPLE_ROOTED : SP_SAMPLE_ROOTED | SP_SAMPLE_OFF_STACK;
}

/*
 * A function that frames_in can recognize: alone in its first CALLBACK_BYTES, because only others
 * of its kind follow it.
 */
#define CALLBACK_BYTES 128
#define CALLBACK __attribute__((noinline, section(".text.callbacks"), aligned(CALLBACK_BYTES)))

/* How many frames lie inside the code that starts at fn and has fewer bytes than that. */
static unsigned frames_in(const void *fn, unsigned bytes)
{
	unsigned n = 0;

	for (unsigned i = 0; i < walk.depth; i++)
		n += walk.pc[i] - (uint64_t)(uintptr_t)fn < bytes;
	return n;
}

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

static __attribute__((noinline)) int recurse(int n, size_t bytes)
{
	volatile char *space = __builtin_alloca(bytes);
	int below;

	space[0] = 1;
	if (n == 0)
		return raise(SIGUSR1);
	below = recurse(n - 1, bytes);
	return below + space[0];
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

static ucontext_t main_context;
static ucontext_t coroutine_context;

CALLBACK static void coroutine(void)
{
	raise(SIGUSR1);
	/* not by a jump */
	__asm__ volatile("");
}

/*
 * The caller of a coroutine was never called: ours is exact there, where libunwind has no rule for it
 * and may go on by the frame pointer.
 */
static void expect_same_of_coroutine(uint16_t flags)
{
	cr_assert_gt(walk.depth, 0);
	cr_assert_geq(walk.want_depth, walk.depth);
	walk.want_depth = walk.depth;
	walk.want[walk.want_depth - 1]++;
	expect_same(flags);
}

Test(unwind, equals_libunwind_in_a_coroutine)
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

/* As make_fcontext() of Boost.Context does it: code that nothing describes, entered by a jump. */
Test(unwind, ends_at_the_frame_pointer_that_was_pushed_for_a_caller)
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

Test(unwind, walks_a_coroutine_whose_stack_ends_at_an_unreadable_page)
{
	char *space = mmap(NULL, 16384, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(space, MAP_FAILED);
	cr_assert_eq(mprotect(space + 4096, 8192, PROT_READ | PROT_WRITE), 0);
	getcontext(&coroutine_context);
	coroutine_context.uc_stack.ss_sp = space + 4096;
	coroutine_context.uc_stack.ss_size = 8192;
	coroutine_context.uc_link = &main_context;
	makecontext(&coroutine_context, coroutine, 0);

	/* The handler's own needs do not fit there. */
	static char handlers[65536];
	stack_t alternate = {.ss_sp = handlers, .ss_size = sizeof(handlers)};

	cr_assert_eq(sigaltstack(&alternate, NULL), 0);
	handle(SIGUSR1, on_signal, SA_ONSTACK);
	cr_assert_eq(swapcontext(&main_context, &coroutine_context), 0);

	expect_same_of_coroutine(SP_SAMPLE_ROOTED | SP_SAMPLE_OFF_STACK);
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

/* --- Contexts that are wrong ------------------------------------------------------------------- */

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

Test(unwind, gives_the_leaf_alone_when_sp_is_garbage)
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

Test(unwind, gives_the_leaf_alone_when_pc_and_fp_are_garbage)
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

Test(unwind, survives_a_garbage_value_in_any_register)
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

Test(unwind, survives_random_stack_contents)
{
	uint64_t seed = 88172645463325252;

	spoil = spoil_stack_contents;
	for (unsigned round = 0; round < 300; round++) {
		for (size_t i = 0; i < sizeof(off_stack_page); i += 8) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			/* One in four is a code address, so that walks go on for a while. */
			uint64_t word = (seed & 3) != 0 ? seed : (uint64_t)(uintptr_t)raise + 40;

			memcpy(off_stack_page + i, &word, 8);
		}
		raise(SIGUSR1);

		cr_assert_geq(walk.depth, 1);
		cr_assert_eq(walk.flags & SP_SAMPLE_OFF_STACK, SP_SAMPLE_OFF_STACK);
	}
}
#endif
