/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a program and makes one of its system calls fail, without tracing it: a seccomp filter sends every call of one
 * kind to this process, which allows it or answers in its place. That reaches all descendants of the program,
 * including those of CLONE_UNTRACED.
 *
 * Only our own calls count: in the program and its children the object's calls, recognised by the address of the
 * instruction or the return address, and in the exporter all calls. The host's own calls are always allowed.
 *
 * Usage: inject host|exporter NAME ERRNO FIRST COUNT REPORT PROGRAM [ARGUMENT]...
 * Calls FIRST to FIRST + COUNT - 1 fail, counted from 1; if FIRST is 0, none fails. REPORT gets one line: "status S
 * calls C failed F exporters E crashed K left L". S is the program's wait status; E is the number of orphans (the
 * exporters) that ended before a deadline, K the number of these that a signal ended, and L the number of orphans
 * that inject had to kill.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HOST_MS 30000 /* a program that runs longer hangs */
#define LEFT_MS 20000 /* an exporter that runs longer after its host stays for ever */
#define HUNG_STATUS (-1)

#ifndef SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
#define SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV (1UL << 5)
#endif

#define CHECK(condition)                                                                           \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			fprintf(stderr, "inject: %s (%s)\n", #condition, strerror(errno));         \
			exit(77);                                                                  \
		}                                                                                  \
	} while (0)

static const struct {
	const char *name;
	int number;
} kinds[] = {
#define KIND(name)                                                                                 \
	{                                                                                          \
#name, SYS_##name                                                                  \
	}
	KIND(mmap),
	KIND(mprotect),
	KIND(munmap),
	KIND(madvise),
	KIND(brk),
	KIND(openat),
	KIND(read),
	KIND(pread64),
	KIND(write),
	KIND(close),
	KIND(newfstatat),
	KIND(fstat),
	KIND(readlinkat),
	KIND(getdents64),
	KIND(fcntl),
	KIND(dup3),
	KIND(memfd_create),
	KIND(ftruncate),
	KIND(prlimit64),
	KIND(clone),
	KIND(execve),
	KIND(wait4),
	KIND(kill),
	KIND(setsid),
	KIND(prctl),
	KIND(futex),
	KIND(timer_create),
	KIND(timer_settime),
	KIND(rt_sigaction),
	KIND(rt_sigprocmask),
	KIND(rt_sigtimedwait),
	KIND(eventfd2),
	KIND(ppoll),
	KIND(statfs),
	KIND(fstatfs),
	KIND(renameat),
	KIND(fsync),
	KIND(lseek),
	KIND(socket),
	KIND(connect),
	KIND(getrandom),
	KIND(setresuid),
#ifdef SYS_open
	KIND(open),
	KIND(readlink),
	KIND(poll),
	KIND(rename),
#endif
	{"clone3", 435},
	{"pidfd_open", 434},
	{"close_range", 436},
};

static const struct {
	const char *name;
	int number;
} errors[] = {{"EPERM", EPERM},   {"ENOENT", ENOENT}, {"EINTR", EINTR},   {"EIO", EIO},
	      {"EAGAIN", EAGAIN}, {"ENOMEM", ENOMEM}, {"EACCES", EACCES}, {"EINVAL", EINVAL},
	      {"EMFILE", EMFILE}, {"ENOSPC", ENOSPC}, {"ENOSYS", ENOSYS}, {"ECHILD", ECHILD}};

#define NUMBER_IN(table, wanted, out)                                                              \
	do {                                                                                       \
		*(out) = -1;                                                                       \
		for (size_t i = 0; i < sizeof(table) / sizeof((table)[0]); i++)                    \
			if (strcmp((table)[i].name, wanted) == 0)                                  \
				*(out) = (table)[i].number;                                        \
	} while (0)

static struct {
	bool in_exporter;
	int error;
	unsigned long first;
	unsigned long count;
	unsigned long calls;
	unsigned long failed;
	int listener;
} plan;

