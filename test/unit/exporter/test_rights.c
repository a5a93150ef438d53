/* SPDX-License-Identifier: Apache-2.0 */
/* Which rights count as more than those of another process, and giving up rights. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <errno.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "export/exporter/rights.h"
#include "host_double.h"

static struct sp_rights a;
static struct sp_rights b;
static struct sp_view view;
static struct sp_host seen;

static bool exceeds(const char *own, const char *other)
{
	cr_assert(sp_rights_parse(own, &a), "%s", own);
	cr_assert(sp_rights_parse(other, &b), "%s", other);
	return sp_rights_exceed(&a, &b);
}

#define STATUS(uid, gid, groups, caps)                                                             \
	"Name:\tx\nUmask:\t0022\nUid:\t" uid "\nGid:\t" gid "\nFDSize:\t64\nGroups:\t" groups      \
	" \nCapInh:\t0\nCapPrm:\t" caps "\nCapEff:\t0\n"
#define ROOT STATUS("0\t0\t0\t0", "0\t0\t0\t0", "0", "000001ffffffffff")

Test(rights, of_the_same_are_not_exceeded, .timeout = 20)
{
	cr_expect_not(exceeds(ROOT, ROOT));
	cr_expect_not(exceeds(STATUS("7 7 7 7", "8 8 8 8", "9 10", "0"),
			      STATUS("7 7 7 7", "8 8 8 8", "10 9", "0")));
}

Test(rights, are_exceeded_by_each_that_the_other_has_not, .timeout = 20)
{
	cr_expect(exceeds(ROOT, STATUS("7 7 7 7", "0 0 0 0", "0", "1ffffffffff")), "user");
	cr_expect(exceeds(ROOT, STATUS("0 0 0 0", "8 8 8 8", "0", "1ffffffffff")), "group");
	cr_expect(exceeds(STATUS("7 7 7 7", "8 8 8 8", "9 10", "0"),
			  STATUS("7 7 7 7", "8 8 8 8", "9", "0")),
		  "groups");
	cr_expect(exceeds(ROOT, STATUS("0 0 0 0", "0 0 0 0", "0", "1fffffffffe")), "capabilities");
}

/* A user or a group that is only the real or the saved one can become the effective one. */
Test(rights, of_each_id_that_a_process_can_take_are_exceeded, .timeout = 20)
{
	const char *same = STATUS("7 7 7 7", "8 8 8 8", "", "0");

	cr_expect(exceeds(STATUS("1 7 7 7", "8 8 8 8", "", "0"), same), "real user");
	cr_expect(exceeds(STATUS("7 1 7 7", "8 8 8 8", "", "0"), same), "effective user");
	cr_expect(exceeds(STATUS("7 7 1 7", "8 8 8 8", "", "0"), same), "saved user");
	cr_expect(exceeds(STATUS("7 7 7 7", "1 8 8 8", "", "0"), same), "real group");
	cr_expect(exceeds(STATUS("7 7 7 7", "8 1 8 8", "", "0"), same), "effective group");
	cr_expect(exceeds(STATUS("7 7 7 7", "8 8 1 8", "", "0"), same), "saved group");
	cr_expect(exceeds(STATUS("7 7 7 7", "8 8 8 8", "", "8000000000"), same),
		  "the highest capability");
	cr_expect_not(exceeds(STATUS("7 7 7 7", "8 8 8 8", "8", "0"), same),
		      "a group that is the other's own");
}

Test(rights, that_are_only_laid_aside_are_not_given_up, .timeout = 20)
{
	cr_expect_not(exceeds(ROOT, STATUS("0 7 0 7", "0 8 0 8", "0", "1ffffffffff")));
	cr_expect_not(exceeds(ROOT, STATUS("7 7 0 7", "0 0 0 0", "0", "1ffffffffff")));
}

Test(rights, less_than_the_others_do_no_harm, .timeout = 20)
{
	cr_expect_not(exceeds(STATUS("7 7 7 7", "8 8 8 8", "", "0"),
			      STATUS("7 7 7 7", "8 8 8 8", "1 2 3", "1ffffffffff")));
}

