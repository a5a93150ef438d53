/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads with spans, their own handlers, blocked signals and a forked child, without a race: a report of a thread
 * sanitizer does not concern this program. Prints the same each time.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define THREADS 6
#define SPANS 600
#define NAMES 400 /* all rounds together stay below the default limit */
#define ROUNDS 2

static void *tracer;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int counted;
static _Atomic int told;
static _Atomic int ticks;

static void on_usr1(int signo)
{
	(void)signo;
	atomic_fetch_add(&told, 1);
}

static void on_alarm(int signo)
{
	(void)signo;
	atomic_fetch_add(&ticks, 1);
}

/* All threads write the same new names at the same time, unordered until the end. */
static void *work(void *arg)
{
	const int *round = arg;
	char name[64];

	for (int i = 0; i < SPANS; i++) {
		void *span;

		(void)snprintf(name, sizeof(name), "a name that many threads write, %d %d", *round,
			       i % NAMES);
		span = otelc_start_span(tracer, name, OTELC_SPAN_KIND_INTERNAL, NULL);
		if (i % 75 == 0)
			host_burn_ms(5);
		otelc_end_span(span);
	}
	pthread_mutex_lock(&lock);
	counted += SPANS;
	pthread_mutex_unlock(&lock);
	return arg;
}

static void run_threads(int round)
{
	pthread_t threads[THREADS];

	for (int i = 0; i < THREADS; i++)
		HOST_CHECK(pthread_create(&threads[i], NULL, work, &round) == 0);
	for (int i = 0; i < 50; i++) {
		HOST_CHECK(kill(getpid(), SIGUSR1) == 0);
		usleep(500);
	}
	for (int i = 0; i < THREADS; i++)
		HOST_CHECK(pthread_join(threads[i], NULL) == 0);
}

static int pending_while_blocked(void)
{
	sigset_t all, pending;

	sigfillset(&all);
	HOST_CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
	host_burn_ms(20);
	HOST_CHECK(kill(getpid(), SIGUSR1) == 0);
	HOST_CHECK(sigpending(&pending) == 0);
	HOST_CHECK(pthread_sigmask(SIG_UNBLOCK, &all, NULL) == 0);
	return sigismember(&pending, SIGUSR1);
}

int main(void)
{
	const struct itimerval every = {{0, 5000}, {0, 5000}};
	struct sigaction sa = {.sa_handler = on_usr1, .sa_flags = SA_RESTART};
	int status = 0;
	pid_t child;

	HOST_CHECK(sigaction(SIGUSR1, &sa, NULL) == 0);
	sa.sa_handler = on_alarm;
	HOST_CHECK(sigaction(SIGALRM, &sa, NULL) == 0);
	HOST_CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
	otelc_init_tracer_provider("race_free", "1.0", "test", "");
	tracer = otelc_get_tracer();
	for (int round = 0; round < ROUNDS; round++)
		run_threads(round);
	printf("pending %d\n", pending_while_blocked());
	fflush(stdout);
	child = fork();
	HOST_CHECK(child >= 0);
	if (child == 0) {
		work(&status);
		exit(5);
	}
	HOST_CHECK(waitpid(child, &status, 0) == child);
	printf("counted %d, told %d, ticked %d, child %d\n", counted, atomic_load(&told) > 0,
	       atomic_load(&ticks) > 0, WIFEXITED(status) ? WEXITSTATUS(status) : -1);
	return 13;
}
