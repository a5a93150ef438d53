/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading the memory of loaded objects although any thread may unload them at any time: pages are
 * copied inside a dl_iterate_phdr callback, whose lock keeps the object mapped, and read from the
 * copies. Context: BG. Caller: unwind_snapshot.c.
 */
#ifndef SP_MAPPED_H
#define SP_MAPPED_H

#include <stdbool.h>
#include <stdint.h>

#include "export/modules.h"

struct sp_mapped;

/* An object by an address in it. */
struct sp_mapped_object {
	uint64_t lo; /* [lo, hi): all its segments */
	uint64_t hi;
	uint64_t eh_frame_hdr; /* 0 = none */
};

/* NULL when out of memory. Nothing is allocated after it. */
struct sp_mapped *sp_mapped_new(sp_phdr_iterate iterate);
void sp_mapped_free(struct sp_mapped *m);

/* Drops all copies. */
void sp_mapped_forget(struct sp_mapped *m);

/* The object that addr lies in. False if there is none. */
bool sp_mapped_find(struct sp_mapped *m, uint64_t addr, struct sp_mapped_object *object);

/* False unless all bytes lie in readable segments of one object. */
bool sp_mapped_read(struct sp_mapped *m, uint64_t addr, void *out, unsigned bytes);

#endif
