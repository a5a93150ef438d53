/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampled memory blocks of one process that are still allocated. At the end of each upload interval a profile is
 * made from them. A block keeps the label of its span while the span is open. Later it keeps only the span's name, so
 * a block with a name and no id outlived its span.
 *
 * The host reports which blocks come and go, and may report anything. Blocks that exceed the bounds of number or
 * bytes, or whose numbers share one hash too often, are counted and left out.
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
/* Spans that end in one interval, at most. */
#define SP_LIVE_SPANS_MAX 65536U

struct sp_live_blocks;

/* NULL when out of memory. */
struct sp_live_blocks *sp_live_blocks_new(const struct sp_core_ops *ops);
void sp_live_blocks_free(struct sp_live_blocks *l);

/* The functions below do nothing for NULL. */

/* Adds the sample of an allocation, with the name of its thread if thread names are labels. */
void sp_live_blocks_put(struct sp_live_blocks *l, const struct sp_sample *s, uint32_t epoch,
			uint32_t thread);

/*
 * The block of that number was freed, or the span of that id has ended. If the block is unknown, its sample may still
 * come from the ring of snapshots, and so may samples of the span. Call sp_live_blocks_snapshots_read() when all snapshots
 * that were begun before have come: then they will not come any more.
 */
void sp_live_blocks_freed(struct sp_live_blocks *l, uint64_t number);
void sp_live_blocks_span_ended(struct sp_live_blocks *l, uint64_t span_id);
void sp_live_blocks_snapshots_read(struct sp_live_blocks *l);

/* Whether a block came or went since the last profile. False for NULL. */
bool sp_live_blocks_changed(const struct sp_live_blocks *l);

/* The number of blocks. 0 for NULL. */
uint32_t sp_live_blocks_count(const struct sp_live_blocks *l);

/* The earliest epoch (modules.h) of all stacks; epoch itself if none is earlier. */
uint32_t sp_live_blocks_epoch(const struct sp_live_blocks *l, uint32_t epoch);

/* Addresses of stacks from before that epoch have no known meaning any more: drops these stacks. */
void sp_live_blocks_forget_stacks(struct sp_live_blocks *l, uint32_t epoch);

/* Adds all blocks to the map, as samples of allocations. */
void sp_live_blocks_collect(struct sp_live_blocks *l, struct sp_stack_map *to);

#endif
