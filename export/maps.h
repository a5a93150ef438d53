/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot of the executable lines of /proc/self/maps, for code the loader knows nothing of. */
#ifndef SP_MAPS_H
#define SP_MAPS_H

#include <stddef.h>
#include <stdint.h>

struct sp_map {
	uint64_t start;
	uint64_t end;
	uint64_t offset;
	char name[112]; /* last part of the path, or "" for anonymous memory */
};

/* Zero it at first use. */
struct sp_maps {
	struct sp_map *map;
	size_t n;
	size_t cap;
};

/* Reads path ("/proc/self/maps") anew. On failure the snapshot is empty. 0 or a negative errno. */
int sp_maps_read(struct sp_maps *m, const char *path);
void sp_maps_fini(struct sp_maps *m);

/* The executable mapping around addr, or NULL. */
const struct sp_map *sp_maps_find(const struct sp_maps *m, uint64_t addr);

#endif
