/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of /proc/PID/maps that show code: all lines of each run of mappings of one file that
 * contains executable memory, and executable memory without a file. A host may map as much as it
 * likes, so what is read and what is kept is bounded. Context: the exporter.
 */
#ifndef SP_MAPS_H
#define SP_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_map {
	uint64_t start;
	uint64_t end;
	uint64_t offset; /* in the file, of start */
	uint64_t device; /* as makedev(3) has it */
	uint64_t inode;  /* 0 = no file */
	size_t path;     /* for sp_maps_path() */
	int prot;        /* PROT_READ, PROT_WRITE, PROT_EXEC */
};

/* Zero it at first use. */
struct sp_maps {
	struct sp_map *map; /* ascending, without overlaps */
	size_t n;
	size_t cap;
	char *text; /* paths, each with a NUL */
	size_t text_n;
	size_t text_cap;
};

/* One line without its newline; *path is in it. map->path is not set. False for no such line. */
bool sp_maps_line(const char *line, struct sp_map *map, const char **path);

/*
 * Reads path ("/proc/PID/maps") again. 0; -E2BIG if there was more than is read or kept, with the
 * beginning there; another negative errno, with nothing there. The file of an ended process is
 * empty. If path cannot be read, the descriptor spare of such a file is (-1 = none).
 */
int sp_maps_read(struct sp_maps *m, const char *path, int spare);
void sp_maps_fini(struct sp_maps *m);

/* Into one that is zeroed. False when out of memory; then sp_maps_fini() is right. */
bool sp_maps_copy(struct sp_maps *to, const struct sp_maps *from);

/* The mapping around addr, or NULL. */
const struct sp_map *sp_maps_find(const struct sp_maps *m, uint64_t addr);

/* What the kernel calls the mapping: a path, "[vdso]", or "" for anonymous memory. */
const char *sp_maps_path(const struct sp_maps *m, const struct sp_map *map);

#endif
