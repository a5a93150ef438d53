/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates known blocks under its own labels. Usage:
 *
 *	allocs truth THREADS	classes of sizes through every function that allocates, each under a label, on THREADS
 *				threads; prints "<bytes of a block> <number of blocks> <label>"
 *	allocs children COUNT	few blocks in each of COUNT successive children; prints the same
 *	allocs odd		in every place where a program may allocate
 *	allocs handler		in a handler that interrupts allocations; only for an allocator that allows it
 *	allocs sized		by malloc(), calloc() and realloc(), and frees by C23's functions, if they exist
 *	allocs full THREADS	much more than the ring has room for, on THREADS threads at once, and frees all of it
 *	allocs lost		blocks that it never frees, and to which it has no pointer
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "preload/spanprof.h"
#include "test/hosts/host.h"

#define MIB ((size_t)1 << 20)

/* The blocks of one class; the function that makes them is on their stacks. */
struct class
{
	const char *id, *name;
	void *(*make)(size_t bytes);
	size_t bytes;
	unsigned blocks; /* number for all threads together */
};

/* The compiler must not optimize away what is written here. */
static void *volatile sink;

#define MAKE(name, call)                                                                           \
	static __attribute__((noinline)) void *name(size_t bytes)                                  \
	{                                                                                          \
		return sink = (call);                                                              \
	}

static void *aligned(size_t bytes)
{
	void *block = NULL;

	HOST_CHECK(posix_memalign(&block, 64, bytes) == 0);
	return block;
}

/* The C library's own call of malloc(): one byte more. */
static void *text_of(size_t bytes)
{
	char text[256];

	memset(text, 'x', sizeof(text));
	text[bytes - 1] = '\0';
	return strdup(text);
}

MAKE(by_malloc, malloc(bytes))
MAKE(by_calloc, calloc(bytes / 8, 8))
MAKE(by_realloc, realloc(NULL, bytes))
MAKE(by_reallocarray, reallocarray(NULL, bytes / 8, 8))
MAKE(by_posix_memalign, aligned(bytes))
MAKE(by_aligned_alloc, aligned_alloc(64, bytes))
MAKE(by_memalign, memalign(32, bytes))
MAKE(by_valloc, valloc(bytes))
MAKE(by_strdup, text_of(bytes))

static const struct class classes[] = {
	{"0000000000000001", "one byte", by_malloc, 1, 4000000},
	{"0000000000000002", "tiny", by_calloc, 24, 1000000},
	{"0000000000000003", "text", by_strdup, 100, 500000},
	{"0000000000000004", "kilobyte", by_malloc, 1000, 200000},
	{"0000000000000005", "array", by_reallocarray, 4096, 60000},
	{"0000000000000006", "buffer", by_realloc, 60000, 10000},
	{"0000000000000007", "aligned", by_posix_memalign, 4096, 60000},
	{"0000000000000008", "line", by_aligned_alloc, 128, 400000},
	{"0000000000000009", "half line", by_memalign, 96, 400000},
	{"000000000000000a", "page", by_valloc, 4096, 30000},
	{"000000000000000c", "megabyte", by_malloc, MIB, 640},
	{"000000000000000d", "large", by_malloc, 32 * MIB, 64},
	{"000000000000000e", "gigabyte", by_malloc, 1024 * MIB, 64},
};
#define CLASSES (sizeof(classes) / sizeof(classes[0]))

static unsigned threads;

static void *work(void *arg)
{
	for (size_t i = 0; i < CLASSES; i++) {
		const struct class *c = &classes[i];

		HOST_CHECK(spanprof_label_push(c->id, c->name) == 0);
		for (unsigned n = c->blocks / threads; n != 0; n--)
			free(c->make(c->bytes));
		spanprof_label_pop();
	}
	return arg;
}

static void truth(void)
{
	pthread_t thread[256];

	HOST_CHECK(threads != 0 && threads <= sizeof(thread) / sizeof(thread[0]));
	/* Sampling begins here, so that no thread allocates before it. */
	HOST_CHECK(spanprof_label_push("00000000000000ff", "begin") == 0);
	spanprof_label_pop();
	for (unsigned i = 0; i < threads; i++)
		HOST_CHECK(pthread_create(&thread[i], NULL, work, NULL) == 0);
	for (unsigned i = 0; i < threads; i++)
		HOST_CHECK(pthread_join(thread[i], NULL) == 0);
	for (size_t i = 0; i < CLASSES; i++)
		printf("%zu %u %s\n", classes[i].bytes, classes[i].blocks / threads * threads,
		       classes[i].name);
}

