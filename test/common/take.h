/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways in which programs wait for one of their blocked signals. Each returns its number, or -1
 * as the system call does.
 */
#ifndef TEST_COMMON_TAKE_H
#define TEST_COMMON_TAKE_H

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "test/hosts/host.h"

static inline int take_by_sigwait(const sigset_t *set)
{
	int signo = -1;

	return sigwait(set, &signo) == 0 ? signo : -1;
}

/* -2 when what it tells of the signal is not that the program sent it to itself. */
static inline int take_by_sigwaitinfo(const sigset_t *set)
{
	siginfo_t info;
	int signo = sigwaitinfo(set, &info);

	if (signo < 0)
		return signo;
	return info.si_signo == signo && info.si_pid == getpid() ? signo : -2;
}

static inline int take_by_sigtimedwait(const sigset_t *set)
{
	struct timespec minute = {60, 0};

	return sigtimedwait(set, NULL, &minute);
}

/* The descriptor is opened at the first call, and stays. */
static inline int take_by_signalfd(const sigset_t *set)
{
	static int fd = -1;
	struct signalfd_siginfo info;

	if (fd < 0)
		fd = signalfd(-1, set, SFD_CLOEXEC);
	HOST_CHECK(read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info));
	return (int)info.ssi_signo;
}

#endif
