/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures how long a sampling signal handler takes at different stack depths: our handler, the one of gperftools,
 * and handlers that walk with libunwind or by frame pointers. One process, one set of stacks, and the methods take
 * turns. A stack is a chain of different functions, as in programs, and not a recursion. Hot: one chain; cold:
 * sixteen chains of 64 functions in random order.
 *
 * A handler of this program calls the measured handlers with the kernel's context, so the measured time does not
 * contain the delivery of the signal.
 *
 * Usage: handler ROUNDS. Prints one line per method: name, then median and 90th percentile in nanoseconds at depth 8,
 * 16, 32, 64, and cold 64. A missing method prints "-".
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define UNW_LOCAL_ONLY
#include <libunwind.h>

#include "sampler/base/arch_sig.h"
#include "sampler/config/config.h"
#include "sampler/region/ring.h"
#include "sampler/sampler.h"
#include "sampler/sampling/handler.h"
#include "sampler/thread/thread.h"

#define STRING_(x) #x
#define STRING(x) STRING_(x)

#define DEPTH 64
#define CHAINS 16
#define FRAMES 128

/* --- Stacks -------------------------------------------------------------------------------------- */

struct trip {
	int chain;
	int level;
	int depth;
};

typedef void visit_fn(struct trip *t);
static visit_fn *const chains[CHAINS][DEPTH];

#if defined(__x86_64__)
#define INTERRUPT() __asm__ volatile("int3" ::: "memory")
#else
#define INTERRUPT() raise(SIGTRAP)
#endif

/* Registers that live across the call make frames save some, as in most functions. */
#define FUNCTION(c, a, b)                                                                          \
	static __attribute__((noinline, noclone)) void f_##c##_##a##b(struct trip *t)              \
	{                                                                                          \
		int level = ++t->level;                                                            \
                                                                                                   \
		if (level >= t->depth)                                                             \
			INTERRUPT();                                                               \
		else                                                                               \
			chains[t->chain][level](t);                                                \
		t->level = level - 1;                                                              \
	}
#define NAME(c, a, b) f_##c##_##a##b,

#define FOUR(X, c, a, b0, b1, b2, b3) X(c, a, b0) X(c, a, b1) X(c, a, b2) X(c, a, b3)
#define SIXTEEN(X, c, a)                                                                           \
	FOUR(X, c, a, 0, 1, 2, 3)                                                                  \
	FOUR(X, c, a, 4, 5, 6, 7) FOUR(X, c, a, 8, 9, A, B) FOUR(X, c, a, C, D, E, F)
#define CHAIN(X, c) SIXTEEN(X, c, 0) SIXTEEN(X, c, 1) SIXTEEN(X, c, 2) SIXTEEN(X, c, 3)
#define EACH_CHAIN(X)                                                                              \
	X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(A) X(B) X(C) X(D) X(E) X(F)
#define DEFINE(c) CHAIN(FUNCTION, c)
#define LIST(c) {CHAIN(NAME, c)},

EACH_CHAIN(DEFINE)
static visit_fn *const chains[CHAINS][DEPTH] = {EACH_CHAIN(LIST)};

/* --- Methods ------------------------------------------------------------------------------------- */

typedef void handle_fn(int sig, siginfo_t *si, void *context);

static uint64_t frames[FRAMES];
static unsigned frames_n;

static handle_fn *perftools;
static __typeof__(&unw_init_local2) init_local2;
static __typeof__(&unw_step) step;
static __typeof__(&unw_get_reg) get_reg;
static __typeof__(&unw_backtrace) backtrace_;

static void by_nothing(int sig, siginfo_t *si, void *context)
{
	(void)sig;
	(void)si;
	(void)context;
}

static void by_perftools(int sig, siginfo_t *si, void *context)
{
	(void)sig;
	perftools(SIGPROF, si, context);
}

static void by_step(int sig, siginfo_t *si, void *context)
{
	unw_context_t copy;
	unw_cursor_t cursor;
	unw_word_t ip;

	(void)sig;
	(void)si;
	memcpy(&copy, context, sizeof(copy));
	frames_n = 0;
	if (init_local2(&cursor, &copy, UNW_INIT_SIGNAL_FRAME) != 0)
		return;
	do {
		if (frames_n == FRAMES || get_reg(&cursor, UNW_REG_IP, &ip) != 0)
			return;
		frames[frames_n++] = ip;
	} while (step(&cursor) > 0);
}

static void by_backtrace(int sig, siginfo_t *si, void *context)
{
	(void)sig;
	(void)si;
	(void)context;
	frames_n = (unsigned)backtrace_((void **)(uintptr_t)frames, FRAMES);
}

/* It only checks that the walk ends: the least that any walk can cost. */
static void by_frame_pointer(int sig, siginfo_t *si, void *context)
{
	uintptr_t fp = sp_arch_context_reg(context, SP_ARCH_REG_FP);
	uintptr_t sp = sp_arch_context_reg(context, SP_ARCH_REG_SP);

	(void)sig;
	(void)si;
	frames_n = 0;
	frames[frames_n++] = sp_arch_context_reg(context, SP_ARCH_REG_PC);
	while (frames_n < FRAMES && fp >= sp && fp - sp < (1U << 20) && fp % 8 == 0) {
		const uintptr_t *pair = (const uintptr_t *)fp;

		if (pair[1] == 0)
			return;
		frames[frames_n++] = pair[1];
		sp = fp;
		fp = pair[0];
	}
}