/* Half of the test's interval in each child. */
static const struct class in_child = {"000000000000000f", "child", by_malloc, 1024, 64};

static void children(unsigned count)
{
	/* Sampling begins here, so that a child inherits a part of the distance to the parent's next sample. */
	HOST_CHECK(spanprof_label_push("00000000000000ff", "begin") == 0);
	free(by_malloc(MIB));
	spanprof_label_pop();
	for (unsigned i = 0; i < count; i++) {
		int status;
		pid_t child = fork();

		HOST_CHECK(child >= 0);
		if (child == 0) {
			HOST_CHECK(spanprof_label_push(in_child.id, in_child.name) == 0);
			for (unsigned n = in_child.blocks; n != 0; n--)
				free(in_child.make(in_child.bytes));
			spanprof_label_pop();
			_exit(0);
		}
		HOST_CHECK(waitpid(child, &status, 0) == child && status == 0);
	}
	printf("%zu %u %s\n", in_child.bytes, in_child.blocks * count, in_child.name);
}

/* Calls before libspanprof.so knows the program, and after the program has ended. */
static char *early;

static __attribute__((constructor)) void before_main(void)
{
	early = calloc(1, MIB);
	HOST_CHECK(early != NULL);
}

static __attribute__((destructor)) void after_main(void)
{
	free(early);
	free(malloc(MIB));
}

static void *use(size_t bytes)
{
	char *block = malloc(bytes);

	HOST_CHECK(block != NULL);
	block[0] = block[bytes - 1] = 1;
	return block;
}

static void burst(void)
{
	for (int i = 0; i < 200; i++)
		free(use(64 * 1024));
}

static pthread_key_t key;

static void at_thread_end(void *block)
{
	burst();
	free(block);
}

static void *small(void *arg)
{
	HOST_CHECK(pthread_setspecific(key, use(100)) == 0);
	burst();
	return arg;
}

static void on_signal(int number)
{
	(void)number;
	burst();
}

static ucontext_t main_context, coroutine_context;

static void coroutine(void)
{
	burst();
}

static void on_stacks(void)
{
	static char stack[32768], alternate[32768];
	const stack_t given = {.ss_sp = alternate, .ss_size = sizeof(alternate)};
	struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};

	HOST_CHECK(sigaltstack(&given, NULL) == 0);
	HOST_CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
	HOST_CHECK(raise(SIGUSR1) == 0);
	HOST_CHECK(getcontext(&coroutine_context) == 0);
	coroutine_context.uc_stack = (stack_t){.ss_sp = stack, .ss_size = sizeof(stack)};
	coroutine_context.uc_link = &main_context;
	makecontext(&coroutine_context, coroutine, 0);
	HOST_CHECK(swapcontext(&main_context, &coroutine_context) == 0);
}

static void on_threads(void)
{
	pthread_t thread[8];
	pthread_attr_t attr;

	HOST_CHECK(pthread_key_create(&key, at_thread_end) == 0);
	HOST_CHECK(pthread_attr_init(&attr) == 0 && pthread_attr_setstacksize(&attr, 16384) == 0);
	for (int i = 0; i < 8; i++)
		HOST_CHECK(pthread_create(&thread[i], i % 2 ? &attr : NULL, small, NULL) == 0);
	for (int i = 0; i < 8; i++)
		HOST_CHECK(pthread_join(thread[i], NULL) == 0);
}

static void in_children(void)
{
	int status;
	pid_t child = fork();

	HOST_CHECK(child >= 0);
	if (child == 0) {
		burst();
		_exit(7);
	}
	HOST_CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
	child = vfork();
	if (child == 0)
		_exit(8);
	HOST_CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 8);
}

/* Requests that are too large or invalid are refused as usual. */
static void refused(void)
{
	void *block = &main_context;
	void *volatile p;
	volatile size_t huge = (size_t)1 << 62;

	errno = 0;
	p = malloc(huge);
	printf("malloc %p %s\n", p, strerror(errno));
	errno = 0;
	p = calloc(huge, huge);
	printf("calloc %p %s\n", p, strerror(errno));
	errno = 0;
	p = reallocarray(NULL, huge, huge);
	printf("reallocarray %p %s\n", p, strerror(errno));
	errno = 4711;
	printf("posix_memalign %d", posix_memalign(&block, 3, 100));
	printf(" %d, block %s\n", errno, block == &main_context ? "as it was" : "changed");
	p = realloc(use(MIB), 2 * MIB);
	printf("realloc %d\n", ((char *)p)[MIB - 1]);
	free(p);
	/* Other allocators do not have pvalloc(), and must not get a block of the C library's. */
	free(pvalloc(MIB));
	p = malloc(0);
	printf("nothing %d\n", p != NULL);
	free(p);
}

