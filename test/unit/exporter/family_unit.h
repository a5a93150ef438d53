/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One exporter for several processes: the test starts it for a first process, and others join as
 * libspanprof.so does.
 */
#ifndef SP_TEST_FAMILY_UNIT_H
#define SP_TEST_FAMILY_UNIT_H

#include <criterion/criterion.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "export/exporter/family.h"
#include "export/util/clock.h"
#include "host_double.h"
#include "program_unit.h"
#include "region_version.h"

static struct sockaddr_un name;
static socklen_t name_len;
static pid_t leader;
static uint64_t environment;

static inline void set_up(void)
{
	program_set_up("%p.json");
	environment = sp_family_environment(environ);
	/* The test must see the exit status of the orphans that it makes. */
	(void)prctl(PR_SET_CHILD_SUBREAPER, 0);
}

static inline void tear_down(void)
{
	if (leader > 0)
		(void)kill(leader, SIGKILL);
	program_tear_down();
}

static inline pid_t start_leader(void)
{
	pid_t pid = fork();

	if (pid != 0)
		return pid;
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		(void)pause();
}

/* Listens at the name that a program would use. */
static inline int listen_for_family(void)
{
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int n;

	name.sun_family = AF_UNIX;
	n = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, SP_FAMILY_NAME, "", "",
		     (unsigned long long)sp_clock_mono_ns(), (unsigned)geteuid());
	name_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	cr_assert_eq(bind(fd, (struct sockaddr *)&name, name_len), 0);
	cr_assert_eq(listen(fd, 16), 0);
	return fd;
}

static inline void start_exporter(void)
{
	int listener = listen_for_family();

	host.region->program_pid = leader;
	program_start(listener);
	(void)close(listener);
	cr_assert(becomes(&host.region->exporter, SP_EXPORTER_WORKING));
}

static inline void start(void)
{
	leader = start_leader();
	host_start(NULL);
	start_exporter();
}

/*
 * Joins from a process of its own. pid is the number in the message, region_pid the number in the
 * region, and folder a folder of /proc.
 */
static inline void join_with(pid_t pid, pid_t region_pid, const char *folder)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(3 * sizeof(int))] = {0};
	struct sp_family_join message = {
		.version = SP_REGION_VERSION, .pid = (uint32_t)pid, .environment = environment};
	struct iovec part = {.iov_base = &message, .iov_len = sizeof(message)};
	struct msghdr m = {.msg_iov = &part,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	int fd[3] = {host.fd, open(folder, O_PATH | O_DIRECTORY), host.fd};
	struct cmsghdr *c = (struct cmsghdr *)(void *)control;
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	host.region->pid = (uint32_t)region_pid;
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(c), fd, sizeof(fd));
	if (connect(s, (struct sockaddr *)&name, name_len) != 0)
		_exit(1);
	/* Strangers leave as soon as they have connected. */
	if (sendmsg(s, &m, MSG_NOSIGNAL) >= 0 && geteuid() == 65534)
		(void)recv(s, &message, sizeof(message), 0);
	(void)close(s);
}

static inline void join_as(pid_t pid)
{
	join_with(pid, pid, "/proc/self");
}

static inline void join(void)
{
	join_as(getpid());
}

static inline void sample(struct host_double *of, uint64_t span_id)
{
	const struct sp_sample s = {.span_id = span_id,
				    .weight = 1,
				    .depth = 1,
				    .flags = SP_SAMPLE_ROOTED,
				    .pc = {(uintptr_t)sample}};

	cr_assert_eq(put_sample(&of->ring, &s), 0);
	atomic_fetch_add(&of->region->counter[SP_COUNT_SAMPLES_PUT], 1);
}

static inline unsigned profiles_of(pid_t pid)
{
	char pattern[64];

	(void)snprintf(pattern, sizeof(pattern), "spanprof-shop-%d-*.pb.gz", (int)pid);
	return program_profiles(pattern);
}

static inline bool status_has(pid_t pid, const char *part)
{
	char path[128];

	(void)snprintf(path, sizeof(path), "%s/%d.json", program.dir, (int)pid);
	return strstr(program_file(path), part) != NULL;
}

static inline void end(struct host_double *of)
{
	cr_assert_eq(kill(of->pid, SIGKILL), 0);
	cr_assert_eq(waitpid(of->pid, NULL, 0), of->pid);
}

/* The program of the family ends, then the last process, and so the exporter ends. */
static inline void end_with(struct host_double *last)
{
	(void)kill(leader, SIGKILL);
	end(last);
	cr_expect_eq(program_status(), 0);
}

#endif