static void by_us(int sig, siginfo_t *si, void *context)
{
	siginfo_t ours = *si;

	ours.si_code = SI_TIMER;
	ours.si_overrun = 0;
	ours.si_value.sival_ptr =
		(void *)((uintptr_t)sp_handler_setup.cookie << 32 | sp_thread_own->index);
	sp_handler(sig, &ours, context);
}

static struct method {
	const char *name;
	handle_fn *handle;
	bool there;
} methods[] = {
	{"nothing", by_nothing, true},       {"spanprof", by_us, false},
	{"gperftools", by_perftools, false}, {"unw_backtrace", by_backtrace, false},
	{"unw_step", by_step, false},        {"frame-pointers", by_frame_pointer, true},
};
#define METHODS (sizeof(methods) / sizeof(methods[0]))

static void *find_symbol(const char *name)
{
	return dlsym(RTLD_DEFAULT, name);
}

static bool find_unwind(void)
{
	void *lib = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);

	if (lib == NULL)
		return false;
	*(void **)&init_local2 = dlsym(lib, STRING(unw_init_local2));
	*(void **)&step = dlsym(lib, STRING(unw_step));
	*(void **)&get_reg = dlsym(lib, STRING(unw_get_reg));
	*(void **)&backtrace_ = dlsym(lib, "unw_backtrace");
	return init_local2 != NULL && step != NULL && get_reg != NULL && backtrace_ != NULL;
}

/* gperftools' handler is the one that it installed; its timer is too slow to disturb. */
static bool find_perftools(void)
{
	void *lib = dlopen("libprofiler.so.0", RTLD_NOW | RTLD_LOCAL);
	struct sigaction sa;
	int (*start)(const char *path);

	if (lib == NULL)
		return false;
	*(void **)&start = dlsym(lib, "ProfilerStart");
	if (start == NULL || start("/dev/null") == 0 || sigaction(SIGPROF, NULL, &sa) != 0)
		return false;
	perftools = sa.sa_sigaction;
	return (sa.sa_flags & SA_SIGINFO) != 0;
}

static bool find_us(void)
{
	static struct sp_config config;

	sp_config_capture((char *const[]){NULL});
	sp_config_parse(&config);
	return sp_sampler_prepare(&config, find_symbol) >= 0 && sp_thread_self() != NULL;
}

/* --- Measuring ----------------------------------------------------------------------------------- */

static const struct method *current;
static uint64_t took;

static uint64_t now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000U + (uint64_t)ts.tv_nsec;
}

static void on_trap(int sig, siginfo_t *si, void *context)
{
	uint64_t start = now();

	current->handle(sig, si, context);
	took = now() - start;
}

static int ascending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void discard(const struct sp_record *record, void *arg)
{
	(void)record;
	(void)arg;
}

struct result {
	uint64_t median;
	uint64_t p90;
};

static struct result measure(const struct method *m, int depth, bool cold, unsigned rounds)
{
	static uint64_t times[100000];
	unsigned seed = 1;

	current = m;
	for (unsigned i = 0; i < rounds; i++) {
		struct trip t = {.depth = depth};

		seed = seed * 1103515245U + 12345U;
		if (cold)
			t.chain = (int)(seed >> 16) % CHAINS;
		chains[t.chain][0](&t);
		times[i] = took;
		if (i % 256 == 0)
			(void)sp_ring_drain(&sp_channel_now()->ring, discard, NULL, UINT32_MAX);
	}
	qsort(times, rounds, sizeof(times[0]), ascending);
	return (struct result){times[rounds / 2], times[rounds * 9 / 10]};
}

static void print(const struct method *m, unsigned rounds)
{
	static const int depths[] = {8, 16, 32, 64};
	static struct result nothing;
	struct result r;

	printf("%s", m->name);
	if (!m->there) {
		puts(" -");
		return;
	}
	if (m == methods)
		nothing = measure(m, DEPTH, false, rounds);
	/* The first signals of a method set it up. */
	(void)measure(m, DEPTH, true, 200);
	for (unsigned i = 0; i < 5; i++) {
		r = measure(m, i < 4 ? depths[i] : DEPTH, i == 4, rounds);
		printf(" %ld %ld", (long)(r.median - nothing.median),
		       (long)(r.p90 - nothing.median));
	}
	putchar('\n');
}

int main(int argc, char **argv)
{
	struct sigaction sa = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
	unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 2000;

	/* A timer must not interrupt a handler while its time is measured. */
	sigfillset(&sa.sa_mask);
	if (rounds == 0 || rounds > 100000 || sigaction(SIGTRAP, &sa, NULL) != 0)
		return 2;
	methods[2].there = find_perftools();
	methods[1].there = find_us();
	methods[3].there = methods[4].there = find_unwind();
	for (unsigned i = 0; i < METHODS; i++)
		print(&methods[i], rounds);
	return 0;
}