static void odd(void)
{
	HOST_CHECK(spanprof_label_push("00000000000000aa", "odd") != EINVAL);
	burst();
	on_stacks();
	on_threads();
	in_children();
	refused();
	spanprof_label_pop();
	puts("done");
}

static volatile int ticks;

static void on_tick(int number)
{
	(void)number;
	for (int i = 0; i < 8; i++)
		sink = malloc(1000);
	ticks++;
}

static void in_handler(void)
{
	struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
	const struct itimerval often = {{0, 200}, {0, 200}};

	HOST_CHECK(spanprof_label_push("00000000000000ab", "interrupted") == 0);
	HOST_CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	HOST_CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
	while (ticks < 500)
		sink = malloc(500);
	spanprof_label_pop();
	puts("done");
}

void free_sized(void *block, size_t bytes) __attribute__((weak));
void free_aligned_sized(void *block, size_t alignment, size_t bytes) __attribute__((weak));

static void sized(void)
{
	void *(*volatile zeroed)(size_t n, size_t size) = calloc;
	void *block;

	HOST_CHECK(spanprof_label_push("00000000000000ac", "sized") != EINVAL);
	for (int i = 0; i < 1000; i++) {
		block = i % 4 == 0   ? zeroed(64, 1024)
			: i % 4 == 1 ? realloc(NULL, 64 * 1024)
				     : use(64 * 1024);
		if (free_sized != NULL && i % 2 == 0)
			free_sized(block, 64 * 1024);
		else if (free_aligned_sized != NULL)
			free_aligned_sized(block, 16, 64 * 1024);
		else
			free(block);
	}
	spanprof_label_pop();
}

static void lost(void)
{
	HOST_CHECK(spanprof_label_push("00000000000000ad", "lost") != EINVAL);
	for (int i = 0; i < 100; i++)
		sink = use(64 * 1024);
	sink = NULL;
	spanprof_label_pop();
}

/* All blocks exist when the last threads begin to free them, and no thread allocates any more. */
static void *fill(void *barrier)
{
	enum { BLOCKS = 2000, MORE = 50000 };
	char *block[BLOCKS];

	HOST_CHECK(spanprof_label_push("00000000000000ae", "full") != EINVAL);
	for (int i = 0; i < BLOCKS; i++)
		block[i] = use(16 * 1024);
	for (int i = 0; i < MORE; i++)
		free(use(16 * 1024));
	(void)pthread_barrier_wait(barrier);
	for (int i = 0; i < BLOCKS; i++)
		free(block[i]);
	spanprof_label_pop();
	return NULL;
}

static void full(void)
{
	pthread_barrier_t barrier;
	pthread_t thread[16];

	HOST_CHECK(threads != 0 && threads <= sizeof(thread) / sizeof(thread[0]));
	HOST_CHECK(pthread_barrier_init(&barrier, NULL, threads) == 0);
	for (unsigned i = 0; i < threads; i++)
		HOST_CHECK(pthread_create(&thread[i], NULL, fill, &barrier) == 0);
	for (unsigned i = 0; i < threads; i++)
		HOST_CHECK(pthread_join(thread[i], NULL) == 0);
}

int main(int argc, char **argv)
{
	HOST_CHECK(argc >= 2);
	threads = argc == 3 ? (unsigned)atoi(argv[2]) : 0;
	if (argc == 3 && strcmp(argv[1], "truth") == 0) {
		truth();
	} else if (argc == 3 && strcmp(argv[1], "children") == 0) {
		children(threads);
	} else if (strcmp(argv[1], "full") == 0) {
		full();
	} else if (strcmp(argv[1], "odd") == 0) {
		odd();
	} else if (strcmp(argv[1], "sized") == 0) {
		sized();
	} else if (strcmp(argv[1], "lost") == 0) {
		lost();
	} else {
		HOST_CHECK(strcmp(argv[1], "handler") == 0);
		in_handler();
	}
	return 0;
}
