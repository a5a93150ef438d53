/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the shared memory. Contexts: APP (activation), INIT (forked child). Uses raw system calls
 * only: the oldest C library that we run with lacks some wrappers.
 */
#include "sampler/region/region.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "region_version.h"
#include "sampler/base/syscall.h"
#include "sampler/region/root_durations.h"
#include "sampler/region/thread_labels.h"

#define PAGE UINT64_C(4096)

/* linux/memfd.h; headers may be older. Linux knows the flag since 6.3. */
#define NO_EXEC_SEAL 0x0008U

#ifndef F_ADD_SEALS
#define F_ADD_SEALS 1033
#define F_SEAL_SEAL 0x0001
#define F_SEAL_SHRINK 0x0002
#define F_SEAL_GROW 0x0004
#endif

struct sp_region sp_region_nowhere = {0};
_Atomic(struct sp_region *) sp_region = &sp_region_nowhere;

uint64_t sp_region_own_object[SP_REGION_OBJECTS];

/*
 * The host's private copy of the layout, because another process could change the layout in the
 * region.
 */
struct mapping {
	struct sp_region *region;
	uint64_t bytes;
	struct sp_region_part part[SP_REGION_PARTS];
};
static struct mapping mapping[SP_REGIONS_MAX];
static unsigned mappings;
/* the mappings belong to the parent of this forked child, which has made no region yet */
static bool are_parents;
static struct sp_region *parents_last; /* the one that the parent used at the fork */

static uint64_t whole_pages(uint64_t bytes)
{
	return (bytes + PAGE - 1) & ~(PAGE - 1);
}

/*
 * Making a file larger than RLIMIT_FSIZE raises SIGXFSZ, which by default ends the process. So the
 * limit is read first. 0 or a negative errno.
 */
static int check_limit(uint64_t bytes)
{
	struct rlimit limit;

	if (sp_syscall_always(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) != 0)
		return -errno;
	return limit.rlim_cur == RLIM_INFINITY || bytes <= limit.rlim_cur ? 0 : -EFBIG;
}

/*
 * Moves a descriptor above 2. The host may have closed descriptor 0, 1 or 2 and rely on getting
 * that number for its next file.
 */
