/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of /proc/PID/maps that show code: all lines of each run of mappings of one file that contains executable
 * memory, and executable memory without a file. A host may map any number of files, so the lines that are read and
 * stored are bounded. Context: the exporter.
 */
#ifndef SP_MAPS_H
#define SP_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_map {
	uint64_t start;
	uint64_t end;
	uint64_t offset; /* the file offset of start */
	uint64_t device; /* as makedev(3) has it */
	uint64_t inode;  /* 0 = no file */
	size_t path;     /* for sp_maps_path() */
	int prot;        /* PROT_READ, PROT_WRITE, PROT_EXEC bits */
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

/* Parses one line without its newline; *path points into it. Does not set map->path. False if it is no such line. */
bool sp_maps_line(const char *line, struct sp_map *map, const char **path);

/*
 * Reads path ("/proc/PID/maps") again. 0; -E2BIG if there was more than may be read or stored, and *m has the
 * beginning; another negative errno, and *m is empty. The file of an ended process is empty. If path cannot be read,
 * reads the descriptor spare of such a file (-1 = none).
 */
int sp_maps_read(struct sp_maps *m, const char *path, int spare);
void sp_maps_fini(struct sp_maps *m);

/* Copies into a zeroed struct. False when out of memory; sp_maps_fini() may follow. */
bool sp_maps_copy(struct sp_maps *to, const struct sp_maps *from);

/* The mapping that contains addr, or NULL. */
const struct sp_map *sp_maps_find(const struct sp_maps *m, uint64_t addr);

/* The kernel's name for the mapping: a path, "[vdso]", or "" for anonymous memory. */
const char *sp_maps_path(const struct sp_maps *m, const struct sp_map *map);

#endif