Test(rights, are_not_read_from_what_has_none, .timeout = 20)
{
	cr_expect_not(sp_rights_parse("", &a));
	cr_expect_not(sp_rights_parse("Name:\tx\nUid:\t1 1 1 1\n", &a));
	cr_expect_not(sp_rights_parse("\nUid:\t1 1 1 1\nGid:\t1 1 1 1\nGroups:\t\n", &a));
	cr_expect_not(sp_rights_parse("\nUid:\t1 1 1 1\nGid:\t1 1 1 1\nCapPrm:\t0\n", &a));
	cr_expect_not(sp_rights_parse("\nUid:\t1 1 1 1\nGroups:\t\nCapPrm:\t0\n", &a));
	cr_expect_not(sp_rights_parse("\nGid:\t1 1 1 1\nGroups:\t\nCapPrm:\t0\n", &a));
	cr_expect_not(sp_rights_parse("\nUid:\t1 1\nGid:\t1 1 1 1\nGroups:\t\nCapPrm:\t0\n", &a));
	cr_expect_not(sp_rights_parse("\nUid:\t1 1 1 1\nGid:\t1 1\nGroups:\t\nCapPrm:\t0\n", &a));
	cr_expect_not(sp_rights_parse("Name:\tx\nUid:\nGid:\t1 1 1\nGroups:\nCapPrm:\t0\n", &a));
}

/* A list that was cut would look like a shorter one. */
Test(rights, are_not_read_from_a_list_with_too_many_groups, .timeout = 20)
{
	static char text[128 + 2 * (SP_RIGHTS_GROUPS_MAX + 1)];

	for (unsigned more = 0; more < 2; more++) {
		char *at = stpcpy(text, "\nUid:\t1 1 1 1\nGid:\t1 1 1 1\nCapPrm:\t0\nGroups:\t");

		for (unsigned i = 0; i < SP_RIGHTS_GROUPS_MAX + more; i++)
			at = stpcpy(at, "9 ");
		cr_expect_eq(sp_rights_parse(text, &a), more == 0);
	}
	cr_expect_eq(a.groups, SP_RIGHTS_GROUPS_MAX);
}

static int gone[2];

/* Changes to a user with one group, and with one capability that does not help to open files. */
static void give_up(void)
{
	const gid_t groups[] = {4001};

	if (setgroups(1, groups) != 0 || setresgid(4000, 4000, 4000) != 0 ||
	    setresuid(4002, 4002, 4002) != 0)
		_exit(1);
	(void)!write(gone[1], "x", 1);
}

static void lay_aside(void)
{
	(void)!setresuid(0, 4002, 0);
	(void)!write(gone[1], "x", 1);
}

/* The exit status of an exporter that follows such a host. */
static int follow(void (*run)(void), int (*follower)(void))
{
	int status = 0;
	char byte;
	pid_t pid;

	host_make();
	cr_assert_eq(pipe(gone), 0);
	host_start(run);
	cr_assert_eq(sp_view_open(&view, dup(host.fd)), 0);
	cr_assert_eq(read(gone[0], &byte, 1), 1);
	pid = fork();
	if (pid == 0)
		_exit(follower());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	host_kill();
	return WEXITSTATUS(status);
}

/*
 * Follows a host from an exporter that was started before; the map from the beginning is not
 * needed.
 */
static int become(void)
{
	const gid_t groups[] = {0, 4005};

	if (setgroups(2, groups) != 0 || sp_host_open(&seen, &view, &host_nothing) != 0)
		return 1;
	if (sp_rights_compare(&seen) != 1)
		return 2;
	if (sp_rights_follow() != 0 || sp_rights_compare(&seen) != 0)
		return 3;
	if (getuid() != 4002 || geteuid() != 4002 || getegid() != 4000 || getgroups(0, NULL) != 1)
		return 4;
	if (setresuid(0, 0, 0) == 0 || setgroups(0, NULL) == 0)
		return 5;
	return prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 ? 0 : 6;
}

static int stay(void)
{
	if (sp_host_open(&seen, &view, &host_nothing) != 0)
		return 1;
	return sp_rights_compare(&seen);
}

/* An exporter that is root without a capability cannot leave root's group. */
static int cannot(void)
{
	if (sp_host_open(&seen, &view, &host_nothing) != 0)
		return 1;
	if (syscall(SYS_setresuid, 4003, 4003, 4003) != 0 || sp_rights_compare(&seen) != 1)
		return 2;
	return sp_rights_follow() == -EPERM ? 0 : 3;
}

