/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that wait in known ways, in spans named after them. Prints for each name "wall" and "off" (wall less CPU
 * time) in nanoseconds by the threads' own clocks, within its spans and around them, and "interrupted": the number of
 * system calls that ended with EINTR.
 *
 * Usage: waits [TURNS [MILLISECONDS [NAME,...]]]; with the name "undumpable" all names, in a process that may not be
 * traced. Or waits TURNS MILLISECONDS crowd THREADS FILE: that many threads, which wait for each other; they begin when
 * FILE exists, which may take 30 s.
 */
#define _GNU_SOURCE
#include "test/hosts/waits.h"

#include <sys/prctl.h>

#include "test/sdk/opentelemetry_c.h"

#define OUTSIDE_MS 3

static void *tracer;

/* The threads with spans. */

struct way {
	const char *name;
	void (*wait)(struct helper *h);
	bool (*make)(struct helper *h);
	void *(*help)(void *arg);
	bool is_ready;
	struct helper helper;
	pthread_t thread;
	struct spent {
		int64_t wall;
		int64_t cpu;
		/* inside the span and around it: on a busy machine its start and end may take long */
	} in, around;
};

static struct way ways[] = {
	{.name = "sleep", .wait = wait_sleep},
	{.name = "nanosleep", .wait = wait_nanosleep},
	{.name = "alloca", .wait = wait_alloca},
	{.name = "cond", .wait = wait_cond},
	{.name = "mutex", .wait = wait_mutex, .help = hold_mutex},
	{.name = "futex", .wait = wait_futex},
	{.name = "semop", .wait = wait_semop, .make = make_semaphore, .help = raise_semaphore},
	{.name = "semtimedop", .wait = wait_semtimedop, .make = make_semaphore},
	{.name = "pipe", .wait = wait_read, .make = make_pipe, .help = feed},
	{.name = "socket", .wait = wait_recv, .make = make_connection, .help = feed},
	{.name = "timeout", .wait = wait_recv_timeout, .make = make_mute_socket},
	{.name = "connect", .wait = wait_connect, .make = make_black_hole},
	{.name = "flock", .wait = wait_flock, .make = make_file, .help = hold_file},
	{.name = "child", .wait = wait_child},
	{.name = "poll", .wait = wait_poll},
	{.name = "select", .wait = wait_select},
	{.name = "epoll", .wait = wait_epoll, .make = make_epoll},
	{.name = "fault", .wait = wait_fault, .make = make_pages, .help = fill_pages},
	{.name = "mixed", .wait = wait_mixed},
};
#define WAYS ((int)(sizeof(ways) / sizeof(ways[0])))

static struct spent now(void)
{
	return (struct spent){host_clock_ns(CLOCK_MONOTONIC), host_cpu_ns()};
}

static void add_since(struct spent *sum, struct spent begun)
{
	struct spent end = now();

	sum->wall += end.wall - begun.wall;
	sum->cpu += end.cpu - begun.cpu;
}

static void *go(void *arg)
{
	struct way *w = arg;

	for (int i = 0; i < turns; i++) {
		struct spent around;
		struct spent in;
		void *span;

		if (w->help != NULL) {
			sem_post(&w->helper.go);
			sem_wait(&w->helper.ready);
		}
		around = now();
		span = otelc_start_span(tracer, w->name, OTELC_SPAN_KIND_SERVER, NULL);
		in = now();
		w->wait(&w->helper);
		add_since(&w->in, in);
		otelc_end_span(span);
		add_since(&w->around, around);
		host_burn_ms(OUTSIDE_MS);
		pass(OUTSIDE_MS);
	}
	return NULL;
}

/* Whether that name is in the list, which has commas; NULL = all names are. */
static bool is_wanted(const char *name, const char *wanted)
{
	size_t len = strlen(name);

	if (wanted == NULL)
		return true;
	for (const char *at = wanted; at != NULL; at = strchr(at, ',')) {
		at += *at == ',';
		if (strncmp(at, name, len) == 0 && (at[len] == ',' || at[len] == '\0'))
			return true;
	}
	return false;
}

