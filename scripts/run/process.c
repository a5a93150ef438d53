/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whoever started the process wrote its environment, and whoever looks at it may be root. A path in
 * that environment, opened with root's rights, would give the process's server a file that the
 * process may not read; in a container the same path is also another file. So all that comes from
 * /proc is opened first, and then this program becomes as weak as the process, for good. Context:
 * spanprof-run --check --pid and spanprof-probe --pid; one thread.
 */
#define _GNU_SOURCE
#include "scripts/run/process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ENVIRONMENT_MAX ((size_t)4 << 20)
#define VARIABLES_MAX 16384U
#define STATUS_MAX ((size_t)64 << 10)
#define AUXV_MAX 4096U
/* What code of the other root (of its name service, say) may write into files we were given. */
#define OUTPUT_MAX ((rlim_t)4 << 20)

/* At most max bytes; a NUL follows. NULL = it cannot be read. *len may be NULL. */
static char *read_proc(const struct sp_process *p, const char *name, size_t max, size_t *len)
{
	int fd = openat(p->proc, name, O_RDONLY | O_CLOEXEC);
	char *data = fd >= 0 ? malloc(max + 1) : NULL;
	size_t have = 0;
	ssize_t got = data != NULL ? 1 : -1;

	while (got > 0 && have < max && (got = read(fd, data + have, max - have)) > 0)
		have += (size_t)got;
	if (fd >= 0)
		(void)close(fd);
	if (got < 0) {
		free(data);
		return NULL;
	}
	data[have] = '\0';
	if (len != NULL)
		*len = have;
	return data;
}

/* Where the values of "Name:\t..." begin. */
static const char *field(const char *status, const char *name)
{
	const char *line = strstr(status, name);

	/* The program's name, which comes first, may hold anything but a line break. */
	while (line != NULL && line != status && line[-1] != '\n')
		line = strstr(line + 1, name);
	return line != NULL ? line + strlen(name) : NULL;
}

static bool parse_rights(const char *status, struct sp_process_rights *r)
{
	const char *uid = field(status, "Uid:");
	const char *gid = field(status, "Gid:");
	const char *groups = field(status, "Groups:");
	const char *capabilities = field(status, "CapEff:");
	char *end;

	memset(r, 0, sizeof(*r));
	if (uid == NULL || gid == NULL || groups == NULL || capabilities == NULL)
		return false;
	/* The real one comes first. */
	(void)strtoul(uid, &end, 10);
	r->uid = (uid_t)strtoul(end, NULL, 10);
	(void)strtoul(gid, &end, 10);
	r->gid = (gid_t)strtoul(end, NULL, 10);
	r->capabilities = strtoull(capabilities, NULL, 16);
	while (r->groups < SP_PROCESS_GROUPS_MAX) {
		groups += strspn(groups, " \t");
		if (*groups < '0' || *groups > '9')
			return true;
		r->group[r->groups++] = (gid_t)strtoul(groups, &end, 10);
		groups = end;
	}
	return false;
}

static bool same_rights(const struct sp_process_rights *a, const struct sp_process_rights *b)
{
	return a->uid == b->uid && a->gid == b->gid && a->groups == b->groups &&
	       memcmp(a->group, b->group, a->groups * sizeof(a->group[0])) == 0;
}

static bool read_rights(struct sp_process *p, struct sp_process_rights *r)
{
	char *status = read_proc(p, "status", STATUS_MAX, NULL);
	const char *numbers = status != NULL ? field(status, "NSpid:") : NULL;
	bool ok = status != NULL && parse_rights(status, r);

	/* The last one is that of the innermost namespace. */
	while (numbers != NULL && *(numbers += strspn(numbers, " \t")) >= '0' && *numbers <= '9') {
		char *end;

		p->inner_pid = (unsigned)strtoul(numbers, &end, 10);
		numbers = end;
	}
	free(status);
	return ok;
}

