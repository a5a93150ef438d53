/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks of memory of one process that were sampled when they were allocated and are still there. At the end of each
 * upload interval a profile is made of them. A block keeps the label of its span; once that has ended only its name,
 * so what has a name and no id is what the span has left behind.
 *
 * The host says which blocks come and go, and may say anything: what does not fit, in number, in bytes or because too
 * many numbers have one hash, is counted and left out.
 */
#ifndef SP_LIVE_BLOCKS_H
#define SP_LIVE_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#include "export/export.h"
#include "export/profile/stack_map.h"
#include "sampler/region/record.h"

#define SP_LIVE_BLOCKS_MAX 16384U
#define SP_LIVE_BLOCKS_BYTES ((size_t)12 << 20)
/* Spans that end in one interval. */
#define SP_LIVE_SPANS_MAX 65536U

struct sp_live_blocks;

/* NULL when out of memory. */
struct sp_live_blocks *sp_live_blocks_new(const struct sp_core_ops *ops);
void sp_live_blocks_free(struct sp_live_blocks *l);

/* All of these: no-op for NULL. */

/* The sample of an allocation, with the name of its thread if that is to be a label. */
void sp_live_blocks_put(struct sp_live_blocks *l, const struct sp_sample *s, uint32_t epoch,
			uint32_t thread);

/*
 * The block of that number is no more, or the span of that id has ended. If the block is not there, its sample, or one
 * of that span, may still come from the ring of snapshots. When all have come from there that were begun before, it will
 * not: sp_live_blocks_settle().
 */
void sp_live_blocks_freed(struct sp_live_blocks *l, uint64_t number);
void sp_live_blocks_span_ended(struct sp_live_blocks *l, uint64_t span_id);
void sp_live_blocks_settle(struct sp_live_blocks *l);

/* Something came or went since the last profile. False for NULL. */
bool sp_live_blocks_changed(const struct sp_live_blocks *l);

/* How many there are. 0 for NULL. */
uint32_t sp_live_blocks_count(const struct sp_live_blocks *l);

/* The first epoch (modules.h) that a stack is of; that one if there is none before it. */
uint32_t sp_live_blocks_epoch(const struct sp_live_blocks *l, uint32_t epoch);

/* Of stacks from before that epoch nobody knows any more what they mean. */
void sp_live_blocks_forget_stacks(struct sp_live_blocks *l, uint32_t epoch);

/* Adds all of them to the map, as samples of allocations. */
void sp_live_blocks_collect(struct sp_live_blocks *l, struct sp_stack_map *to);

#endif
