/* SPDX-License-Identifier: Apache-2.0 */
/* Whether an exporter lives. A child process of the test stands for it. */
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

#include "sampler/base/siphash.h"

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

/* Ends the exporter, and nobody waits for it. */
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

/* A keeper is a child that wait() does not see unless it asks for such children. */
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

#ifndef __SANITIZE_ADDRESS__ /* LeakSanitizer needs a /proc that shows the process, when the process
                              * ends */
/* In a pid namespace with a /proc that hides other users' processes. */
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

/* An exporter that has followed a program to another user, and whose memory no process may read. */
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

/* The authors' test vectors (vectors_sip64): the key is 00 01 .. 0f, and so are the bytes. */
Test(exporter_process, proves_by_siphash)
{
	const uint64_t key[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
	const uint64_t words[2] = {key[0], key[1]};
	char proof[SP_PROOF_BYTES];

	cr_expect_eq(sp_siphash(key, words, 0), UINT64_C(0x726fdb47dd0e0e31));
	cr_expect_eq(sp_siphash(key, words, 1), UINT64_C(0x93f5f5799a932462));
	cr_expect_eq(sp_siphash(key, words, 2), UINT64_C(0x3f2acc7f57c29bdb));
	/* The digits of the proof, from the last one on. */
	sp_exporter_proof(key, words[0], words[1], proof);
	cr_expect_str_eq(proof, "bdb92c75f7cca2f");
}
