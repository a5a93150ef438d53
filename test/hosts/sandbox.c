/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that forbids itself system calls while its spans go on. Afterwards it makes only allowed
 * calls, so it ends as intended unless a library in it makes another call.
 * Usage: sandbox CASE [WAY], with FIXTURE_SEED set, which spares the stand-in for the SDK a getpid().
 *
 *	strict	strict mode on the initial thread; another thread goes on, and ends the process
 *	all	a filter for all existing threads, which allows almost no call
 *	births	a filter without timers; then threads that begin and end
 *	fork	a filter without the calls for a start of profiling; then a child with spans
 *	early	the same as all, but before the first span
 *	refused	filters that the kernel refuses; then threads that begin and end
 *	return	as all, and signal handlers may not return
 *	second	a filter that allows everything, later the filter of "return"
 *	inherited	executes itself below a filter without timers; then threads with spans
 *	inherited-refusing	the same, and the filter refuses calls instead of killing
 *	inherited-clone		the same, and the filter forbids the clone(2) of forks
 *	without CALL ERRNO	the same, and the call of that number fails with that errno
 *	alone		executes itself below a filter that forbids every clone; then a span, and no thread
 *	alone-refusing	the same below the filter of inherited-refusing
 *	forked		the same, and the span is in a forked child
 *
 * WAY is how the filter is installed: prctl, syscall (seccomp(2) by the C library's function, the default),
 * syscall-prctl, or raw (an instruction). After a raw one the program waits three seconds in spans.
 */
#define _GNU_SOURCE
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/hosts/raw_call.h"
#include "test/sdk/opentelemetry_c.h"

#define SPAN_MS 60
#define RAW_WAIT_MS 3000
#define CALLS_MAX 16
#define ERRNO_KEPT 4711 /* no call has it */

static void *tracer;
static const char *way = "syscall";
/* 1: the worker has had its span, 2: the filter is installed, 3: main is done */
static _Atomic int stage;
static _Atomic int done[8]; /* by number of the thread */

static unsigned rounds_per_ms;

static void spin(unsigned rounds)
{
	for (volatile unsigned n = 0; n < rounds; n++)
		continue;
}

/*
 * The clock of CPU time is a system call, so a millisecond of work is measured while the call is still allowed: the
 * fastest of several attempts counts, because a busy machine is slower at times.
 */
static void measure(void)
{
	const unsigned rounds = 500000;

	for (int i = 0; i < 10; i++) {
		int64_t begin = host_cpu_ns();
		unsigned per_ms;

		spin(rounds);
		per_ms = (unsigned)((int64_t)rounds * 1000000 / (host_cpu_ns() - begin));
		if (per_ms > rounds_per_ms)
			rounds_per_ms = per_ms;
	}
}

__attribute__((noinline)) static void burn(int ms)
{
	spin((unsigned)ms * rounds_per_ms);
}

/* By a clock of the vDSO, which needs no system call on any machine. */
static int64_t now_ms(void)
{
	struct timespec ts = {0, 0};

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void in_span(const char *name, int ms)
{
	void *span = otelc_start_span(tracer, name, OTELC_SPAN_KIND_INTERNAL, NULL);

	burn(ms);
	otelc_end_span(span);
}

static void until(int wanted)
{
	while (atomic_load(&stage) < wanted)
		continue;
}

static void say(const char *text)
{
	if (write(STDOUT_FILENO, text, strlen(text)) < 0)
		_exit(98);
}

static int put_in(const struct sock_fprog *program)
{
	if (strcmp(way, "prctl") == 0)
		return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program);
	if (strcmp(way, "syscall-prctl") == 0)
		return (int)syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, program);
	if (strcmp(way, "raw") == 0)
		return (int)raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
				program);
	return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
			    program);
}

/*
 * The calls in the list get the answer "named", all other calls "others". The list ends with 0, a call that is never
 * forbidden.
 */
