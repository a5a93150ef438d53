/* SPDX-License-Identifier: Apache-2.0 */
/* The table behind thread.h; for thread*.c alone. */
#ifndef SP_THREAD_TABLE_H
#define SP_THREAD_TABLE_H

#include "sampler/thread.h"

#define SP_THREAD_STRIDE 8192U

/*
 * Blocks, and the map from thread ids to them, are mapped in parts as they are needed: whole they would
 * take 136 MiB of addresses, which a host may be limited in (RLIMIT_AS).
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
	_Atomic uint32_t used; /* blocks ever handed out */
	uint32_t limit;        /* blocks at most */
	_Atomic uint64_t free; /* top of the free stack: change count << 32 | index + 1 */
	_Atomic uint32_t armed;
	_Atomic uint32_t armed_max; /* timer_limit.h */
	_Atomic bool closed;        /* arm no more */
};

extern struct sp_thread_table sp_thread_table;

/*
 * Where the index + 1 of the block of that thread stands, 0 = it has none. NULL for an id that the
 * kernel does not give, or when there is no memory. APP.
 */
_Atomic uint16_t *sp_thread_by_tid(uint32_t tid);

/* At activation and in a forked child: what may be armed until somebody has looked closer. */
void sp_thread_limit_init(void);
/* The block is bound to tid, but another thread may release it, and reuse it, at any time. */
void sp_thread_arm(struct sp_thread *t, uint32_t tid);
void sp_thread_arm_if_unarmed(struct sp_thread *t, uint32_t tid);
void sp_thread_disarm(struct sp_thread *t);

#endif
