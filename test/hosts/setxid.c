/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that set the ids of the process again and again, to the same values, while others work in spans, and
 * threads come and go. The C library sends each thread signal 33 for each change, and waits for all of them.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define CHANGERS 3
#define WORKERS 3
#define CHANGES 15

static void *tracer;
static _Atomic bool stop;

static void *change(void *arg)
{
	uid_t real;
	uid_t effective;
	uid_t saved;

	HOST_CHECK(getresuid(&real, &effective, &saved) == 0);
	for (int i = 0; i < CHANGES; i++) {
		HOST_CHECK(seteuid(geteuid()) == 0);
		HOST_CHECK(setegid(getegid()) == 0);
		HOST_CHECK(setresuid(real, effective, saved) == 0);
	}
	return arg;
}

static void *work(void *arg)
{
	while (!atomic_load(&stop)) {
		void *span = otelc_start_span(tracer, "work", OTELC_SPAN_KIND_INTERNAL, NULL);

		host_burn_ms(5);
		otelc_end_span(span);
	}
	return arg;
}

static void *end_at_once(void *arg)
{
	return arg;
}

static void *come_and_go(void *arg)
{
	while (!atomic_load(&stop)) {
		pthread_t brief;

		HOST_CHECK(pthread_create(&brief, NULL, end_at_once, NULL) == 0);
		HOST_CHECK(pthread_join(brief, NULL) == 0);
	}
	return arg;
}

int main(void)
{
	pthread_t changer[CHANGERS];
	pthread_t other[WORKERS + 1];

	otelc_init_tracer_provider("setxid", "1.0", "test", "");
	tracer = otelc_get_tracer();
	for (int i = 0; i < WORKERS; i++)
		HOST_CHECK(pthread_create(&other[i], NULL, work, NULL) == 0);
	HOST_CHECK(pthread_create(&other[WORKERS], NULL, come_and_go, NULL) == 0);
	for (int i = 0; i < CHANGERS; i++)
		HOST_CHECK(pthread_create(&changer[i], NULL, change, NULL) == 0);
	for (int i = 0; i < CHANGERS; i++)
		HOST_CHECK(pthread_join(changer[i], NULL) == 0);
	/* some work without changes */
	host_burn_ms(200);
	atomic_store(&stop, true);
	for (int i = 0; i <= WORKERS; i++)
		HOST_CHECK(pthread_join(other[i], NULL) == 0);
	printf("changed\n");
	return 12;
}