static void *follow_on_a_thread(void *arg)
{
	bool *good = arg;

	*good = sp_rights_compare(&seen) == 1 && sp_rights_follow() == 0 &&
		sp_rights_compare(&seen) == 0;
	return NULL;
}

/*
 * A thread that has given up rights tells the other thread nothing: that thread compares, and gives
 * them up itself.
 */
static int follow_twice(void)
{
	bool good = false;
	pthread_t other;

	if (sp_host_open(&seen, &view, &host_nothing) != 0 ||
	    pthread_create(&other, NULL, follow_on_a_thread, &good) != 0)
		return 1;
	(void)pthread_join(other, NULL);
	if (!good)
		return 2;
	if (geteuid() != 0 || sp_rights_compare(&seen) != 1)
		return 3;
	return sp_rights_follow() == 0 && geteuid() == 4002 ? 0 : 4;
}

Test(rights, are_given_up_by_each_thread_for_itself, .timeout = 20)
{
	if (geteuid() != 0)
		cr_skip_test("needs root");
	int step = follow(give_up, follow_twice);

	cr_expect_eq(step, 0, "step %d", step);
}

Test(rights, are_given_up_for_good_when_the_host_has, .timeout = 20)
{
	if (geteuid() != 0)
		cr_skip_test("needs root");
	int step = follow(give_up, become);

	cr_expect_eq(step, 0, "step %d", step);
}

Test(rights, are_kept_as_long_as_the_host_can_have_them_back, .timeout = 20)
{
	if (geteuid() != 0)
		cr_skip_test("needs root");
	cr_expect_eq(follow(lay_aside, stay), 0);
}

Test(rights, that_cannot_be_given_up_are_noticed, .timeout = 20)
{
	if (geteuid() != 0)
		cr_skip_test("needs root");
	cr_expect_eq(follow(give_up, cannot), 0);
}

static void change_nothing(void)
{
	(void)!write(gone[1], "x", 1);
}

/* Whether other processes of our user may read us after a comparison with the host. */
static int compare_and_tell(void)
{
	(void)prctl(PR_SET_DUMPABLE, 1);
	if (sp_host_open(&seen, &view, &host_nothing) != 0)
		return 2;
	(void)sp_rights_compare(&seen);
	return prctl(PR_GET_DUMPABLE);
}

Test(rights, to_read_us_are_those_to_read_the_host, .timeout = 20)
{
	if (geteuid() != 0)
		cr_skip_test("needs root");
	cr_expect_eq(follow(change_nothing, compare_and_tell), 1);
	cr_expect_eq(follow(give_up, compare_and_tell), 0, "the kernel lets nobody read it");
}

static void leave_namespace(void)
{
	if (unshare(CLONE_NEWUSER) != 0)
		_exit(1);
	(void)!write(gone[1], "x", 1);
}

static int cannot_follow(void)
{
	if (sp_host_open(&seen, &view, &host_nothing) != 0)
		return 1;
	return sp_rights_compare(&seen) == 1 ? 0 : 2;
}

/* The host has all capabilities there, and none in our namespace. */
Test(rights, of_another_user_namespace_are_not_ours, .timeout = 20)
{
	pid_t pid;
	int status = 0;

	if (geteuid() != 0)
		cr_skip_test("needs root");
	pid = fork();
	if (pid == 0)
		_exit(unshare(CLONE_NEWUSER) == 0 ? 0 : 1);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	if (status != 0)
		cr_skip_test("no user namespaces here");
	cr_expect_eq(follow(leave_namespace, cannot_follow), 0);
}

Test(rights, of_a_dead_host_are_those_of_before, .timeout = 20)
{
	host_make();
	host_start(NULL);
	cr_assert_eq(sp_view_open(&view, dup(host.fd)), 0);
	pid_t pid = fork();
	int status = 0;

	if (pid == 0) {
		if (sp_host_open(&seen, &view, &host_nothing) != 0)
			_exit(1);
		(void)!kill(host.pid, 9);
		while (sp_host_lives(&seen))
			(void)poll(NULL, 0, 1);
		/* a zombie first, then no process */
		for (unsigned i = 0; i < 5000 && sp_rights_compare(&seen) == 0; i++)
			(void)poll(NULL, 0, 1);
		_exit(sp_rights_compare(&seen) == -ENOENT ? 7 : 2);
	}
	cr_assert_eq(waitpid(host.pid, NULL, 0), host.pid);
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_expect_eq(WEXITSTATUS(status), 7);
}
