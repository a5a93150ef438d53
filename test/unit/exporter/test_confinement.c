/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a process has confined itself, as the kernel shows it. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "export/exporter/confinement.h"
#include "host_double.h"

static enum sp_confined of_labels(const char *before, const char *now)
{
	struct sp_confinement a = {.label = ""};
	struct sp_confinement b = {.label = ""};

	(void)snprintf(a.label, sizeof(a.label), "%s", before);
	(void)snprintf(b.label, sizeof(b.label), "%s", now);
	return sp_confinement_compare(&a, &b);
}

Test(confinement, is_another_label, .timeout = 20)
{
	cr_expect_eq(of_labels("unconfined", "/usr/sbin/named (enforce)"), SP_CONFINED_LABEL);
	cr_expect_eq(of_labels("shop (enforce)", "shop//&strict (enforce)"), SP_CONFINED_LABEL);
	cr_expect_eq(of_labels("shop (enforce)", "shopper (enforce)"), SP_CONFINED_LABEL);
	cr_expect_eq(of_labels("shop//cart", "shop//pay"), SP_CONFINED_LABEL);
	cr_expect_eq(of_labels("system_u:system_r:httpd_t:s0", "system_u:system_r:httpd_t:s0:c7"),
		     SP_CONFINED_LABEL);
}

Test(confinement, is_no_label_of_before_or_one_that_is_left_again, .timeout = 20)
{
	cr_expect_eq(of_labels("shop (enforce)", "shop (enforce)"), SP_CONFINED_NOT);
	cr_expect_eq(of_labels("shop (complain)", "shop (enforce)"), SP_CONFINED_NOT, "a mode");
	cr_expect_eq(of_labels("shop (enforce)", "shop//cart (enforce)"), SP_CONFINED_NOT, "a hat");
	cr_expect_eq(of_labels("shop//cart (enforce)", "shop (enforce)"), SP_CONFINED_NOT);
	cr_expect_eq(of_labels("", "shop (enforce)"), SP_CONFINED_NOT, "not seen at first");
	cr_expect_eq(of_labels("shop (enforce)", ""), SP_CONFINED_NOT, "not seen now");
}

static enum sp_confined of_namespaces(struct sp_namespace mounts[2], struct sp_namespace users[2])
{
	const struct sp_confinement a = {.mounts = mounts[0], .users = users[0]};
	const struct sp_confinement b = {.mounts = mounts[1], .users = users[1]};

	return sp_confinement_compare(&a, &b);
}

Test(confinement, is_another_namespace, .timeout = 20)
{
	struct sp_namespace same[2] = {{4, 7}, {4, 7}};
	struct sp_namespace inode[2] = {{4, 7}, {4, 8}};
	struct sp_namespace device[2] = {{4, 7}, {5, 7}};
	struct sp_namespace unseen[2] = {{4, 7}, {0, 0}};
	struct sp_namespace unknown[2] = {{0, 0}, {4, 7}};

	cr_expect_eq(of_namespaces(same, same), SP_CONFINED_NOT);
	cr_expect_eq(of_namespaces(inode, same), SP_CONFINED_MOUNTS);
	cr_expect_eq(of_namespaces(device, same), SP_CONFINED_MOUNTS);
	cr_expect_eq(of_namespaces(same, inode), SP_CONFINED_USERS);
	cr_expect_eq(of_namespaces(unseen, unknown), SP_CONFINED_NOT);
}

Test(confinement, grows_with_filters, .timeout = 20)
{
	uint64_t none = sp_confinement_filters("Name:\tx\nSeccomp:\t0\nSeccomp_filters:\t0\n");
	uint64_t strict = sp_confinement_filters("Name:\tx\nSeccomp:\t1\nSeccomp_filters:\t0\n");
	uint64_t one = sp_confinement_filters("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n");
	uint64_t two = sp_confinement_filters("Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t2\n");
	uint64_t old_none = sp_confinement_filters("Name:\tx\nSeccomp:\t0\n");
	uint64_t old_some = sp_confinement_filters("Name:\tx\nSeccomp:\t2\n");

	cr_expect_neq(none, 0);
	cr_expect_gt(strict, none);
	cr_expect_gt(one, strict);
	cr_expect_gt(two, one);
	cr_expect_gt(old_some, old_none);
}

Test(confinement, has_a_sentence_for_each, .timeout = 20)
{
	for (int how = SP_CONFINED_NOT + 1; how < SP_CONFINED_N; how++)
		cr_expect_neq(sp_confinement_text((enum sp_confined)how), NULL);
}

static int told[2];
static int flags;

static void unshare_and_tell(void)
{
	if (unshare(flags) != 0)
		_exit(1);
	(void)!write(told[1], "x", 1);
}

/* A process that is younger than the exporter can only join. */
static const struct sp_host_descriptors joins = {
	.region = -1, .folder = -1, .maps = -1, .joined = true};

static struct sp_confinement confinement_of_host(void)
{
	struct sp_confinement is;
	struct sp_view view;
	struct sp_host seen;

	cr_assert_eq(sp_view_open(&view, dup(host.fd)), 0);
	cr_assert_eq(sp_host_open(&seen, &view, &joins), 0);
	cr_assert_neq(seen.confinement.mounts.inode, 0);
	sp_confinement_read(seen.proc, &seen.confinement, &is);
	cr_expect_eq(sp_confinement_compare(&seen.confinement, &is), SP_CONFINED_NOT);
	return is;
}

/* The kernel shows the change, and no reader of ours: after unshare(2) nothing else has changed. */
static void expect_of(int unshared, enum sp_confined want)
{
	struct sp_confinement before;
	struct sp_confinement now;
	char byte;

	sp_confinement_read(-1, NULL, &before);
	cr_expect_eq(before.mounts.inode, 0, "of no process nothing is known");
	flags = unshared;
	host_make();
	cr_assert_eq(pipe(told), 0);
	host_start(unshare_and_tell);
	(void)close(told[1]);
	if (read(told[0], &byte, 1) != 1)
		cr_skip_test("no such namespaces here");
	now = confinement_of_host();
	host_kill();
	/* The process before the change is the test itself. */
	host.region->pid = (uint32_t)getpid();
	before = confinement_of_host();
	cr_expect_eq(sp_confinement_compare(&before, &now), want);
}

Test(confinement, of_a_process_with_mounts_of_its_own, .timeout = 20)
{
	expect_of(CLONE_NEWNS, SP_CONFINED_MOUNTS);
}

Test(confinement, of_a_process_with_users_of_its_own, .timeout = 20)
{
	expect_of(CLONE_NEWUSER, SP_CONFINED_USERS);
}

Test(confinement, is_none_by_another_network, .timeout = 20)
{
	expect_of(CLONE_NEWNET, SP_CONFINED_NOT);
}

/*
 * The exporter keeps the count of its filters from the first call, and counts none of the later
 * ones.
 */
Test(confinement, of_the_exporter_is_that_of_its_beginning, .timeout = 20)
{
	struct sock_filter all[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
	const struct sock_fprog program = {1, all};
	uint64_t own = sp_confinement_own_filters();

	cr_assert_neq(own, 0);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
		cr_skip_test("no filter is to be had");
	cr_expect_eq(sp_confinement_own_filters(), own);
}
