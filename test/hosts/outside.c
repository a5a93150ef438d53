/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with one thread, little memory or small stacks may do these things. A second thread in the program, or
 * foreign libraries in it, would break them. Each word is a separate case; a span comes
 * first, so that a profiler has started. Usage:
 *
 *	outside inventory         prints its threads, descriptors, mapped files, children and their signals
 *	outside last_exit         the last thread ends by a raw SYS_exit with status 5
 *	outside execute COMMAND   becomes the shell with that command, by a raw SYS_execve
 *	outside kill_thread       a seccomp filter kills the last thread
 *	outside fork_handler N    N forks while a handler allocates every 200 us; prints the most threads seen
 *	outside clone_exit N      N children of a raw clone that end by exit(7)
 *	outside clone_threads     a child of a raw clone makes a thread, which has a span
 *	outside fork_threads      the same in a child of fork()
 *	outside notified N        the C library starts N threads for a timer (SIGEV_THREAD), of 30 ms each
 *	outside small_default N   N threads of 128 KiB, given by pthread_setattr_default_np
 *	outside threads N         N threads of the default size, as "ulimit -s" says
 *	outside space             prints how many KiB of address space the span added
 *	outside limited           RLIMIT_AS 100 MiB: prints how many of 80 MiB it can still allocate
 *	outside identity FILE     calls seteuid() with its own id when FILE exists; prints the slowest call, in ms
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/single_threaded.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/sdk/opentelemetry_c.h"

#define MIB (1024UL * 1024)

static void span(int cpu_ms)
{
	void *s = otelc_start_span(otelc_get_tracer(), "outside", OTELC_SPAN_KIND_INTERNAL, NULL);

	host_burn_ms(cpu_ms);
	otelc_end_span(s);
}

/* Long enough for a profiler that begins at the first span. */
static void begin(void)
{
	struct timespec moment = {0, 50000000};

	span(30);
	(void)nanosleep(&moment, NULL);
	span(30);
}

static volatile sig_atomic_t children_signalled;

static void count_child(int signo)
{
	(void)signo;
	children_signalled++;
}

static void print_descriptors(void)
{
	for (int fd = 0; fd < 1024; fd++)
		if (fcntl(fd, F_GETFD) >= 0)
			printf("descriptor %d\n", fd);
}

static void print_mapped_files(void)
{
	char line[4200];
	FILE *maps = fopen("/proc/self/maps", "r");

	HOST_CHECK(maps != NULL);
	while (fgets(line, sizeof(line), maps) != NULL)
		if (strchr(line, '/') != NULL)
			printf("mapped %s", strchr(line, '/'));
	(void)fclose(maps);
}

static unsigned threads_now(void)
{
	unsigned n = 0;
	DIR *tasks = opendir("/proc/self/task");

	HOST_CHECK(tasks != NULL);
	for (struct dirent *e = readdir(tasks); e != NULL; e = readdir(tasks))
		n += e->d_name[0] != '.';
	(void)closedir(tasks);
	return n;
}

static int inventory(char **argv)
{
	(void)argv;
	HOST_CHECK(signal(SIGCHLD, count_child) != SIG_ERR);
	begin();
	printf("threads %u, by the C library %s\n", threads_now(),
	       __libc_single_threaded ? "one" : "several");
	print_descriptors();
	print_mapped_files();
	printf("children %s\n",
	       waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD ? "none" : "some");
	printf("signals of children %d\n", (int)children_signalled);
	return 6;
}

static int last_exit(char **argv)
{
	(void)argv;
	begin();
	(void)syscall(SYS_exit, 5);
	return 99;
}

static int execute(char **argv)
{
	char *const command[] = {"sh", "-c", argv[2], NULL};

	begin();
	(void)syscall(SYS_execve, "/bin/sh", command, environ);
	return 99;
}

static int kill_thread(char **argv)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpgid, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_THREAD),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
	struct rlimit none = {0, 0};

	(void)argv;
	begin();
	HOST_CHECK(setrlimit(RLIMIT_CORE, &none) == 0);
	HOST_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	HOST_CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
	(void)syscall(SYS_getpgid, 0);
	return 99;
}

/* A program may do this as long as it has one thread: then the C library's fork takes no lock. */
static void allocate(int signo)
{
	void *volatile p = malloc(3000);

	(void)signo;
	free(p);
}

static int fork_handler(char **argv)
{
	struct sigaction action = {.sa_handler = allocate, .sa_flags = SA_RESTART};
	struct itimerval often = {{0, 200}, {0, 200}};
	struct itimerval never = {{0, 0}, {0, 0}};
	unsigned most = 0;
	sigset_t alarm;

	begin();
	/* Only fork() may be interrupted: a handler that allocates must not interrupt the allocator itself. */
	(void)sigemptyset(&alarm);
	(void)sigaddset(&alarm, SIGALRM);
	HOST_CHECK(sigprocmask(SIG_BLOCK, &alarm, NULL) == 0);
	HOST_CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	HOST_CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
	for (int i = atoi(argv[2]); i > 0; i--) {
		int status = 0;
		pid_t pid;

		HOST_CHECK(sigprocmask(SIG_UNBLOCK, &alarm, NULL) == 0);
		pid = fork();
		if (pid == 0)
			_exit(3);
		HOST_CHECK(sigprocmask(SIG_BLOCK, &alarm, NULL) == 0);
		HOST_CHECK(pid >= 0);
		while (waitpid(pid, &status, 0) != pid)
			HOST_CHECK(errno == EINTR);
		HOST_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
		if (i % 64 == 0)
			most = threads_now() > most ? threads_now() : most;
	}
	HOST_CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
	printf("threads %u\n", most);
	return 6;
}

