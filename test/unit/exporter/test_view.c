/* SPDX-License-Identifier: Apache-2.0 */
/* Which regions the exporter accepts, and which it refuses. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host_double.h"

static struct sp_view view;

TestSuite(view, .init = host_make, .timeout = 20);

static int open_view(void)
{
	return sp_view_open(&view, dup(host.fd));
}

Test(view, of_a_hosts_region_has_its_parts)
{
	cr_assert_eq(open_view(), 0);

	cr_expect_eq(view.pid, (uint32_t)getpid());
	cr_expect_eq(view.bytes, REGION_BYTES);
	cr_expect_eq(view.ring.size, 65536);
	cr_expect_eq(view.snapshots.size, 65536);
	cr_expect_neq((uintptr_t)view.ring.word, (uintptr_t)host.ring.word);
}

Test(view, keeps_no_descriptor)
{
	int fd = dup(host.fd);

	cr_assert_eq(sp_view_open(&view, fd), 0);
	cr_expect_eq(fcntl(fd, F_GETFD), -1);
	fd = open("/dev/null", O_RDWR);
	cr_assert_neq(sp_view_open(&view, fd), 0);
	cr_expect_eq(fcntl(fd, F_GETFD), -1);
}

Test(view, of_a_host_without_snapshots_has_a_ring_that_is_always_empty)
{
	struct sp_sample s;
	uint32_t kind;

	host.region->part[SP_REGION_SNAPSHOTS] = (struct sp_region_part){0, 0};

	cr_assert_eq(open_view(), 0);
	cr_expect_eq(sp_ring_take(&view.snapshots, &kind, &s, sizeof(s)), 0);
	cr_expect_not(sp_ring_pass(&view.snapshots));
}

Test(view, refuses_what_could_shrink_under_it)
{
	int fd = memfd_create("spanprof", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_eq(ftruncate(fd, REGION_BYTES), 0);
	cr_expect_eq(sp_view_open(&view, dup(fd)), -EPERM);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_GROW), 0);
	cr_expect_eq(sp_view_open(&view, dup(fd)), -EPERM);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	cr_expect_eq(sp_view_open(&view, dup(fd)), -EPROTO, "all zero");
}

Test(view, refuses_what_is_no_memory)
{
	int ends[2];

	cr_assert_eq(pipe(ends), 0);
	cr_expect_eq(sp_view_open(&view, ends[0]), -EBADF);
	cr_expect_eq(sp_view_open(&view, open("/proc/self/exe", O_RDONLY)), -EBADF);
	cr_expect_eq(sp_view_open(&view, -1), -EBADF);
	sp_view_fail(&view, EPROTO);
	cr_expect_null(view.region, "there is nobody to be told");
}

Test(view, of_another_build_is_not_written_to)
{
	host.region->version++;

	cr_expect_eq(open_view(), -EPROTO);
	sp_view_fail(&view, EPROTO);
	cr_expect_eq(host.region->exporter, SP_EXPORTER_NONE);
	host.region->version--;
	host.region->magic++;
	cr_expect_eq(open_view(), -EPROTO);
}

Test(view, tells_the_host_why_it_fails)
{
	host.region->bytes += 4096;

	cr_assert_eq(open_view(), -EINVAL);
	sp_view_fail(&view, EINVAL);
	cr_expect_eq(host.region->exporter, SP_EXPORTER_FAILED);
	cr_expect_eq(host.region->exporter_error, EINVAL);
}

Test(view, refuses_parts_that_do_not_fit)
{
	const struct sp_region_part lies[] = {
		{0, RING_BYTES},                           /* overlaps the header */
		{RING_AT + RING_BYTES - 4096, RING_BYTES}, /* overlaps the snapshots */
		{RING_AT - 1, RING_BYTES},                 /* not aligned */
		{RING_AT, RING_BYTES - 8},                 /* no multiple of the page size */
		{REGION_BYTES - 4096, RING_BYTES},         /* ends beyond the end of the region */
		{REGION_BYTES + 4096, 4096},               /* begins beyond the end of the region */
		{UINT64_MAX & ~UINT64_C(4095), 16384},     /* the offset wraps */
		{RING_AT, UINT64_MAX & ~UINT64_C(4095)},   /* the length wraps */
		{RING_AT, 4096},                           /* no room for a ring */
		{0, 0},                                    /* empty */
	};

	for (size_t i = 0; i < SP_ARRAY_LEN(lies); i++) {
		host.region->part[SP_REGION_RING] = lies[i];
		cr_expect_eq(open_view(), -EINVAL, "lie %zu", i);
		sp_view_close(&view);
	}
}