static void filter(const int *calls, unsigned named, unsigned others)
{
	struct sock_filter code[2 * CALLS_MAX + 2];
	struct sock_fprog program = {.filter = code};
	unsigned short n = 0;

	code[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						 offsetof(struct seccomp_data, nr));
	for (; *calls >= 0; calls++) {
		code[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							 (unsigned)*calls, 0, 1);
		code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, named);
	}
	code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, others);
	program.len = n;
	HOST_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	errno = ERRNO_KEPT;
	HOST_CHECK(put_in(&program) == 0 && errno == ERRNO_KEPT);
	if (strcmp(way, "raw") == 0)
		for (int64_t end = now_ms() + RAW_WAIT_MS; now_ms() < end;)
			in_span("raw", 1);
}

static void allow_hardly_anything(int handlers_return)
{
	const int calls[] = {SYS_write, SYS_exit_group,
			     handlers_return ? SYS_rt_sigreturn : SYS_write, -1};

	filter(calls, SECCOMP_RET_ALLOW, SECCOMP_RET_KILL_PROCESS);
}

static void *work(void *arg)
{
	in_span("worker before", SPAN_MS);
	atomic_store(&stage, 1);
	until(2);
	in_span("worker after", SPAN_MS);
	until(3);
	if (arg != NULL)
		_exit(21);
	atomic_store(&stage, 4);
	for (;;)
		continue;
	return NULL;
}

static void start_worker(void *arg)
{
	pthread_t thread;

	HOST_CHECK(pthread_create(&thread, NULL, work, arg) == 0);
	until(1);
}

static int strict(void)
{
	static int ends_the_process;

	start_worker(&ends_the_process);
	in_span("before", SPAN_MS);
	if (strcmp(way, "prctl") == 0)
		HOST_CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
	else
		HOST_CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 0, NULL) == 0);
	atomic_store(&stage, 2);
	in_span("after", SPAN_MS);
	say("strict\n");
	atomic_store(&stage, 3);
	syscall(SYS_exit, 0);
	return 97;
}

static int all(int handlers_return, int is_second)
{
	static const int none[] = {-1};

	start_worker(NULL);
	in_span("before", SPAN_MS);
	if (is_second) {
		filter(none, 0, SECCOMP_RET_ALLOW);
		in_span("between", SPAN_MS);
	}
	allow_hardly_anything(handlers_return);
	atomic_store(&stage, 2);
	in_span("after", SPAN_MS);
	atomic_store(&stage, 3);
	until(4);
	say("all\n");
	_exit(22);
}

static void *born(void *number)
{
	in_span("born", SPAN_MS);
	atomic_store(&done[(intptr_t)number], 1);
	return NULL;
}

static void births(int n)
{
	for (intptr_t i = 0; i < n; i++) {
		pthread_t thread;

		HOST_CHECK(pthread_create(&thread, NULL, born, (void *)i) == 0);
		HOST_CHECK(pthread_join(thread, NULL) == 0);
		HOST_CHECK(atomic_load(&done[i]));
	}
}

static int threads(void)
{
	static const int calls[] = {SYS_timer_create,
				    SYS_timer_settime,
				    SYS_timer_delete,
				    SYS_tgkill,
				    SYS_sigaltstack,
				    SYS_gettid,
				    -1};

	in_span("before", SPAN_MS);
	filter(calls, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
	in_span("after", SPAN_MS);
	births(3);
	puts("births");
	return 23;
}

static int forks(void)
{
	static const int calls[] = {
		SYS_timer_create, SYS_timer_delete, SYS_memfd_create, SYS_getpid,
		SYS_sched_yield,  SYS_prlimit64,    SYS_madvise,      -1};
	int status = 0;
	pid_t child;

	in_span("before", SPAN_MS);
	filter(calls, SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_ALLOW);
	child = fork();
	HOST_CHECK(child >= 0);
	if (child == 0) {
		in_span("child", SPAN_MS);
		exit(5);
	}
	in_span("after", SPAN_MS);
	HOST_CHECK(waitpid(child, &status, 0) == child);
	printf("child %x\n", (unsigned)status);
	return 24;
}

static int early(void)
{
	/* heap memory for the first span */
	char *volatile memory = malloc(65536);

	free(memory);
	allow_hardly_anything(1);
	in_span("after", SPAN_MS);
	say("early\n");
	_exit(25);
}

/* libseccomp probes the kernel like this; and a filter that cannot be installed. */
static int refused(void)
{
	struct sock_filter code = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	/* the kernel may require rights first */
	struct sock_fprog none = {.len = 1, .filter = NULL};
	struct sock_fprog bad = {.len = 1, .filter = &code};

	in_span("before", SPAN_MS);
	HOST_CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) < 0 && errno == EINVAL);
	HOST_CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, NULL) <
			   0 &&
		   errno == EFAULT);
	HOST_CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, 4096) < 0 && errno == EFAULT);
	HOST_CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &none) < 0);
	code.code = 0xffff;
	HOST_CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &bad) < 0);
	HOST_CHECK(prctl(PR_GET_SECCOMP) == 0 || prctl(PR_GET_SECCOMP) == SECCOMP_MODE_FILTER);
	births(3);
	puts("refused");
	return 26;
}

