/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded before a profiler: measures the profiler's work inside its host. Our signal handler calls the profiler's
 * between two readings of the thread's CPU clock. gperftools' handler is replaced when it calls sigaction(). spanprof
 * gives its handler to the kernel by a raw system call, so ours replaces it by a raw call when all constructors have
 * run. That is repeated in each thread and after each sigaction(), because spanprof restores its handler there. At
 * the end of the process the clocks of all threads except the first are read (in a host with one thread they are the
 * profiler's), and the clock of the process that has mapped the profiler's memory. Appends a line "signals handler_ns
 * delivery_ns others_ns" to the file BENCH_INSIDE. Context: test. Caller: cpu.c.
 *
 * Delivery is the kernel's time to interrupt a thread and to let it go on. It is measured with signals that the
 * process sends to itself, to an empty handler.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
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

static bool is_profiler(handler_fn handler)
{
	Dl_info where;
	void *at;

	memcpy(&at, &handler, sizeof(at));
	return at != NULL && dladdr(at, &where) != 0 &&
	       (strstr(where.dli_fname, "libspanprof") != NULL ||
		strstr(where.dli_fname, "libprofiler") != NULL);
}

/* The kernel's form of a signal's action (Linux: struct sigaction of the architecture). */
struct kernel_sigaction {
	handler_fn handler;
	unsigned long flags;
	void (*restorer)(void);
	uint64_t mask;
};
#define SPANPROF_SIGNAL 33

static void take_over_spanprof(void)
{
	struct kernel_sigaction act;

	if (syscall(SYS_rt_sigaction, SPANPROF_SIGNAL, NULL, &act, sizeof(act.mask)) != 0 ||
	    !is_profiler(act.handler))
		return;
	profiler = act.handler;
	act.handler = timed;
	(void)syscall(SYS_rt_sigaction, SPANPROF_SIGNAL, &act, NULL, sizeof(act.mask));
}

/* The profiler gets its own handler as the answer, not the one of this library. */
int sigaction(int signo, const struct sigaction *act, struct sigaction *old)
{
	void *symbol = dlsym(RTLD_NEXT, "sigaction");
	struct sigaction mine;
	sigaction_fn next;
	int rc;

	memcpy(&next, &symbol, sizeof(next));
	if (act != NULL && is_profiler(act->sa_sigaction)) {
		profiler = act->sa_sigaction;
		mine = *act;
		mine.sa_sigaction = timed;
		act = &mine;
	}
	rc = next(signo, act, old);
	if (rc == 0 && old != NULL && old->sa_sigaction == timed)
		old->sa_sigaction = profiler;
	take_over_spanprof();
	return rc;
}

typedef int (*main_fn)(int argc, char **argv, char **envp);
typedef int (*start_fn)(main_fn program, int argc, char **argv, void (*init)(void),
			void (*fini)(void), void (*rtld_fini)(void), void *stack_end);

static main_fn program_main;

static int main_after_constructors(int argc, char **argv, char **envp)
{
	take_over_spanprof();
	return program_main(argc, argv, envp);
}

int __libc_start_main(main_fn program, int argc, char **argv, void (*init)(void),
		      void (*fini)(void), void (*rtld_fini)(void), void *stack_end);
int __libc_start_main(main_fn program, int argc, char **argv, void (*init)(void),
		      void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
	void *symbol = dlsym(RTLD_NEXT, "__libc_start_main");
	start_fn next;

	memcpy(&next, &symbol, sizeof(next));
	program_main = program;
	return next(main_after_constructors, argc, argv, init, fini, rtld_fini, stack_end);
}

struct thread {
	void *(*start)(void *arg);
	void *arg;
};
typedef int (*create_fn)(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *arg),
			 void *arg);

static void *run_thread(void *arg)
{
	struct thread t = *(struct thread *)arg;

	free(arg);
	take_over_spanprof();
	return t.start(t.arg);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *arg),
		   void *arg)
{
	void *symbol = dlsym(RTLD_NEXT, "pthread_create");
	struct thread *t = malloc(sizeof(*t));
	create_fn next;

	if (t == NULL)
		return EAGAIN;
	*t = (struct thread){start, arg};
	memcpy(&next, &symbol, sizeof(next));
	return next(thread, attr, run_thread, t);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The time that the two readings of the clock add. */
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
	void *symbol = dlsym(RTLD_NEXT, "sigaction");
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

/* The clock of any thread of the process, by its id (Linux: posix-timers.h, CPUCLOCK_SCHED). */
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

/*
 * Device and inode of spanprof's shared memory, "00:01 4711", in the process with that id; and whether our object is
 * mapped.
 */
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

/* The clock of the exporter's process (Linux: posix-timers.h, MAKE_PROCESS_CPUCLOCK). */
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

/* Runs after all atexit() functions: the flush is over. */
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
