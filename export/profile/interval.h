/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of a process in one upload interval, with the names of everything in them. They do not change any more,
 * and refer to nothing of the process but its counters: to no file and no table. Profiles are encoded from them, and then
 * nobody needs them any more.
 *
 * Its records are the entries of the map of samples, followed by those of the map of waits, of allocations, and of
 * memory in use. Their stacks have indexes in named[] in place of addresses.
 */
#ifndef SP_INTERVAL_H
#define SP_INTERVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/export.h"
#include "export/profile/bounded_names.h"
#include "export/profile/pprof.h"
#include "export/profile/profile_type.h"
#include "export/profile/root_values.h"
#include "export/profile/stack_map.h"
#include "export/symbols/symbolize.h"
#include "export/util/containers.h"

#define SP_INTERVAL_TEXT_MAX 2048U /* bytes; longer ones are cut */

/*
 * Values in place of an epoch, for a number that is no address: ids of waits, of threads, of spans' names, and owners
 * of locks.
 */
#define SP_NAMED_WAIT UINT32_MAX
#define SP_NAMED_THREAD (UINT32_MAX - 1)
#define SP_NAMED_SPAN (UINT32_MAX - 2)
#define SP_NAMED_OWNER (UINT32_MAX - 3) /* sp_interval_owner() */
/* Texts that are values of an attribute: this one for the first attribute, less by 1 for each next one. */
#define SP_NAMED_VALUE (UINT32_MAX - 4 - SP_ROOT_LABELS_MAX)

/* Different values of one attribute; further ones become "(other)". */
#define SP_INTERVAL_VALUES_MAX 1000U

/* One function of a frame: ids of texts. */
struct sp_named_line {
	uint32_t name;
	uint32_t system_name;
	uint32_t file;
	uint32_t line;
};

struct sp_named_place {
	struct sp_place place; /* its texts are the ids below */
	uint32_t file;
	uint8_t build_id[SP_BUILD_ID_MAX];
};

/* The meaning of an address or of another number. */
struct sp_named {
	uint64_t number;
	uint32_t epoch;
	uint32_t place; /* for a thread's or a span's name, a text instead */
	uint64_t address;
	uint32_t first; /* index of its lines, innermost first */
	uint32_t lines;
	bool is_unnamed; /* as in symbolize.h */
};

/* A thread that waits for a lock of another thread, in a deadlock. */
struct sp_interval_thread {
	uint32_t tid;
	uint32_t name_id; /* of its span, 0 = none */
	uint32_t epoch;
	uint64_t pc; /* in the function that waits; 0 = unknown */
	char name[SP_THREAD_NAME_BYTES];
};

struct sp_interval {
	const struct sp_core_ops *ops;
	struct sp_stack_map *map[SP_MAPS]; /* NULL = there is none */
	/* Records are the entries of all maps, one map after the other. end[m] is the first record behind map m. */
	uint32_t end[SP_MAPS];
	uint32_t records;
	uint64_t begun_ns; /* by the monotonic clock */
	int64_t time_ns;   /* the same, since the epoch */
	int64_t duration_ns;
	bool names_threads;
	/*
	 * The attributes that are labels. attribute: text ids of their names; value: text ids of their values by
	 * record, in the order of the names.
	 */
	uint32_t attribute[SP_ROOT_LABELS_MAX];
	unsigned attributes;
	uint32_t *value; /* 0 = none; NULL if there are no attributes */
	/* Each thread waits for the next one, the last one for the first. */
	struct sp_interval_thread *deadlock;
	unsigned deadlocked; /* 0 = there was no deadlock */
	struct sp_named *named;
	size_t named_n, named_cap;
	struct sp_hash_index by_number;
	struct sp_named_line *line;
	size_t line_n, line_cap;
	struct sp_named_place *place;
	size_t place_n, place_cap;
	bool has_program;
	uint32_t program; /* index of its place */
	struct sp_strtab text;
};

/* The parts of a new interval. It takes the maps over, even if it fails. */
struct sp_interval_parts {
	const struct sp_core_ops *ops;
	struct sp_stack_map *map[SP_MAPS];      /* NULL = there is none */
	const struct sp_bounded_names *threads; /* NULL = no thread_name labels */
	const struct sp_bounded_names *wait_names;
	const struct sp_root_values *values;       /* NULL = no attributes are labels */
	const struct sp_interval_thread *deadlock; /* copied */
	unsigned deadlocked;
	uint64_t begun_ns;
	int64_t time_ns;
	int64_t duration_ns;
};

/*
 * Makes an interval, and gives names to everything that only the process and its tables know: threads, spans, waits,
 * values of attributes. NULL when out of memory.
 */
struct sp_interval *sp_interval_new(const struct sp_interval_parts *parts);

/*
 * The second half, which may take long and needs only the files of the process. sp_interval_want() asks the
 * symbolizer for every address, and symbolize.h says what follows. Then sp_interval_name() names the frames, once,
 * and profiles can be encoded. False when out of memory.
 */
void sp_interval_want(const struct sp_interval *i, struct sp_symbolizer *symbolizer);
bool sp_interval_name(struct sp_interval *i, struct sp_symbolizer *symbolizer);

/*
 * A printable line about the deadlock of a named interval, for people: which thread waits for which, in which
 * function. text may be cut.
 */
void sp_interval_deadlock(const struct sp_interval *i, char *text, size_t cap);

/* Frees what is only needed to add records. Returns the bytes of its maps. */
size_t sp_interval_seal(struct sp_interval *i);

/* Does nothing for NULL. */
void sp_interval_free(struct sp_interval *i);

/* The name that was found for that number; NULL = none. */
const struct sp_named *sp_interval_find(const struct sp_interval *i, uint64_t number,
					uint32_t epoch);
/* Makes named[at] an item that sp_interval_find() finds. False when out of memory. */
bool sp_interval_index(struct sp_interval *i, uint32_t at);
/* The text of an id; "" for 0. */
const char *sp_interval_text(const struct sp_interval *i, uint32_t id);

/*
 * The number of the frame that names the holder of the lock for which a stack waits, once the stack has indexes in
 * place of addresses.
 */
uint64_t sp_interval_owner(const struct sp_stack *s);

/*
 * All labels of a record, for profiles of any format: ids are hexadecimal, and no value is empty. Names and values
 * are valid as long as the interval, ids as long as *out.
 */
struct sp_record_labels {
	struct sp_label label[SP_SAMPLE_LABELS_MAX];
	size_t n;
	char span_id[17], blocked_by[17], trace_id[33];
};
void sp_interval_labels(const struct sp_interval *i, uint32_t n, struct sp_record_labels *out);

/* A record and the map that its stack is in. */
const struct sp_stack_entry *sp_interval_record(const struct sp_interval *i, uint32_t n,
						const struct sp_stack_map **map);

#endif
