/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about whether an exporter lives, with a child process of the test for it. */
#define _GNU_SOURCE
#include "preload/exporter/exporter_process.h"

#include <criterion/criterion.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534U
#define SKIPPED 77

static struct sp_region region;

static void begin(bool is_dumpable)
{
	int ready[2];
	char byte = 0;

	cr_assert_eq(pipe(ready), 0);
	region.exporter_pid = fork();
	if (region.exporter_pid == 0) {
		(void)prctl(PR_SET_DUMPABLE, is_dumpable, 0, 0, 0);
		(void)(write(ready[1], &byte, 1) + pause());
		_exit(0);
	}
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	(void)close(ready[0]);
	(void)close(ready[1]);
}

/* It has ended, and nobody has waited for it. */
static void end(void)
{
	siginfo_t info;

	(void)kill(region.exporter_pid, SIGKILL);
	(void)waitid(P_PID, (id_t)region.exporter_pid, &info, WEXITED | WNOWAIT);
}

TestSuite(exporter_process, .timeout = 20);

Test(exporter_process, lives_until_it_has_ended_though_nobody_has_waited_for_it)
{
	begin(true);
	cr_expect(sp_exporter_process_alive(&region));
	end();
	cr_expect_not(sp_exporter_process_alive(&region));
	cr_assert_eq(waitpid(region.exporter_pid, NULL, 0), region.exporter_pid);
	cr_expect_not(sp_exporter_process_alive(&region));
}

/* One that wait() does not see unless it is asked for such, as a keeper is. */
Test(exporter_process, reaps_no_child_of_the_hosts)
{
	siginfo_t info;
	pid_t host = (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);

	if (host == 0)
		_exit(0);
	if (host < 0)
		cr_skip("the emulator has no such children");
	cr_assert_eq(waitid(P_PID, (id_t)host, &info, WEXITED | WNOWAIT | (int)__WCLONE), 0);
	cr_expect(sp_exporter_process_may_start());
	begin(true);
	end();
	cr_expect_not(sp_exporter_process_alive(&region));

	cr_expect_eq(waitpid(host, NULL, (int)__WCLONE), host);
}

#ifndef __SANITIZE_ADDRESS__ /* it looks for leaks at the end, which takes a /proc with the process in it */
/* In a pid namespace with a /proc that hides processes of others. */
static int hidden(void)
{
	bool lives;

	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
	    mount("proc", "/proc", "proc", 0, "hidepid=2") != 0 ||
	    setresuid(NOBODY, NOBODY, NOBODY) != 0)
		return SKIPPED;
	(void)prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	begin(false);
	lives = sp_exporter_process_alive(&region);
	end();
	return lives ? 0 : 1;
}

/* As an exporter that has followed a program to another user, whose memory nobody may look into. */
Test(exporter_process, that_proc_does_not_show_is_no_dead_one)
{
	int status = 0;
	pid_t child;

	if (unshare(CLONE_NEWNS | CLONE_NEWPID) != 0)
		cr_skip("no namespace to be had");
	child = fork();
	if (child == 0)
		_exit(hidden());
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIPPED)
		cr_skip("/proc cannot be mounted here");

	cr_expect_eq(WEXITSTATUS(status), 0);
}
#endif