/* A service manager installs such filters before a program begins: a list of forbidden calls. */
static const int of_threads[] = {SYS_timer_create, SYS_getdents64, SYS_get_robust_list, -1};
static const int of_forks[] = {SYS_clone, -1};
static const int of_all[] = {SYS_clone, SYS_clone3, -1};

static int inherited(char **argv, const char *what, const int *calls, unsigned answer)
{
	argv[1] = (char *)(uintptr_t)what;
	filter(calls, answer, SECCOMP_RET_ALLOW);
	execv("/proc/self/exe", argv);
	return 96;
}

/* The second argument is the number of a system call, the third one the errno with which it fails. */
static int without(char **argv)
{
	const int calls[] = {(int)strtol(argv[2], NULL, 10), -1};

	return inherited(argv, "below", calls,
			 SECCOMP_RET_ERRNO | (unsigned)strtoul(argv[3], NULL, 10));
}

static int below(void)
{
	in_span("below", SPAN_MS);
	births(3);
	puts("below");
	return 27;
}

static int alone(int is_forked)
{
	pid_t child = is_forked ? fork() : 0;
	int status = 0;

	if (child != 0) {
		HOST_CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
		return 27;
	}
	in_span("alone", SPAN_MS);
	in_span("alone", SPAN_MS);
	puts("alone");
	return is_forked ? 0 : 27;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	measure();
	if (argc > 2)
		way = argv[2];
	otelc_init_tracer_provider("sandbox", "1.0", "test", "");
	tracer = otelc_get_tracer();
	if (strcmp(what, "strict") == 0)
		return strict();
	if (strcmp(what, "all") == 0)
		return all(1, 0);
	if (strcmp(what, "births") == 0)
		return threads();
	if (strcmp(what, "fork") == 0)
		return forks();
	if (strcmp(what, "early") == 0)
		return early();
	if (strcmp(what, "refused") == 0)
		return refused();
	if (strcmp(what, "return") == 0)
		return all(0, 0);
	if (strcmp(what, "second") == 0)
		return all(0, 1);
	if (strcmp(what, "inherited") == 0)
		return inherited(argv, "below", of_threads, SECCOMP_RET_KILL_PROCESS);
	if (strcmp(what, "inherited-refusing") == 0)
		return inherited(argv, "below", of_threads, SECCOMP_RET_ERRNO | EPERM);
	if (strcmp(what, "inherited-clone") == 0)
		return inherited(argv, "below", of_forks, SECCOMP_RET_KILL_PROCESS);
	if (strcmp(what, "alone") == 0)
		return inherited(argv, "alone below", of_all, SECCOMP_RET_KILL_PROCESS);
	if (strcmp(what, "alone-refusing") == 0)
		return inherited(argv, "alone below", of_threads, SECCOMP_RET_ERRNO | EPERM);
	if (strcmp(what, "forked") == 0)
		return inherited(argv, "forked below", of_threads, SECCOMP_RET_ERRNO | EPERM);
	if (strcmp(what, "without") == 0 && argc == 4)
		return without(argv);
	if (strcmp(what, "alone below") == 0)
		return alone(0);
	if (strcmp(what, "forked below") == 0)
		return alone(1);
	if (strcmp(what, "below") == 0)
		return below();
	return 2;
}
