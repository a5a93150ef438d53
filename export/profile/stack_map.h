/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The samples of one profile: stack x labels -> count and weight. The map is bounded. Its user checks how much room
 * is left, and has it encoded before it is full. A sample that still does not fit is counted under a visible
 * "(other)" stack, so that the totals stay right.
 */
#ifndef SP_STACK_MAP_H
#define SP_STACK_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/export.h"
#include "sampler/region/record.h"

/* Stack 0 of every map is "(other)": it has no frames. */
#define SP_STACK_OTHER 0U

struct sp_stack_limits {
	uint32_t stacks;   /* distinct stacks, "(other)" included; at least 1 */
	uint32_t entries;  /* distinct stack x labels; at least 1 */
	uint32_t pc_words; /* program counters of all stacks together */
};

extern const struct sp_stack_limits sp_stack_limits_default;

/* Compared as bytes: no padding. */
struct sp_stack_labels {
	uint64_t span_id;
	uint8_t trace_id[16];
	uint32_t name_id;
	uint32_t thread;             /* bounded_names.h; 0 = unknown, or not a label */
	uint64_t blocked_by_span_id; /* the span whose thread holds the lock; 0 = unknown */
	uint64_t
		root_id; /* the local root, whose attributes are labels (root_values.h); 0 = none */
};

_Static_assert(sizeof(struct sp_stack_labels) == 48, "no padding");

struct sp_stack_entry {
	struct sp_stack_labels labels;
	uint64_t count; /* samples taken */
	/* Sampling periods of the samples; for allocations the number of blocks, in units of 1 / SP_STACK_BLOCK. */
	uint64_t weight;
	/* CPU time between samples, or time of waits; for allocations bytes. UINT64_MAX = more than that */
	uint64_t unsampled_ns;
	uint32_t stack;
};

/* At most INT64_MAX, because the values come from a host and may be anything. */
static inline uint64_t sp_stack_ns(uint64_t weight, uint64_t period_ns, uint64_t unsampled_ns)
{
	int64_t ns;

	if (__builtin_mul_overflow(weight, period_ns, &ns) ||
	    __builtin_add_overflow(ns, unsampled_ns, &ns))
		return INT64_MAX;
	return (uint64_t)ns;
}

static inline uint64_t sp_stack_entry_ns(const struct sp_stack_entry *e, uint64_t period_ns)
{
	return sp_stack_ns(e->weight, period_ns, e->unsampled_ns);
}

/* When one sample of an entry was taken, and what the sample added to the entry. */
struct sp_stack_time {
	uint64_t monotonic_ns;
	uint64_t weight;
	uint64_t ns; /* that a look at a waiting thread stands for */
	uint32_t entry;
	uint32_t tid;
};
#define SP_STACK_TIMES_MAX 65536U /* of one map: 2 MiB */

struct sp_stack {
	const uint64_t *pc; /* leaf first; valid until the next put */
	uint32_t epoch;     /* which modules were mapped, see modules.h */
	uint16_t depth;
	uint16_t flags;    /* SP_SAMPLE_ bits */
	uint32_t wait;     /* its leaf frame, the wait: an id of bounded_names.h; 0 = no wait */
	uint32_t owner;    /* name of the span that holds the lock; 0 = unknown */
	bool has_owner_pc; /* the first address is the owner's, not the stack's */
	bool unsampled; /* CPU time between samples: the only frame is the thread's start routine */
};

/* An owner whose span has no name. */
#define SP_STACK_OWNER_UNNAMED UINT32_MAX

/* The details that one put had to drop. */
enum sp_stack_loss {
	SP_STACK_KEPT = 0,
	SP_STACK_LOST = 1,  /* the stack is counted under "(other)" */
	SP_LABELS_LOST = 2, /* the labels are lost too */
	SP_STACK_NOMEM = 4, /* because memory is short, not because of a limit */
};

/* Adds these losses to the counters. */
void sp_stack_loss_count(const struct sp_core_ops *ops, unsigned loss);

/*
 * Divides a total in proportion to parts that come one by one and add up to `of`. The shares are whole
 * numbers, and add up to the total.
 */
struct sp_share {
	uint64_t total;
	uint64_t of;
	uint64_t done;
	uint64_t given;
};
uint64_t sp_share_next(struct sp_share *s, uint64_t part);

struct sp_stack_map;

