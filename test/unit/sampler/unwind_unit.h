/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A walk inside a signal handler, which SIGUSR1 starts, and libunwind's walk from the same place. libunwind is loaded
 * by dlopen, so that a test needs no more than the shipped objects. The comparison is safe here because every signal
 * is raised by the test itself.
 */
#ifndef SP_TEST_UNWIND_UNIT_H
#define SP_TEST_UNWIND_UNIT_H

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include "sampler/base/arch_sig.h"
#include "sampler/base/counters.h"
#include "sampler/region/record.h"
#include "sampler/unwind/rule_cache_sig.h"
#include "sampler/unwind/unwind_sig.h"
#include "test/common/walk.h"
#include "test/unit/emulated.h"

#define STRING_(x) #x
#define STRING(x) STRING_(x)

static struct {
	__typeof__(&unw_init_local2) init_local2;
	__typeof__(&unw_step) step;
	__typeof__(&unw_get_reg) get_reg;
} lib;

/* The results of the handler. */
struct walk {
	unsigned depth;
	unsigned want_depth;
	uint16_t flags;
	uintptr_t sp;
	uint64_t failed; /* increase of SP_COUNT_UNWIND_FAILED */
	uint64_t pc[SP_FRAMES_MAX];
	uint64_t want[SP_FRAMES_MAX];
};

static struct walk walk;
static struct sp_stack_bounds bounds;
static unsigned depth_limit = SP_FRAMES_MAX;
static bool split; /* the frames are split into two arrays, the first of which has room for: */
static unsigned near_limit;
static void (*spoil)(ucontext_t *uc);

static inline void *find_symbol(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

/* libunwind's walk by the convention of record.h: exact where interrupted and in the trampoline. */
static inline unsigned reference_walk(const ucontext_t *uc, uint64_t *pc, unsigned max)
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

static inline void walk_split(const ucontext_t *uc)
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

static inline void on_signal(int sig, siginfo_t *si, void *context)
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

static inline void handle(int sig, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};

	sigemptyset(&sa.sa_mask);
	cr_assert_eq(sigaction(sig, &sa, NULL), 0);
}

static inline void *must(const char *name)
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

static inline void setup(void)
{
	*(void **)&lib.init_local2 = must(STRING(unw_init_local2));
	*(void **)&lib.step = must(STRING(unw_step));
	*(void **)&lib.get_reg = must(STRING(unw_get_reg));
	cr_assert_eq(sp_unwind_init(find_symbol), 0);
	cr_assert_eq(sp_rule_cache_init(), 0);
	handle(SIGUSR1, on_signal, 0);
}

static inline void expect_same(uint16_t flags)
{
	cr_assert_gt(walk.want_depth, 1);
	for (unsigned i = 0; i < walk.depth && i < walk.want_depth; i++)
		cr_assert_eq(walk.pc[i], walk.want[i], "frame %u: %#lx, libunwind %#lx", i,
			     walk.pc[i], walk.want[i]);
	cr_assert_eq(walk.depth, walk.want_depth);
	cr_assert_eq(walk.flags, flags, "flags %#x", walk.flags);
	cr_assert_eq(walk.failed, 0);
}

/* An emulator may put the initial stack directly above the program, so that every address seems near. */
static inline uint16_t off_stack(void)
{
	return emulated() ? SP_SAMPLE_ROOTED : SP_SAMPLE_ROOTED | SP_SAMPLE_OFF_STACK;
}

/*
 * A function that frames_in can recognise: only functions of its kind follow it in the object, so its first
 * CALLBACK_BYTES contain no other code.
 */
#define CALLBACK_BYTES 128
#define CALLBACK __attribute__((noinline, section(".text.callbacks"), aligned(CALLBACK_BYTES)))

/* The number of frames inside the code that begins at fn and has at most that many bytes. */
static inline unsigned frames_in(const void *fn, unsigned bytes)
{
	unsigned n = 0;

	for (unsigned i = 0; i < walk.depth; i++)
		n += walk.pc[i] - (uint64_t)(uintptr_t)fn < bytes;
	return n;
}

__attribute__((noinline, unused)) static int recurse(int n, size_t bytes)
{
	volatile char *space = __builtin_alloca(bytes);
	int below;

	space[0] = 1;
	if (n == 0)
		return raise(SIGUSR1);
	below = recurse(n - 1, bytes);
	return below + space[0];
}

#endif