Test(view, refuses_a_process_that_cannot_be)
{
	host.region->pid = 0;
	cr_expect_eq(open_view(), -EINVAL);
	host.region->pid = UINT32_MAX;
	cr_expect_eq(open_view(), -EINVAL);
	host.region->pid = 1;
	host.region->mapped_at = UINT64_MAX & ~UINT64_C(4095);
	cr_expect_eq(open_view(), -EINVAL);
}

/* A part that is a page too small counts as none. */
Test(view_roots, are_where_the_host_has_room_for_all_of_them, .timeout = 20)
{
	const uint64_t bytes = (sizeof(struct sp_root_durations) + 4095) & ~UINT64_C(4095);

	host_bytes = REGION_BYTES + bytes;
	host_make();
	cr_assert_eq(open_view(), 0);
	cr_expect_null(view.roots);
	sp_view_close(&view);
	host.region->part[SP_REGION_ROOTS] = (struct sp_region_part){REGION_BYTES, bytes - 4096};
	cr_assert_eq(open_view(), 0);
	cr_expect_null(view.roots);
	sp_view_close(&view);
	host.region->part[SP_REGION_ROOTS].bytes = bytes;
	cr_assert_eq(open_view(), 0);
	cr_expect_eq((char *)view.roots, (char *)view.region + REGION_BYTES);
	cr_assert_eq(sp_view_drop_rings(&view), 0);
	cr_expect_null(view.roots);
	sp_view_close(&view);
}

static uint64_t next_random(uint64_t *state)
{
	*state = *state * UINT64_C(6364136223846793005) + 1442695040888963407U;
	return *state >> 33;
}

/* Whatever the header says, the accepted parts are inside the region. */
Test(view, accepts_nothing_that_reaches_out)
{
	const struct sp_region_part zero = {0, 0};
	const struct sp_region_part names = {NAMES_AT, NAMES_BYTES};
	uint64_t state = 3;
	unsigned accepted = 0;

	for (unsigned round = 0; round < 20000; round++) {
		uint64_t *words = (uint64_t *)host.region->part;

		for (unsigned i = 0; i < 2 * SP_REGION_PARTS; i++)
			words[i] = next_random(&state) % (2 * REGION_BYTES / 4096) *
				   (next_random(&state) % 9 ? 4096 : 512);
		if (next_random(&state) % 2 != 0)
			host.region->part[SP_REGION_SNAPSHOTS] = zero;
		if (next_random(&state) % 4 != 0) {
			host.region->part[SP_REGION_NAMES] = names;
			host.region->part[SP_REGION_LABELS] = zero;
			host.region->part[SP_REGION_ROOTS] = zero;
		}
		if (open_view() == 0) {
			struct sp_sample s;
			uint32_t kind;

			accepted++;
			(void)sp_ring_take(&view.ring, &kind, &s, sizeof(s));
			/* the last word; the sanitizers would see a read beyond the region */
			(void)atomic_load(&view.ring.word[view.ring.size / 8 - 1]);
			cr_assert_leq((uintptr_t)&view.ring.word[view.ring.size / 8],
				      (uintptr_t)view.region + view.bytes);
		}
		sp_view_close(&view);
	}
	cr_expect_gt(accepted, 10, "%u: else nothing was learnt", accepted);
}