static int above_standard(int fd)
{
	int high;

	if (fd < 0 || fd > STDERR_FILENO)
		return fd;
	high = (int)sp_syscall_always(SYS_fcntl, fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
	if (high < 0)
		high = -errno;
	(void)sp_syscall_always(SYS_close, fd);
	return high;
}

/*
 * Makes the file and seals its size. Otherwise a process that may open the exporter's descriptor in
 * /proc could shrink the file, and the next access of the host would raise SIGBUS.
 */
static int make_file(uint64_t bytes)
{
	int limit = check_limit(bytes);
	long fd;

	if (limit != 0)
		return limit;
	fd = sp_syscall_always(SYS_memfd_create, "spanprof", MFD_CLOEXEC | NO_EXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = sp_syscall_always(SYS_memfd_create, "spanprof",
				       MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return -errno;
	fd = above_standard((int)fd);
	if (fd < 0)
		return (int)fd;
	if (sp_syscall_always(SYS_ftruncate, (int)fd, bytes) != 0 ||
	    sp_syscall_always(SYS_fcntl, (int)fd, F_ADD_SEALS,
			      F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
		int err = -errno;

		(void)sp_syscall_always(SYS_close, (int)fd);
		return err;
	}
	return (int)fd;
}

/*
 * Maps the file, at the address of m->region if that is not NULL, and writes the header. Returns
 * the descriptor, or a negative errno after closing it.
 */
static int map(struct mapping *m, int fd)
{
	int flags = MAP_SHARED | MAP_NORESERVE | (m->region != NULL ? MAP_FIXED : 0);
	struct sp_region *r = (struct sp_region *)sp_syscall_always(
		SYS_mmap, m->region, m->bytes, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (r == MAP_FAILED) {
		(void)sp_syscall_always(SYS_close, fd);
		return -ENOMEM;
	}
	/* Before the first access, as in sp_arena_map(). */
	(void)sp_syscall_always(SYS_madvise, r, m->bytes, MADV_NOHUGEPAGE);
	r->magic = SP_REGION_MAGIC;
	r->version = SP_REGION_VERSION;
	r->pid = (uint32_t)sp_syscall_always(SYS_getpid);
	r->bytes = m->bytes;
	r->mapped_at = (uintptr_t)r;
	for (unsigned i = 0; i < SP_REGION_PARTS; i++)
		r->part[i] = m->part[i];
	for (unsigned i = 0; i < SP_REGION_OBJECTS; i++)
		r->own_object[i] = sp_region_own_object[i];
	m->region = r;
	return fd;
}

static void release_parents(void)
{
	for (unsigned i = 0; are_parents && i < mappings; i++)
		(void)sp_syscall_always(SYS_munmap, mapping[i].region, mapping[i].bytes);
	if (are_parents)
		mappings = 0;
	are_parents = false;
}

static const struct mapping *mapping_of(const struct sp_region *r)
{
	for (const struct mapping *m = mapping; m < mapping + mappings; m++)
		if (m->region == r)
			return m;
	return NULL;
}

int sp_region_make(const uint64_t bytes[SP_REGION_PARTS], struct sp_region **made)
{
	int saved = errno;
	struct mapping m = {.region = *made, .bytes = whole_pages(sizeof(struct sp_region))};
	const struct mapping *former;
	int fd;

	release_parents();
	former = mapping_of(*made);
	if (former == NULL && mappings == SP_REGIONS_MAX)
		return -ENOSPC;
	for (unsigned i = 0; i < SP_REGION_PARTS; i++) {
		m.part[i] = (struct sp_region_part){m.bytes, whole_pages(bytes[i])};
		m.bytes += m.part[i].bytes;
	}
	if (*made != NULL && (former == NULL || former->bytes != m.bytes))
		return -EINVAL;
	fd = make_file(m.bytes);
	if (fd >= 0)
		fd = map(&m, fd);
	if (fd >= 0 && former == NULL) {
		mapping[mappings] = m;
		/*
		 * A child that another thread forks now must not see the count without the mapping.
		 */
		atomic_signal_fence(memory_order_release);
		mappings++;
		*made = m.region;
	}
	errno = saved;
	return fd;
}

void sp_region_use(struct sp_region *r)
{
	uint64_t bytes = 0;
	void *labels = sp_region_part(r, SP_REGION_LABELS, &bytes);
	uint64_t roots_bytes = 0;
	void *roots = sp_region_part(r, SP_REGION_ROOTS, &roots_bytes);

	/*
	 * sp_region begins with &sp_region_nowhere: a forked child without a region does not write
	 * to the page of this variable.
	 */
	if (r != &sp_region_nowhere)
		atomic_store_explicit(&sp_region_nowhere.deferred_work, SP_WORK_BEGIN,
				      memory_order_relaxed);
	sp_thread_labels_use(labels, bytes);
	sp_root_durations_use(roots, roots_bytes);
	/* pairs with the acquire in sp_region_now() */
	atomic_store_explicit(&sp_region, r, memory_order_release);
}

int sp_region_create(const uint64_t bytes[SP_REGION_PARTS])
{
	struct sp_region *r = NULL;
	int fd = sp_region_make(bytes, &r);

	if (fd >= 0)
		sp_region_use(r);
	return fd;
}

void *sp_region_part(const struct sp_region *r, enum sp_region_parts part, uint64_t *bytes)
{
	const struct mapping *m = mapping_of(r);

	*bytes = m != NULL ? m->part[part].bytes : 0;
	return *bytes != 0 ? (char *)m->region + m->part[part].at : NULL;
}

void sp_region_discard(struct sp_region *r)
{
	const struct mapping *m = mapping_of(r);
	int saved = errno;

	if (m != NULL)
		(void)sp_syscall_always(SYS_mmap, r, m->bytes, PROT_READ | PROT_WRITE,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
					(off_t)0);
	errno = saved;
}

void sp_region_forked(void)
{
	if (!sp_region_is_there())
		return;
	parents_last = sp_region_now();
	sp_region_use(&sp_region_nowhere);
	are_parents = true;
}

void sp_region_count_in_parent(enum sp_counter c, uint64_t n)
{
	if (are_parents)
		atomic_fetch_add_explicit(&parents_last->counter[c], n, memory_order_relaxed);
}
