/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that wait in known ways, in spans named after them. Prints for each name "wall" and "off" (wall less
 * CPU time) in nanoseconds as the threads' own clocks have it, within its spans and around them, and
 * "interrupted": system calls that ended with EINTR.
 *
 * Usage: waits [TURNS [MILLISECONDS [NAME]]], or with the name "undumpable" all of them, in a process that may
 * not be traced; or waits TURNS MILLISECONDS crowd THREADS: so many threads, which wait for each other.
 */
#define _GNU_SOURCE
#include <alloca.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define OUTSIDE_MS 3

extern char **environ;

static void *tracer;
static int turns = 4;
static int wait_ms = 200;
static _Atomic int interrupted;

/* Whoever a thread waits for: does its work when told to. */
struct helper {
	pthread_t thread;
	sem_t go;
	sem_t ready;
	int fd;
	pthread_mutex_t mutex;
};

static struct timespec span_of(int ms)
{
	return (struct timespec){ms / 1000, ms % 1000 * 1000000L};
}

static void pass(int ms)
{
	struct timespec ts = span_of(ms);

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &ts, &ts) == EINTR)
		interrupted++;
}

static void count(long result)
{
	if (result < 0 && errno == EINTR)
		interrupted++;
	HOST_CHECK(result >= 0);
}

/* The ways to wait */

#define WAY __attribute__((noinline))

WAY static void wait_sleep(struct helper *h)
{
	(void)h;
	pass(wait_ms);
}

/* Its frame hangs on the frame pointer. */
WAY static void sleep_in_alloca(int bytes)
{
	volatile char *room = alloca((size_t)bytes);

	room[0] = 1;
	pass(wait_ms);
	room[bytes - 1] = 1;
}

WAY static void wait_alloca(struct helper *h)
{
	sleep_in_alloca(200 + (h == NULL));
	__asm__ volatile(""); /* no tail call */
}

WAY static void wait_cond(struct helper *h)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
	struct timespec end;
	int64_t ns = host_clock_ns(CLOCK_REALTIME) + (int64_t)wait_ms * 1000000;

	(void)h;
	end = (struct timespec){ns / 1000000000, ns % 1000000000};
	pthread_mutex_lock(&mutex);
	while (pthread_cond_timedwait(&cond, &mutex, &end) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&mutex);
}

WAY static void wait_mutex(struct helper *h)
{
	pthread_mutex_lock(&h->mutex);
	pthread_mutex_unlock(&h->mutex);
}

WAY static void wait_read(struct helper *h)
{
	char byte;

	count(read(h->fd, &byte, 1));
}

WAY static void wait_recv(struct helper *h)
{
	char byte;

	count(recv(h->fd, &byte, 1, 0));
}

WAY static void wait_flock(struct helper *h)
{
	count(flock(h->fd, LOCK_EX));
	count(flock(h->fd, LOCK_UN));
}

WAY static void wait_child(struct helper *h)
{
	char text[16];
	char *argv[] = {"sleep", text, NULL};
	pid_t pid;

	(void)h;
	(void)snprintf(text, sizeof(text), "%d.%03d", wait_ms / 1000, wait_ms % 1000);
	HOST_CHECK(posix_spawnp(&pid, "sleep", NULL, NULL, argv, environ) == 0);
	count(waitpid(pid, NULL, 0));
}

WAY static void wait_poll(struct helper *h)
{
	struct pollfd p = {.fd = h->fd, .events = POLLPRI};

	count(poll(&p, 1, wait_ms));
}

WAY static void wait_select(struct helper *h)
{
	struct timeval tv = {wait_ms / 1000, wait_ms % 1000 * 1000};

	(void)h;
	count(select(0, NULL, NULL, NULL, &tv));
}

WAY static void wait_epoll(struct helper *h)
{
	struct epoll_event event;

	count(epoll_wait(h->fd, &event, 1, wait_ms));
}

/* A quarter of it in three places each, one of them computing. */
WAY static void wait_mixed(struct helper *h)
{
	int ms = wait_ms;

	(void)h;
	host_burn_ms(ms / 4);
	pass(ms / 2);
	host_burn_ms(ms / 4);
}

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

/* With more threads than processors that do the same. */
WAY static void wait_starved(struct helper *h)
{
	(void)h;
	host_burn_ms(wait_ms / 20);
}

/* What the helpers do meanwhile */

static void write_byte(struct helper *h, int fd)
{
	char byte = 'x';

	sem_post(&h->ready);
	pass(wait_ms);
	HOST_CHECK(write(fd, &byte, 1) == 1);
}

static int other_end[2];

static void *feed_pipe(void *arg)
{
	struct helper *h = arg;

	for (int i = 0; i < turns; i++) {
		sem_wait(&h->go);
		write_byte(h, other_end[0]);
	}
	return NULL;
}

