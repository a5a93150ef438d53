/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that were sampled and are still there, each with a number by which its end is told. Programs free blocks
 * all the time, and nearly none of them was sampled; so what every free() asks is a byte, by the address: how many
 * sampled blocks have such addresses. Behind that is a table of the blocks themselves, in which a block lies near
 * its home, or has no place.
 *
 * Any number of threads, and handlers that interrupt them; no lock. The program orders for us what happens to one
 * address: a block is entered before the allocator's caller has it, and left by whoever frees it, before the
 * allocator may give the address away again. Places are taken by a compare-and-swap.
 *
 * How many blocks are in says for how many ends the ring has to keep room (sampler/region/ring.h). So a block has its
 * place before its sample is taken, until its end is told, and gives it up at once if the sample was lost.
 *
 * A forked child begins with an empty table (MADV_WIPEONFORK), as its exporter knows none of its parent's blocks, and
 * the places that other threads had in hand would be lost. One that shares our memory, as by vfork, has ours, and frees
 * our blocks. Before Linux 4.14 a forked child has a copy of the table, and tells of numbers that its exporter does not
 * know, which is harmless; what a child of vfork frees stays in use there.
 */
#ifndef SP_BLOCKS_H
#define SP_BLOCKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_BLOCKS 16384U
#define SP_BLOCKS_REACH 16U /* places from its home on that a block may have */
#define SP_BLOCKS_COUNTS 65536U
/* Below what a byte can hold, by more than there may be threads that find it so at one moment. */
#define SP_BLOCKS_COUNT_MOST 128U

/* What no key of a block is: a place that somebody has in hand. */
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
 * Fibonacci hashing: the upper bits depend on all bits of what is multiplied. That is the lower half of the address,
 * because a multiplier of 64 bits would be one more instruction of each free().
 */
static inline uint32_t sp_blocks_hash(const void *block)
{
	return (uint32_t)(uintptr_t)block * UINT32_C(0x9e3779b1);
}

static inline _Atomic uint8_t *sp_blocks_count(struct sp_blocks *t, const void *block)
{
	return &t->count[sp_blocks_hash(block) >> 16];
}

/* Not the address, because a program's search for leaks would find it here, and take the block for one in use. */
static inline uintptr_t sp_block_key(const void *block)
{
	return ~(uintptr_t)block;
}

/* False is certain, and nearly always the answer. */
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

/* A block that was taken out, or a new one, is in its place. */
static inline void sp_blocks_give_back(struct sp_blocks *t, struct sp_block *b, const void *block)
{
	atomic_fetch_add_explicit(sp_blocks_count(t, block), 1, memory_order_relaxed);
	atomic_store_explicit(&b->key, sp_block_key(block), memory_order_release);
}

/* The place is free. What was told of its block is in the ring, so no room has to be kept for that any more. */
static inline void sp_blocks_leave(struct sp_blocks *t, struct sp_block *b)
{
	atomic_fetch_sub_explicit(&t->in, 1, memory_order_release);
	atomic_store_explicit(&b->key, 0, memory_order_release);
}

static inline uint64_t sp_block_number(const struct sp_block *b)
{
	return atomic_load_explicit(&b->number, memory_order_relaxed);
}

/*
 * A place for a block, which is not NULL, with a new number. It is the caller's, who gives it back or leaves it. NULL
 * where there is no room.
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

/* Takes a block out; NULL = it is not in. Its place is the caller's, who gives it back or leaves it. */
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