/* AT_SECURE in an array of pairs of that size; -1 = it is none, or has no such entry. */
static int secure_of(const char *auxv, size_t len, size_t word)
{
	for (size_t at = 0; at + 2 * word <= len; at += 2 * word) {
		uint64_t type = 0;
		uint64_t value = 0;

		memcpy(&type, auxv + at, word);
		memcpy(&value, auxv + at + word, word);
		if (type == AT_SECURE)
			return value != 0;
	}
	return -1;
}

/* What the kernel told the program's loader when it began. Unknown counts as secure. */
static bool is_secure(const struct sp_process *p)
{
	size_t len = 0;
	char *auxv = read_proc(p, "auxv", AUXV_MAX, &len);
	int secure = auxv != NULL ? secure_of(auxv, len, sizeof(uint64_t)) : -1;

	if (auxv != NULL && secure < 0)
		secure = secure_of(auxv, len, sizeof(uint32_t));
	free(auxv);
	return secure != 0;
}

static int read_environment(struct sp_process *p)
{
	size_t len = 0;
	size_t n = 0;

	p->strings = read_proc(p, "environ", ENVIRONMENT_MAX, &len);
	p->environment = calloc(VARIABLES_MAX + 1, sizeof(*p->environment));
	if (p->strings == NULL || p->environment == NULL)
		return -EACCES;
	p->cut = len == ENVIRONMENT_MAX;
	for (size_t at = 0; at < len; at += strlen(p->strings + at) + 1) {
		if (n == VARIABLES_MAX) {
			p->cut = true;
			break;
		}
		p->environment[n++] = p->strings + at;
	}
	return 0;
}

/*
 * Rights and environment have to be of the same program: the process may turn into another one
 * between two looks, such as one with more rights than whoever wrote the environment. Both are looked
 * at before and after; "secure" cannot go away but by turning into yet another program.
 */
static int read_all(struct sp_process *p)
{
	struct sp_process_rights *after = calloc(1, sizeof(*after));
	int err = -EACCES;

	if (after != NULL && read_rights(p, &p->rights)) {
		p->secure = is_secure(p);
		err = read_environment(p);
		p->secure = is_secure(p) || p->secure;
		if (err == 0 && !(read_rights(p, after) && same_rights(&p->rights, after)))
			err = -EAGAIN;
	}
	free(after);
	return err;
}

/* As seen from the root that we have at present. */
static void name_program(struct sp_process *p)
{
	ssize_t n = readlinkat(p->proc, "exe", p->path, sizeof(p->path) - 1);

	p->path[n > 0 ? n : 0] = '\0';
}

