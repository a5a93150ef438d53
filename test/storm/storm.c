/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that is known to upset profilers, at the same time, each on its own thread, for a number of seconds.
 * Each thread counts its rounds. The initial thread watches, and ends the process with status 98 and the thread's
 * name if a thread makes no progress for a long time. At the end nothing may be left: children, timers, descriptors,
 * mappings, queued signals.
 * Usage: storm <seconds> <plugin to open and close> <signal number>
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/storm/workers.h"

/* Also on a machine with one core for ten threads, and with sanitizers. */
#define STUCK_MS 60000

_Atomic int storm_stop;
const char *storm_plugin;
int storm_signal;

struct worker {
	const char *name;
	void (*round)(void);
	pthread_t thread;
	_Atomic long beats;
};

#define ROW_(id) {.name = #id, .round = storm_##id},
static struct worker workers[] = {FOR_EACH_WORKER(ROW_)};
#define WORKERS (sizeof(workers) / sizeof(workers[0]))

static void *run(void *arg)
{
	struct worker *w = arg;

	while (!atomic_load(&storm_stop)) {
		w->round();
		atomic_fetch_add(&w->beats, 1);
	}
	return NULL;
}

static void watch(int64_t end)
{
	long last[WORKERS] = {0};
	int64_t since[WORKERS];
	struct timespec step = {0, 50000000};

	for (size_t i = 0; i < WORKERS; i++)
		since[i] = host_wall_ms();
	while (host_wall_ms() < end) {
		nanosleep(&step, NULL);
		for (size_t i = 0; i < WORKERS; i++) {
			long now = atomic_load(&workers[i].beats);

			if (now != last[i])
				since[i] = host_wall_ms();
			last[i] = now;
			if (host_wall_ms() - since[i] > STUCK_MS) {
				fprintf(stderr, "%s is stuck after %ld rounds\n", workers[i].name,
					now);
				_exit(98);
			}
		}
	}
}

static long lines(const char *path, const char *prefix, int field)
{
	char line[4096];
	FILE *file = fopen(path, "re");
	long n = 0;

	if (file == NULL)
		return -1;
	while (fgets(line, sizeof(line), file) != NULL) {
		if (strncmp(line, prefix, strlen(prefix)) == 0)
			n += field ? atol(line + strlen(prefix)) : 1;
	}
	fclose(file);
	return n;
}

static long entries(const char *path)
{
	DIR *folder = opendir(path);
	long n = 0;

	HOST_CHECK(folder != NULL);
	while (readdir(folder) != NULL)
		n++;
	closedir(folder);
	return n - 3;
}

static long timers(void)
{
	return lines("/proc/self/timers", "ID:", 0);
}

static long descriptors(void)
{
	return entries("/proc/self/fd");
}

static long mappings(void)
{
	return lines("/proc/self/maps", "", 0);
}

/* All workers have waited for their children, so any remaining child, dead or alive, is a foreign one. */
static long children(void)
{
	return waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD ? 0 : 1;
}

/* The queued signals of the user in this user namespace, including timers and other processes'. */
static long queued(void)
{
	return lines("/proc/self/status", "SigQ:\t", 1);
}

static void *nothing(void *arg)
{
	return arg;
}

/* A library that cleans up behind ended threads may do so when the next thread begins. */
static void begin_thread(void)
{
	pthread_t thread;

	HOST_CHECK(pthread_create(&thread, NULL, nothing, NULL) == 0);
	HOST_CHECK(pthread_join(thread, NULL) == 0);
}

/*
 * Waits until count() is at most `wanted`, or for 100 s, and returns the least number. The exporter looks for ended
 * threads each second; after many searches in vain, as with threads that block our signal, only every 33 seconds. In
 * a long storm it may be stopped for a minute.
 */
static long settled(long (*count)(void), long wanted)
{
	int64_t end = host_wall_ms() + 100000;
	struct timespec step = {0, 20000000};
	long least = count();

	while (least > wanted && host_wall_ms() < end) {
		long now;

		nanosleep(&step, NULL);
		begin_thread();
		now = count();
		least = now < least ? now : least;
	}
	return least;
}

int main(int argc, char **argv)
{
	int64_t begin = host_wall_ms();
	int64_t end;
	long early;
	long fds = descriptors();
	long queue = queued();

	HOST_CHECK(argc > 3);
	end = begin + 1000 * (int64_t)atoi(argv[1]);
	storm_plugin = argv[2];
	storm_signal = atoi(argv[3]);
	for (size_t i = 0; i < WORKERS; i++)
		HOST_CHECK(pthread_create(&workers[i].thread, NULL, run, &workers[i]) == 0);
	watch(begin + (end - begin) / 4);
	early = mappings();
	watch(end);
	atomic_store(&storm_stop, 1);
	for (size_t i = 0; i < WORKERS; i++)
		HOST_CHECK(pthread_join(workers[i].thread, NULL) == 0);
	for (size_t i = 0; i < WORKERS; i++)
		printf("beats %s %ld\n", workers[i].name, atomic_load(&workers[i].beats));
	printf("children %ld\n", children());
	printf("pid %d\n", getpid());
	/* one belongs to the initial thread */
	printf("timers %ld\n", settled(timers, 1));
	printf("descriptors %ld\n", settled(descriptors, fds) - fds);
	printf("mappings %ld\n", settled(mappings, early) - early);
	printf("queued %ld\n", settled(queued, queue) - queue);
	return 23;
}
