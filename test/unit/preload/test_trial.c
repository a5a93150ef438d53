/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about filters from before the program, each in a child that they may end. */
#include "preload/exporter/trial.h"
#include "test/unit/emulated.h"

#include <criterion/criterion.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NO_FILTER (-1)
#define PASSES 1
#define REFUSES 2

/* This call is the end of a process from now on. */
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

/* What is said below such a filter, or the signal that ended who asked, as a negative number. */
static int says(int call)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		(void)close(STDERR_FILENO);
		forbid(call);
		_exit(sp_trial_passes() ? PASSES : REFUSES);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TestSuite(trial, .timeout = 20);

Test(trial, passes_without_a_filter_and_below_one_against_what_we_never_do)
{
	if (emulated())
		cr_skip_test("the emulator knows no filters");
	cr_expect_eq(says(NO_FILTER), PASSES);
	cr_expect_eq(says(SYS_personality), PASSES);
}

/* Of the host's own process, or of the exporter's before it is a program. */
Test(trial, refuses_what_would_end_a_process_of_ours)
{
	static const int calls[] = {
		SYS_timer_create, SYS_memfd_create,    SYS_prctl,
		SYS_wait4,        SYS_geteuid,         SYS_socket,
		SYS_connect,      SYS_getsockopt,      SYS_sendmsg,
		SYS_bind,         SYS_listen,          SYS_sched_getaffinity,
		SYS_waitid,       SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo,
		SYS_setsid,       SYS_getppid,         SYS_chdir,
		SYS_dup3,
#ifdef SYS_readlink
		SYS_readlink,
#endif
	};

	if (emulated())
		cr_skip_test("the emulator knows no filters");
	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		cr_expect_eq(says(calls[i]), REFUSES, "call %d", calls[i]);
}
