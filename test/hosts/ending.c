/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One span that uses CPU time, then the process ends in the way that its argument names. Usage: ending
 * return|exit|_exit|_Exit|quick_exit|thread_exit|handler_exit|main_thread_first|last_thread|
 *        open_span|exit_group|abort|sigterm|exec
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

static void *tracer;

static void *work(void *arg)
{
	void *span = otelc_start_span(tracer, arg, OTELC_SPAN_KIND_INTERNAL, NULL);

	host_burn_ms(200);
	otelc_end_span(span);
	return arg;
}

static void *work_and_exit(void *arg)
{
	work(arg);
	exit(45);
}

static void *work_and_leave(void *arg)
{
	work(arg);
	pthread_exit(arg);
}

static void leave_in_handler(int signo)
{
	(void)signo;
	_exit(46);
}

static pthread_t started(void *(*run)(void *), const char *name)
{
	pthread_t thread;

	HOST_CHECK(pthread_create(&thread, NULL, run, (void *)(uintptr_t)name) == 0);
	return thread;
}

static void end_by_threads(const char *how)
{
	if (strcmp(how, "thread_exit") == 0) {
		pthread_join(started(work_and_exit, "ending"), NULL);
	} else if (strcmp(how, "main_thread_first") == 0) {
		started(work, "ending");
		pthread_exit(NULL);
	} else if (strcmp(how, "last_thread") == 0) {
		/* Main and two of three threads end at different times; the third thread is the last one. */
		for (int i = 0; i < 2; i++)
			started(work, "early");
		started(work_and_leave, "ending");
		pthread_exit(NULL);
	}
}

static void end_by_signal(const char *how)
{
	if (strcmp(how, "handler_exit") == 0) {
		signal(SIGUSR1, leave_in_handler);
		raise(SIGUSR1);
	} else if (strcmp(how, "abort") == 0) {
		abort();
	} else if (strcmp(how, "sigterm") == 0) {
		raise(SIGTERM);
	}
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "return";

	otelc_init_tracer_provider("ending", "1.0", "test", "");
	tracer = otelc_get_tracer();
	if (strcmp(how, "open_span") == 0) {
		otelc_start_span(tracer, "ending", OTELC_SPAN_KIND_INTERNAL, NULL);
		host_burn_ms(200);
		return 40;
	}
	end_by_threads(how);
	work((void *)(uintptr_t) "ending");
	end_by_signal(how);
	if (strcmp(how, "exit") == 0)
		exit(41);
	if (strcmp(how, "_exit") == 0)
		_exit(42);
	if (strcmp(how, "_Exit") == 0)
		_Exit(43);
	if (strcmp(how, "quick_exit") == 0)
		quick_exit(44);
	if (strcmp(how, "exit_group") == 0)
		syscall(SYS_exit_group, 47);
	if (strcmp(how, "exec") == 0)
		execl("/bin/sh", "sh", "-c", "exit 48", (char *)NULL);
	return 40;
}
