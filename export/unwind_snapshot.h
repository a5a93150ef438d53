/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks the stacks that the handler could not, from their snapshots, with libunwind's remote
 * interface: it sees registers and stack as they were copied, and code and unwind tables as they
 * are mapped now. Context: BG. Caller: main.c.
 */
#ifndef SP_UNWIND_SNAPSHOT_H
#define SP_UNWIND_SNAPSHOT_H

#include "export/modules.h"
#include "sampler/snapshot.h"

struct sp_unwinder;

/* NULL when out of memory. Most of what it needs is allocated with the first snapshot. */
struct sp_unwinder *sp_unwinder_new(sp_phdr_iterate iterate);
void sp_unwinder_free(struct sp_unwinder *u);

/* What was read of the objects may be out of date: objects come and go. */
void sp_unwinder_forget(struct sp_unwinder *u);

/*
 * Makes *s the sample of the snapshot, with at most max frames, at least one. Whatever the snapshot
 * holds, the work is bounded. False if the walk ended too early.
 */
bool sp_unwinder_walk(struct sp_unwinder *u, const struct sp_snapshot *snap, unsigned max,
		      struct sp_sample *s);

#endif
