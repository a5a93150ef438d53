/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process from its first span to its end. Usage: life BURN_MS FORKS EXECS THREADS: that many threads wait already
 * before the first span. Prints the CPU time during its first span in ms; in us, how long that span's start and its
 * first sample took; and in us, how long a fork and an exec took until the child was waited for (medians). When its
 * standard input ends, it prints the time of CLOCK_MONOTONIC in ns and calls exit().
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define TIMES_MAX 1000

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a;
	int64_t y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static double median_us(int count, int runs_program)
{
	static int64_t took[TIMES_MAX];

	for (int i = 0; i < count; i++) {
		int64_t start = host_clock_ns(CLOCK_MONOTONIC);
		pid_t pid = fork();
		int status = -1;

		HOST_CHECK(pid >= 0);
		if (pid == 0) {
			if (runs_program)
				execl("/bin/true", "true", (char *)NULL);
			_exit(0);
		}
		HOST_CHECK(waitpid(pid, &status, 0) == pid && status == 0);
		took[i] = host_clock_ns(CLOCK_MONOTONIC) - start;
	}
	qsort(took, (size_t)count, sizeof(took[0]), by_value);
	return count > 0 ? (double)took[count / 2] / 1e3 : 0;
}

static uint64_t stack_words[16384];

static void ignore(int signal)
{
	(void)signal;
}

/* If a handler of the program runs on an alternate stack, so do the profiler's handlers. */
static void use_alternate_stack(void)
{
	stack_t other = {.ss_sp = stack_words, .ss_size = sizeof(stack_words)};
	struct sigaction action = {.sa_handler = ignore, .sa_flags = SA_ONSTACK};

	memset(stack_words, 0, sizeof(stack_words));
	HOST_CHECK(sigaltstack(&other, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
}

/*
 * Uses that much CPU time, and returns how long the first signal handler took. It reads the alternate stack again and
 * again: the time begins with the last reading that found no change, and ends after the first reading that found one.
 */
static int64_t first_handler_ns(int ms)
{
	const uint64_t *top = stack_words + sizeof(stack_words) / sizeof(stack_words[0]);
	int64_t end = host_cpu_ns() + (int64_t)ms * 1000000;
	int64_t before[2] = {0, 0};
	int64_t now, took = 0;

	do {
		uint64_t used = 0;

		for (const volatile uint64_t *word = top - 64; word < top; word++)
			used |= *word;
		now = host_cpu_ns();
		if (used != 0 && took == 0)
			took = now - before[1];
		before[1] = before[0];
		before[0] = now;
	} while (now < end);
	return took;
}

static void *wait_for_end(void *unused)
{
	pause();
	return unused;
}

static void start_threads(int count)
{
	pthread_attr_t attr;
	pthread_t thread;

	HOST_CHECK(pthread_attr_init(&attr) == 0);
	HOST_CHECK(pthread_attr_setstacksize(&attr, 65536) == 0);
	for (int i = 0; i < count; i++)
		HOST_CHECK(pthread_create(&thread, &attr, wait_for_end, NULL) == 0);
}

int main(int argc, char **argv)
{
	int64_t cpu, start, first, handler;
	double fork_us, exec_us;
	void *tracer, *span;

	HOST_CHECK(argc == 5 && atoi(argv[2]) <= TIMES_MAX && atoi(argv[3]) <= TIMES_MAX);
	otelc_init_tracer_provider("life", "1.0", "bench", "");
	tracer = otelc_get_tracer();
	start_threads(atoi(argv[4]));
	use_alternate_stack();
	cpu = host_cpu_ns();
	start = host_clock_ns(CLOCK_MONOTONIC);
	span = otelc_start_span(tracer, "first", OTELC_SPAN_KIND_SERVER, NULL);
	first = host_clock_ns(CLOCK_MONOTONIC) - start;
	handler = first_handler_ns(atoi(argv[1]));
	otelc_end_span(span);
	cpu = host_cpu_ns() - cpu;
	fork_us = median_us(atoi(argv[2]), 0);
	exec_us = median_us(atoi(argv[3]), 1);
	printf("%.3f %.1f %.1f %.1f %.1f\n", (double)cpu / 1e6, (double)first / 1e3,
	       (double)handler / 1e3, fork_us, exec_us);
	fflush(stdout);
	while (getchar() != EOF)
		;
	printf("%lld\n", (long long)host_clock_ns(CLOCK_MONOTONIC));
	fflush(stdout);
	exit(0);
}
