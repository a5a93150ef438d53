/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which allocations are sampled. All bytes that a thread allocates form a line, with points at
 * random, exponentially distributed distances. An allocation that covers a point is sampled. So an
 * allocation of b bytes is sampled with the probability 1 - exp(-b / mean), whatever the thread has
 * allocated before, and the weight of its sample is the inverse of that probability. Sums are right
 * in expectation for any mixture of sizes, and exact for a block much larger than the mean.
 *
 * No floating point, because the host may call while its floating point registers or flags are in
 * use.
 */
#ifndef SP_INTERVAL_BYTES_H
#define SP_INTERVAL_BYTES_H

#include <stdint.h>

/* -log2(u / 2^64) in units of 2^-32; u is not 0. */
static inline uint64_t sp_minus_log2(uint64_t u)
{
	unsigned zeros = (unsigned)__builtin_clzll(u);
	uint64_t x = u << zeros; /* in [1, 2) if the first bit is 1 */
	uint64_t log2 = 0;

	/*
	 * One binary digit each turn: the square of a number is at least 2 if the number is at
	 * least the root of 2.
	 */
	for (int i = 0; i < 32; i++) {
		uint64_t square = (uint64_t)((unsigned __int128)x * x >> 64); /* halved */
		uint64_t digit = square >> 63;

		log2 = log2 << 1 | digit;
		x = square << (1 - digit);
	}
	return ((uint64_t)zeros + 1) * (UINT64_C(1) << 32) - log2;
}

/*
 * The distance in bytes to the next point, at least 1: an allocation of at least this size is
 * sampled. random has 64 random bits.
 */
static inline uint64_t sp_interval_bytes(uint32_t mean, uint64_t random)
{
	const uint64_t ln2 = UINT64_C(0xb17217f7); /* in units of 2^-32 */
	unsigned __int128 bytes = (unsigned __int128)sp_minus_log2(random | 1) * mean * ln2;

	return (uint64_t)(bytes >> 64) + 1;
}

#endif
