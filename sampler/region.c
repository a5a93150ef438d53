/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Making the shared memory. Contexts: APP (activation), INIT (forked child). All by raw system calls:
 * the C library's wrappers of some are younger than the oldest one that we run with.
 */
#include "sampler/region.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)

/* linux/memfd.h; headers may be older than the flag, which Linux knows since 6.3. */
#define NO_EXEC_SEAL 0x0008U

#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#define F_SEAL_SEAL 0x0001
#define F_SEAL_SHRINK 0x0002
#define F_SEAL_GROW 0x0004
#endif

struct sp_region *sp_region;
/* What the region says of itself another process could change. */
static struct sp_region_part parts[SP_REGION_PARTS];
static uint64_t mapped_bytes;
/* A forked child's, of its parent. */
static struct sp_region *parents;
static uint64_t parents_bytes;

static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + PAGE - 1) & ~(PAGE - 1);
}

/* A file that is made larger than this limit raises SIGXFSZ, which ends a process that did nothing. */
static bool is_within_limit(uint64_t bytes)
{
	struct rlimit limit;

	return syscall(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) == 0 &&
	       (limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur);
}

/* The three lowest numbers are the host's to fill, even when it has closed them. */
static int above_standard(int fd)
{
	int high;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	high = (int)syscall(SYS_fcntl, fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (high < 0)
		high = -errno;
	(void)close(fd);
	return high;
}

/*
 * Anyone who may open the exporter's descriptor in /proc could shrink the file, and the next access of
 * the host would be a SIGBUS: so its size is sealed.
 */
static int make_file(uint64_t bytes)
{
	long fd;

	if (!is_within_limit(bytes))
		return -EFBIG;
	fd = syscall(SYS_memfd_create, "spanprof", MFD_CLOEXEC | NO_EXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = syscall(SYS_memfd_create, "spanprof", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	fd = above_standard((int)fd);
	if (fd < 0)
		return (int)fd;
	if (syscall(SYS_ftruncate, (int)fd, bytes) != 0 ||
	    syscall(SYS_fcntl, (int)fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) !=
		    0) {
		int err = -errno;

		(void)close((int)fd);
		return err;
	}
	return (int)fd;
}

int sp_region_create(const uint64_t bytes[SP_REGION_PARTS])
{
	int saved = errno;
	uint64_t at = whole_pages(sizeof(struct sp_region));
	struct sp_region_part part[SP_REGION_PARTS];
	struct sp_region *r;
	int fd;

	for (unsigned i = 0; i < SP_REGION_PARTS; i++) {
		part[i] = (struct sp_region_part){at, whole_pages(bytes[i])};
		at += part[i].bytes;
	}
	fd = make_file(at);
	if (fd < 0) {
		errno = saved;
		return fd;
	}
	r = mmap(NULL, at, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (r == MAP_FAILED) {
		(void)close(fd);
		errno = saved;
		return -ENOMEM;
	}
	r->magic = SP_REGION_MAGIC;
	r->version = SP_REGION_VERSION;
	r->pid = (uint32_t)getpid();
	r->bytes = at;
	r->mapped_at = (uintptr_t)r;
	for (unsigned i = 0; i < SP_REGION_PARTS; i++)
		r->part[i] = parts[i] = part[i];
	mapped_bytes = at;
	sp_region = r;
	errno = saved;
	return fd;
}

void *sp_region_at(enum sp_region_parts part)
{
	if (sp_region == NULL || parts[part].bytes == 0)
		return NULL;
	return (char *)sp_region + parts[part].at;
}

void sp_region_forked(void)
{
	if (sp_region == NULL)
		return;
	parents = sp_region;
	parents_bytes = mapped_bytes;
	sp_region = NULL;
}

void sp_region_release(void)
{
	int saved = errno;

	if (parents != NULL)
		(void)munmap(parents, parents_bytes);
	parents = NULL;
	errno = saved;
}
