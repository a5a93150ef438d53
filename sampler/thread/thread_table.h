/* SPDX-License-Identifier: Apache-2.0 */
/* The table of thread blocks behind thread.h. */
#ifndef SP_THREAD_TABLE_H
#define SP_THREAD_TABLE_H

#include "sampler/thread/thread.h"

#define SP_THREAD_STRIDE 8192U

/*
 * Blocks, and the map from thread ids to blocks, are mapped piece by piece as they are needed: all
 * at once would take 136 MiB of address space, which RLIMIT_AS may limit in the host.
 */
#define SP_THREAD_SLAB 256U /* blocks */
#define SP_THREAD_SLABS (SP_THREADS_MAX / SP_THREAD_SLAB)
#define SP_TID_LEAF 65536U /* thread ids */
#define SP_TID_LEAVES (SP_TID_MAX / SP_TID_LEAF)

struct sp_thread_table {
	char *_Atomic
		slab[SP_THREAD_SLABS]; /* mapped before the first of its blocks is handed out */
	_Atomic uint16_t *_Atomic leaf[SP_TID_LEAVES]; /* sp_thread_by_tid() */
	bool ready;
	uint32_t cookie; /* upper half of our timers' si_value, beside the index of the block */
	_Atomic uint32_t used; /* blocks ever handed out */
	uint32_t limit;        /* blocks at most */
	_Atomic uint64_t free; /* top of the free stack: change count << 32 | index + 1 */
	_Atomic uint32_t armed;
	_Atomic uint32_t armed_max; /* sp_timer_limit_look() */
	_Atomic bool closed;        /* arm no more */
};

extern struct sp_thread_table sp_thread_table;

/*
 * The entry of the map for thread tid: the index + 1 of its block, 0 = it has none. NULL for an id
 * that the kernel does not assign, or when there is no memory. APP.
 */
_Atomic uint16_t *sp_thread_by_tid(uint32_t tid);

/*
 * At activation and in a forked child: a limit of timers that holds until sp_timer_limit_look().
 */
void sp_thread_limit_init(void);
/* The block is bound to tid, but another thread may release it, and reuse it, at any time. */
void sp_thread_arm(struct sp_thread *t, uint32_t tid);
void sp_thread_arm_if_unarmed(struct sp_thread *t, uint32_t tid);
void sp_thread_disarm(struct sp_thread *t);

#endif
