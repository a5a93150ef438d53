/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampled blocks that are not freed yet, each with its number; the record of its free has this
 * number, too. Programs free blocks all the time, and nearly none of these was sampled. So free()
 * reads one byte, chosen by a hash of the address: how many sampled blocks have that hash. Only if
 * the byte is not 0, free() searches the table of the blocks. A block is in one of the
 * SP_BLOCKS_REACH places from its hash on; if all these places are taken, it is not entered.
 *
 * Any number of threads and signal handlers use the table without a lock. The program itself orders
 * the events of one address: a block is entered before the caller of the allocator gets it, and
 * removed by the thread that frees it, before the allocator may use the address again. A thread
 * claims a place by a compare-and-swap.
 *
 * The ring reserves room for one record of a free for each block in the table
 * (sampler/region/ring.h). So a block has its place from before its sample is taken until the
 * record of its free is in the ring. If the sample was lost, the place is free at once.
 *
 * A forked child begins with an empty table (MADV_WIPEONFORK): its exporter knows none of the
 * parent's blocks, and places that other threads held during the fork would be lost. A child of
 * vfork() shares the parent's memory and table, and frees the parent's blocks. Before Linux 4.14 a
 * forked child has a copy of the table and sends ends with numbers that its exporter does not know,
 * which is harmless; but a block that a child of vfork() frees then stays in the profile.
 */
#ifndef SP_BLOCKS_H
#define SP_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_BLOCKS 16384U
#define SP_BLOCKS_REACH 16U /* places that a block may have, from its hash on */
#define SP_BLOCKS_COUNTS 65536U
/*
 * A byte has room for a count of 255. The limit is lower, because several threads may read the same
 * count at one moment and then all add 1 to it.
 */
#define SP_BLOCKS_COUNT_MOST 128U

/* The key of a place that a thread has claimed; no block has this key. */
#define SP_BLOCK_HELD ((uintptr_t)1)

struct sp_block {
	_Atomic uintptr_t key; /* 0 = the place is free */
	_Atomic uint64_t number;
};

struct sp_blocks {
	_Atomic uint8_t count[SP_BLOCKS_COUNTS];
	struct sp_block place[SP_BLOCKS];
	_Atomic uint64_t numbers; /* given so far */
	_Atomic uint64_t in;      /* places that are not free */
};

/*
 * Fibonacci hashing: the upper bits of the product depend on all bits of the lower half of the
 * address. The upper half is not used, because a multiplier of 64 bits would cost each free() one
 * more instruction.
 */
static inline uint32_t sp_blocks_hash(const void *block)
{
	return (uint32_t)(uintptr_t)block * UINT32_C(0x9e3779b1);
}

static inline _Atomic uint8_t *sp_blocks_count(struct sp_blocks *t, const void *block)
{
	return &t->count[sp_blocks_hash(block) >> 16];
}

/*
 * The table does not store the address itself: a leak checker would find the address here and take
 * the block for one in use.
 */
static inline uintptr_t sp_block_key(const void *block)
{
	return ~(uintptr_t)block;
}

/* False is certain; it is nearly always the answer. */
static inline bool sp_blocks_may_have(struct sp_blocks *t, const void *block)
{
	return atomic_load_explicit(sp_blocks_count(t, block), memory_order_relaxed) != 0;
}

static inline struct sp_block *sp_blocks_near(struct sp_blocks *t, const void *block, unsigned i)
{
	return &t->place[((sp_blocks_hash(block) >> 18) + i) % SP_BLOCKS];
}

static inline bool sp_block_swap(struct sp_block *b, uintptr_t was, uintptr_t key)
{
	return atomic_load_explicit(&b->key, memory_order_relaxed) == was &&
	       atomic_compare_exchange_strong_explicit(&b->key, &was, key, memory_order_acquire,
						       memory_order_relaxed);
}

/*
 * Puts a block into the place that the caller holds: a new block, or one that sp_blocks_take() took
 * out.
 */
static inline void sp_blocks_give_back(struct sp_blocks *t, struct sp_block *b, const void *block)
{
	atomic_fetch_add_explicit(sp_blocks_count(t, block), 1, memory_order_relaxed);
	atomic_store_explicit(&b->key, sp_block_key(block), memory_order_release);
}

/*
 * Frees the place. The record of the block's free is in the ring, so the ring need not reserve room
 * for it any more.
 */
static inline void sp_blocks_free(struct sp_blocks *t, struct sp_block *b)
{
	atomic_fetch_sub_explicit(&t->in, 1, memory_order_release);
	atomic_store_explicit(&b->key, 0, memory_order_release);
}

static inline uint64_t sp_block_number(const struct sp_block *b)
{
	return atomic_load_explicit(&b->number, memory_order_relaxed);
}

/*
 * Finds a free place for a block that is not NULL, with a new number. The caller holds the place
 * until sp_blocks_give_back() or sp_blocks_free(). NULL = no place is free.
 */
static inline struct sp_block *sp_blocks_hold(struct sp_blocks *t, const void *block)
{
	if (atomic_load_explicit(sp_blocks_count(t, block), memory_order_relaxed) >=
	    SP_BLOCKS_COUNT_MOST)
		return NULL;
	for (unsigned i = 0; i < SP_BLOCKS_REACH; i++) {
		struct sp_block *b = sp_blocks_near(t, block, i);
		uint64_t number;

		if (!sp_block_swap(b, 0, SP_BLOCK_HELD))
			continue;
		atomic_fetch_add_explicit(&t->in, 1, memory_order_relaxed);
		number = atomic_fetch_add_explicit(&t->numbers, 1, memory_order_relaxed) + 1;
		atomic_store_explicit(&b->number, number, memory_order_relaxed);
		return b;
	}
	return NULL;
}

/*
 * Takes a block out; NULL = the table does not have it. The caller holds the place until
 * sp_blocks_give_back() or sp_blocks_free().
 */
static inline struct sp_block *sp_blocks_take(struct sp_blocks *t, const void *block)
{
	if (!sp_blocks_may_have(t, block) || sp_block_key(block) <= SP_BLOCK_HELD)
		return NULL;
	for (unsigned i = 0; i < SP_BLOCKS_REACH; i++) {
		struct sp_block *b = sp_blocks_near(t, block, i);

		if (!sp_block_swap(b, sp_block_key(block), SP_BLOCK_HELD))
			continue;
		atomic_fetch_sub_explicit(sp_blocks_count(t, block), 1, memory_order_relaxed);
		return b;
	}
	return NULL;
}

#endif
