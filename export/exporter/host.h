/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that we work for. Its number comes from the region, where anybody could have written
 * it; if we believed it, a stranger could make us read another process's files for him. So the
 * process must prove that it is the one: it has the region mapped at the address that the region
 * names. From then on it is held by descriptors, which never refer to another process that gets the
 * same number later.
 */
#ifndef SP_HOST_H
#define SP_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "export/exporter/view.h"

/*
 * What a process hands over. Each of the last two may be missing, or a descriptor of something
 * else.
 */
struct sp_host_descriptors {
	int region; /* the view's */
	int folder; /* its folder in /proc; -1 = none. Not believed if it has joined */
	int maps;   /* its memory map; -1 = none */
	bool joined; /* it has joined by the socket, so the kernel says who it was; else it has started us */
};

struct sp_host {
	uint32_t pid;
	bool joined;
	bool ended; /* before we were there, or is another program: the rest is -1 or 0 */
	int pidfd;  /* -1 = the kernel has none (before 5.3) */
	int proc;   /* its folder in /proc, -1 = not to be seen */
	int maps;   /* its memory map, of the image that it had at first; -1 = may not be read */
	clockid_t clock; /* of the CPU time of all its threads; 0 = unknown */
	uint64_t start_time;
	uint64_t mapped_at;
	ino_t inode;
};

/*
 * Takes over the descriptors, except the region's. 0, also if the process has started us and has ended or has
 * become another program; -ESRCH the one that joins has ended; -EPERM that one is not the process of the region;
 * -ENOTDIR we have rights that it may give up without our seeing it.
 */
int sp_host_open(struct sp_host *h, const struct sp_view *v, const struct sp_host_descriptors *fds);
/* Closes the descriptors instead. */
void sp_host_decline(const struct sp_host_descriptors *fds);
void sp_host_close(struct sp_host *h);

/*
 * From now on, for good, nothing in its folder and its memory map can be opened. Their numbers stay
 * taken.
 */
void sp_host_bar(const struct sp_host *h);

/* Reads a file of it, by its name in /proc/PID; at most cap - 1 bytes and a NUL. Bytes, or -errno. */
ssize_t sp_host_read(const struct sp_host *h, const char *name, char *buf, size_t cap);

/* When this exporter itself was started, in ticks since boot; 0 = unknown. */
uint64_t sp_host_own_start(void);

/* False when all of its threads have ended. */
bool sp_host_lives(const struct sp_host *h);

/*
 * What all of its threads have used, without what those that run now have used since the kernel last charged them for it;
 * 0 = unknown. No file is opened for it.
 */
uint64_t sp_host_cpu_ns(const struct sp_host *h);

/* Where its stack begins, which is cheap to ask and changes when it executes a program; 0 = unknown. */
uint64_t sp_host_stack(const struct sp_host *h);

/* 1: it still is the program that it was at first; 0: it has executed another one; -1: unknown. */
int sp_host_has_image(const struct sp_host *h);

#endif
