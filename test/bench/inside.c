/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded before a profiler: accounts for what the profiler does inside its host. Its signal handler
 * is called from one of ours, between two looks at the thread's CPU clock, and at the end of the
 * process the clocks of all threads but the first are read, the profiler's own in a host that has one
 * thread, and that of the process which has mapped the same memory of the profiler's. Appends to the file BENCH_INSIDE a line "signals handler_ns delivery_ns others_ns". Context:
 * test. Caller: cpu.c.
 *
 * Delivery is what the kernel takes to interrupt a thread and to go on with it. It is measured by
 * signals that the process sends to itself, to a handler that does nothing.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LOOKS 1001
#define DELIVERIES 20000

typedef void (*handler_fn)(int signo, siginfo_t *info, void *context);
typedef int (*sigaction_fn)(int signo, const struct sigaction *act, struct sigaction *old);

static handler_fn profiler;
static uint64_t signals, handler_ns;

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t = {0};

	(void)clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static void timed(int signo, siginfo_t *info, void *context)
{
	uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);

	profiler(signo, info, context);
	handler_ns += clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
	signals++;
}

static bool is_profiler(const struct sigaction *act)
{
	Dl_info where;
	void *at;

	memcpy(&at, &act->sa_sigaction, sizeof(at));
	return act->sa_handler != SIG_DFL && act->sa_handler != SIG_IGN &&
	       dladdr(at, &where) != 0 &&
	       (strstr(where.dli_fname, "libspanprof") != NULL ||
		strstr(where.dli_fname, "libprofiler") != NULL);
}

/* The profiler sees its own handler, as it would without us. */
static int pass_on(const char *name, int signo, const struct sigaction *act, struct sigaction *old)
{
	void *symbol = dlsym(RTLD_NEXT, name);
	struct sigaction mine;
	sigaction_fn next;
	int rc;

	memcpy(&next, &symbol, sizeof(next));
	if (act != NULL && is_profiler(act)) {
		profiler = act->sa_sigaction;
		mine = *act;
		mine.sa_sigaction = timed;
		act = &mine;
	}
	rc = next(signo, act, old);
	if (rc == 0 && old != NULL && old->sa_sigaction == timed)
		old->sa_sigaction = profiler;
	return rc;
}

int sigaction(int signo, const struct sigaction *act, struct sigaction *old)
{
	return pass_on("sigaction", signo, act, old);
}

/* Under this name we are not hooked by ourselves. */
int __sigaction(int signo, const struct sigaction *act, struct sigaction *old);
int __sigaction(int signo, const struct sigaction *act, struct sigaction *old)
{
	return pass_on("__sigaction", signo, act, old);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* What the two looks at the clock add to what is between them. */
static uint64_t look_ns(void)
{
	static uint64_t took[LOOKS];

	for (unsigned i = 0; i < LOOKS; i++) {
		uint64_t begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);

		took[i] = clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
	}
	qsort(took, LOOKS, sizeof(took[0]), by_value);
	return took[LOOKS / 2];
}

static void nothing(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)info;
	(void)context;
}

static uint64_t delivery_ns(void)
{
	struct sigaction act = {.sa_flags = SA_SIGINFO | SA_RESTART};
	uint64_t begin;
	void *symbol = dlsym(RTLD_NEXT, "__sigaction");
	sigaction_fn set;

	memcpy(&set, &symbol, sizeof(set));
	act.sa_sigaction = nothing;
	if (set(SIGUSR2, &act, NULL) != 0)
		return 0;
	begin = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	for (unsigned i = 0; i < DELIVERIES; i++)
		(void)syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), SIGUSR2);
	return (clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin) / DELIVERIES;
}

/* The clock of any thread of the process, by its number (Linux: posix-timers.h, CPUCLOCK_SCHED). */
static clockid_t clock_of(pid_t tid)
{
	return (clockid_t)(~(unsigned)tid << 3 | 6U);
}

static uint64_t others_ns(void)
{
	DIR *dir = opendir("/proc/self/task");
	uint64_t sum = 0;

	for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
		pid_t tid = (pid_t)atoi(e->d_name);

		if (tid != 0 && tid != getpid())
			sum += clock_ns(clock_of(tid));
	}
	if (dir != NULL)
		closedir(dir);
	return sum;
}

/* Device and inode of spanprof's shared memory, "00:01 4711", in the process of that name; and ours. */
static bool region_of(const char *pid, char region[64], bool *object)
{
	char line[4352], path[300], device[16], inode[24];
	FILE *maps;

	(void)snprintf(path, sizeof(path), "/proc/%s/maps", pid);
	maps = fopen(path, "r");
	region[0] = '\0';
	*object = false;
	while (maps != NULL && fgets(line, sizeof(line), maps) != NULL) {
		*object = *object || strstr(line, "/libspanprof.so") != NULL;
		if (strstr(line, " /memfd:spanprof") != NULL &&
		    sscanf(line, "%*s %*s %*s %15s %23s", device, inode) == 2)
			(void)snprintf(region, 64, "%s %s", device, inode);
	}
	if (maps != NULL)
		fclose(maps);
	return region[0] != '\0';
}

/* The clock of the profiler's process beside us (Linux: posix-timers.h, MAKE_PROCESS_CPUCLOCK). */
static uint64_t exporter_ns(void)
{
	char region[64], other[64];
	bool object;
	DIR *dir = region_of("self", region, &object) ? opendir("/proc") : NULL;
	uint64_t ns = 0;

	for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
		pid_t pid = (pid_t)atoi(e->d_name);

		if (pid > 0 && region_of(e->d_name, other, &object) && !object &&
		    strcmp(region, other) == 0)
			ns += clock_ns((clockid_t)(~(unsigned)pid << 3 | 2U));
	}
	if (dir != NULL)
		closedir(dir);
	return ns;
}

/* Runs when all that atexit() was told of has run: the flush is over. */
__attribute__((destructor)) static void report(void)
{
	const char *path = getenv("BENCH_INSIDE");
	uint64_t looks, others = others_ns() + exporter_ns();
	FILE *f = path != NULL && profiler != NULL ? fopen(path, "a") : NULL;

	if (f == NULL)
		return;
	looks = look_ns() * signals;
	fprintf(f, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", signals,
		handler_ns > looks ? handler_ns - looks : 0, delivery_ns(), others);
	fclose(f);
}
