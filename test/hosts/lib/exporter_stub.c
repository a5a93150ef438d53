/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaces spanprof-exporter: a program that does what the file "how" beside it says, and at the latest ends with its
 * host. Usage: spanprof-exporter, with the region as descriptor 3
 *
 *	hangs	never answers
 *	crashes	works, answers no request, and is killed by a signal after 200 ms
 *	other	makes the region one of another build, and executes the program "real" beside it
 *	refuses	works for its starter only, not for the family; writes the served process to the file "served"
 */
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sampler/region/region.h"

#define CRASH_MS 200
#define HOST_MS 60000

static void beside(const char *name, char path[PATH_MAX])
{
	ssize_t len = readlink("/proc/self/exe", path, PATH_MAX - 16);

	while (len > 0 && path[len - 1] != '/')
		len--;
	if (len <= 0)
		exit(98);
	strcpy(path + len, name);
}

static void read_how(char out[64])
{
	char path[PATH_MAX];
	FILE *file;

	out[0] = '\0';
	beside("how", path);
	file = fopen(path, "r");
	if (file == NULL || fscanf(file, "%63s", out) != 1)
		exit(98);
	(void)fclose(file);
}

static void become(struct sp_region *region, enum sp_region_exporter state, int error)
{
	atomic_store(&region->exporter_error, error);
	atomic_store(&region->exporter, (uint32_t)state);
	/* FUTEX_WAKE */
	(void)syscall(SYS_futex, &region->exporter, 1, INT_MAX, NULL, NULL, 0);
}

static void rest_ms(int ms)
{
	struct timespec ts = {ms / 1000, ms % 1000 * 1000000L};

	(void)nanosleep(&ts, NULL);
}

static void refuse_next(void)
{
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(3 * sizeof(int))];
	} control = {.bytes = {0}};
	struct sp_family_join message;
	struct iovec part = {&message, sizeof(message)};
	struct msghdr all = {.msg_iov = &part,
			     .msg_iovlen = 1,
			     .msg_control = &control,
			     .msg_controllen = sizeof(control)};
	int fd = accept(SP_FAMILY_FD, NULL, NULL);
	int got[3];
	struct sp_region *joined;

	if (fd < 0)
		return;
	if (recvmsg(fd, &all, 0) == (ssize_t)sizeof(message)) {
		memcpy(got, CMSG_DATA(&control.head), sizeof(got));
		joined = mmap(NULL, sizeof(*joined), PROT_READ | PROT_WRITE, MAP_SHARED, got[0], 0);
		if (joined != MAP_FAILED)
			become(joined, SP_EXPORTER_REFUSED, 0);
		for (unsigned i = 0; i < 3; i++)
			(void)close(got[i]);
	}
	(void)close(fd);
}

static void note_served(const struct sp_region *region)
{
	char path[PATH_MAX];
	FILE *file;

	beside("served", path);
	file = fopen(path, "a");
	if (file == NULL || fprintf(file, "%u\n", region->pid) < 0 || fclose(file) != 0)
		exit(98);
}

int main(void)
{
	struct sp_region *region =
		mmap(NULL, sizeof(*region), PROT_READ | PROT_WRITE, MAP_SHARED, SP_REGION_FD, 0);
	struct rlimit none = {0, 0};
	char path[PATH_MAX];
	char how[64];

	if (region == MAP_FAILED)
		return 97;
	read_how(how);
	if (strcmp(how, "other") == 0) {
		region->version++;
		beside("real", path);
		(void)execl(path, path, NULL);
		return 98;
	}
	if (strcmp(how, "crashes") == 0) {
		become(region, SP_EXPORTER_WORKING, 0);
		rest_ms(CRASH_MS);
		(void)setrlimit(RLIMIT_CORE, &none);
		(void)raise(SIGSEGV);
	}
	if (strcmp(how, "refuses") == 0) {
		note_served(region);
		(void)listen(SP_FAMILY_FD, 100);
		become(region, SP_EXPORTER_WORKING, 0);
		while (kill((pid_t)region->pid, 0) == 0) {
			refuse_next();
			rest_ms(10);
		}
		return 0;
	}
	for (int ms = 0; ms < HOST_MS && kill((pid_t)region->pid, 0) == 0; ms += 10)
		rest_ms(10);
	return 0;
}
