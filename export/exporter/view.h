/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our side of the region (sampler/region.h). What the host wrote once is copied and checked before
 * anything uses it; afterwards only the copy counts, because whoever may write to the memory may do so
 * at any time.
 */
#ifndef SP_VIEW_H
#define SP_VIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sampler/region.h"
#include "sampler/ring.h"

struct sp_view {
	struct sp_region *region;
	uint64_t bytes; /* that are mapped */
	ino_t inode;    /* of the memory's file */
	uint32_t pid;
	uint64_t mapped_at;
	struct sp_region_part part[SP_REGION_PARTS];
	struct sp_ring ring;
	struct sp_ring snapshots; /* without memory if the host makes none */
};

/*
 * Maps the region of that descriptor, which is closed in any case. -EBADF it is no memory of that kind,
 * -EPERM it can change its size (and kill us by that), -EPROTO it is of another build, -EINVAL it does
 * not fit together, -ENOMEM. For the last three the mapping is left, for sp_view_fail().
 */
int sp_view_open(struct sp_view *v, int fd);

/*
 * Goes on with a copy of the words, without the rings and names: the memory is freed when nobody else has
 * it. 0 or -ENOMEM, and then all is as before.
 */
int sp_view_leave(struct sp_view *v);

/* Unmaps it. */
void sp_view_close(struct sp_view *v);

/* Tells the host that there will be no exporter, and why: a positive errno. */
void sp_view_fail(struct sp_view *v, int error);

/* Tells the host what we do, and lets go whoever waits for it or for a flush. */
void sp_view_tell(struct sp_view *v, enum sp_region_exporter state);

/* The same, as long as nobody has said anything yet: false where somebody has. */
bool sp_view_answer(struct sp_view *v, enum sp_region_exporter state);

/* Any process's futex; the word lies in shared memory. */
void sp_view_wake(_Atomic uint32_t *word);

#endif
