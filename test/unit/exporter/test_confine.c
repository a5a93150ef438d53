/* SPDX-License-Identifier: Apache-2.0 */
/* The exporter's filter refuses some calls; all calls that the exporter needs still work. */
#define _GNU_SOURCE
#include "export/exporter/confine.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/unit/emulated.h"

#define CONFINED 7

/* Runs fn in a confined child, because the filter is for good; fn returns its exit status. */
static int in_child(int (*fn)(void))
{
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !sp_confine())
			_exit(99);
		_exit(fn());
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert(WIFEXITED(status), "it was killed");
	cr_assert_neq(WEXITSTATUS(status), 99, "there is no filter");
	return WEXITSTATUS(status);
}

/* Without a filter each of these would fail with another error, or succeed, at least for root. */
static const int refused[] = {
	SYS_ptrace,
	SYS_process_vm_writev,
	440,
	SYS_unshare,
	SYS_setns,
	SYS_mount,
	SYS_umount2,
	SYS_pivot_root,
	SYS_chroot,
	428,
	429,
	430,
	432,
	442,
	SYS_init_module,
	SYS_finit_module,
	SYS_delete_module,
	SYS_kexec_load,
	SYS_bpf,
	SYS_perf_event_open,
	SYS_reboot,
	SYS_swapon,
	SYS_swapoff,
	SYS_acct,
	SYS_settimeofday,
	SYS_clock_settime,
	SYS_sethostname,
	SYS_syslog,
	SYS_userfaultfd,
	SYS_add_key,
	SYS_request_key,
	SYS_keyctl,
	SYS_personality,
	425,
	426,
	427,
	SYS_open_by_handle_at,
	SYS_execveat,
	SYS_execve,
#ifdef __x86_64__
	0x40000000 + SYS_getpid, /* getpid() of the x32 ABI */
#endif
};

static unsigned number;

static int is_refused(void)
{
	/* Invalid addresses and descriptors. */
	long rc = syscall(refused[number], -1L, -1L, -1L, -1L, -1L, -1L);

	return rc == -1 && errno == EPERM ? CONFINED : 1;
}

TestSuite(confine, .timeout = 60);

Test(confine, refuses_what_no_exporter_needs)
{
	if (emulated())
		cr_skip_test("the emulator knows no filters");
	for (number = 0; number < sizeof(refused) / sizeof(refused[0]); number++)
		cr_expect_eq(in_child(is_refused), CONFINED, "call %d", refused[number]);
}

static int executes(void)
{
	char *const program[] = {(char[]){"/bin/sh"}, (char[]){"-c"}, (char[]){"exit 3"}, NULL};

	(void)execv(program[0], program);
	return errno == EPERM ? CONFINED : 1;
}

Test(confine, executes_no_program)
{
	if (emulated())
		cr_skip_test("the emulator knows no filters");
	cr_expect_eq(in_child(executes), CONFINED);
}

static void *nothing(void *arg)
{
	return arg;
}

static int works(void)
{
	struct iovec here = {&number, sizeof(number)};
	unsigned copy;
	struct iovec there = {&copy, sizeof(copy)};
	pthread_t thread;
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	pid_t child;

	if (fd < 0 || s < 0 || pthread_create(&thread, NULL, nothing, NULL) != 0 ||
	    pthread_join(thread, NULL) != 0)
		return 1;
	if (process_vm_readv(getpid(), &there, 1, &here, 1, 0) != (ssize_t)sizeof(copy))
		return 2;
	if (setresuid(65534, 65534, 65534) != 0 && geteuid() == 0)
		return 3;
	child = fork();
	if (child == 0)
		_exit(0);
	return child > 0 && waitpid(child, NULL, 0) == child ? CONFINED : 4;
}

Test(confine, lets_it_read_connect_make_threads_and_follow_users)
{
	if (emulated())
		cr_skip_test("the emulator knows no filters");
	cr_expect_eq(in_child(works), CONFINED);
}
