/* SPDX-License-Identifier: Apache-2.0 */
/* Seccomp filters that are older than the program, each in a child that they may kill. */
#include "preload/exporter/exporter.h"
#include "test/unit/emulated.h"

#include <criterion/criterion.h>
#include <gnu/libc-version.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_FILTER (-1)
#define PASSES 1
#define REFUSES 2
#define UNKNOWN 3

/* From now on this call kills the process. */
static void forbid(int call)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)call, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	if (call != NO_FILTER && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
				  prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0))
		_exit(99);
}

static int standard_error = -1; /* of the child; -1 = it has none */

/*
 * A child asks below a filter that forbids `call`, after the calls in `seen` were seen. Returns the answer, or,
 * negated, the number of the signal that killed the child.
 */
static int says_to(uint32_t seen, int call)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		(void)close(STDERR_FILENO);
		(void)dup2(standard_error, STDERR_FILENO);
		forbid(call);
		if (seen != 0)
			(void)sp_trial_saw(seen);
		switch (sp_trial_run()) {
		case SP_TRIAL_PASSED:
			_exit(PASSES);
		case SP_TRIAL_FAILED:
			_exit(REFUSES);
		case SP_TRIAL_UNKNOWN:
			_exit(sp_trial_is_unknown() && sp_trial_is_put_off() ? UNKNOWN : 98);
		}
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int says(int call)
{
	return says_to(SP_TRIAL_CLONE, call);
}

TestSuite(trial, .timeout = 20);

/* Nothing is started if a clone could kill the process. */
Test(trial, makes_no_clone_before_the_process_has_made_one)
{
	if (emulated())
		cr_skip_test("the emulator knows no filters");
	cr_expect_eq(says_to(0, NO_FILTER), PASSES);
	cr_expect_eq(says_to(0, SYS_personality), UNKNOWN);
	cr_expect_eq(says_to(0, SYS_clone), UNKNOWN);
	cr_expect_eq(says_to(SP_TRIAL_THREAD, SYS_personality), PASSES);
}

#if defined(__x86_64__)
/* glibc 2.34 and newer makes threads by clone3(2), and forks by clone(2). */
Test(trial, makes_the_clone_that_the_process_has_made)
{
	if (emulated() || strverscmp(gnu_get_libc_version(), "2.34") < 0)
		cr_skip_test("no filters, or no clone3 in the C library");
	cr_expect_eq(says_to(SP_TRIAL_THREAD, SYS_clone), PASSES);
	cr_expect_eq(says_to(SP_TRIAL_CLONE, SYS_clone3), PASSES);
	cr_expect_eq(says_to(SP_TRIAL_CLONE | SP_TRIAL_THREAD, SYS_clone3), PASSES);
}
#endif

Test(trial, passes_without_a_filter_and_below_one_against_what_we_never_do)
{
	if (emulated())
		cr_skip_test("the emulator knows no filters");
	cr_expect_eq(says(NO_FILTER), PASSES);
	cr_expect_eq(says(SYS_personality), PASSES);
}

/* The calls are made in the host's process, or in the exporter's process before it executes its program. */
Test(trial, refuses_what_would_end_a_process_of_ours)
{
	static const int calls[] = {
		SYS_timer_create, SYS_memfd_create,    SYS_prctl,
		SYS_wait4,        SYS_geteuid,         SYS_socket,
		SYS_connect,      SYS_getsockopt,      SYS_sendmsg,
		SYS_bind,         SYS_listen,          SYS_sched_getaffinity,
		SYS_waitid,       SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo,
		SYS_setsid,       SYS_getppid,         SYS_chdir,
		SYS_dup3,         SYS_get_robust_list, SYS_getuid,
		SYS_statfs,       SYS_fchmod,          SYS_sendfile,
		SYS_capget,       SYS_capset,
	};

	if (emulated())
		cr_skip_test("the emulator knows no filters");
	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		cr_expect_eq(says(calls[i]), REFUSES, "call %d", calls[i]);
}

/* A systemd service has a socket there. */
Test(trial, says_nothing_to_a_socket_below_a_filter_against_sending)
{
	int to[2];
	char line[64] = "";

	if (emulated())
		cr_skip_test("the emulator knows no filters");
	cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, to), 0);
	standard_error = to[0];
	cr_expect_eq(says(SYS_sendmsg), REFUSES);
	cr_expect_lt(read(to[1], line, sizeof(line)), 0);
	cr_expect_eq(says(SYS_socket), REFUSES);
	cr_expect_gt(read(to[1], line, sizeof(line)), 0);
}
