/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with the classic signal thread: every signal is blocked in every thread, and one thread waits for all of
 * them. It works between its waits, inside a span, so that a profiler's signal is likely to be pending when it waits.
 * Prints the results of the waits.
 * Usage: blocked sigwait|ppoll
 */
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define ROUNDS 8

static const char *how;
static void *tracer;
static sigset_t all;
static volatile int stop;

static void spend(const char *name, int ms)
{
	void *span = otelc_start_span(tracer, name, OTELC_SPAN_KIND_INTERNAL, NULL);

	host_burn_ms(ms);
	otelc_end_span(span);
}

static void *keep_busy(void *arg)
{
	while (!stop)
		spend("busy", 20);
	return arg;
}

/* No signal is pending, and a wait with a deadline ends on time, without a signal. */
static void wait_for_nothing(void)
{
	struct timespec soon = {0, 100000000};
	int64_t began = host_wall_ms();
	int signo = sigtimedwait(&all, NULL, &soon);

	printf("idle wait: %d %s, %s\n", signo, signo < 0 ? strerror(errno) : "",
	       host_wall_ms() - began < 90 ? "too early" : "in time");
}

static void *take_signals(void *arg)
{
	int signo;

	for (int i = 0; i < ROUNDS; i++) {
		spend("between waits", 50);
		wait_for_nothing();
		spend("between waits", 50);
		kill(getpid(), i % 2 == 0 ? SIGUSR1 : SIGTERM);
		HOST_CHECK(sigwait(&all, &signo) == 0);
		printf("took %d\n", signo);
	}
	stop = 1;
	return arg;
}

/* An ordinary loop that waits for input with its own signal mask. */
static void poll_with_mask(void)
{
	struct timespec soon = {0, 50000000};
	sigset_t none;

	sigemptyset(&none);
	for (int i = 0; i < ROUNDS; i++) {
		spend("before poll", 50);
		printf("ppoll: %d\n", ppoll(NULL, 0, &soon, &none));
	}
}

int main(int argc, char **argv)
{
	pthread_t busy;
	pthread_t taker;

	how = argc > 1 ? argv[1] : "sigwait";
	sigfillset(&all);
	HOST_CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
	otelc_init_tracer_provider("blocked", "1.0", "test", "");
	tracer = otelc_get_tracer();
	if (strcmp(how, "ppoll") == 0) {
		poll_with_mask();
		return 13;
	}
	HOST_CHECK(pthread_create(&busy, NULL, keep_busy, NULL) == 0);
	HOST_CHECK(pthread_create(&taker, NULL, take_signals, NULL) == 0);
	pthread_join(taker, NULL);
	pthread_join(busy, NULL);
	return 13;
}