/* NULL when out of memory. */
struct sp_stack_map *sp_stack_map_new(const struct sp_stack_limits *limits);
void sp_stack_map_free(struct sp_stack_map *m);

/*
 * Adds one sample, with the name of its thread if that is to be a label. Returns sp_stack_loss bits. Even a sample
 * with a loss is counted.
 */
unsigned sp_stack_map_put(struct sp_stack_map *m, const struct sp_sample *s, uint32_t epoch,
			  uint32_t thread);

/* The same for CPU time between samples. */
unsigned sp_stack_map_put_cpu_time(struct sp_stack_map *m, const struct sp_cpu_time *t,
				   uint32_t epoch, uint32_t thread);

/* Adds a sample of an allocation. On the average there is one sample for each interval bytes. */
#define SP_STACK_BLOCK 65536U
unsigned sp_stack_map_put_allocation(struct sp_stack_map *m, const struct sp_sample *s,
				     uint32_t epoch, uint32_t thread, uint32_t interval);

/* A wait that a look has found, and the time for which the look stands. */
struct sp_stack_wait {
	const struct sp_stack_labels *labels;
	struct sp_stack stack; /* depth of at most SP_FRAMES_MAX */
	uint64_t ns;
};
unsigned sp_stack_map_put_wait(struct sp_stack_map *m, const struct sp_stack_wait *w);

/*
 * Changes labels: entries of one stack that have the same labels afterwards are added up. is_unsampled: the entry is CPU time
 * between samples. To be called when all samples are put. Returns the number of times of samples that are lost, for want of
 * memory.
 */
uint32_t sp_stack_map_relabel(struct sp_stack_map *m,
			      void (*change)(void *arg, bool is_unsampled,
					     struct sp_stack_labels *l),
			      void *arg);

/*
 * Gives each entry that CPU time, in place of its sampling periods and of the time between samples;
 * the times of its samples get their shares. ns has a value for each entry. To be called when all samples
 * are put. Changes ns: an entry that had time keeps a nanosecond of it. False without memory: nothing
 * has changed.
 */
bool sp_stack_map_set_ns(struct sp_stack_map *m, uint64_t period_ns, uint64_t *ns);

/*
 * Takes that CPU time away, from all entries in proportion. To be called when all samples are put.
 * False if the entries do not have more than that, or without memory: nothing has changed.
 */
bool sp_stack_map_take_ns(struct sp_stack_map *m, uint64_t period_ns, uint64_t ns);

/*
 * Keeps the time of the sample that was put last, if it has the id of a span. time->entry is ignored. False: the
 * time is lost, because the map is full of times or memory is short.
 */
bool sp_stack_map_put_time(struct sp_stack_map *m, const struct sp_stack_time *time);

/* The times that were kept, in the order in which their samples were put. 0 for NULL. */
uint32_t sp_stack_map_times(const struct sp_stack_map *m, const struct sp_stack_time **time);

/* Entries in order of first sight. */
uint32_t sp_stack_map_entries(const struct sp_stack_map *m);
const struct sp_stack_entry *sp_stack_map_entry(const struct sp_stack_map *m, uint32_t i);
void sp_stack_map_stack(const struct sp_stack_map *m, uint32_t stack, struct sp_stack *out);

/*
 * The number of stacks, "(other)" included; and the program counters of one. The caller owns the map and adds no more
 * samples.
 */
uint32_t sp_stack_map_stacks(const struct sp_stack_map *m);
uint64_t *sp_stack_map_pcs(struct sp_stack_map *m, uint32_t stack);

/* The number of samples of any kind that certainly still fit. */
uint32_t sp_stack_map_room(const struct sp_stack_map *m);

/* Nine tenths of a table are in use: time to have the map encoded. */
bool sp_stack_map_is_crowded(const struct sp_stack_map *m);

/* Samples and records of CPU time put since the last clear. */
uint64_t sp_stack_map_samples(const struct sp_stack_map *m);

/* The counts of all entries: samples without records of CPU time, or waits. 0 for NULL. */
uint64_t sp_stack_map_count(const struct sp_stack_map *m);

void sp_stack_map_clear(struct sp_stack_map *m);

/* No more samples come: frees the memory that only adding needs. Returns the memory that is left; 0 for NULL. */
size_t sp_stack_map_seal(struct sp_stack_map *m);

#endif
