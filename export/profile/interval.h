/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was collected of a process in one upload interval, with the names of all that is in it. Nothing of it
 * changes any more, and it refers to no file, no table and nothing of the process but its counters. So profiles
 * can be encoded from it at any time, and again within other limits if a server finds one too large.
 *
 * Its records are the entries of the map of samples, behind them those of the map of waits, then those of
 * allocations, and of memory in use. In their stacks there are no addresses any more, but places in named[].
 */
#ifndef SP_INTERVAL_H
#define SP_INTERVAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/export.h"
#include "export/profile/bounded_names.h"
#include "export/profile/pprof.h"
#include "export/profile/root_values.h"
#include "export/profile/stack_map.h"
#include "export/symbols/symbolize.h"
#include "export/util/containers.h"

/* Those that are kept take no more memory together than this; the oldest go first. */
#define SP_INTERVALS_BYTES ((size_t)48 << 20)

#define SP_INTERVAL_TEXT_MAX 2048U /* bytes; longer ones are cut */

/* In the place of an epoch where a number is no address: ids of what is waited for, of threads, of spans' names, and owners. */
#define SP_NAMED_WAIT UINT32_MAX
#define SP_NAMED_THREAD (UINT32_MAX - 1)
#define SP_NAMED_SPAN (UINT32_MAX - 2)
#define SP_NAMED_OWNER (UINT32_MAX - 3) /* sp_interval_owner() */
/* Texts that are values of an attribute, of the first one and so on. */
#define SP_NAMED_VALUE (UINT32_MAX - 4 - SP_SPAN_VALUES_MAX)

/* Different values of one attribute; what is one of more becomes "(other)". */
#define SP_INTERVAL_VALUES_MAX 1000U

/* One function of a frame: numbers of texts. */
struct sp_named_line {
	uint32_t name;
	uint32_t system_name;
	uint32_t file;
	uint32_t line;
};

struct sp_named_place {
	struct sp_place place; /* its texts are those below */
	uint32_t file;
	uint8_t build_id[SP_BUILD_ID_MAX];
};

/* What an address, or another number, stands for. */
struct sp_named {
	uint64_t number;
	uint32_t epoch;
	uint32_t place; /* a text instead, of a thread's or a span's name */
	uint64_t address;
	uint32_t first; /* of its lines, innermost first */
	uint32_t lines;
};

/* A thread that waits for a lock of another one for good. */
struct sp_interval_thread {
	uint32_t tid;
	uint32_t name_id; /* of its span, 0 = none */
	uint32_t epoch;
	uint64_t pc; /* in the function that waits; 0 = not known */
	char name[SP_THREAD_NAME_BYTES];
};

struct sp_interval_store;

/* What was collected, each in a map of its own. */
enum sp_interval_map {
	SP_MAP_SAMPLES,
	SP_MAP_WAITS,
	SP_MAP_ALLOCATIONS,
	SP_MAP_IN_USE,
	SP_MAPS,
};

struct sp_interval {
	const struct sp_core_ops *ops;
	struct sp_stack_map *map[SP_MAPS]; /* NULL = there is none */
	/* Records are the entries of all maps, one after the other: the first one behind those of each. */
	uint32_t end[SP_MAPS];
	uint32_t records;
	uint64_t begun_ns; /* by the monotonic clock */
	int64_t time_ns;   /* the same, since the epoch */
	int64_t duration_ns;
	bool names_threads;
	/* Attributes that are labels: their names, texts; and their values by record, in the order of the names. */
	uint32_t attribute[SP_SPAN_VALUES_MAX];
	unsigned attributes;
	uint32_t *value; /* texts, 0 = none; NULL where there are no attributes */
	/* Each waits for the next one, the last one for the first. */
	struct sp_interval_thread *deadlock;
	unsigned deadlocked; /* 0 = there was no deadlock */
	bool is_given_up;    /* only who holds it is known */
	struct sp_named *named;
	size_t named_n, named_cap;
	struct sp_hash_index by_number;
	struct sp_named_line *line;
	size_t line_n, line_cap;
	struct sp_named_place *place;
	size_t place_n, place_cap;
	bool has_program;
	uint32_t program; /* its place */
	struct sp_strtab text;
	unsigned holds;
	size_t bytes;
	struct sp_interval_store *store; /* that keeps it; NULL = none does */
	struct sp_interval *next;
};

/* Intervals that something is still to be sent of, oldest first. Zero it at first use. */
struct sp_interval_store {
	struct sp_interval *oldest;
	size_t bytes;
};

/*
 * What it is made of. The maps are taken over, also if that fails.
 */
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
 * Names what only the process and its tables know: threads, spans, what is waited for, values of attributes. Held
 * once by the caller.
 * NULL when out of memory.
 */
struct sp_interval *sp_interval_new(const struct sp_interval_parts *parts);

/*
 * The other half, which may take long and needs the files of the process alone. First the symbolizer is asked for
 * every address, and symbolize.h says what follows. Then frames are named, once, and profiles can be encoded.
 * False when out of memory.
 */
void sp_interval_want(const struct sp_interval *i, struct sp_symbolizer *symbolizer);
bool sp_interval_name(struct sp_interval *i, struct sp_symbolizer *symbolizer);

/* Once it is named, for people: who waits for whom, in which function. One printable line; text may be cut. */
void sp_interval_deadlock(const struct sp_interval *i, char *text, size_t cap);

/* Bytes of its maps, which nothing is added to from now on. */
size_t sp_interval_seal(struct sp_interval *i);

/* From now on it counts, and others may be given up for it. */
void sp_interval_keep(struct sp_interval *i, struct sp_interval_store *store);

void sp_interval_hold(struct sp_interval *i);
/* Frees it when nobody else holds it. No-op for NULL. */
void sp_interval_release(struct sp_interval *i);

/* What was named for that number; NULL = nothing. */
const struct sp_named *sp_interval_find(const struct sp_interval *i, uint64_t number,
					uint32_t epoch);
/* Makes the item at that place of named[] one that is found. False when out of memory. */
bool sp_interval_index(struct sp_interval *i, uint32_t at);
/* A text of it; "" for 0. */
const char *sp_interval_text(const struct sp_interval *i, uint32_t id);

/* The number of the frame that tells who holds the lock that a stack waits for, once its addresses are places. */
uint64_t sp_interval_owner(const struct sp_stack *s);

/*
 * All labels of a record, for whoever writes profiles of any form: ids are hexadecimal, and no value is empty. Names
 * and values are valid as long as the interval, the ids as long as *out.
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
