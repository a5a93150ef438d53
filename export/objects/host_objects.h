/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects that are loaded in a host, by /proc/PID/maps and the files that it names. Reading
 * maps takes the right PTRACE_MODE_READ. The exporter does not attach to the process. It reads the
 * process's memory, which Yama may forbid, only if no path leads to a file; so the loader's list of
 * objects cannot be used.
 *
 * Reading maps takes the host's mmap lock for a moment. The time is proportional to the number of
 * mappings: 0.1 ms in a small program, tens of milliseconds with a hundred thousand. Context: the
 * exporter.
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
	uint64_t lo;   /* range of all loads, or of its mappings if its file is not known */
	uint64_t hi;
	bool main; /* the program itself */
	/*
	 * the number, from 1 on, of the object in whose gap between loads this object lies; 0 =
	 * none
	 */
	size_t around;
};

struct sp_host_objects;

/*
 * proc is the process's folder, "/proc/PID"; maps as the last argument of sp_maps_read(). NULL when
 * out of memory. Nothing is known before the first refresh.
 */
struct sp_host_objects *sp_host_objects_new(const char *proc, int maps);
void sp_host_objects_free(struct sp_host_objects *h);

/*
 * A copy of the mappings without objects: sp_host_objects_map(), _path() and _is_generated() give the same answers.
 * The copy holds the process's perf map open, because nobody can find that file once the process has ended. NULL when
 * out of memory.
 */
struct sp_host_objects *sp_host_objects_copy(const struct sp_host_objects *h);

/* Memory that a copy takes. */
size_t sp_host_objects_bytes(const struct sp_host_objects *copy);

/*
 * Reads what is mapped now. Pointers to objects become invalid. 0; -E2BIG if not all mappings could be examined, so
 * objects may be missing; another negative errno, also when the process has ended: then the former objects stay.
 */
int sp_host_objects_refresh(struct sp_host_objects *h);

/* False if a refresh now would make refreshing take more than a fiftieth of the time. */
bool sp_host_objects_due(const struct sp_host_objects *h);

/* Sorted by address; no object overlaps with a load of another one. */
size_t sp_host_objects_count(const struct sp_host_objects *h);
const struct sp_host_object *sp_host_objects_get(const struct sp_host_objects *h, size_t i);

/* The object that contains addr and whose file is known, or NULL. */
const struct sp_host_object *sp_host_objects_find(const struct sp_host_objects *h, uint64_t addr);

/* Whether sp_object_file_frames() has a table for one of the objects. Reads files that it has not read yet. */
bool sp_host_objects_have_frames(const struct sp_host_objects *h);

/* The executable mapping that contains addr, or NULL; and the kernel's name for it. */
const struct sp_map *sp_host_objects_map(const struct sp_host_objects *h, uint64_t addr);
const char *sp_host_objects_path(const struct sp_host_objects *h, const struct sp_map *map);

/* Whether the mapping holds code that the program has generated: it belongs to no file with a name. */
bool sp_host_objects_is_generated(const struct sp_host_objects *h, const struct sp_map *map);

/* Of a copy: the descriptor of the process's perf map (perf_map.h), or -1. */
int sp_host_objects_perf_map(const struct sp_host_objects *copy);
void sp_host_objects_forget_perf_map(struct sp_host_objects *copy);

/* "/proc/PID" */
const char *sp_host_objects_proc(const struct sp_host_objects *h);

/*
 * Sets the memory from which everything is read that the files do not contain: objects whose file
 * was replaced at its path, and memory without a file. Initially there is no such memory.
 */
void sp_host_objects_set_memory(struct sp_host_objects *h, const struct sp_host_memory *memory);
bool sp_host_objects_read_own(const struct sp_host_objects *h, uint64_t addr, void *out,
			      size_t bytes);

/*
 * Reads memory of the objects as far as their files show it: everything that is mapped read-only, such as code, call
 * frame information and constants. Pages are kept until the next refresh. False unless all bytes lie in readable
 * segments of objects that nobody writes to.
 */
bool sp_host_objects_read(struct sp_host_objects *h, uint64_t addr, void *out, unsigned bytes);

/* True if the address is in a writable segment: the memory exists, but no file says what it contains. */
bool sp_host_objects_is_data(const struct sp_host_objects *h, uint64_t addr);

#endif
