/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs whose handlers run on alternate stacks, in ways that a preloaded library hardly notices. Usage:
 * signal_stacks shared|raw_shared SIGNAL, tiny, raw_tiny, raw_first, disarmed
 *
 * shared: all threads have the same alternate stack, for a handler of that signal. While no handler runs, nobody may
 * write to that stack. raw_: the same, but with system calls only, like a runtime without a C library. tiny: threads
 * work on stacks that are too small for any handler, as goroutines and Erlang's processes do; the handler is set by
 * the program's own sigaction(). raw_first: only the first thread does so. disarmed: a handler works for a long time
 * on a stack that the kernel takes away from the thread meanwhile (SS_AUTODISARM).
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "test/hosts/host.h"

#define PAGE 4096U
#define STACK_BYTES (16U * PAGE)
#define THREADS 6
#define PATTERN 0x5a
#define WORK_MS 60

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31)
#endif

static bool raw;
static pthread_barrier_t barrier;
static unsigned char *shared;

static void on_signal(int signo)
{
	(void)signo;
}

#if defined(__x86_64__)
__asm__(".type back, @function\n"
	"back: movq $15, %rax\n"
	"syscall\n"
	".size back, . - back\n");
void back(void);
#define RESTORER_FLAG 0x04000000UL
#else
static void (*const back)(void);
#define RESTORER_FLAG 0UL
#endif

/* struct kernel_sigaction */
struct action {
	void (*handler)(int);
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};

static void set_by_system_call(int signo, void (*handler)(int))
{
	const struct action act = {handler, SA_ONSTACK | SA_RESTART | RESTORER_FLAG, back, 0};

	HOST_CHECK(syscall(SYS_rt_sigaction, signo, &act, NULL, sizeof(act.mask)) == 0);
}

static void handle(int signo, void (*handler)(int))
{
	struct sigaction act = {.sa_handler = handler, .sa_flags = SA_ONSTACK | SA_RESTART};

	if (raw)
		set_by_system_call(signo, handler);
	else
		HOST_CHECK(sigaction(signo, &act, NULL) == 0);
}

static void have_stack(void *at, int flags)
{
	const stack_t stack = {.ss_sp = at, .ss_size = STACK_BYTES, .ss_flags = flags};

	HOST_CHECK((raw ? (int)syscall(SYS_sigaltstack, &stack, NULL)
			: sigaltstack(&stack, NULL)) == 0);
}

static void *map(size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	HOST_CHECK(at != MAP_FAILED);
	return at;
}

static void *share(void *arg)
{
	have_stack(shared, 0);
	/* A profiler cannot know it before it has met each thread. */
	if (raw)
		host_burn_ms(WORK_MS);
	(void)pthread_barrier_wait(&barrier);
	(void)pthread_barrier_wait(&barrier);
	host_burn_ms(WORK_MS);
	return arg;
}

static void share_all(int signo)
{
	pthread_t thread[THREADS];
	size_t touched = 0;

	shared = map(STACK_BYTES);
	handle(signo, on_signal);
	HOST_CHECK(pthread_barrier_init(&barrier, NULL, THREADS + 1) == 0);
	for (int i = 0; i < THREADS; i++)
		HOST_CHECK(pthread_create(&thread[i], NULL, share, NULL) == 0);
	have_stack(shared, 0);
	host_burn_ms(raw ? WORK_MS : 1);
	(void)pthread_barrier_wait(&barrier);
	memset(shared, PATTERN, STACK_BYTES);
	(void)pthread_barrier_wait(&barrier);
	host_burn_ms(WORK_MS);
	for (int i = 0; i < THREADS; i++)
		HOST_CHECK(pthread_join(thread[i], NULL) == 0);
	for (size_t i = 0; i < STACK_BYTES; i++)
		touched += shared[i] != PATTERN;
	printf("%zu bytes of the shared stack were written\n", touched);
	HOST_CHECK(raise(signo) == 0);
}

static void work(void)
{
	host_burn_ms(WORK_MS);
}

/* An inaccessible page is below the stack. */
static void work_on_tiny_stack(void)
{
	char *base = map(2 * (size_t)PAGE);
	ucontext_t here;
	ucontext_t there;

	HOST_CHECK(mprotect(base, PAGE, PROT_NONE) == 0 && getcontext(&there) == 0);
	there.uc_stack = (stack_t){.ss_sp = base + PAGE, .ss_size = PAGE / 2};
	there.uc_link = &here;
	makecontext(&there, work, 0);
	HOST_CHECK(swapcontext(&here, &there) == 0);
}

static void *be_tiny(void *arg)
{
	have_stack(map(STACK_BYTES), 0);
	if (arg != NULL)
		host_burn_ms(WORK_MS);
	work_on_tiny_stack();
	return NULL;
}

static void be_tiny_all(void)
{
	pthread_t thread[THREADS];

	host_burn_ms(WORK_MS);
	set_by_system_call(SIGUSR1, on_signal);
	for (int i = 0; i < THREADS; i++)
		HOST_CHECK(pthread_create(&thread[i], NULL, be_tiny, NULL) == 0);
	for (int i = 0; i < THREADS; i++)
		HOST_CHECK(pthread_join(thread[i], NULL) == 0);
}

static void work_in_handler(int signo)
{
	(void)signo;
	work();
}

static void be_disarmed(void)
{
	have_stack(map(STACK_BYTES), (int)SS_AUTODISARM);
	handle(SIGUSR1, work_in_handler);
	for (int i = 0; i < 3; i++) {
		work();
		HOST_CHECK(raise(SIGUSR1) == 0);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	bool is_raw = strncmp(what, "raw_", 4) == 0;

	raw = is_raw;
	what += is_raw ? 4 : 0;
	if (strcmp(what, "shared") == 0 && argc > 2)
		share_all(atoi(argv[2]));
	else if (strcmp(what, "tiny") == 0)
		be_tiny_all();
	else if (strcmp(what, "first") == 0) {
		set_by_system_call(SIGUSR1, on_signal);
		(void)be_tiny("");
	} else if (strcmp(what, "disarmed") == 0)
		be_disarmed();
	else
		return 1;
	puts("done");
	return 19;
}
