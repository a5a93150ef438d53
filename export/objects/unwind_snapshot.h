/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks the stacks that the handler could not walk, from their snapshots, by libunwind's remote
 * interface. libunwind gets registers and stack from the copy, and code and unwind tables from the
 * files of the host's objects. Context: the exporter.
 */
#ifndef SP_UNWIND_SNAPSHOT_H
#define SP_UNWIND_SNAPSHOT_H

#include "export/objects/host_objects.h"
#include "sampler/unwind/snapshot.h"

struct sp_unwinder;

/*
 * NULL when out of memory. Most of what it needs is allocated with the first snapshot. The objects
 * must outlive it.
 */
struct sp_unwinder *sp_unwinder_new(const struct sp_host_objects *host);
void sp_unwinder_free(struct sp_unwinder *u);

/*
 * Makes *s the sample of the snapshot, with at most max frames, at least one. Whatever the snapshot
 * holds, the work is bounded. False if the walk ended too early.
 */
bool sp_unwinder_walk(struct sp_unwinder *u, const struct sp_snapshot *snap, unsigned max,
		      struct sp_sample *s);

#endif
