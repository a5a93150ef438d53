/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares rights and gives them up (rights.h). Uses raw system calls, which change only the
 * calling thread: the C library's functions change all threads, and end the process if one thread
 * gets another result, such as libcurl's, which looks up a name with the earlier rights. Context:
 * the exporter, with its turn.
 */
#define _GNU_SOURCE
#include "export/exporter/rights.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "export/exporter/confinement.h"

#define STATUS_MAX ((size_t)1 << 20) /* most of it is the list of groups */

/*
 * Static, because it is too large for a stack, and without memory nothing could be compared. The
 * thread with the turn uses it.
 */
static struct sp_rights host;
static struct sp_rights own;
static char status_text[STATUS_MAX];
static uint64_t filters; /* seccomp filters of the host */

/* Finds the values of the line "\nName:". The program's name before them contains no line break. */
static const char *field(const char *status, const char *name)
{
	const char *line = strstr(status, name);

	return line != NULL ? line + strlen(name) : NULL;
}

static bool parse_ids(const char *at, uint32_t id[3])
{
	for (unsigned i = 0; i < 3; i++) {
		char *end;

		id[i] = (uint32_t)strtoul(at, &end, 10);
		if (end == at)
			return false;
		at = end;
	}
	return true;
}

bool sp_rights_parse(const char *status, struct sp_rights *r)
{
	const char *uid = field(status, "\nUid:");
	const char *gid = field(status, "\nGid:");
	const char *groups = field(status, "\nGroups:");
	const char *capabilities = field(status, "\nCapPrm:");

	r->groups = 0;
	if (uid == NULL || gid == NULL || groups == NULL || capabilities == NULL ||
	    !parse_ids(uid, r->uid) || !parse_ids(gid, r->gid))
		return false;
	r->capabilities = strtoull(capabilities, NULL, 16);
	for (;;) {
		char *end;

		groups += strspn(groups, " \t");
		if (*groups < '0' || *groups > '9')
			return true;
		if (r->groups == SP_RIGHTS_GROUPS_MAX)
			return false;
		r->group[r->groups++] = (uint32_t)strtoul(groups, &end, 10);
		groups = end;
	}
}

static bool is_one_of(uint32_t id, const uint32_t *list, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (list[i] == id)
			return true;
	return false;
}

static bool exceeds_users(const struct sp_rights *a, const struct sp_rights *b)
{
	return !is_one_of(a->uid[1], b->uid, 3) || !is_one_of(a->uid[0], b->uid, 3) ||
	       !is_one_of(a->uid[2], b->uid, 3);
}

static bool exceeds_gid(const struct sp_rights *a, const struct sp_rights *b)
{
	return !is_one_of(a->gid[1], b->gid, 3) || !is_one_of(a->gid[0], b->gid, 3) ||
	       !is_one_of(a->gid[2], b->gid, 3);
}

static bool exceeds_groups(const struct sp_rights *a, const struct sp_rights *b)
{
	for (unsigned i = 0; i < a->groups; i++)
		if (!is_one_of(a->group[i], b->group, b->groups) &&
		    !is_one_of(a->group[i], b->gid, 3))
			return true;
	return false;
}

bool sp_rights_exceed(const struct sp_rights *a, const struct sp_rights *b)
{
	return exceeds_users(a, b) || exceeds_gid(a, b) || exceeds_groups(a, b) ||
	       (a->capabilities & ~b->capabilities) != 0;
}

static bool read_own(struct sp_rights *r)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{.effective = 0}};
	long n = syscall(SYS_getgroups, SP_RIGHTS_GROUPS_MAX, r->group);

	if (n < 0 || syscall(SYS_capget, &head, data) != 0 ||
	    syscall(SYS_getresuid, &r->uid[0], &r->uid[1], &r->uid[2]) != 0 ||
	    syscall(SYS_getresgid, &r->gid[0], &r->gid[1], &r->gid[2]) != 0)
		return false;
	r->groups = (unsigned)n;
	r->capabilities = (uint64_t)data[1].permitted << 32 | data[0].permitted;
	return true;
}

/* A process in a user namespace of its own has all capabilities there, and none outside. */
static bool is_in_our_namespace(const struct sp_host *h)
{
	struct stat ours;
	struct stat theirs;

	return fstatat(h->proc, "ns/user", &theirs, 0) != 0 ||
	       stat("/proc/self/ns/user", &ours) != 0 ||
	       (theirs.st_ino == ours.st_ino && theirs.st_dev == ours.st_dev);
}

void sp_rights_hide(void)
{
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/*
 * Files in the folder of a non-dumpable process belong to root and not to its user. For a process
 * of root they show nothing, so the process tells it itself (struct sp_region.is_undumpable).
 */
static bool is_undumpable(const struct sp_host *h, uint32_t user)
{
	struct stat st;

	return fstatat(h->proc, "status", &st, 0) == 0 && st.st_uid != user;
}

int sp_rights_compare(const struct sp_host *h)
{
	ssize_t got;
	bool good;

	/* Without /proc we have no rights that the host could lose: see sp_host_open(). */
	if (h->proc < 0)
		return 0;
	filters = 0;
	got = sp_host_read(h, "status", status_text, sizeof(status_text));
	/* An ended process has no capabilities to compare with. */
	if (got == -ESRCH || (got < 0 && !sp_host_lives(h)))
		got = -ENOENT;
	good = got > 0 && sp_rights_parse(status_text, &host);
	if (got < 0)
		return (int)got;
	if (!good || !read_own(&own))
		return -EINVAL;
	filters = sp_confinement_filters(status_text);
	if (!is_in_our_namespace(h))
		host.capabilities = 0;
	if (is_undumpable(h, host.uid[1]))
		sp_rights_hide();
	return sp_rights_exceed(&own, &host) ? 1 : 0;
}

uint64_t sp_rights_filters(void)
{
	return filters;
}

static bool set_capabilities(uint64_t keep)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{.effective = 0}};

	/* Capabilities that a change of users has removed cannot be kept. */
	if (syscall(SYS_capget, &head, data) != 0)
		return false;
	for (unsigned i = 0; i < 2; i++) {
		uint32_t part = (uint32_t)(keep >> (32 * i)) & data[i].permitted;

		data[i] = (struct __user_cap_data_struct){.effective = part, .permitted = part};
	}
	return syscall(SYS_capset, &head, data) == 0;
}

/*
 * Groups first, capabilities last: each step gives up what the earlier steps need. The kernel's
 * answer afterwards decides whether it was enough, not the results of the steps.
 */
int sp_rights_follow(void)
{
	if (exceeds_groups(&own, &host))
		(void)syscall(SYS_setgroups, host.groups, host.group);
	if (exceeds_gid(&own, &host))
		(void)syscall(SYS_setresgid, host.gid[1], host.gid[1], host.gid[1]);
	if (exceeds_users(&own, &host))
		(void)syscall(SYS_setresuid, host.uid[1], host.uid[1], host.uid[1]);
	if (!set_capabilities(host.capabilities))
		return -EPERM;
	/*
	 * We may have read files that our new user may not read, so other processes must not read
	 * our memory.
	 */
	sp_rights_hide();
	return read_own(&own) && !sp_rights_exceed(&own, &host) ? 0 : -EPERM;
}
