/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that are sorted by a uint64_t in each item, such as the address where something begins. */
#ifndef SP_SORTED_H
#define SP_SORTED_H

#include <stddef.h>
#include <stdint.h>

/*
 * How many of n items have a key that is at most value: the last of these is the one in which value may
 * lie, and the next item begins behind it. array may be NULL if n is 0.
 */
#define SP_SORTED_UPTO(array, n, key, value)                                                       \
	sp_sorted_upto((array), (n), sizeof(*(array)), offsetof(__typeof__(*(array)), key), (value))

/* The same with the size of an item, and where in it the key lies. */
size_t sp_sorted_upto(const void *array, size_t n, size_t size, size_t key, uint64_t value);

#endif
