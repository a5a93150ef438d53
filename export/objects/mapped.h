/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a host's objects as far as their files show it: everything that is mapped and not
 * writable, that is, code, call frame information and constants. Pages are read once and kept until
 * the host's objects change. Context: the exporter.
 */
#ifndef SP_MAPPED_H
#define SP_MAPPED_H

#include <stdbool.h>
#include <stdint.h>

#include "export/objects/host_objects.h"

struct sp_mapped;

/* An object by an address in it. */
struct sp_mapped_object {
	uint64_t lo; /* [lo, hi): all its segments */
	uint64_t hi;
	uint64_t eh_frame_hdr; /* 0 = none */
};

/* NULL when out of memory. The objects must outlive it. */
struct sp_mapped *sp_mapped_new(const struct sp_host_objects *host);
void sp_mapped_free(struct sp_mapped *m);

/* The object that addr lies in. False if there is none. */
bool sp_mapped_find(const struct sp_mapped *m, uint64_t addr, struct sp_mapped_object *object);

/* False unless all bytes lie in readable segments of objects that nobody writes to. */
bool sp_mapped_read(struct sp_mapped *m, uint64_t addr, void *out, unsigned bytes);

/*
 * True if the address is in a writable segment: there is memory, but no file says what it contains.
 */
bool sp_mapped_is_data(const struct sp_mapped *m, uint64_t addr);

#endif
