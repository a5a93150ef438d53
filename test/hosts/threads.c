/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 200 threads with spans, twenty at a time, born and ended in every way there is. Prints what is left
 * behind: timers and more descriptors at the end, and by how much the mappings grew after the third wave.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <threads.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define WAVES 10
#define KINDS 5
#define PER_KIND 4

static void *tracer;
static _Atomic int detached_left;
static _Atomic int cancellable;

static void spend(const char *name)
{
	void *span = otelc_start_span(tracer, name, OTELC_SPAN_KIND_INTERNAL, NULL);

	host_burn_ms(15);
	otelc_end_span(span);
}

static void *returning(void *arg)
{
	spend("returning");
	return arg;
}

static void *leaving(void *arg)
{
	spend("leaving");
	pthread_exit(arg);
}

static void *cancelled(void *arg)
{
	/* Not ended: the span of a cancelled thread stays open for ever. */
	otelc_start_span(tracer, "cancelled", OTELC_SPAN_KIND_INTERNAL, NULL);
	host_burn_ms(15);
	atomic_fetch_add(&cancellable, 1);
	for (;;)
		pause();
	return arg;
}

static void *detached(void *arg)
{
	spend("detached");
	atomic_fetch_sub(&detached_left, 1);
	return arg;
}

static int of_c11(void *arg)
{
	spend("of C11");
	return arg != NULL;
}

struct wave {
	pthread_t joined[2 * PER_KIND];
	pthread_t cancelled[PER_KIND];
	thrd_t c11[PER_KIND];
};

static void begin(struct wave *w)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (int i = 0; i < PER_KIND; i++) {
		pthread_t unused;

		HOST_CHECK(pthread_create(&w->joined[2 * i], NULL, returning, w) == 0);
		HOST_CHECK(pthread_create(&w->joined[2 * i + 1], NULL, leaving, w) == 0);
		HOST_CHECK(pthread_create(&w->cancelled[i], NULL, cancelled, w) == 0);
		HOST_CHECK(thrd_create(&w->c11[i], of_c11, w) == thrd_success);
		atomic_fetch_add(&detached_left, 1);
		HOST_CHECK(pthread_create(&unused, &attr, detached, w) == 0);
	}
	pthread_attr_destroy(&attr);
}

static void finish(struct wave *w)
{
	void *result = NULL;
	int c11_result = 0;

	while (atomic_load(&cancellable) < PER_KIND)
		sched_yield();
	atomic_store(&cancellable, 0);
	for (int i = 0; i < PER_KIND; i++)
		HOST_CHECK(pthread_cancel(w->cancelled[i]) == 0);
	for (int i = 0; i < PER_KIND; i++) {
		HOST_CHECK(pthread_join(w->cancelled[i], &result) == 0);
		HOST_CHECK(result == PTHREAD_CANCELED);
		HOST_CHECK(thrd_join(w->c11[i], &c11_result) == thrd_success && c11_result == 1);
	}
	for (int i = 0; i < 2 * PER_KIND; i++) {
		HOST_CHECK(pthread_join(w->joined[i], &result) == 0);
		HOST_CHECK(result == w);
	}
	while (atomic_load(&detached_left) > 0)
		sched_yield();
}

/* Lines of a file that begin with those letters, -1 if there is no such file. */
static int count_lines(const char *path, const char *prefix)
{
	char line[4096];
	FILE *file = fopen(path, "re");
	int n = 0;

	if (file == NULL)
		return -1;
	while (fgets(line, sizeof(line), file) != NULL)
		n += strncmp(line, prefix, strlen(prefix)) == 0;
	fclose(file);
	return n;
}

static int count_entries(const char *path)
{
	DIR *folder = opendir(path);
	int n = 0;

	HOST_CHECK(folder != NULL);
	while (readdir(folder) != NULL)
		n++;
	closedir(folder);
	return n;
}

/* Whoever cleans up after ended threads may take a moment: the smallest number in five seconds. */
static int settled(int (*count)(void), int wanted)
{
	int64_t end = host_wall_ms() + 5000;
	struct timespec step = {0, 10000000};
	int least = count();

	while (least > wanted && host_wall_ms() < end) {
		int now;

		nanosleep(&step, NULL);
		now = count();
		least = now < least ? now : least;
	}
	return least;
}

/* Each span is an opportunity to clean up. */
static int timers(void)
{
	otelc_end_span(otelc_start_span(tracer, "settle", OTELC_SPAN_KIND_INTERNAL, NULL));
	return count_lines("/proc/self/timers", "ID:");
}

static int descriptors(void)
{
	return count_entries("/proc/self/fd");
}

static int tasks(void)
{
	return count_entries("/proc/self/task") - 2;
}

int main(void)
{
	struct wave w;
	int descriptors_before = descriptors();
	int maps_early = 0;
	int maps_late;

	otelc_init_tracer_provider("threads", "1.0", "test", "");
	tracer = otelc_get_tracer();
	spend("main");
	for (int i = 0; i < WAVES; i++) {
		begin(&w);
		finish(&w);
		if (i == 2)
			maps_early = count_lines("/proc/self/maps", "");
	}
	maps_late = count_lines("/proc/self/maps", "");
	printf("threads %d\n", WAVES * KINDS * PER_KIND);
	printf("timers %d\n", settled(timers, 0));
	printf("descriptors %d\n", settled(descriptors, descriptors_before) - descriptors_before);
	printf("tasks %d\n", settled(tasks, 1));
	printf("mappings %d\n", maps_late - maps_early);
	return 17;
}
