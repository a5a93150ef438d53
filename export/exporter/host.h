/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that we work for. Its number is taken from the region, where anybody might have put it, so
 * the process must prove that it is the one: it has the region mapped where the region says. From then on
 * it is held by descriptors, which never mean another process that gets the same number later.
 */
#ifndef SP_HOST_H
#define SP_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "export/exporter/view.h"

/* What a process hands over: of the last two each may be none, or of something else. */
struct sp_host_descriptors {
	int region; /* the view's */
	int folder; /* its folder in /proc; -1 = none. Of who has joined it is not believed */
	int maps;   /* its memory map; -1 = none */
	bool joined; /* by itself, from beside us, and the kernel says who it was; else it started us */
};

struct sp_host {
	uint32_t pid;
	bool joined;
	int pidfd; /* -1 = the kernel has none (before 5.3) */
	int proc;  /* its folder in /proc, -1 = not to be seen */
	int maps;  /* its memory map, of the image that it had at first; -1 = may not be read */
	uint64_t start_time;
	uint64_t mapped_at;
	ino_t inode;
};

/*
 * Takes the descriptors over, but the region's. 0; -ESRCH there is no such process any more, -EPERM it is not the one that the region is of, -EACCES
 * we have rights that it may give up, and could not see it.
 */
int sp_host_open(struct sp_host *h, const struct sp_view *v, const struct sp_host_descriptors *fds);
/* Closes them instead. */
void sp_host_decline(const struct sp_host_descriptors *fds);
void sp_host_close(struct sp_host *h);

/* For good: from now on nothing is found in its folder and in its memory map. The numbers stay taken. */
void sp_host_bar(const struct sp_host *h);

/* Reads a file of it, by its name in /proc/PID; at most cap - 1 bytes and a NUL. Bytes, or -errno. */
ssize_t sp_host_read(const struct sp_host *h, const char *name, char *buf, size_t cap);

/* False when all of its threads have ended. */
bool sp_host_lives(const struct sp_host *h);

/* 1: it is the program that it was at first; 0: it has executed another one; -1: that cannot be told. */
int sp_host_has_image(const struct sp_host *h);

#endif
