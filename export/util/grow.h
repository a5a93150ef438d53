/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow, for the exporter and the report tool. */
#ifndef SP_GROW_H
#define SP_GROW_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Makes room for `want` items in an array of malloc'ed memory (NULL at first) that has room for `cap`,
 * a size_t, which never becomes more than `most`. Doubles, so that adding one by one stays cheap. What
 * is new is not zeroed. False, and nothing changed, when out of memory or when `want` is over `most`.
 */
#define SP_GROW(array, cap, want, most)                                                            \
	sp_grow((void *)&(array), &(cap), (want), (most), sizeof(*(array)))

/* The same with the address of the pointer, and the size of an item. */
bool sp_grow(void *array, size_t *cap, size_t want, size_t most, size_t size);

#endif
