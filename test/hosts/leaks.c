/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates in spans and frees a part: in the span, after it, on another thread, in a child of vfork, by realloc in
 * place and moving. For each span that leaves blocks behind it prints "<bytes of a block> <how many are left>
 * <span>". One span is still open when the program ends. Usage: leaks [gone]: with "gone" all blocks are freed, some
 * profiles later.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define MIB ((size_t)1 << 20)
#define MOST 100000

static void *tracer;
static void *volatile block[MOST];
static bool frees_all;

/* The compiler must not optimize it away. */
static void *volatile sink;

static __attribute__((noinline)) void make(int n, size_t bytes)
{
	for (int i = 0; i < n; i++)
		HOST_CHECK((block[i] = malloc(bytes)) != NULL);
}

static void drop(int from, int to)
{
	for (int i = from; i < to; i++)
		free(block[i]);
}

static void again(int n, size_t bytes)
{
	for (int i = 0; i < n; i++)
		HOST_CHECK((block[i] = realloc(block[i], bytes)) != NULL);
}

static void *begin(const char *name)
{
	return otelc_start_span(tracer, name, OTELC_SPAN_KIND_SERVER, NULL);
}

static void left(void *span, const char *name, int from, int n, size_t bytes)
{
	otelc_end_span(span);
	printf("%zu %d %s\n", bytes, frees_all ? 0 : n, name);
	if (frees_all)
		drop(from, from + n);
}

static void *free_all(void *n)
{
	drop(0, *(int *)n);
	return NULL;
}

static void *in_thread(void *arg)
{
	make(40, MIB);
	return arg;
}

static void run(void *(*start)(void *arg), void *arg)
{
	pthread_t thread;

	HOST_CHECK(pthread_create(&thread, NULL, start, arg) == 0);
	HOST_CHECK(pthread_join(thread, NULL) == 0);
}

static void work(void)
{
	int all = 64, status;
	struct rlimit limit;
	void *span = begin("leaks small");

	make(MOST, 1000);
	drop(0, MOST / 2);
	left(span, "leaks small", MOST / 2, MOST / 2, 1000);

	span = begin("leaks large");
	make(all, MIB);
	left(span, "leaks large", 0, all, MIB);

	span = begin("frees");
	make(MOST, 1000);
	drop(0, MOST);
	otelc_end_span(span);

	span = begin("hands over");
	make(all, MIB);
	otelc_end_span(span);
	run(free_all, &all);

	span = begin("grows");
	make(all, 1000);
	again(all, 2 * MIB);
	left(span, "grows", 0, all, 2 * MIB);

	span = begin("shrinks");
	make(500, MIB);
	again(500, 60000);
	left(span, "shrinks", 0, 500, 60000);

	/* A refused realloc leaves the block as it was. */
	span = begin("is refused");
	make(all, MIB);
	for (int i = 0; i < all; i++) {
		volatile size_t huge = (size_t)1 << 62;

		sink = realloc(block[i], huge);
		HOST_CHECK(sink == NULL);
	}
	HOST_CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
	HOST_CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){0, limit.rlim_max}) == 0);
	sink = malloc(256 * MIB);
	HOST_CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	free(sink);
	left(span, "is refused", 0, all, MIB);

	/* A child has its own copies, even if no hook saw the fork. */
	span = begin("forks");
	make(all, MIB);
	for (int unseen = 0; unseen <= 1; unseen++) {
		status = unseen ? (int)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) : fork();
		HOST_CHECK(status >= 0);
		if (status == 0) {
			drop(0, all);
			_exit(0);
		}
		HOST_CHECK(wait(&status) > 0 && status == 0);
	}
	left(span, "forks", 0, all, MIB);

	/* A child of vfork has no copies. */
	span = begin("vforks");
	make(all, MIB);
	status = vfork();
	HOST_CHECK(status >= 0);
	if (status == 0) {
		drop(0, all);
		_exit(0);
	}
	HOST_CHECK(wait(&status) > 0 && status == 0);
	otelc_end_span(span);

	/* The thread has ended, and its blocks remain. They were allocated in no span, so no span has them. */
	run(in_thread, NULL);
	drop(0, frees_all ? 40 : 0);
}

int main(int argc, char **argv)
{
	void *span;

	(void)argv;
	frees_all = argc > 1;
	otelc_init_tracer_provider("leaks", "1.0", "test", "");
	tracer = otelc_get_tracer();
	work();
	span = begin("is open");
	make(10, MIB);
	drop(0, frees_all ? 10 : 0);
	if (frees_all)
		otelc_end_span(span);
	fflush(stdout);
	return 0;
}
