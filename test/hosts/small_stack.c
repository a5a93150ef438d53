/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads with the smallest stacks that there are, each with an unreadable page below, which block
 * every signal and use their stacks to within some hundred bytes: what a program may do, as no handler
 * of its own can come. A signal frame would not fit there, and the kernel would end the process.
 * Usage: small_stack own|born (the thread blocks them, or is born with all of them blocked)
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define STACK_BYTES 16384
#define PAGE 4096
#define LEFT_BYTES 1024
#define ROUNDS 5

static void *tracer;
static sigset_t all;
static int blocks_by_itself;

static __attribute__((noinline)) void burn_at_the_end_of(const char *stack)
{
	long deep = (char *)__builtin_frame_address(0) - stack - LEFT_BYTES;
	volatile char *space = __builtin_alloca((size_t)deep);

	space[0] = 1;
	host_burn_ms(100);
	space[0] = 2;
}

static void *work(void *stack)
{
	void *span;

	if (blocks_by_itself)
		HOST_CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
	span = otelc_start_span(tracer, "little room", OTELC_SPAN_KIND_INTERNAL, NULL);
	burn_at_the_end_of(stack);
	otelc_end_span(span);
	return NULL;
}

int main(int argc, char **argv)
{
	void *span;

	blocks_by_itself = argc < 2 || strcmp(argv[1], "own") == 0;
	sigfillset(&all);
	otelc_init_tracer_provider("small_stack", "1.0", "test", "");
	tracer = otelc_get_tracer();
	span = otelc_start_span(tracer, "initial thread", OTELC_SPAN_KIND_INTERNAL, NULL);
	host_burn_ms(50);
	if (!blocks_by_itself)
		HOST_CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		char *map = mmap(NULL, PAGE + STACK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS,
				 -1, 0);
		pthread_attr_t attr;
		pthread_t thread;

		HOST_CHECK(map != MAP_FAILED);
		HOST_CHECK(mprotect(map + PAGE, STACK_BYTES, PROT_READ | PROT_WRITE) == 0);
		HOST_CHECK(pthread_attr_init(&attr) == 0);
		HOST_CHECK(pthread_attr_setstack(&attr, map + PAGE, STACK_BYTES) == 0);
		HOST_CHECK(pthread_create(&thread, &attr, work, map + PAGE) == 0);
		HOST_CHECK(pthread_join(thread, NULL) == 0);
	}
	otelc_end_span(span);
	puts("all threads have ended");
	return 13;
}
