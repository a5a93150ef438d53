/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host whose active spans another process reads.
 *
 *   context flip          eight threads start and end a span and a span in it, as fast as they can,
 *                         until standard input ends. Prints "truth <address of struct truth[8]>".
 *   context steps         makes one step for each byte on standard input and then prints a
 *                         word: begun, span (open), none (ended), forked <child's pid>, child-span,
 *                         child-none, inner <pid of a child that was forked inside of a span>, still, ended.
 *   context other         the same with a process context of its own, made before the first span.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/context/truth.h"
#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

static void *tracer;
static struct truth truth[TRUTH_THREADS];
static _Atomic int stopping;

static void *start(const char *name)
{
	return otelc_start_span(tracer, name, OTELC_SPAN_KIND_INTERNAL, NULL);
}

/* The reader stops the thread first, so only the compiler could reorder. */
static void say(struct truth *t, uint32_t open)
{
	atomic_signal_fence(memory_order_seq_cst);
	atomic_store_explicit(&t->open, open, memory_order_relaxed);
	atomic_fetch_add_explicit(&t->changes, 1, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
}

/* As long as a system call takes, so that a stop often comes here. */
static void dwell(void)
{
	for (volatile unsigned i = 0; i < 500; i++)
		;
}

static void flip(struct truth *t)
{
	void *outer;
	void *inner;

	say(t, TRUTH_CHANGING);
	outer = start("outer");
	say(t, 1);
	dwell();
	say(t, 1 | TRUTH_CHANGING);
	inner = start("inner");
	say(t, 2);
	dwell();
	say(t, 2 | TRUTH_CHANGING);
	otelc_end_span(inner);
	say(t, 1);
	dwell();
	say(t, 1 | TRUTH_CHANGING);
	otelc_end_span(outer);
	say(t, 0);
	dwell();
}

static void *run(void *arg)
{
	struct truth *t = arg;

	/* Publishing begins with the first span, before which say() means nothing. */
	say(t, TRUTH_CHANGING);
	otelc_end_span(start("first"));
	otelc_end_span(start("second"));
	atomic_store(&t->tid, (uint32_t)gettid());
	while (!atomic_load_explicit(&stopping, memory_order_relaxed))
		flip(t);
	return NULL;
}

static void wait_for_end(void)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
}

static int flip_all(void)
{
	pthread_t thread[TRUTH_THREADS];

	otelc_end_span(start("main"));
	for (int i = 0; i < TRUTH_THREADS; i++)
		HOST_CHECK(pthread_create(&thread[i], NULL, run, &truth[i]) == 0);
	for (int i = 0; i < TRUTH_THREADS; i++)
		while (atomic_load(&truth[i].tid) == 0)
			sched_yield();
	dprintf(STDOUT_FILENO, "truth %p\n", (void *)truth);
	wait_for_end();
	atomic_store(&stopping, 1);
	for (int i = 0; i < TRUTH_THREADS; i++)
		HOST_CHECK(pthread_join(thread[i], NULL) == 0);
	return 31;
}

static void step(const char *word, int pid)
{
	char byte;

	if (pid != 0)
		dprintf(STDOUT_FILENO, "%s %d\n", word, pid);
	else
		dprintf(STDOUT_FILENO, "%s\n", word);
	if (read(STDIN_FILENO, &byte, 1) != 1)
		exit(98);
}

static void child(void)
{
	void *span;

	step("forked", (int)getpid());
	span = start("of child");
	step("child-span", 0);
	otelc_end_span(span);
	step("child-none", 0);
	_exit(0);
}

static void wait_for(pid_t pid)
{
	int status = 0;

	HOST_CHECK(waitpid(pid, &status, 0) == pid);
	HOST_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static int steps(void)
{
	void *span;
	pid_t pid;

	step("begun", (int)getpid());
	span = start("outer");
	step("span", 0);
	otelc_end_span(span);
	step("none", 0);
	pid = fork();
	if (pid == 0)
		child();
	wait_for(pid);
	span = start("around fork");
	pid = fork();
	if (pid == 0) {
		step("inner", (int)getpid());
		_exit(0);
	}
	wait_for(pid);
	step("still", 0);
	otelc_end_span(span);
	step("ended", 0);
	return 32;
}

#define OTHER_BYTES 4096

/* As OTEP 4719 says, with a payload of one byte that no reader understands. */
static void publish_other(void)
{
	int fd = (int)syscall(SYS_memfd_create, "OTEL_CTX", 0);
	char *at;
	uint32_t word = 2;
	uint64_t time = 1;
	uint64_t payload;

	HOST_CHECK(fd >= 0 && ftruncate(fd, OTHER_BYTES) == 0);
	at = mmap(NULL, OTHER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	HOST_CHECK(at != MAP_FAILED);
	close(fd);
	payload = (uint64_t)(uintptr_t)at + 32;
	memcpy(at, "OTEL_CTX", 8);
	memcpy(at + 8, &word, 4);
	word = 1;
	memcpy(at + 12, &word, 4);
	memcpy(at + 24, &payload, 8);
	memcpy(at + 16, &time, 8);
	prctl(0x53564d41, 0, at, OTHER_BYTES, "OTEL_CTX");
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	otelc_init_tracer_provider("context", "1.0", "test", "");
	tracer = otelc_get_tracer();
	if (strcmp(what, "flip") == 0)
		return flip_all();
	if (strcmp(what, "other") == 0)
		publish_other();
	return steps();
}
