/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host with a limit of LIMIT pending signals (ulimit -S -i), which needs all of them: it has many threads, and
 * timers and queued signals of its own, and must get every signal. Usage:
 *
 *	pending		prints the numbers that it got
 *	pending FILE	also waits until the profiler has made the missing timers: for the threads that
 *			had none, once others have ended, and once the limit is raised. Writes to FILE
 *			whether they came.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define LIMIT 40
#define THREADS 30
#define EARLY 20 /* threads that end first */
#define OWN_TIMERS 8
#define OWN_SIGNALS 10

static sem_t go[2];
static sem_t started;

static void *wait_and_work(void *arg)
{
	sem_post(&started);
	while (sem_wait(arg) != 0)
		continue;
	host_burn_ms(arg == &go[1] ? 30 : 1);
	return NULL;
}

static sigset_t own_signal(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 2);
	return set;
}

static void use_own(void)
{
	timer_t timer[OWN_TIMERS];
	struct timespec now = {0, 0};
	struct sigevent event;
	int timers = 0;
	int queued = 0;
	int taken = 0;
	sigset_t set = own_signal();

	memset(&event, 0, sizeof(event));
	event.sigev_notify = SIGEV_SIGNAL;
	event.sigev_signo = SIGRTMIN + 2;
	while (timers < OWN_TIMERS && timer_create(CLOCK_MONOTONIC, &event, &timer[timers]) == 0)
		timers++;
	for (int i = 0; i < OWN_SIGNALS; i++)
		queued += sigqueue(getpid(), SIGRTMIN + 2, (union sigval){.sival_int = i}) == 0;
	while (sigtimedwait(&set, NULL, &now) > 0)
		taken++;
	printf("%d timers, %d signals queued, %d taken\n", timers, queued, taken);
	while (timers > 0)
		HOST_CHECK(timer_delete(timer[--timers]) == 0);
}

static int timers(void)
{
	FILE *file = fopen("/proc/self/timers", "re");
	char line[256];
	int n = 0;

	HOST_CHECK(file != NULL);
	while (fgets(line, sizeof(line), file) != NULL)
		n += strncmp(line, "ID:", 3) == 0;
	fclose(file);
	return n;
}

static void expect_timers(FILE *report, const char *when, int wanted)
{
	int64_t end = host_wall_ms() + 20000;
	struct timespec step = {0, 10000000};
	int have;

	if (report == NULL)
		return;
	/* each span lets the profiler check the threads */
	while ((have = timers()) != wanted && host_wall_ms() < end) {
		otelc_end_span(otelc_start_span(otelc_get_tracer(), "look",
						OTELC_SPAN_KIND_INTERNAL, NULL));
		nanosleep(&step, NULL);
	}
	fprintf(report, "%s %d\n", when, have);
	fflush(report);
}

static void start(pthread_t *thread, int n)
{
	for (int i = 0; i < n; i++)
		HOST_CHECK(pthread_create(&thread[i], NULL, wait_and_work, &go[i >= EARLY]) == 0);
	/* Each thread has begun, so the profiler has done its work for a new thread. */
	for (int i = 0; i < n; i++)
		while (sem_wait(&started) != 0)
			continue;
}

static void release(sem_t *sem, int n)
{
	while (n-- > 0)
		sem_post(sem);
}

static void join(const pthread_t *thread, int n)
{
	for (int i = 0; i < n; i++)
		HOST_CHECK(pthread_join(thread[i], NULL) == 0);
}

int main(int argc, char **argv)
{
	FILE *report = argc > 1 ? fopen(argv[1], "we") : NULL;
	struct rlimit limit;
	pthread_t thread[THREADS];
	pthread_t more[THREADS];
	sigset_t set = own_signal();

	HOST_CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
	HOST_CHECK(getrlimit(RLIMIT_SIGPENDING, &limit) == 0 && limit.rlim_cur == LIMIT);
	sem_init(&started, 0, 0);
	sem_init(&go[0], 0, 0);
	sem_init(&go[1], 0, 0);
	otelc_init_tracer_provider("pending", "1.0", "test", "");
	otelc_start_span(otelc_get_tracer(), "open", OTELC_SPAN_KIND_INTERNAL, NULL);
	start(thread, THREADS);
	expect_timers(report, "at first", LIMIT / 2);
	use_own();
	release(&go[0], EARLY);
	join(thread, EARLY);
	/* the other threads, and this one */
	expect_timers(report, "others ended", THREADS - EARLY + 1);
	start(more, THREADS);
	expect_timers(report, "more", LIMIT / 2);
	use_own();
	limit.rlim_cur = limit.rlim_max;
	HOST_CHECK(setrlimit(RLIMIT_SIGPENDING, &limit) == 0);
	expect_timers(report, "limit raised", THREADS - EARLY + THREADS + 1);
	release(&go[0], EARLY);
	release(&go[1], 2 * (THREADS - EARLY));
	join(thread + EARLY, THREADS - EARLY);
	join(more, THREADS);
	return 0;
}
