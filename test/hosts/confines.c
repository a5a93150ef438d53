/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that confines itself while it is profiled. It has spans "before" until SIGUSR1, confines itself as the
 * argument says, has spans "after" until the next SIGUSR1, prints its new state, and ends.
 *
 *	filter		installs a seccomp filter that allows everything, by an instruction that no hook sees
 *	prctl		installs the same filter by the C library's function
 *	mounts DIR	a mount namespace; mounts an empty file system on DIR and makes DIR its root
 *	users		a user namespace
 *	landlock	a Landlock domain in which no file may be executed; exit status 77 without Landlock
 *	profile NAME	the profile NAME of AppArmor
 *	chroot DIR	DIR as its root, and another user
 *	worker		forks: the child does as filter; the parent has spans "parent", passes two SIGUSR1 on, and waits for it after a third
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/hosts/host.h"
#include "test/hosts/raw_call.h"
#include "test/sdk/opentelemetry_c.h"

#define NOBODY 65534
#define TIME_LIMIT_S 120

static void *tracer;
static volatile sig_atomic_t orders;

static void take_order(int signo)
{
	(void)signo;
	orders++;
}

__attribute__((noinline)) static void work_in_span(const char *name)
{
	void *span = otelc_start_span(tracer, name, OTELC_SPAN_KIND_INTERNAL, NULL);

	host_burn_ms(2);
	otelc_end_span(span);
}

static void work_until(int order, const char *name)
{
	while (orders < order)
		work_in_span(name);
}

static void put_filter_in(int by_hook)
{
	struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	struct sock_fprog program = {1, all};

	HOST_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	if (by_hook)
		HOST_CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
	else
		HOST_CHECK(raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
}

static void enter_root(const char *dir)
{
	HOST_CHECK(unshare(CLONE_NEWNS) == 0);
	HOST_CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	HOST_CHECK(mount("tmpfs", dir, "tmpfs", 0, NULL) == 0);
	HOST_CHECK(chdir(dir) == 0 && mkdir("old", 0700) == 0);
	HOST_CHECK(syscall(SYS_pivot_root, ".", "old") == 0);
	HOST_CHECK(chdir("/") == 0 && umount2("/old", MNT_DETACH) == 0);
}

static void enter_profile(const char *name)
{
	char text[256];
	int fd = open("/proc/self/attr/current", O_WRONLY);
	int len = snprintf(text, sizeof(text), "changeprofile %s", name);

	HOST_CHECK(fd >= 0 && write(fd, text, (size_t)len) == len && close(fd) == 0);
}

/* linux/landlock.h, Linux 5.13; headers may be older. The first word: the accesses that need a rule. */
#define LANDLOCK_CREATE_RULESET 444
#define LANDLOCK_RESTRICT_SELF 446
#define LANDLOCK_EXECUTE 1

static void enter_domain(void)
{
	const uint64_t handled = LANDLOCK_EXECUTE;
	long ruleset = syscall(LANDLOCK_CREATE_RULESET, &handled, sizeof(handled), 0);

	if (ruleset < 0)
		exit(77);
	HOST_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	HOST_CHECK(syscall(LANDLOCK_RESTRICT_SELF, ruleset, 0) == 0 && close((int)ruleset) == 0);
}

static void confine(const char *how, const char *what)
{
	if (strcmp(how, "filter") == 0 || strcmp(how, "prctl") == 0)
		put_filter_in(strcmp(how, "prctl") == 0);
	else if (strcmp(how, "mounts") == 0)
		enter_root(what);
	else if (strcmp(how, "landlock") == 0)
		enter_domain();
	else if (strcmp(how, "users") == 0)
		HOST_CHECK(unshare(CLONE_NEWUSER) == 0);
	else if (strcmp(how, "profile") == 0)
		enter_profile(what);
	else
		HOST_CHECK(chroot(what) == 0 && chdir("/") == 0 && setgroups(0, NULL) == 0 &&
			   setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
}

static int run(const char *how, const char *what, const char *before, const char *after)
{
	/* The test that sends the signals may have failed. */
	alarm(TIME_LIMIT_S);
	work_until(1, before);
	confine(how, what);
	work_until(2, after);
	printf("%s, filters %d\n", how, prctl(PR_GET_SECCOMP));
	return 0;
}

static int have_worker(void)
{
	int status = 0;
	pid_t child;

	alarm(TIME_LIMIT_S);
	/* So that the exporter belongs to the parent. */
	work_in_span("parent");
	child = fork();
	HOST_CHECK(child >= 0);
	if (child == 0)
		exit(run("filter", NULL, "before", "after"));
	printf("worker %d\n", child);
	HOST_CHECK(fflush(stdout) == 0);
	for (int n = 1; n <= 2; n++) {
		work_until(n, "parent");
		HOST_CHECK(kill(child, SIGUSR1) == 0);
	}
	work_until(3, "parent");
	HOST_CHECK(waitpid(child, &status, 0) == child);
	return status;
}

int main(int argc, char **argv)
{
	const struct sigaction take = {.sa_handler = take_order, .sa_flags = SA_RESTART};

	HOST_CHECK(argc >= 2);
	HOST_CHECK(sigaction(SIGUSR1, &take, NULL) == 0);
	otelc_init_tracer_provider("confines", "1.0", "test", "");
	tracer = otelc_get_tracer();
	if (strcmp(argv[1], "worker") == 0)
		return have_worker();
	return run(argv[1], argc > 2 ? argv[2] : NULL, "before", "after");
}
