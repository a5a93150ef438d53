/* SPDX-License-Identifier: Apache-2.0 */
/* A process of the test listens for a family, as the process of an exporter does before it executes its program. */
#ifndef SP_TEST_AS_EXPORTER_H
#define SP_TEST_AS_EXPORTER_H

#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "preload/exporter/exporter_process.h"
#include "sampler/base/process.h"

/* The start time of a process, in ticks. */
static inline uint64_t start_of(pid_t pid)
{
	char path[32];
	char text[512];
	char state;
	ssize_t got;
	int fd;

	(void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	got = read(fd, text, sizeof(text) - 1);
	(void)close(fd);
	text[got > 0 ? got : 0] = '\0';
	return sp_proc_stat(text, SP_STAT_START, &state);
}

static inline bool listen_as_exporter(int fd, const uint64_t secret[2], pid_t pid, uint64_t began)
{
	char proof[SP_PROOF_BYTES];

	sp_exporter_proof(secret, (uint64_t)pid, began, proof);
	return prctl(PR_SET_NAME, proof) == 0 && listen(fd, SP_JOINS_WAITING) == 0;
}

static inline bool listen_here(const struct sp_exporter_start *start)
{
	return listen_as_exporter(start->family_fd, start->secret, getpid(), start_of(getpid()));
}

#endif