static bool prepare(struct way *w)
{
	struct helper *h = &w->helper;

	sem_init(&h->go, 0, 0);
	sem_init(&h->ready, 0, 0);
	pthread_mutex_init(&h->mutex, NULL);
	h->fd = -1;
	if (w->make != NULL && !w->make(h))
		return false;
	if (w->help != NULL)
		HOST_CHECK(pthread_create(&h->thread, NULL, w->help, h) == 0);
	return true;
}

static void print_way(const char *name, struct spent in, struct spent around)
{
	printf("wall %s %lld %lld\n", name, (long long)in.wall, (long long)around.wall);
	printf("off %s %lld %lld\n", name, (long long)(in.wall - in.cpu),
	       (long long)(around.wall - around.cpu));
}

/* Ways to wait for each other. */

/* One after the other. */
static pthread_mutex_t convoy = PTHREAD_MUTEX_INITIALIZER;

WAY static void wait_convoy(struct helper *h)
{
	struct timespec ts = span_of(wait_ms / 20);

	(void)h;
	pthread_mutex_lock(&convoy);
	(void)clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, NULL);
	pthread_mutex_unlock(&convoy);
}

/* Together with more threads than processors that do the same. */
WAY static void wait_starved(struct helper *h)
{
	(void)h;
	host_burn_ms(wait_ms / 20);
}

/* Threads of three kinds, which take the lock and the processors from each other. */
static void crowd(int threads)
{
	static const struct way kinds[] = {
		{.name = "sleep", .wait = wait_sleep},
		{.name = "convoy", .wait = wait_convoy},
		{.name = "starved", .wait = wait_starved},
	};
	struct way *all = calloc((size_t)threads, sizeof(*all));

	for (int i = 0; i < threads; i++) {
		all[i] = kinds[i % 3];
		HOST_CHECK(pthread_create(&all[i].thread, NULL, go, &all[i]) == 0);
	}
	for (int i = 0; i < threads; i++)
		pthread_join(all[i].thread, NULL);
	for (int k = 0; k < 3 && k < threads; k++) {
		struct spent in = {0, 0};
		struct spent around = {0, 0};

		for (int i = k; i < threads; i += 3) {
			in.wall += all[i].in.wall;
			in.cpu += all[i].in.cpu;
			around.wall += all[i].around.wall;
			around.cpu += all[i].around.cpu;
		}
		print_way(kinds[k].name, in, around);
	}
	free(all);
}

int main(int argc, char **argv)
{
	const char *only = argc > 3 ? argv[3] : NULL;

	turns = argc > 1 ? atoi(argv[1]) : turns;
	wait_ms = argc > 2 ? atoi(argv[2]) : wait_ms;
	if (only != NULL && strcmp(only, "undumpable") == 0) {
		HOST_CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
		only = NULL;
	}
	otelc_init_tracer_provider("waits", "1.0", "test", "");
	tracer = otelc_get_tracer();
	otelc_end_span(otelc_start_span(tracer, "first", OTELC_SPAN_KIND_INTERNAL, NULL));
	if (argc > 5) {
		host_wait_for_file(argv[5]);
		crowd(atoi(argv[4]));
		otelc_destroy_tracer_provider();
		return 0;
	}
	for (int i = 0; i < WAYS; i++)
		ways[i].is_ready = is_wanted(ways[i].name, only) && prepare(&ways[i]);
	for (int i = 0; i < WAYS; i++)
		if (ways[i].is_ready)
			HOST_CHECK(pthread_create(&ways[i].thread, NULL, go, &ways[i]) == 0);
	for (int i = 0; i < WAYS; i++) {
		struct way *w = &ways[i];

		if (!w->is_ready)
			continue;
		pthread_join(w->thread, NULL);
		print_way(w->name, w->in, w->around);
	}
	(void)unlink(lock_path);
	otelc_destroy_tracer_provider();
	printf("interrupted %d\n", interrupted);
	return 0;
}
