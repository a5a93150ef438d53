/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks while another thread is inside dl_iterate_phdr(), as in programs whose threads throw exceptions or read their
 * own stacks. On request a third thread is inside dlopen(), about to change the list of loaded objects. The child
 * works, in a span that was open at the fork, in two of its own, or in none, and ends by _exit.
 * Usage: fork_list <number of children> open|own|none [<object to load>]
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

/* How often each of the two threads shall go inside, and both come out again. */
static _Atomic int loads_wanted;
static _Atomic int looks_wanted;
static _Atomic int released;
static _Atomic int inside; /* the number of threads inside */
static _Atomic bool over;
static const char *object;
static __thread bool loads;

static void linger(void)
{
	int before = atomic_load(&released);

	atomic_fetch_add(&inside, 1);
	while (atomic_load(&released) == before)
		sched_yield();
	atomic_fetch_sub(&inside, 1);
}

/* As debuggers do it: a reference to _r_debug would give the program its own copy from the start. */
static bool list_changes(void)
{
	for (const ElfW(Dyn) *d = _DYNAMIC; d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_DEBUG)
			return ((const struct r_debug *)d->d_un.d_ptr)->r_state == RT_ADD;
	return false;
}

/* The C library's function, and the function that the loader calls for the entry of a new object. */
void *__libc_calloc(size_t n, size_t size);
void *calloc(size_t n, size_t size);

void *calloc(size_t n, size_t size)
{
	if (loads && list_changes()) {
		loads = false;
		linger();
	}
	return __libc_calloc(n, size);
}

static void load(void)
{
	void *handle;

	loads = true;
	handle = dlopen(object, RTLD_NOW);
	HOST_CHECK(handle != NULL && !loads);
	HOST_CHECK(dlclose(handle) == 0);
}

static int visit(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)info;
	(void)size;
	(void)arg;
	linger();
	return 1;
}

static void look(void)
{
	dl_iterate_phdr(visit, NULL);
}

static void follow(_Atomic int *wanted, void (*go_inside)(void))
{
	struct timespec step = {0, 1000000};
	int turn = 0;

	while (!atomic_load(&over)) {
		if (atomic_load(wanted) != turn) {
			turn++;
			go_inside();
		}
		nanosleep(&step, NULL);
	}
}

static void *reader(void *arg)
{
	follow(&looks_wanted, look);
	return arg;
}

static void *loader(void *arg)
{
	follow(&loads_wanted, load);
	return arg;
}

static void send_in(_Atomic int *wanted)
{
	int more = atomic_load(&inside) + 1;

	atomic_fetch_add(wanted, 1);
	while (atomic_load(&inside) != more)
		sched_yield();
}

/* Registered before the first span: fork handlers that were registered later have run already. */
static void let_in(void)
{
	/* In this order, because the loader may have to read the list on its way in. */
	if (object != NULL)
		send_in(&loads_wanted);
	send_in(&looks_wanted);
}

static void let_out(void)
{
	atomic_fetch_add(&released, 1);
	while (atomic_load(&inside) != 0)
		sched_yield();
}

static void *start(const char *name)
{
	return otelc_start_span(otelc_get_tracer(), name, OTELC_SPAN_KIND_INTERNAL, NULL);
}

static void child(bool own_spans)
{
	for (int i = 0; own_spans && i < 2; i++)
		otelc_end_span(start("own"));
	host_burn_ms(30);
	_exit(31);
}

int main(int argc, char **argv)
{
	pthread_t thread[2];
	bool stays_open;
	void *span;

	HOST_CHECK(argc > 2);
	stays_open = strcmp(argv[2], "open") == 0;
	object = argc > 3 ? argv[3] : NULL;
	HOST_CHECK(pthread_atfork(let_in, let_out, NULL) == 0);
	HOST_CHECK(pthread_create(&thread[0], NULL, reader, NULL) == 0);
	HOST_CHECK(object == NULL || pthread_create(&thread[1], NULL, loader, NULL) == 0);
	otelc_init_tracer_provider("fork_list", "1.0", "test", "");
	span = start("parent");
	host_burn_ms(100);
	if (!stays_open)
		otelc_end_span(span);
	for (int i = atoi(argv[1]); i > 0; i--) {
		int status = 0;
		pid_t pid = fork();

		HOST_CHECK(pid >= 0);
		if (pid == 0)
			child(strcmp(argv[2], "own") == 0);
		HOST_CHECK(waitpid(pid, &status, 0) == pid);
		HOST_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 31);
		printf("%d\n", (int)pid);
	}
	atomic_store(&over, true);
	HOST_CHECK(pthread_join(thread[0], NULL) == 0);
	HOST_CHECK(object == NULL || pthread_join(thread[1], NULL) == 0);
	if (stays_open)
		otelc_end_span(span);
	return 32;
}
