/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our copy of a constant table of functions, with some of them replaced, for objects that contain a
 * pointer to their table. In static memory. Only the first table is copied, because a library has
 * one for each kind of object. APP context, any number of threads.
 */
#ifndef SP_HAPROXY_TABLE_H
#define SP_HAPROXY_TABLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "preload/sdk/haproxy/haproxy_abi.h"

struct sp_haproxy_swap {
	unsigned slot;
	const void *function;
};

struct sp_haproxy_table {
	const void *_Atomic own;     /* the library's table */
	const void *_Atomic refused; /* the last one that we would not copy */
	_Atomic bool ready;
	_Atomic uintptr_t copy[SP_HAPROXY_SPAN_SLOTS]; /* the longer of the two kinds */
};

/*
 * The copy of the library's table, made at the first call. NULL if this is another table than the
 * first one, or not one of the library that defines `function`. The swaps end with one without a
 * function.
 */
const void *sp_haproxy_table_copy(struct sp_haproxy_table *t, const void *function, const void *own,
				  size_t slots, const struct sp_haproxy_swap *swaps);

/* The library's table; NULL before the first copy. */
static inline const void *sp_haproxy_table_own(struct sp_haproxy_table *t)
{
	return atomic_load_explicit(&t->own, memory_order_relaxed);
}

#endif
