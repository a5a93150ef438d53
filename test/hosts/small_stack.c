/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads with the smallest possible stacks, each above an unreadable page. They block every signal and use their
 * stacks to within some hundred bytes, which a program may do because no handler of its own can run. A signal frame
 * would not fit, and the kernel would kill the process. Usage: small_stack own|born|open|early|larger
 *   own, born    the thread blocks all signals, or is born with them blocked
 *   open         it blocks none, because there is no handler
 *   early        the same, but the threads begin, and use their stacks, before the first span
 *   larger       stacks of 64 KiB, whose rest has room for the kernel's frame and little more
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define STACK_BYTES 16384
#define PAGE 4096
#define LARGER_BYTES 65536
#define LEFT_BYTES 1024
#define ROUNDS 5

static void *tracer;
static sigset_t all;
static int blocks_by_itself;
static int is_early;
static sem_t deep_enough, go;
static long left = LEFT_BYTES;
static char *in_handler;

static __attribute__((noinline)) void burn_at_the_end_of(const char *stack)
{
	long deep = (char *)__builtin_frame_address(0) - stack - left;
	volatile char *space = __builtin_alloca((size_t)deep);

	space[0] = 1;
	if (is_early) {
		HOST_CHECK(sem_post(&deep_enough) == 0);
		HOST_CHECK(sem_wait(&go) == 0);
	}
	host_burn_ms(100);
	space[0] = 2;
}

static void *work(void *stack)
{
	void *span = NULL;

	if (blocks_by_itself)
		HOST_CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
	if (!is_early)
		span = otelc_start_span(tracer, "little room", OTELC_SPAN_KIND_INTERNAL, NULL);
	burn_at_the_end_of(stack);
	if (!is_early)
		otelc_end_span(span);
	return NULL;
}

static void measure(int signo)
{
	(void)signo;
	in_handler = __builtin_frame_address(0);
}

/* Depends on the processor's registers. */
static long signal_frame(void)
{
	struct sigaction action = {.sa_handler = measure};

	HOST_CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	HOST_CHECK(raise(SIGUSR1) == 0);
	return (char *)__builtin_frame_address(0) - in_handler;
}

static pthread_t make_thread(size_t bytes)
{
	char *map = mmap(NULL, PAGE + bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pthread_attr_t attr;
	pthread_t thread;

	HOST_CHECK(map != MAP_FAILED);
	HOST_CHECK(mprotect(map + PAGE, bytes, PROT_READ | PROT_WRITE) == 0);
	HOST_CHECK(pthread_attr_init(&attr) == 0);
	HOST_CHECK(pthread_attr_setstack(&attr, map + PAGE, bytes) == 0);
	HOST_CHECK(pthread_create(&thread, &attr, work, map + PAGE) == 0);
	return thread;
}

int main(int argc, char **argv)
{
	const char *how = argc < 2 ? "own" : argv[1];
	size_t bytes = strcmp(how, "larger") == 0 ? LARGER_BYTES : STACK_BYTES;
	pthread_t early[ROUNDS];
	void *span;

	blocks_by_itself = strcmp(how, "own") == 0;
	is_early = strcmp(how, "early") == 0;
	if (bytes == LARGER_BYTES)
		left += signal_frame();
	sigfillset(&all);
	HOST_CHECK(sem_init(&deep_enough, 0, 0) == 0 && sem_init(&go, 0, 0) == 0);
	/* The first call of a function looks it up, which takes more stack than the threads have. */
	HOST_CHECK(sem_post(&go) == 0 && sem_wait(&go) == 0);
	for (int i = 0; i < ROUNDS && is_early; i++) {
		early[i] = make_thread(bytes);
		HOST_CHECK(sem_wait(&deep_enough) == 0);
	}
	otelc_init_tracer_provider("small_stack", "1.0", "test", "");
	tracer = otelc_get_tracer();
	span = otelc_start_span(tracer, "initial thread", OTELC_SPAN_KIND_INTERNAL, NULL);
	host_burn_ms(50);
	if (strcmp(how, "born") == 0)
		HOST_CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
	for (int i = 0; i < ROUNDS; i++) {
		if (is_early)
			HOST_CHECK(sem_post(&go) == 0);
		else
			HOST_CHECK(pthread_join(make_thread(bytes), NULL) == 0);
	}
	for (int i = 0; i < ROUNDS && is_early; i++)
		HOST_CHECK(pthread_join(early[i], NULL) == 0);
	otelc_end_span(span);
	puts("all threads have ended");
	return 13;
}
