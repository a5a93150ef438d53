/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two fibers that take turns, each on its own stack, by Boost.Context or by makecontext(). Usage: fibers
 * boost|makecontext <turns> <microseconds of CPU time per turn>
 */
#include <boost/context/fiber.hpp>

#include <ctime>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

namespace context = boost::context;

static volatile unsigned sum;
static int turns;
static long turn_ns;

static long cpu_ns()
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return ts.tv_sec * 1000000000L + ts.tv_nsec;
}

static inline __attribute__((always_inline)) void burn()
{
	long end = turn_ns > 0 ? cpu_ns() + turn_ns : 0;

	do {
		for (unsigned i = 0; i < (turn_ns > 0 ? 2000 : 10); i++)
			sum = sum + i;
	} while (turn_ns > 0 && cpu_ns() < end);
}

extern "C" {
__attribute__((noinline)) void leaf_a()
{
	burn();
}

__attribute__((noinline)) void leaf_b()
{
	burn();
	sum = sum + 1;
}
}

static context::fiber fiber_a(context::fiber &&back)
{
	for (int i = 0; i < turns; i++) {
		leaf_a();
		back = std::move(back).resume();
	}
	return std::move(back);
}

static context::fiber fiber_b(context::fiber &&back)
{
	for (int i = 0; i < turns; i++) {
		leaf_b();
		back = std::move(back).resume();
	}
	return std::move(back);
}

static void run_boost()
{
	context::fiber a{fiber_a};
	context::fiber b{fiber_b};

	for (int i = 0; i < turns; i++) {
		a = std::move(a).resume();
		b = std::move(b).resume();
	}
	/* The fibers return: destroying a fiber before that would unwind it by an exception. */
	a = std::move(a).resume();
	b = std::move(b).resume();
}

static ucontext_t caller, context_a, context_b;
static char stack_a[65536], stack_b[65536];

static void coroutine_a()
{
	for (;;) {
		leaf_a();
		swapcontext(&context_a, &caller);
	}
}

static void coroutine_b()
{
	for (;;) {
		leaf_b();
		swapcontext(&context_b, &caller);
	}
}

static void make(ucontext_t *which, char *stack, size_t size, void (*entry)())
{
	getcontext(which);
	which->uc_stack.ss_sp = stack;
	which->uc_stack.ss_size = size;
	which->uc_link = &caller;
	makecontext(which, entry, 0);
}

static void run_makecontext()
{
	make(&context_a, stack_a, sizeof(stack_a), coroutine_a);
	make(&context_b, stack_b, sizeof(stack_b), coroutine_b);
	for (int i = 0; i < turns; i++) {
		swapcontext(&caller, &context_a);
		swapcontext(&caller, &context_b);
	}
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	turns = atoi(argv[2]);
	turn_ns = atol(argv[3]) * 1000;
	if (strcmp(argv[1], "boost") == 0)
		run_boost();
	else
		run_makecontext();
	printf("%d turns\n", turns);
	return 5;
}
