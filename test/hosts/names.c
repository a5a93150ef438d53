/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads with names. Usage:
 *
 *	names story	names that are set before, while and after a thread is sampled, by itself or another
 *			thread, odd names, and names in a forked child
 *	names many N	N threads, one after another, each with its own name
 *
 * Prints "<nanoseconds> <name>" for each piece of work.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define SHORT_LIVED 30
#define LONG_MS 100

static void work(const char *name, int ms)
{
	int64_t before = host_cpu_ns();

	host_burn_ms(ms);
	printf("%lld %s\n", (long long)(host_cpu_ns() - before), name);
}

static void be(const char *name, int ms)
{
	HOST_CHECK(prctl(PR_SET_NAME, name) == 0);
	work(name, ms);
}

static void *pooled(void *arg)
{
	HOST_CHECK(host_wait_for(arg, 60000));
	work("pool-early", LONG_MS);
	be("pool-later", LONG_MS);
	/* No work is done under the last name. */
	be("pool-gone", 0);
	return NULL;
}

static void *short_lived(void *arg)
{
	HOST_CHECK(pthread_setname_np(pthread_self(), "short-lived") == 0);
	host_burn_ms(3);
	return arg;
}

static void *odd(void *name)
{
	be(name, LONG_MS);
	return NULL;
}

/* Another thread sets its name. */
static void *renamed(void *arg)
{
	HOST_CHECK(host_wait_for(arg, 60000));
	work("set-by-other", LONG_MS);
	return NULL;
}

static void run(void *(*start)(void *), void *arg)
{
	pthread_t thread;

	HOST_CHECK(pthread_create(&thread, NULL, start, arg) == 0);
	HOST_CHECK(pthread_join(thread, NULL) == 0);
}

static void run_odd(void)
{
	static char names[][32] = {
		"fifteen-bytes-x",             /* all that the kernel keeps */
		"latin1-caf\xe9",              /* not UTF-8 */
		"fourteen-byte-\xc3\xa4 more", /* the kernel's cut leaves half a character */
		"",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		run(odd, names[i]);
}

static void run_child(void)
{
	pid_t child;

	fflush(stdout);
	child = fork();
	HOST_CHECK(child >= 0);
	if (child == 0) {
		work("main-later", LONG_MS);
		be("child", LONG_MS);
		exit(0);
	}
	HOST_CHECK(waitpid(child, NULL, 0) == child);
}

static void tell_story(void)
{
	static volatile int go;
	static volatile int named;
	pthread_t early;
	pthread_t other;
	void *span;

	HOST_CHECK(prctl(PR_SET_NAME, "main-early") == 0);
	HOST_CHECK(pthread_create(&early, NULL, pooled, (void *)(uintptr_t)&go) == 0);
	HOST_CHECK(pthread_setname_np(early, "pool-early") == 0);
	/* Until here nothing is sampled. */
	span = otelc_start_span(otelc_get_tracer(), "story", OTELC_SPAN_KIND_INTERNAL, NULL);
	work("main-early", LONG_MS);
	be("main-later", LONG_MS);
	go = 1;
	HOST_CHECK(pthread_join(early, NULL) == 0);
	HOST_CHECK(pthread_create(&other, NULL, renamed, (void *)(uintptr_t)&named) == 0);
	HOST_CHECK(pthread_setname_np(other, "set-by-other") == 0);
	named = 1;
	HOST_CHECK(pthread_join(other, NULL) == 0);
	for (int i = 0; i < SHORT_LIVED; i++)
		run(short_lived, NULL);
	run_odd();
	run_child();
	otelc_end_span(span);
}

static void *one_of_many(void *number)
{
	char name[16];

	snprintf(name, sizeof(name), "many-%d", (int)(intptr_t)number);
	HOST_CHECK(pthread_setname_np(pthread_self(), name) == 0);
	host_burn_ms(1);
	return NULL;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	otelc_init_tracer_provider("names", "1.0", "test", "");
	if (strcmp(what, "story") == 0) {
		tell_story();
	} else if (strcmp(what, "many") == 0) {
		for (int i = 0; i < (argc > 2 ? atoi(argv[2]) : 10); i++)
			run(one_of_many, (void *)(intptr_t)i);
	} else {
		return 2;
	}
	return 0;
}
