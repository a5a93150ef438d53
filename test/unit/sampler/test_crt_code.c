/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks out of the C runtime's code for the beginning and the end of objects, which has no call frame
 * information: this program's own, one instruction at a time, and what is not such code.
 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "sampler/crt_code_sig.h"
#include "sampler/rule_cache.h"
#include "sampler/sample.h"
#include "sampler/unwind_sig.h"
#include "test/common/walk.h"
#include "test/unit/emulated.h"

/* Read from the end of an allocation: with the sanitizer, not a byte more than it may. */
Test(crt_code, refuses_everything_else, .timeout = 20)
{
	uint8_t *code = malloc(SP_CRT_CODE_BYTES);
	struct sp_crt_frame frame;
	unsigned taken = 0;

	cr_assert_not_null(code);
	srand(1);
	for (unsigned round = 0; round < 100000; round++) {
		for (unsigned i = 0; i < SP_CRT_CODE_BYTES; i++)
			code[i] = (uint8_t)rand();
		for (unsigned bytes = 0; bytes < SP_CRT_CODE_BYTES; bytes += 7)
			taken += sp_crt_frame(code + SP_CRT_CODE_BYTES - bytes, bytes, &frame);
	}
	/* One byte alone is a return in 1 of 256. */
	cr_assert_lt(taken, 100000 * 12 / 100);
	free(code);
}

#if defined(__x86_64__)

#define TRAP_FLAG 0x100

/* Of crti.o: not declared anywhere. Hidden, so that these are this program's own. */
extern void first(void) __asm__("_init") __attribute__((visibility("hidden")));
extern void last(void) __asm__("_fini") __attribute__((visibility("hidden")));
typedef void routine(void);
extern routine *init_array[] __asm__("__init_array_start") __attribute__((visibility("hidden")));
extern routine *fini_array[] __asm__("__fini_array_start") __attribute__((visibility("hidden")));

static struct sp_stack_bounds bounds;
static routine *stepped;
static struct {
	unsigned n;
	uint64_t pc[SP_FRAMES_MAX];
} outside;
static unsigned steps;     /* made below call_stepped() */
static unsigned wrong;     /* of them with another stack than its callers' */
static uintptr_t wrong_at; /* the first of them */

/* Alone in its section, so that its addresses tell it. */
__attribute__((noinline, section(".text.stepped"), aligned(256))) static void call_stepped(void)
{
	raise(SIGUSR1);
	stepped();
	raise(SIGUSR2);
	/* Not the last of it, so that the calls above are no jumps. */
	__asm__ volatile("");
}

static bool in_call_stepped(uint64_t pc)
{
	return pc - (uint64_t)(uintptr_t)call_stepped < 128;
}

static void *find_symbol(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

/* The walk from uc: how many frames, and which of them is call_stepped()'s, or the count. */
static unsigned walk(const ucontext_t *uc, uint64_t *pc, unsigned *caller, uint16_t *flags)
{
	unsigned n = walk_stack(uc, &bounds, pc, SP_FRAMES_MAX, flags);

	*caller = 0;
	while (*caller < n && !in_call_stepped(pc[*caller]))
		++*caller;
	return n;
}

/* SIGUSR1 starts the steps, SIGUSR2 ends them; both are sent by call_stepped(). */
static void on_switch(int sig, siginfo_t *si, void *context)
{
	ucontext_t *uc = context;
	uint64_t pc[SP_FRAMES_MAX];
	uint16_t flags;
	unsigned caller;
	unsigned n = walk(uc, pc, &caller, &flags);

	(void)si;
	if (sig == SIGUSR2) {
		uc->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
		return;
	}
	outside.n = n > caller ? n - caller - 1 : 0;
	memcpy(outside.pc, pc + caller + 1, outside.n * sizeof(pc[0]));
	uc->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void on_step(int sig, siginfo_t *si, void *context)
{
	const ucontext_t *uc = context;
	uint64_t pc[SP_FRAMES_MAX];
	uint16_t flags;
	unsigned caller;
	unsigned n = walk(uc, pc, &caller, &flags);

	(void)sig;
	(void)si;
	/* Frame 0 is call_stepped() itself between its calls. */
	if (caller == 0)
		return;
	steps++;
	if ((flags & SP_SAMPLE_ROOTED) != 0 && caller < n && n - caller - 1 == outside.n &&
	    memcmp(outside.pc, pc + caller + 1, outside.n * sizeof(pc[0])) == 0)
		return;
	if (wrong++ == 0)
		wrong_at = (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
}

static void handle(int sig, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction sa = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO};

	sigfillset(&sa.sa_mask);
	cr_assert_eq(sigaction(sig, &sa, NULL), 0);
}

/* Every instruction of fn, and of what it calls, has the stack of its caller, but for so many. */
static void step_through(routine *fn, const char *name, unsigned unknown)
{
	cr_assert_eq(sp_unwind_init(find_symbol), 0);
	cr_assert_eq(sp_rule_cache_init(), 0);
	handle(SIGUSR1, on_switch);
	handle(SIGUSR2, on_switch);
	handle(SIGTRAP, on_step);
	stepped = fn;

	call_stepped();

	cr_assert_gt(outside.n, 1);
	cr_assert_gt(steps, 2, "%s: %u steps", name, steps);
	cr_assert_eq(wrong, unknown, "%s: %u of %u steps, the first at %#lx", name, wrong, steps,
		     wrong_at);
}

Test(crt_code, init_is_walked_at_every_instruction, .timeout = 20)
{
	step_through(first, "_init", 0);
}

Test(crt_code, fini_is_walked_at_every_instruction, .timeout = 20)
{
	step_through(last, "_fini", 0);
}

#if !defined(__SANITIZE_ADDRESS__)
/* The sanitizer puts routines of its own first. */
Test(crt_code, frame_dummy_is_walked_at_every_instruction_but_its_jump, .timeout = 20)
{
	/* Its jump to register_tm_clones looks like any other code's. */
	step_through(init_array[0], "frame_dummy", 1);
}

/* Lets go of what this program gave __cxa_atexit, which is nothing. */
Test(crt_code, do_global_dtors_aux_is_walked_at_every_instruction, .timeout = 20)
{
	step_through(fini_array[0], "__do_global_dtors_aux", 0);
}
#endif

#endif