static int64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* Installs the filter for this thread and its children; returns the listener's descriptor. */
static int install(int number)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = {.len = sizeof(code) / sizeof(code[0]), .filter = code};
	long fd;

	CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
	/* A sampling signal must not make a call count twice. */
	fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
		     SECCOMP_FILTER_FLAG_NEW_LISTENER | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
		     &prog);
	if (fd < 0)
		fd = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
			     &prog);
	CHECK(fd >= 0);
	return (int)fd;
}

/* The object of the text segment that contains the address. */
static bool text_of(unsigned pid, uint64_t address, char name[PATH_MAX])
{
	char path[64];
	char line[PATH_MAX + 128];
	bool found = false;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%u/maps", pid);
	maps = fopen(path, "re");
	while (maps != NULL && !found && fgets(line, sizeof(line), maps) != NULL) {
		unsigned long start;
		unsigned long end;
		char rights[5];
		int at = 0;

		if (sscanf(line, "%lx-%lx %4s %*x %*s %*u %n", &start, &end, rights, &at) < 3)
			continue;
		if (address < start || address >= end || rights[2] != 'x')
			continue;
		line[strcspn(line, "\n")] = '\0';
		snprintf(name, PATH_MAX, "%.*s", PATH_MAX - 1, at > 0 ? line + at : "");
		found = true;
	}
	if (maps != NULL)
		fclose(maps);
	return found;
}

static bool is_ours(const char *name)
{
	return strstr(name, "/libspanprof.so") != NULL;
}

/*
 * Whether the call returns to the object through the C library's syscall() or one of its plain wrappers, which have
 * at most a few words on the stack below the return address.
 */
static bool returns_to_us(unsigned tid)
{
	char path[64];
	char text[256] = "";
	char name[PATH_MAX];
	uint64_t word[16] = {0};
	unsigned long sp = 0;
	ssize_t got;
	int fd;

	snprintf(path, sizeof(path), "/proc/%u/syscall", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (got <= 0 || sscanf(text, "%*d %*x %*x %*x %*x %*x %*x %lx", &sp) != 1)
		return false;
	snprintf(path, sizeof(path), "/proc/%u/mem", tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	got = pread(fd, word, sizeof(word), (off_t)sp);
	close(fd);
	for (ssize_t i = 0; i < got / (ssize_t)sizeof(word[0]); i++)
		if (word[i] > 65536 && text_of(tid, word[i], name))
			return is_ours(name);
	return false;
}

static bool is_exporter(unsigned pid)
{
	char path[64];
	char target[PATH_MAX] = "";

	snprintf(path, sizeof(path), "/proc/%u/exe", pid);
	return readlink(path, target, sizeof(target) - 1) > 0 &&
	       strcmp(basename(target), "spanprof-exporter") == 0;
}

static bool counts(const struct seccomp_notif *n)
{
	char name[PATH_MAX];

	if (is_exporter(n->pid))
		return plan.in_exporter;
	if (plan.in_exporter || !text_of(n->pid, n->data.instruction_pointer, name))
		return false;
	return is_ours(name) || returns_to_us(n->pid);
}

static void answer(void)
{
	/* The kernel may have larger ones. */
	static union {
		struct seccomp_notif notif;
		char room[512];
	} in;
	static union {
		struct seccomp_notif_resp resp;
		char room[512];
	} out;

	memset(&in, 0, sizeof(in));
	memset(&out, 0, sizeof(out));
	if (ioctl(plan.listener, SECCOMP_IOCTL_NOTIF_RECV, &in) != 0)
		return;
	out.resp.id = in.notif.id;
	out.resp.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
	if (counts(&in.notif)) {
		plan.calls++;
		if (plan.first != 0 && plan.calls >= plan.first &&
		    plan.calls - plan.first < plan.count) {
			out.resp.flags = 0;
			out.resp.error = -plan.error;
			plan.failed++;
		}
	}
	(void)ioctl(plan.listener, SECCOMP_IOCTL_NOTIF_SEND, &out);
}

static void send_descriptor(int channel, int fd)
{
	char byte = 0;
	struct iovec data = {&byte, 1};
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct msghdr m = {.msg_iov = &data,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(c), &fd, sizeof(int));
	CHECK(sendmsg(channel, &m, 0) == 1);
}

static int receive_descriptor(int channel)
{
	char byte;
	struct iovec data = {&byte, 1};
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct msghdr m = {.msg_iov = &data,
			   .msg_iovlen = 1,
			   .msg_control = &control,
			   .msg_controllen = sizeof(control)};
	int fd;

	if (recvmsg(channel, &m, MSG_CMSG_CLOEXEC) != 1 || CMSG_FIRSTHDR(&m) == NULL)
		exit(77);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	return fd;
}

/*
 * A filter for sendmsg() or execve() must not catch the calls that start the program before this process can answer:
 * so the parent takes the listener out of the child by its descriptor's number.
 */
static pid_t start(int number, char **argv)
{
	int channel[2];
	pid_t child;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) == 0);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		int fd = install(number);

		send_descriptor(channel[1], fd);
		close(fd);
		execv(argv[0], argv);
		_exit(126);
	}
	close(channel[1]);
	plan.listener = receive_descriptor(channel[0]);
	close(channel[0]);
	return child;
}

