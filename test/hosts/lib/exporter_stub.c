/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In the place of spanprof-exporter: a program that does what the file "how" beside it says, and ends
 * with its host, whatever that is. Usage: spanprof-exporter, with the region as descriptor 3
 *
 *	hangs	never answers
 *	crashes	works, answers nothing, and is killed by a signal after 200 ms
 *	other	is of another version, and says so in the region
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sampler/region.h"

#define CRASH_MS 200
#define HOST_MS 60000

static void read_how(char out[64])
{
	char path[PATH_MAX];
	ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 5);
	FILE *file;

	out[0] = '\0';
	while (len > 0 && path[len - 1] != '/')
		len--;
	if (len <= 0)
		exit(98);
	strcpy(path + len, "how");
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

int main(void)
{
	struct sp_region *region =
		mmap(NULL, sizeof(*region), PROT_READ | PROT_WRITE, MAP_SHARED, SP_REGION_FD, 0);
	struct rlimit none = {0, 0};
	char how[64];

	if (region == MAP_FAILED)
		return 97;
	read_how(how);
	if (strcmp(how, "other") == 0) {
		become(region, SP_EXPORTER_FAILED, ENOTSUP);
		return 1;
	}
	if (strcmp(how, "crashes") == 0) {
		become(region, SP_EXPORTER_WORKING, 0);
		rest_ms(CRASH_MS);
		(void)setrlimit(RLIMIT_CORE, &none);
		(void)raise(SIGSEGV);
	}
	for (int ms = 0; ms < HOST_MS && kill((pid_t)region->pid, 0) == 0; ms += 10)
		rest_ms(10);
	return 0;
}
