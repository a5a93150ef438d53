/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which entries of the table of open spans are free. APP context, any number of threads, no locks. A
 * thread has a few at hand, so that a span that starts and ends on it touches nothing of others. For
 * span_table.c; entries are given and taken by reference (span_table_sig.h).
 */
#ifndef SP_SPAN_FREE_LIST_H
#define SP_SPAN_FREE_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/open_spans/span_table_sig.h"

/* Free entries at hand, so that threads need not meet where they start spans: its thread's alone. */
#define SP_SPAN_SPARE_MAX 16U
struct sp_span_spare {
	uint32_t n;
	uint32_t ref[SP_SPAN_SPARE_MAX];
};
/* The calling thread's, a part of its block (thread.h); NULL while it has none. */
extern SP_TLS struct sp_span_spare *sp_span_spare_own;

/* At activation. All entries are free. 0 or -ENOMEM. */
int sp_span_free_list_init(void);

/* For the two below. */
uint32_t sp_span_free_list_take_shared(void);
void sp_span_free_list_give_shared(uint32_t ref);

/* A reference to an entry that is the caller's alone; 0 = all are taken. */
static inline uint32_t sp_span_free_list_take(void)
{
	struct sp_span_spare *spare = sp_span_spare_own;

	return spare != NULL && spare->n > 0 ? spare->ref[--spare->n]
					     : sp_span_free_list_take_shared();
}

/* The entry gets another reference when it is taken next. */
static inline void sp_span_free_list_give(uint32_t ref)
{
	struct sp_span_spare *spare = sp_span_spare_own;
	uint32_t next_use = ref + SP_SPAN_NUMBER_MASK + 1;

	if (spare != NULL && spare->n < SP_SPAN_SPARE_MAX)
		spare->ref[spare->n++] = next_use;
	else
		sp_span_free_list_give_shared(next_use);
}

/* Whoever frees the block of a thread that has ended: what it had at hand is everybody's again. */
void sp_span_free_list_thread_ended(struct sp_span_spare *spare);

/* How many entries were ever taken: those with the numbers below. */
uint32_t sp_span_free_list_used(void);

/* Forked child, its only thread: all entries are free, and at nobody's hand. */
void sp_span_free_list_wipe(void);

#endif
