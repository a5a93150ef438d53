/* SPDX-License-Identifier: Apache-2.0 */
/* Pseudo-random numbers for phases, intervals and names, never for secrets. Any context. */
#ifndef SP_RANDOM_H
#define SP_RANDOM_H

#include <stdint.h>

/*
 * The finalizer of splitmix64: two numbers that differ in only one bit give results without a
 * visible pattern.
 */
static inline uint64_t sp_random_scramble(uint64_t x)
{
	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

/* splitmix64: the next number of a sequence. Any state may begin one. */
static inline uint64_t sp_random_next(uint64_t *state)
{
	return sp_random_scramble(*state += UINT64_C(0x9e3779b97f4a7c15));
}

#endif