static void *feed_socket(void *arg)
{
	struct helper *h = arg;

	for (int i = 0; i < turns; i++) {
		sem_wait(&h->go);
		write_byte(h, other_end[1]);
	}
	return NULL;
}

static void *hold_mutex(void *arg)
{
	struct helper *h = arg;

	for (int i = 0; i < turns; i++) {
		sem_wait(&h->go);
		pthread_mutex_lock(&h->mutex);
		sem_post(&h->ready);
		pass(wait_ms);
		pthread_mutex_unlock(&h->mutex);
	}
	return NULL;
}

static char lock_path[] = "/tmp/waits.XXXXXX";

static void *hold_file(void *arg)
{
	struct helper *h = arg;
	int fd = open(lock_path, O_RDWR | O_CLOEXEC);

	HOST_CHECK(fd >= 0);
	for (int i = 0; i < turns; i++) {
		sem_wait(&h->go);
		HOST_CHECK(flock(fd, LOCK_EX) == 0);
		sem_post(&h->ready);
		pass(wait_ms);
		HOST_CHECK(flock(fd, LOCK_UN) == 0);
	}
	return NULL;
}

/* The threads with spans */

struct way {
	const char *name;
	void (*wait)(struct helper *h);
	void *(*help)(void *arg);
	struct helper helper;
	pthread_t thread;
	struct spent {
		int64_t wall;
		int64_t cpu;
	} in, around; /* the span: a busy machine may take long for its start and end */
};

static struct way ways[] = {
	{.name = "sleep", .wait = wait_sleep},
	{.name = "alloca", .wait = wait_alloca},
	{.name = "cond", .wait = wait_cond},
	{.name = "mutex", .wait = wait_mutex, .help = hold_mutex},
	{.name = "pipe", .wait = wait_read, .help = feed_pipe},
	{.name = "socket", .wait = wait_recv, .help = feed_socket},
	{.name = "flock", .wait = wait_flock, .help = hold_file},
	{.name = "child", .wait = wait_child},
	{.name = "poll", .wait = wait_poll},
	{.name = "select", .wait = wait_select},
	{.name = "epoll", .wait = wait_epoll},
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

/* A connection over the loopback device; the port is printed, as it is in the names of waits. */
static void connect_socket(struct helper *h)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	socklen_t len = sizeof(a);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	HOST_CHECK(bind(listener, (struct sockaddr *)&a, sizeof(a)) == 0);
	HOST_CHECK(listen(listener, 1) == 0);
	HOST_CHECK(getsockname(listener, (struct sockaddr *)&a, &len) == 0);
	h->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	HOST_CHECK(connect(h->fd, (struct sockaddr *)&a, sizeof(a)) == 0);
	other_end[1] = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	HOST_CHECK(other_end[1] >= 0);
	printf("port %d\n", ntohs(a.sin_port));
}

static void prepare(void)
{
	int fd[2];

	for (int i = 0; i < WAYS; i++) {
		struct helper *h = &ways[i].helper;

		sem_init(&h->go, 0, 0);
		sem_init(&h->ready, 0, 0);
		pthread_mutex_init(&h->mutex, NULL);
		h->fd = -1;
		if (ways[i].wait == wait_read) {
			HOST_CHECK(pipe2(fd, O_CLOEXEC) == 0);
			h->fd = fd[0];
			other_end[0] = fd[1];
		} else if (ways[i].wait == wait_recv) {
			connect_socket(h);
		} else if (ways[i].wait == wait_flock) {
			h->fd = mkostemp(lock_path, O_CLOEXEC);
		} else if (ways[i].wait == wait_epoll) {
			h->fd = epoll_create1(EPOLL_CLOEXEC);
		}
		if (ways[i].help != NULL)
			HOST_CHECK(pthread_create(&h->thread, NULL, ways[i].help, h) == 0);
	}
}

static void print_way(const char *name, struct spent in, struct spent around)
{
	printf("wall %s %lld %lld\n", name, (long long)in.wall, (long long)around.wall);
	printf("off %s %lld %lld\n", name, (long long)(in.wall - in.cpu),
	       (long long)(around.wall - around.cpu));
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
	for (int k = 0; k < 3; k++) {
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
	if (argc > 4) {
		crowd(atoi(argv[4]));
		otelc_destroy_tracer_provider();
		return 0;
	}
	prepare();
	for (int i = 0; i < WAYS; i++)
		if (only == NULL || strcmp(only, ways[i].name) == 0)
			HOST_CHECK(pthread_create(&ways[i].thread, NULL, go, &ways[i]) == 0);
	for (int i = 0; i < WAYS; i++) {
		struct way *w = &ways[i];

		if (w->thread == 0)
			continue;
		pthread_join(w->thread, NULL);
		print_way(w->name, w->in, w->around);
	}
	(void)unlink(lock_path);
	otelc_destroy_tracer_provider();
	printf("interrupted %d\n", interrupted);
	return 0;
}
