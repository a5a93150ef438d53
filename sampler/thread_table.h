/* SPDX-License-Identifier: Apache-2.0 */
/* The table behind thread.h; for thread*.c alone. */
#ifndef SP_THREAD_TABLE_H
#define SP_THREAD_TABLE_H

#include "sampler/thread.h"

#define SP_THREAD_STRIDE 8192U

struct sp_thread_table {
	char *_Atomic blocks;
	_Atomic uint16_t *by_tid; /* index + 1 of the block of each kernel thread id */
	_Atomic uint32_t used;    /* blocks ever handed out */
	uint32_t limit;           /* blocks reserved */
	_Atomic uint64_t free;    /* top of the free stack: change count << 32 | index + 1 */
	_Atomic uint32_t armed;
	_Atomic uint32_t armed_max; /* headroom.h */
	_Atomic bool closed;        /* arm no more */
};

extern struct sp_thread_table sp_thread_table;

/* At activation and in a forked child: what may be armed until somebody has looked closer. */
void sp_thread_limit_init(void);
/* The block is bound to tid, but another thread may release it, and reuse it, at any time. */
void sp_thread_arm(struct sp_thread *t, uint32_t tid);
void sp_thread_arm_if_unarmed(struct sp_thread *t, uint32_t tid);
void sp_thread_disarm(struct sp_thread *t);

#endif