/* Answers until the process has ended, 0 = any child. *status gets its status. False = it did not end. */
static bool serve(pid_t who, int64_t until, int *status, pid_t *ended)
{
	for (;;) {
		struct pollfd p = {.fd = plan.listener, .events = POLLIN};

		*ended = waitpid(who, status, WNOHANG);
		if (*ended != 0)
			return true;
		if (now_ms() > until)
			return false;
		if (poll(&p, 1, 5) != 1)
			continue;
		if ((p.revents & POLLIN) != 0)
			answer();
		else
			(void)poll(NULL, 0, 1);
	}
}

/* Kills all processes that became our children when their parents ended. */
static unsigned kill_all(void)
{
	char path[64];
	unsigned n = 0;
	int pid;
	FILE *list;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", getpid());
	list = fopen(path, "re");
	while (list != NULL && fscanf(list, "%d", &pid) == 1) {
		kill(pid, SIGKILL);
		n++;
	}
	if (list != NULL)
		fclose(list);
	return n;
}

int main(int argc, char **argv)
{
	unsigned exporters = 0;
	unsigned crashed = 0;
	unsigned left = 0;
	int status = HUNG_STATUS;
	int other;
	int number;
	int64_t end;
	FILE *report;
	pid_t child;
	pid_t ended;

	if (argc < 8)
		return 2;
	plan.in_exporter = strcmp(argv[1], "exporter") == 0;
	NUMBER_IN(kinds, argv[2], &number);
	NUMBER_IN(errors, argv[3], &plan.error);
	plan.first = strtoul(argv[4], NULL, 10);
	plan.count = strtoul(argv[5], NULL, 10);
	if (number < 0 || plan.error < 0) {
		fprintf(stderr, "inject: %s %s: not known\n", argv[2], argv[3]);
		return 2;
	}
	report = fopen(argv[6], "we");
	CHECK(report != NULL);
	/* Orphans become children of this process, so none gets lost. */
	CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0);
	child = start(number, argv + 7);
	end = now_ms() + HOST_MS;
	/* Exporters may end before their hosts, and remain our zombies until the end. */
	if (!serve(child, end, &status, &ended)) {
		kill(child, SIGKILL);
		waitpid(child, &other, 0);
		status = HUNG_STATUS;
	}
	end = now_ms() + LEFT_MS;
	while (serve(-1, end, &other, &ended) && ended > 0) {
		exporters++;
		crashed += WIFSIGNALED(other);
	}
	if (ended == 0) {
		left = kill_all();
		while (waitpid(-1, NULL, 0) > 0)
			;
	}
	fprintf(report, "status %d calls %lu failed %lu exporters %u crashed %u left %u\n", status,
		plan.calls, plan.failed, exporters, crashed, left);
	return fclose(report) == 0 ? 0 : 77;
}
