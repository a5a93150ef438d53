/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host that starts the exporter's process, and checks that it notices nothing. It is linked with our files, not
 * preloaded: starter STAND-IN CASE [FILE], where FILE gets the stand-in's observations.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/hosts/lib/starter.h"
#include "test/hosts/lib/starter_ends.h"

static void case_plain(void)
{
	expect_unnoticed(true);
}

static void case_kept(void)
{
	MUST(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	expect_unnoticed(true);
	/* And once more after the memory of the first keeper is gone. */
	atomic_store(&region->flush_asked, 0);
	atomic_store(&region->exporter, SP_EXPORTER_NONE);
	expect_unnoticed(true);
}

static void case_init(void)
{
	MUST(getpid() == 1);
	expect_unnoticed(true);
}

static void case_ignored(void)
{
	signal(SIGCHLD, SIG_IGN);
	expect_unnoticed(true);
}

static void case_parent_death(void)
{
	int now = 0;

	MUST(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0);
	expect_unnoticed(true);
	MUST(prctl(PR_GET_PDEATHSIG, &now) == 0 && now == SIGKILL);
}

/* All signals are blocked, ignored or handled, and there are many files: none of that reaches the new program. */
static void case_crowded(void)
{
	sigset_t all;

	sigfillset(&all);
	for (int signo = 1; signo < 32; signo++)
		signal(signo, signo % 2 == 0 ? SIG_IGN : count);
	signal(SIGCHLD, count);
	sigprocmask(SIG_BLOCK, &all, NULL);
	for (int n = 0; n < 500; n++)
		MUST(dup(0) >= 0);
	expect_unnoticed(true);
	sigpending(&all);
	MUST(sigismember(&all, SIGCHLD) == 0);
}

/* The region's descriptor has the number that the program expects. */
static void case_same_number(void)
{
	MUST(dup3(start.region_fd, 100, O_CLOEXEC) == 100);
	start.region_fd = 100;
	MUST(dup3(100, SP_REGION_FD, O_CLOEXEC) == SP_REGION_FD);
	start.region_fd = SP_REGION_FD;
	close(100);
	expect_unnoticed(true);
	MUST(fcntl(SP_REGION_FD, F_GETFD) == FD_CLOEXEC);
}

static void case_few_files(void)
{
	struct rlimit few = {4, 512};

	close_range(4, 1000, 0);
	MUST(setrlimit(RLIMIT_NOFILE, &few) == 0);
	MUST(start_it() == 0);
	expect_no_child(true);
	SOON(works());
	end_it();
	MUST(getrlimit(RLIMIT_NOFILE, &few) == 0 && few.rlim_cur == 4 && children_ended == 0);
}

static void *start_there(void *rc)
{
	*(int *)rc = start_it();
	return NULL;
}

/* The keeper's parent thread ends; the host does not. */
static void case_thread(void)
{
	pthread_t thread;
	pid_t child = 0;
	int rc = -1;

	MUST(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
	MUST(pthread_create(&thread, NULL, start_there, &rc) == 0 &&
	     pthread_join(thread, NULL) == 0 && rc == 0);
	SOON(works());
	for (int n = 0; n < 50; n++)
		nap();
	MUST(children_in_proc(&child) == 1 && exporter() != child);
	expect_no_child(true);
	/* There is one keeper at a time. */
	MUST(start_it() == -EBUSY && exporter() != 0);
	end_it();
	SOON(tidied() && children_in_proc(NULL) == 0);
	MUST(children_ended == 0);
}

static void case_missing(void)
{
	start.path = "/nonexistent/spanprof-exporter";
	expect_failed(ENOENT);
}

static void case_not_executable(void)
{
	start.path = "/etc/passwd";
	expect_failed(EACCES);
	start.path = "/proc/self/mem/x";
	expect_failed(ENOTDIR);
}

/* As an unprivileged user with at most two processes, then one: each of the clones fails. */
static void case_no_processes(void)
{
	struct rlimit few = {2, 2};

	MUST(setresgid(54321, 54321, 54321) == 0 && setresuid(54321, 54321, 54321) == 0);
	MUST(setrlimit(RLIMIT_NPROC, &few) == 0);
	expect_failed(EAGAIN);
	few.rlim_cur = 1;
	MUST(setrlimit(RLIMIT_NPROC, &few) == 0);
	expect_refused(-EAGAIN);
}

static void case_no_memory(void)
{
	struct rlimit none = {1, 1};

	MUST(setrlimit(RLIMIT_AS, &none) == 0);
	MUST(start_it() == -ENOMEM);
}

/* The host's next child is pid 1 of a new namespace, and must be the host's own. */
static void case_unshared(void)
{
	int status = 0;
	pid_t child;

	if (unshare(CLONE_NEWPID) != 0) {
		printf("skip\n");
		exit(0);
	}
	expect_refused(-EXDEV);
	child = fork();
	if (child == 0)
		_exit(getpid() == 1 ? 0 : 1);
	MUST(child > 0 && waitpid(child, &status, 0) == child && status == 0);
	children_ended = 0;
	expect_refused(-EXDEV);
}

/* The host still gets SIGCHLD for its own children, whether they end before the start or during it. */
static void expect_sigchld_of_others(void)
{
	siginfo_t info;
	sigset_t blocked;
	sigset_t pending;
	pid_t child;

	sigemptyset(&blocked);
	sigaddset(&blocked, SIGCHLD);
	sigprocmask(SIG_BLOCK, &blocked, NULL);
	child = fork();
	if (child == 0)
		_exit(7);
	MUST(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0);
	MUST(start_it() == 0);
	sigpending(&pending);
	MUST(sigismember(&pending, SIGCHLD) == 1);
	sigprocmask(SIG_UNBLOCK, &blocked, NULL);
	MUST(children_ended == 1 && waitpid(-1, NULL, 0) == child);
	children_ended = 0;
}

/* In an emulator: the cases that work there, quietly. */
static void case_emulated(void)
{
	emulated = true;
	MUST(start_it() == 0);
	expect_no_child(false);
	SOON(works());
	MUST(sp_exporter_process_alive(region) && children_ended == 0);
	end_it();
	expect_sigchld_of_others();
	start.path = "/nonexistent/spanprof-exporter";
	atomic_store(&region->exporter_error, 0);
	(void)start_it();
	SOON(atomic_load(&region->exporter_error) == ENOENT);
	SOON(exporter() == 0);
	expect_no_child(false);
	MUST(children_ended == 0);
}

static void case_emulated_init(void)
{
	int status = 0;
	pid_t child;

	MUST(unshare(CLONE_NEWPID) == 0);
	child = fork();
	if (child == 0) {
		MUST(getpid() == 1);
		MUST(start_it() == -EOPNOTSUPP);
		expect_no_child(false);
		MUST(children_ended == 0);
		_exit(0);
	}
	MUST(waitpid(child, &status, 0) == child && status == 0);
}

/* A sandbox refuses this system call, here and in all children. */
static void refuse(unsigned number)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {.len = 4, .filter = code};

	MUST(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	     prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* An old sandbox does not know the call that closes all descriptors. */
static void case_filtered(void)
{
	refuse(436);
	expect_unnoticed(true);
}

/* The descriptors cannot be listed either: the pipe that expect_unnoticed() reads shows that they are closed. */
static void case_filtered_more(void)
{
	refuse(436);
	refuse(SYS_getdents64);
	expect_unnoticed(true);
	refuse(SYS_clone);
	expect_refused(-EPERM);
}

/*
 * The program cannot ask for the keeper's state: it does not take the keeper for dead, and keeps the keeper's stack.
 */
static void case_filtered_wait(void)
{
	pid_t child = 0;

	MUST(start_it() == 0);
	SOON(works());
	refuse(SYS_wait4);
	MUST(sp_exporter_process_alive(region) && start_it() == -EBUSY);
	MUST(children_in_proc(&child) == 1 && child != exporter());
	end_it();
	MUST(kill(exporter(), 0) == -1 && errno == ESRCH);
	MUST(start_it() == 0);
	SOON(works());
	end_it();
}

static int by_value(const void *a, const void *b)
{
	long x = *(const long *)a;
	long y = *(const long *)b;

	return (x > y) - (x < y);
}

/* starter STAND-IN cost MEGABYTES: for how long the calling thread is busy, in microseconds. */
static void case_cost(const char *megabytes)
{
	enum { STARTS = 200 };
	static long us[STARTS];
	size_t bytes = strtoul(megabytes, NULL, 10) << 20;
	char *memory = malloc(bytes + 1);

	MUST(memory != NULL);
	memset(memory, 1, bytes + 1);
	for (int n = 0; n < STARTS; n++) {
		struct timespec a;
		struct timespec b;

		atomic_store(&region->flush_asked, 0);
		atomic_store(&region->exporter, SP_EXPORTER_NONE);
		clock_gettime(CLOCK_MONOTONIC, &a);
		MUST(start_it() == 0);
		clock_gettime(CLOCK_MONOTONIC, &b);
		us[n] = (b.tv_sec - a.tv_sec) * 1000000 + (b.tv_nsec - a.tv_nsec) / 1000;
		SOON(works());
		end_it();
		SOON(tidied() && children_in_proc(NULL) == 0);
	}
	qsort(us, STARTS, sizeof(us[0]), by_value);
	printf("%s MB: p50 %ld us, p99 %ld us, max %ld us\n", megabytes, us[STARTS / 2],
	       us[STARTS * 99 / 100], us[STARTS - 1]);
	free(memory);
}

// clang-format off
#define CASES(X) \
	X(plain) X(kept) X(init) X(ignored) X(parent_death) X(crowded) X(same_number) \
	X(few_files) X(thread) X(missing) X(not_executable) X(no_processes) X(no_memory) X(unshared) \
	X(forked) X(kill_exporter) X(kill_keeper) X(host_ends) X(ended) X(reused) X(emulated) X(emulated_init) \
	X(filtered) X(filtered_more) \
	X(filtered_wait) X(execed)
// clang-format on
#define CASE(name) {#name, case_##name},
static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {CASES(CASE)};

int main(int argc, char **argv)
{
	struct sigaction act = {.sa_handler = count, .sa_flags = SA_RESTART};

	MUST(argc >= 3);
	start.path = argv[1];
	make_region();
	MUST(sigaction(SIGCHLD, &act, NULL) == 0);
	if (strcmp(argv[2], "cost") == 0) {
		case_cost(argv[3]);
		return 0;
	}
	if (strcmp(argv[2], "exec") == 0)
		case_exec(argv[0]);
	if (argc > 3)
		snprintf(seen, sizeof(seen), "SEEN=%s", argv[3]);
	for (size_t n = 0; n < sizeof(cases) / sizeof(cases[0]); n++) {
		if (strcmp(cases[n].name, argv[2]) == 0) {
			cases[n].run();
			return 0;
		}
	}
	printf("no case %s\n", argv[2]);
	return 2;
}