int sp_process_open(pid_t pid, struct sp_process *p)
{
	char folder[32];
	int err;

	memset(p, 0, sizeof(*p));
	p->root = p->maps = p->exe = -1;
	(void)snprintf(folder, sizeof(folder), "/proc/%d", (int)pid);
	p->proc = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (p->proc < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	p->inner_pid = (unsigned)pid;
	err = read_all(p);
	p->root = openat(p->proc, "root", O_PATH | O_DIRECTORY | O_CLOEXEC);
	p->maps = openat(p->proc, "maps", O_RDONLY | O_CLOEXEC);
	p->exe = openat(p->proc, "exe", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	name_program(p);
	if (err == 0 && (p->root < 0 || p->maps < 0))
		err = -errno;
	if (err != 0)
		sp_process_close(p);
	return err;
}

static void close_one(int *fd)
{
	if (*fd >= 0)
		(void)close(*fd);
	*fd = -1;
}

void sp_process_close(struct sp_process *p)
{
	close_one(&p->proc);
	close_one(&p->root);
	close_one(&p->maps);
	close_one(&p->exe);
	free(p->strings);
	free(p->environment);
	p->strings = NULL;
	p->environment = NULL;
}

/* Whether it lives in another namespace of that kind than we do. */
static bool other_namespace(const struct sp_process *p, const char *name)
{
	char theirs[64] = "";
	char ours[64] = "";
	char path[64];

	(void)snprintf(path, sizeof(path), "ns/%s", name);
	if (readlinkat(p->proc, path, theirs, sizeof(theirs) - 1) < 0)
		return true;
	(void)snprintf(path, sizeof(path), "/proc/self/ns/%s", name);
	return readlink(path, ours, sizeof(ours) - 1) < 0 || strcmp(theirs, ours) != 0;
}

/* Through the root that we hold, mounts of its namespace are seen as the process sees them. */
static bool enter_root(struct sp_process *p)
{
	struct stat theirs;
	struct stat ours;

	if (fstat(p->root, &theirs) != 0 || stat("/", &ours) != 0)
		return false;
	if (theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino &&
	    !other_namespace(p, "mnt"))
		return true;
	return fchdir(p->root) == 0 && chroot(".") == 0 && chdir("/") == 0;
}

/* What it sends is to come from where it is: it may not be allowed into our network. */
static void enter_network(struct sp_process *p)
{
	int fd;

	if (!other_namespace(p, "net"))
		return;
	fd = openat(p->proc, "ns/net", O_RDONLY | O_CLOEXEC);
	p->other_network = fd < 0 || setns(fd, CLONE_NEWNET) != 0;
	if (fd >= 0)
		(void)close(fd);
}

/* Of the capabilities only the one that decides which files can be opened, and only if it has it. */
static bool drop_capabilities(uint64_t keep)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[2] = {{.effective = 0}};
	const uint64_t files = UINT64_C(1) << CAP_DAC_OVERRIDE;

	if (syscall(SYS_capget, &head, data) != 0)
		return false;
	keep &= files & data[0].effective;
	memset(data, 0, sizeof(data));
	data[0].effective = data[0].permitted = (uint32_t)keep;
	head.pid = 0;
	return syscall(SYS_capset, &head, data) == 0;
}

static bool enter_rights(const struct sp_process_rights *r, uint64_t keep)
{
	struct sp_process_rights *own = calloc(1, sizeof(*own));
	int groups;
	bool ok;

	if (own == NULL)
		return false;
	groups = getgroups(SP_PROCESS_GROUPS_MAX, own->group);
	own->groups = groups > 0 ? (unsigned)groups : 0;
	own->uid = geteuid();
	own->gid = getegid();
	ok = groups >= 0 && getuid() == own->uid && getgid() == own->gid && same_rights(own, r);
	free(own);
	if (!ok && (setgroups(r->groups, r->group) != 0 || setresgid(r->gid, r->gid, r->gid) != 0 ||
		    setresuid(r->uid, r->uid, r->uid) != 0))
		return false;
	/* Of the same user as the process we could be read by it. */
	return drop_capabilities(keep) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0;
}

/* Libraries of the other root may be run by us (its name service): they must find nothing of ours. */
static void leave_nothing(void)
{
	const struct rlimit output = {OUTPUT_MAX, OUTPUT_MAX};
	int fd = open("/dev/null", O_RDONLY);

	if (fd > STDIN_FILENO) {
		(void)dup2(fd, STDIN_FILENO);
		(void)close(fd);
	}
	/* Without a terminal of its own nobody can type into ours. The first of a group cannot leave its
	 * session, but give up the terminal. */
	if (setsid() < 0 && (fd = open("/dev/tty", O_RDWR | O_CLOEXEC)) >= 0) {
		(void)ioctl(fd, TIOCNOTTY);
		(void)close(fd);
	}
	(void)setrlimit(RLIMIT_FSIZE, &output);
}

bool sp_process_enter(struct sp_process *p, const char **why)
{
	if (p->secure) {
		*why = "it was started with more rights than its caller has";
		return false;
	}
	leave_nothing();
	enter_network(p);
	if (other_namespace(p, "user"))
		p->rights.capabilities = 0;
	if (!enter_root(p)) {
		*why = "it has another root: look from inside its container, or as root";
		return false;
	}
	name_program(p);
	close_one(&p->root);
	close_one(&p->proc);
	if (enter_rights(&p->rights, p->rights.capabilities))
		return true;
	*why = "its rights cannot be taken over: look as its user or as root";
	return false;
}
