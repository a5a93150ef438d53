/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which allocations are sampled. The bytes that a thread allocates are a line, and samples are points on it, at
 * distances that are random and exponentially distributed: an allocation with a point in it is sampled. So one of
 * b bytes is sampled with the probability 1 - exp(-b / mean), whatever was allocated before, and stands for the inverse
 * of that: sums are right in expectation for any mixture of sizes, and of a block much larger than the mean exactly.
 *
 * No floating point, because the host's call may come from where the host has its registers or flags in use.
 */
#ifndef SP_INTERVAL_BYTES_H
#define SP_INTERVAL_BYTES_H

#include <stdint.h>

/* -log2(u / 2^64), of a u that is not 0, in units of 2^-32. */
static inline uint64_t sp_minus_log2(uint64_t u)
{
	unsigned zeros = (unsigned)__builtin_clzll(u);
	uint64_t x = u << zeros; /* in [1, 2) if the first bit is 1 */
	uint64_t log2 = 0;

	/* The square of a number of at least the root of 2 is at least 2: one digit after the other. */
	for (int i = 0; i < 32; i++) {
		uint64_t square = (uint64_t)((unsigned __int128)x * x >> 64); /* halved */
		uint64_t digit = square >> 63;

		log2 = log2 << 1 | digit;
		x = square << (1 - digit);
	}
	return ((uint64_t)zeros + 1) * (UINT64_C(1) << 32) - log2;
}

/*
 * How many bytes from here on the next point is in, at least 1: an allocation with at least so many bytes is
 * sampled. A random number of 64 bits makes it.
 */
static inline uint64_t sp_interval_bytes(uint32_t mean, uint64_t random)
{
	const uint64_t ln2 = UINT64_C(0xb17217f7); /* in units of 2^-32 */
	unsigned __int128 bytes = (unsigned __int128)sp_minus_log2(random | 1) * mean * ln2;

	return (uint64_t)(bytes >> 64) + 1;
}

#endif
