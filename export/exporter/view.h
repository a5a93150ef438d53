/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our view of a region (sampler/region/region.h). The head of the region, which the host writes
 * once, is copied and checked before it is used. Afterwards only the copy counts, because others
 * may write to the memory at any time.
 */
#ifndef SP_VIEW_H
#define SP_VIEW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "sampler/region/region.h"
#include "sampler/region/ring.h"
#include "sampler/region/root_durations.h"
#include "sampler/region/thread_labels.h"

struct sp_view {
	struct sp_region *region;
	uint64_t bytes; /* of the mapping */
	ino_t inode;    /* inode of the memory's file */
	uint32_t pid;
	uint64_t mapped_at;
	struct sp_region_part part[SP_REGION_PARTS];
	struct sp_ring ring;
	struct sp_ring snapshots; /* without memory if the host makes no snapshots */
	struct sp_ring names;
	struct sp_thread_labels_part *labels; /* NULL = the host publishes none */
	uint32_t label_places;
	struct sp_root_durations *roots; /* NULL = the host does not say how long roots last */
};

/*
 * Maps the region of that descriptor, which is closed in any case. -EBADF: it is not such a memory;
 * -EPERM: its size can be changed, which could kill us; -EPROTO: it is of another build; -EINVAL:
 * its words contradict each other; -ENOMEM. After the last three errors the mapping stays, for
 * sp_view_fail().
 */
int sp_view_open(struct sp_view *v, int fd);

/*
 * Replaces the mapping by a copy of the header, without rings, so that the memory is freed when no
 * other process has it. 0, or -ENOMEM if nothing has changed.
 */
int sp_view_drop_rings(struct sp_view *v);

/* Unmaps it. */
void sp_view_close(struct sp_view *v);

/* Tells the host that there will be no exporter, and why: a positive errno. */
void sp_view_fail(struct sp_view *v, int error);

/* Tells the host our state, and wakes threads that wait for it or for a flush. */
void sp_view_set_state(struct sp_view *v, enum sp_region_exporter state);

/* As sp_view_set_state(), if no state was set yet; false if one was. */
bool sp_view_answer(struct sp_view *v, enum sp_region_exporter state);

/* A shared futex, because the word is in shared memory. */
void sp_view_wake(_Atomic uint32_t *word);

#endif
