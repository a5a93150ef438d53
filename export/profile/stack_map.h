/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The samples of one profile: stack x labels -> count and weight. Bounded: whoever fills it looks at the
 * room that is left, and has it encoded before there is none. What does not fit all the same is counted
 * under a visible "(other)" stack, so that the totals stay right.
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
	uint32_t thread; /* bounded_names.h; 0 = unknown, or not asked for */
	uint64_t
		blocked_by_span_id; /* whose thread holds the lock that is waited for; 0 = not known */
	uint64_t
		root_id; /* the local root, whose attributes are labels (root_values.h); 0 = none */
};

_Static_assert(sizeof(struct sp_stack_labels) == 48, "no padding");

struct sp_stack_entry {
	struct sp_stack_labels labels;
	uint64_t count; /* samples taken */
	/* Sampling periods they stand for; of allocations blocks, in units of 1 / SP_STACK_BLOCK. */
	uint64_t weight;
	/* CPU time between samples, or of waits; of allocations bytes. UINT64_MAX = more than that */
	uint64_t unsampled_ns;
	uint32_t stack;
};

struct sp_stack {
	const uint64_t *pc; /* leaf first; valid until the next put */
	uint32_t epoch;     /* which modules were mapped, see modules.h */
	uint16_t depth;
	uint16_t flags;    /* SP_SAMPLE_ bits */
	uint32_t wait;     /* bounded_names.h: what it waits in, as its leaf; 0 = it does not */
	uint32_t owner;    /* of the lock that it waits for: the name of its span; 0 = not known */
	bool has_owner_pc; /* the first address is not of the stack, but of the owner's */
	bool unsampled; /* of CPU time between samples: its only frame is the thread's start routine */
};

/* An owner whose span has no name. */
#define SP_STACK_OWNER_UNNAMED UINT32_MAX

/* What one put could not keep apart. */
enum sp_stack_loss {
	SP_STACK_KEPT = 0,
	SP_STACK_LOST = 1,  /* the stack is counted under "(other)" */
	SP_LABELS_LOST = 2, /* and without its labels */
	SP_STACK_NOMEM = 4, /* because of memory, not of a limit */
};

/* Adds these bits to the counters of losses. */
void sp_stack_loss_count(const struct sp_core_ops *ops, unsigned loss);

struct sp_stack_map;

/* NULL when out of memory. */
struct sp_stack_map *sp_stack_map_new(const struct sp_stack_limits *limits);
void sp_stack_map_free(struct sp_stack_map *m);

/*
 * Adds one sample, with the name of its thread if that is to be a label. Returns sp_stack_loss
 * bits. Every sample is counted.
 */
unsigned sp_stack_map_put(struct sp_stack_map *m, const struct sp_sample *s, uint32_t epoch,
			  uint32_t thread);

/* The same of CPU time between samples. */
unsigned sp_stack_map_put_cpu_time(struct sp_stack_map *m, const struct sp_cpu_time *t,
				   uint32_t epoch, uint32_t thread);

/* A sample of an allocation, of which there is one in the mean for so many bytes. */
#define SP_STACK_BLOCK 65536U
unsigned sp_stack_map_put_allocation(struct sp_stack_map *m, const struct sp_sample *s,
				     uint32_t epoch, uint32_t thread, uint32_t interval);

/* What a look has found, and the time that it stands for. */
struct sp_stack_wait {
	const struct sp_stack_labels *labels;
	struct sp_stack stack; /* depth of at most SP_FRAMES_MAX */
	uint64_t ns;
};
unsigned sp_stack_map_put_wait(struct sp_stack_map *m, const struct sp_stack_wait *w);

/* Entries in order of first sight. */
uint32_t sp_stack_map_entries(const struct sp_stack_map *m);
const struct sp_stack_entry *sp_stack_map_entry(const struct sp_stack_map *m, uint32_t i);
void sp_stack_map_stack(const struct sp_stack_map *m, uint32_t stack, struct sp_stack *out);

/* Stacks, "(other)" included; and the program counters of one, for who owns the map and puts nothing any more. */
uint32_t sp_stack_map_stacks(const struct sp_stack_map *m);
uint64_t *sp_stack_map_pcs(struct sp_stack_map *m, uint32_t stack);

/* How many more samples fit, whatever they are. */
uint32_t sp_stack_map_room(const struct sp_stack_map *m);

/* Nine tenths of it are in use: time to have it encoded. */
bool sp_stack_map_is_crowded(const struct sp_stack_map *m);

/* Samples and records of CPU time put since the last clear. */
uint64_t sp_stack_map_samples(const struct sp_stack_map *m);

/* The counts of all entries: samples without records of CPU time, or waits. 0 for NULL. */
uint64_t sp_stack_map_count(const struct sp_stack_map *m);

void sp_stack_map_clear(struct sp_stack_map *m);

/* Nothing is put any more: what was needed for that goes. The memory that is left; 0 for NULL. */
size_t sp_stack_map_seal(struct sp_stack_map *m);

#endif