static int clone_exit(char **argv)
{
	begin();
	for (int i = atoi(argv[2]); i > 0; i--) {
		int status = 0;
		long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

		HOST_CHECK(pid >= 0);
		if (pid == 0)
			exit(7);
		HOST_CHECK(waitpid((pid_t)pid, &status, 0) == pid);
		HOST_CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	}
	return 6;
}

static void *work(void *arg)
{
	span(2);
	return arg;
}

__attribute__((noinline)) static void *work_in_child(void *arg)
{
	span(200);
	return arg;
}

/* The first thread that either process makes: the C library installs its handler for signal 33 then. */
static int child_with_thread(long pid)
{
	int status = 0;
	pthread_t thread;

	HOST_CHECK(pid >= 0);
	if (pid == 0) {
		HOST_CHECK(pthread_create(&thread, NULL, work_in_child, NULL) == 0);
		HOST_CHECK(pthread_join(thread, NULL) == 0);
		_exit(0);
	}
	HOST_CHECK(waitpid((pid_t)pid, &status, 0) == pid && status == 0);
	return 6;
}

/* The child has a copy of its memory, so everything looks to it as in its parent. */
static int clone_threads(char **argv)
{
	(void)argv;
	begin();
	return child_with_thread(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}

static int fork_threads(char **argv)
{
	(void)argv;
	begin();
	return child_with_thread(fork());
}

static int threads(char **argv)
{
	begin();
	for (int i = atoi(argv[2]); i > 0; i--) {
		pthread_t thread;

		HOST_CHECK(pthread_create(&thread, NULL, work, NULL) == 0);
		HOST_CHECK(pthread_join(thread, NULL) == 0);
	}
	return 6;
}

static int small_default(char **argv)
{
	pthread_attr_t attr;

	HOST_CHECK(pthread_attr_init(&attr) == 0);
	HOST_CHECK(pthread_attr_setstacksize(&attr, 128 * 1024) == 0);
	HOST_CHECK(pthread_setattr_default_np(&attr) == 0);
	return threads(argv);
}

/* A value of /proc/self/status, in KiB. */
static long status_kib(const char *key)
{
	char line[256];
	long kib = -1;
	FILE *status = fopen("/proc/self/status", "r");

	HOST_CHECK(status != NULL);
	while (kib < 0 && fgets(line, sizeof(line), status) != NULL)
		if (strncmp(line, key, strlen(key)) == 0)
			kib = atol(line + strlen(key));
	(void)fclose(status);
	return kib;
}

static int space(char **argv)
{
	long before = status_kib("VmSize:");

	(void)argv;
	begin();
	printf("grown %ld\n", status_kib("VmSize:") - before);
	return 6;
}

static int limited(char **argv)
{
	struct rlimit limit = {100 * MIB, 100 * MIB};
	unsigned had = 0;

	(void)argv;
	HOST_CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
	begin();
	while (had < 80 && malloc(MIB) != NULL)
		had++;
	printf("had %u\n", had);
	return 6;
}

static int is_there(const char *file)
{
	return access(file, F_OK) == 0;
}

static int identity(char **argv)
{
	int64_t end = host_wall_ms() + 20000;
	int64_t slowest = 0;

	begin();
	while (!is_there(argv[2]) && host_wall_ms() < end)
		span(5);
	for (int i = 0; i < 20; i++) {
		int64_t began = host_wall_ms();

		HOST_CHECK(seteuid(geteuid()) == 0);
		slowest = host_wall_ms() - began > slowest ? host_wall_ms() - began : slowest;
		span(5);
	}
	printf("slowest %lld\n", (long long)slowest);
	return 6;
}

static _Atomic int notifications;

static void notified_of(union sigval value)
{
	(void)value;
	host_burn_ms(30);
	notifications++;
}

static int notified(char **argv)
{
	struct itimerspec often = {{0, 40000000}, {0, 40000000}};
	struct timespec moment = {0, 10000000};
	struct sigevent event = {.sigev_notify = SIGEV_THREAD};
	timer_t timer;

	event.sigev_notify_function = notified_of;
	HOST_CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	HOST_CHECK(timer_settime(timer, 0, &often, NULL) == 0);
	while (notifications < atoi(argv[2]))
		(void)nanosleep(&moment, NULL);
	return 6;
}

static const struct {
	const char *word;
	int arguments;
	int (*run)(char **argv);
} cases[] = {
	{"clone_exit", 1, clone_exit}, {"clone_threads", 0, clone_threads},
	{"execute", 1, execute},       {"fork_handler", 1, fork_handler},
	{"identity", 1, identity},     {"fork_threads", 0, fork_threads},
	{"inventory", 0, inventory},   {"kill_thread", 0, kill_thread},
	{"last_exit", 0, last_exit},   {"limited", 0, limited},
	{"notified", 1, notified},     {"small_default", 1, small_default},
	{"space", 0, space},           {"threads", 1, threads},
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (strcmp(argv[1], cases[i].word) != 0 || argc != cases[i].arguments + 2)
			continue;
		otelc_init_tracer_provider("outside", "1.0", "test", "");
		return cases[i].run(argv);
	}
	return 98;
}
