/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and checks a region (view.h). Context: the exporter. */
#define _GNU_SOURCE
#include "export/exporter/view.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "region_version.h"

#define PAGE UINT64_C(4096)
/* A host makes at most two rings of 16 MiB and a small one, so this is far more than enough. */
#define BYTES_MAX (UINT64_C(1) << 30)

/* A copy of the words that the host writes once. */
struct head {
	uint64_t magic;
	uint32_t version;
	uint32_t pid;
	uint64_t bytes;
	uint64_t mapped_at;
	struct sp_region_part part[SP_REGION_PARTS];
};

_Static_assert(offsetof(struct head, part) == offsetof(struct sp_region, part) &&
		       offsetof(struct head, mapped_at) == offsetof(struct sp_region, mapped_at),
	       "the copy is laid out as the original");

static bool is_inside(const struct sp_region_part *p, uint64_t bytes)
{
	return p->at % PAGE == 0 && p->bytes % PAGE == 0 && p->at >= sizeof(struct sp_region) &&
	       p->at <= bytes && p->bytes <= bytes - p->at;
}

static bool overlap(const struct sp_region_part *a, const struct sp_region_part *b)
{
	return a->bytes != 0 && b->bytes != 0 && a->at < b->at + b->bytes &&
	       b->at < a->at + a->bytes;
}

static bool parts_are_sound(const struct head *h)
{
	for (unsigned i = 0; i < SP_REGION_PARTS; i++) {
		if (h->part[i].bytes != 0 && !is_inside(&h->part[i], h->bytes))
			return false;
		for (unsigned n = 0; n < i; n++)
			if (overlap(&h->part[i], &h->part[n]))
				return false;
	}
	return true;
}

static int make_ring(struct sp_ring *r, struct sp_view *v, enum sp_region_parts part)
{
	return sp_ring_at(r, (char *)v->region + v->part[part].at, v->part[part].bytes);
}

static void find_labels(struct sp_view *v)
{
	const struct sp_region_part *part = &v->part[SP_REGION_LABELS];

	if (part->bytes <= sizeof(struct sp_thread_labels_part))
		return;
	v->labels = (void *)((char *)v->region + part->at);
	v->label_places = (uint32_t)((part->bytes - sizeof(struct sp_thread_labels_part)) /
				     sizeof(struct sp_thread_labels));
}

static void find_roots(struct sp_view *v)
{
	const struct sp_region_part *part = &v->part[SP_REGION_ROOTS];

	if (part->bytes >= sizeof(*v->roots))
		v->roots = (void *)((char *)v->region + part->at);
}

static int check(struct sp_view *v)
{
	struct head h;
	int err;

	memcpy(&h, v->region, sizeof(h));
	if (h.magic != SP_REGION_MAGIC || h.version != SP_REGION_VERSION)
		return -EPROTO;
	if (h.bytes != v->bytes || h.pid == 0 || h.pid > INT32_MAX || h.mapped_at % PAGE != 0 ||
	    h.mapped_at > UINT64_MAX - h.bytes || !parts_are_sound(&h))
		return -EINVAL;
	v->pid = h.pid;
	v->mapped_at = h.mapped_at;
	/* For a part without bytes the offset does not matter. */
	for (unsigned i = 0; i < SP_REGION_PARTS; i++)
		if (h.part[i].bytes != 0)
			v->part[i] = h.part[i];
	err = make_ring(&v->ring, v, SP_REGION_RING);
	if (err == 0)
		err = make_ring(&v->names, v, SP_REGION_NAMES);
	if (err == 0 && v->part[SP_REGION_SNAPSHOTS].bytes != 0)
		err = make_ring(&v->snapshots, v, SP_REGION_SNAPSHOTS);
	if (err == 0)
		find_labels(v);
	if (err == 0)
		find_roots(v);
	return err;
}

static int map(struct sp_view *v, int fd)
{
	const int needed = F_SEAL_SHRINK | F_SEAL_GROW;
	struct stat st;
	int seals;
	void *memory;

	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return -EBADF;
	/* If another process could shrink the memory, each access could raise SIGBUS. */
	seals = fcntl(fd, F_GET_SEALS);
	if (seals < 0)
		return -EBADF;
	if ((seals & needed) != needed)
		return -EPERM;
	if ((uint64_t)st.st_size < sizeof(struct sp_region) || (uint64_t)st.st_size > BYTES_MAX ||
	    (uint64_t)st.st_size % PAGE != 0)
		return -EBADF;
	memory = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		return -ENOMEM;
	/* Huge pages in shared memory would count for the host, too, even if only we touch them. */
	(void)madvise(memory, (size_t)st.st_size, MADV_NOHUGEPAGE);
	v->region = memory;
	v->bytes = (uint64_t)st.st_size;
	v->inode = st.st_ino;
	return 0;
}

int sp_view_open(struct sp_view *v, int fd)
{
	int err;

	memset(v, 0, sizeof(*v));
	err = map(v, fd);
	(void)close(fd);
	return err == 0 ? check(v) : err;
}

int sp_view_drop_rings(struct sp_view *v)
{
	struct sp_region *copy = aligned_alloc(_Alignof(struct sp_region), sizeof(*copy));

	if (copy == NULL)
		return -ENOMEM;
	memcpy(copy, v->region, sizeof(*copy));
	(void)munmap(v->region, v->bytes);
	v->region = copy;
	v->bytes = 0;
	v->ring = (struct sp_ring){0};
	v->snapshots = (struct sp_ring){0};
	v->names = (struct sp_ring){0};
	v->labels = NULL;
	v->roots = NULL;
	return 0;
}

void sp_view_close(struct sp_view *v)
{
	if (v->bytes != 0)
		(void)munmap(v->region, v->bytes);
	else
		free(v->region);
	memset(v, 0, sizeof(*v));
}

void sp_view_wake(_Atomic uint32_t *word)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void sp_view_set_state(struct sp_view *v, enum sp_region_exporter state)
{
	atomic_store_explicit(&v->region->exporter, (uint32_t)state, memory_order_release);
	sp_view_wake(&v->region->exporter);
	sp_view_wake(&v->region->flush_done);
}

bool sp_view_answer(struct sp_view *v, enum sp_region_exporter state)
{
	uint32_t none = SP_EXPORTER_NONE;

	return atomic_compare_exchange_strong_explicit(&v->region->exporter, &none, (uint32_t)state,
						       memory_order_release, memory_order_relaxed);
}

void sp_view_fail(struct sp_view *v, int error)
{
	/* In another build the words are at other places. */
	if (v->region == NULL || v->region->magic != SP_REGION_MAGIC ||
	    v->region->version != SP_REGION_VERSION)
		return;
	atomic_store_explicit(&v->region->exporter_error, error, memory_order_relaxed);
	sp_view_set_state(v, SP_EXPORTER_FAILED);
}
