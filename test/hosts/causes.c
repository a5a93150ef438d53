/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three threads make requests of one name. Each request computes for 3 ms and sleeps for 4 ms. Every fifth request may be
 * slower. It then computes in inflate(), waits for a lock that a request of another name holds in bank_reserve(), sleeps in
 * backoff(), waits for a pipe in ask_pipe(), or does nothing more. Its attributes name that cause, and how long it took by
 * the thread's own clocks.
 * Usage: causes [requests of each thread]
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define THREADS 3
#define LEAST_MS 150
#define MORE_MS 150
#define NOINLINE __attribute__((noinline, noclone))

/* A function that sleeps would be the one that waits, and not its caller. */
#define SLEEP_MS(ms)                                                                               \
	do {                                                                                       \
		struct timespec ts = {(ms) / 1000, (ms) % 1000 * 1000000L};                        \
                                                                                                   \
		(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);                              \
	} while (0)

enum cause { CPU, LOCK, SLEEP, PIPE, NONE, CAUSES };
static const char *const words[CAUSES] = {"cpu", "lock", "sleep", "pipe", "none"};

static void *tracer;
static int requests = 175;
static pthread_mutex_t account = PTHREAD_MUTEX_INITIALIZER;
/* The lock and the pipe are for one slow request at a time: two would wait for each other. */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static int to_refund[2], from_refund[2], to_pipe[2], from_pipe[2];
static volatile unsigned sink;

static void send_ms(int fd, int ms)
{
	HOST_CHECK(write(fd, &ms, sizeof(ms)) == sizeof(ms));
}

static int take_ms(int fd)
{
	int ms;

	HOST_CHECK(read(fd, &ms, sizeof(ms)) == sizeof(ms));
	return ms;
}

static NOINLINE void inflate(int ms)
{
	int64_t end = host_cpu_ns() + ms * INT64_C(1000000);

	while (host_cpu_ns() < end)
		for (unsigned i = 0; i < 20000; i++)
			sink += i;
}

static NOINLINE void backoff(int ms)
{
	SLEEP_MS(ms);
	sink += 1;
}

/* It differs from backoff(), or compilers make one of both. */
static NOINLINE void bank_reserve(int ms)
{
	SLEEP_MS(ms);
	sink += 2;
}

static NOINLINE void reserve(void)
{
	HOST_CHECK(pthread_mutex_lock(&account) == 0);
	sink += 3;
	HOST_CHECK(pthread_mutex_unlock(&account) == 0);
}

static NOINLINE void ask_pipe(int ms)
{
	int answer;

	HOST_CHECK(write(to_pipe[1], &ms, sizeof(ms)) == sizeof(ms));
	HOST_CHECK(read(from_pipe[0], &answer, sizeof(answer)) == sizeof(answer));
	sink += 4;
}

static NOINLINE void usual(void)
{
	host_burn_ms(3);
	SLEEP_MS(4);
	sink += 5;
}

/* Each refund holds the lock for as long as it is told, 0 ends. */
static void *refunds(void *arg)
{
	int ms;

	(void)arg;
	while ((ms = take_ms(to_refund[0])) != 0) {
		void *span = otelc_start_span(tracer, "POST /refund", OTELC_SPAN_KIND_SERVER, NULL);

		HOST_CHECK(pthread_mutex_lock(&account) == 0);
		send_ms(from_refund[1], ms);
		bank_reserve(ms);
		HOST_CHECK(pthread_mutex_unlock(&account) == 0);
		otelc_end_span(span);
	}
	return NULL;
}

static void *answers(void *arg)
{
	int ms;

	(void)arg;
	while ((ms = take_ms(to_pipe[0])) != 0) {
		SLEEP_MS(ms);
		send_ms(from_pipe[1], ms);
	}
	return NULL;
}

static void cause_it(enum cause cause, int ms)
{
	if (cause == CPU)
		inflate(ms);
	else if (cause == LOCK)
		reserve();
	else if (cause == SLEEP)
		backoff(ms);
	else if (cause == PIPE)
		ask_pipe(ms);
}

static void serve(enum cause cause, int ms, int is_told)
{
	void *span = otelc_start_span(tracer, "checkout", OTELC_SPAN_KIND_SERVER, NULL);
	int64_t begin_ns = host_clock_ns(CLOCK_MONOTONIC), begin_cpu_ns = host_cpu_ns();
	int64_t usual_ns, usual_cpu_ns;

	usual();
	usual_ns = host_clock_ns(CLOCK_MONOTONIC);
	usual_cpu_ns = host_cpu_ns();
	cause_it(cause, ms);
	if (is_told) {
		void *map = otelc_create_attr_map();

		otelc_set_str_attr(map, "cause", words[cause]);
		otelc_set_int64_t_attr(map, "usual_ns", usual_ns - begin_ns);
		otelc_set_int64_t_attr(map, "usual_cpu_ns", usual_cpu_ns - begin_cpu_ns);
		otelc_set_int64_t_attr(map, "cause_ns", host_clock_ns(CLOCK_MONOTONIC) - usual_ns);
		otelc_set_int64_t_attr(map, "cause_cpu_ns", host_cpu_ns() - usual_cpu_ns);
		otelc_set_span_attrs(span, map);
		otelc_destroy_attr_map(map);
	}
	otelc_end_span(span);
}

static void *work(void *arg)
{
	int thread = *(const int *)arg;
	unsigned seed = 7 + (unsigned)thread;

	for (int i = 0; i < requests; i++) {
		int is_slow = i % 5 == 3;
		enum cause cause = is_slow ? (enum cause)((i / 5 + thread) % CAUSES) : NONE;
		int takes_turns = cause == LOCK || cause == PIPE;
		int ms = LEAST_MS + rand_r(&seed) % MORE_MS;

		if (takes_turns)
			HOST_CHECK(pthread_mutex_lock(&turn) == 0);
		if (cause == LOCK) {
			send_ms(to_refund[1], ms);
			(void)take_ms(from_refund[0]);
		}
		serve(cause, ms, is_slow);
		if (takes_turns)
			HOST_CHECK(pthread_mutex_unlock(&turn) == 0);
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS], refund, answer;
	int number[THREADS];

	requests = argc > 1 ? atoi(argv[1]) : requests;
	HOST_CHECK(pipe(to_refund) == 0 && pipe(from_refund) == 0);
	HOST_CHECK(pipe(to_pipe) == 0 && pipe(from_pipe) == 0);
	otelc_init_tracer_provider("causes", "1.0", "test", "");
	tracer = otelc_get_tracer();
	HOST_CHECK(pthread_create(&refund, NULL, refunds, NULL) == 0);
	HOST_CHECK(pthread_create(&answer, NULL, answers, NULL) == 0);
	for (int i = 0; i < THREADS; i++) {
		number[i] = i;
		HOST_CHECK(pthread_create(&thread[i], NULL, work, &number[i]) == 0);
	}
	for (int i = 0; i < THREADS; i++)
		HOST_CHECK(pthread_join(thread[i], NULL) == 0);
	send_ms(to_refund[1], 0);
	send_ms(to_pipe[1], 0);
	HOST_CHECK(pthread_join(refund, NULL) == 0);
	HOST_CHECK(pthread_join(answer, NULL) == 0);
	otelc_destroy_tracer_provider();
	return 0;
}
