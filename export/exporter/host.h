/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that we work for. Its number comes from the region, where anybody could have written
 * it; if we believed it, a stranger could make us read another process's files for him. So the
 * process must prove that the number is its own: it has the region mapped at the address that the
 * region names. From then on we hold it by descriptors, which never refer to another process that
 * gets the same number later.
 */
#ifndef SP_HOST_H
#define SP_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "export/exporter/confinement.h"
#include "export/exporter/view.h"

/*
 * The descriptors that a process hands over. Folder and maps may be missing, or belong to something
 * else.
 */
struct sp_host_descriptors {
	int region; /* of the region; it belongs to the view */
	int folder; /* its folder in /proc; -1 = none. Not trusted if the process has joined */
	int maps;   /* its memory map; -1 = none */
	/* it has joined by the socket, so the kernel tells its number; otherwise it has started us */
	bool joined;
};

struct sp_host {
	uint32_t pid;
	bool joined;
	/* it ended or executed another program before we looked: the other fields are -1 or 0 */
	bool ended;
	int pidfd;       /* -1 = the kernel has no pidfds (before 5.3) */
	int proc;        /* its folder in /proc; -1 = not visible */
	int maps;        /* memory map of the program it ran when it came; -1 = may not be read */
	clockid_t clock; /* the CPU clock of the process; 0 = unknown */
	uint64_t start_time;
	uint64_t mapped_at;
	ino_t inode;
	struct sp_confinement confinement; /* at the time when it came */
};

/*
 * Takes over the descriptors, except the region's. 0, also if the process has started us and has
 * ended or executed another program; -ESRCH: the joining process has ended; -EPERM: the joining
 * process is not the one of the region; -ENOTDIR: we have rights that it may give up without our
 * seeing it.
 */
int sp_host_open(struct sp_host *h, const struct sp_view *v, const struct sp_host_descriptors *fds);
/* Closes the descriptors of a process that is not served. */
void sp_host_decline(const struct sp_host_descriptors *fds);
void sp_host_close(struct sp_host *h);

/*
 * From now on, for good, nothing in its folder and its memory map can be opened. Their descriptor
 * numbers stay taken.
 */
void sp_host_bar(const struct sp_host *h);

/*
 * Reads the file /proc/PID/name: at most cap - 1 bytes, and a NUL. Returns the number of bytes, or
 * -errno.
 */
ssize_t sp_host_read(const struct sp_host *h, const char *name, char *buf, size_t cap);

/* When this exporter itself was started, in ticks since boot; 0 = unknown. */
uint64_t sp_host_own_start(void);

/* False when all of its threads have ended. */
bool sp_host_lives(const struct sp_host *h);

/*
 * The CPU time of all its threads; the kernel charges a running thread late, so its last moments
 * are missing. 0 = unknown. Opens no file.
 */
uint64_t sp_host_cpu_ns(const struct sp_host *h);

/*
 * The address where its stack begins. It is cheap to ask for, and changes when the process executes
 * a program; 0 = unknown.
 */
uint64_t sp_host_stack(const struct sp_host *h);

/* 1: it still runs its first program; 0: it has executed another one; -1: unknown. */
int sp_host_has_image(const struct sp_host *h);

#endif
