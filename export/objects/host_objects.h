/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects that are loaded in a host, by /proc/PID/maps and the files that it names. That takes
 * the right to read another process's maps (PTRACE_MODE_READ). It neither attaches to the process
 * nor reads its memory, which Yama forbids; so the loader's list of objects cannot be used.
 *
 * Reading maps takes the host's mmap lock for a moment, and time in proportion to its mappings: 0.1
 * ms in a small program, tens of milliseconds with a hundred thousand. Context: the exporter.
 */
#ifndef SP_HOST_OBJECTS_H
#define SP_HOST_OBJECTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/objects/maps.h"
#include "export/objects/object_file.h"

#define SP_HOST_OBJECTS_MAX 4096U

struct sp_host_object {
	const struct sp_object_file *file;
	uint64_t bias; /* runtime address minus ELF address; valid if file->known */
	uint64_t lo;   /* of all its loads, or of its mappings if its file is not known */
	uint64_t hi;
	bool main; /* the program itself */
	size_t around; /* in whose gap between loads it lies: its place in the list, from 1; 0 = in none */
};

struct sp_host_objects;

/* Reads memory of the host itself. False if not all of it is there. */
struct sp_host_memory {
	bool (*read)(void *arg, uint64_t at, void *out, size_t bytes); /* NULL = none may be read */
	void *arg;
};

/*
 * proc is the process's folder, "/proc/PID"; maps as the last argument of sp_maps_read(). NULL when
 * out of memory. Nothing is known before the first refresh.
 */
struct sp_host_objects *sp_host_objects_new(const char *proc, int maps);
void sp_host_objects_free(struct sp_host_objects *h);

/* What is mapped where, without objects: sp_host_objects_map() and _path() say the same. NULL when out of memory. */
struct sp_host_objects *sp_host_objects_copy(const struct sp_host_objects *h);

/* Memory that a copy takes. */
size_t sp_host_objects_bytes(const struct sp_host_objects *copy);

/*
 * Reads what is mapped now. Pointers to objects become invalid. 0; -E2BIG if not all could be
 * examined, so that missing objects may exist; another negative errno, also when the process has
 * ended: then what was known stays.
 */
int sp_host_objects_refresh(struct sp_host_objects *h);

/* False if a refresh now would make refreshing take more than a fiftieth of the time. */
bool sp_host_objects_due(const struct sp_host_objects *h);

/* Ascending, and none overlaps with a load of another one. */
size_t sp_host_objects_count(const struct sp_host_objects *h);
const struct sp_host_object *sp_host_objects_get(const struct sp_host_objects *h, size_t i);

/* The object of a known file around addr, or NULL. */
const struct sp_host_object *sp_host_objects_find(const struct sp_host_objects *h, uint64_t addr);

/* The executable mapping around addr, or NULL; and what the kernel calls it. */
const struct sp_map *sp_host_objects_map(const struct sp_host_objects *h, uint64_t addr);
const char *sp_host_objects_path(const struct sp_host_objects *h, const struct sp_map *map);

/* "/proc/PID" */
const char *sp_host_objects_proc(const struct sp_host_objects *h);

/*
 * From now on, what a file does not show any more, because another one has its name, is read from this memory, and so
 * is what no file says. At first there is none.
 */
void sp_host_objects_set_memory(struct sp_host_objects *h, const struct sp_host_memory *memory);
bool sp_host_objects_read_own(const struct sp_host_objects *h, uint64_t addr, void *out,
			      size_t bytes);

/*
 * Reads memory of the objects as far as their files show it: everything that is mapped and not writable, that is, code,
 * call frame information and constants. Pages are kept until the next refresh. False unless all bytes
 * lie in readable segments of objects that nobody writes to.
 */
bool sp_host_objects_read(struct sp_host_objects *h, uint64_t addr, void *out, unsigned bytes);

/* True if the address is in a writable segment: there is memory, but no file says what it contains. */
bool sp_host_objects_is_data(const struct sp_host_objects *h, uint64_t addr);

#endif
