/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SipHash-2-4 (Aumasson and Bernstein, 2012) of 64-bit words. Without the key one can neither
 * compute the hash of other words nor find the key, from any number of hashes. Any context; no
 * system call, and only the memory of its arguments.
 */
#ifndef SP_SIPHASH_H
#define SP_SIPHASH_H

#include <stdint.h>

struct sp_siphash {
	uint64_t v[4];
};

static inline uint64_t sp_siphash_rotate(uint64_t x, unsigned bits)
{
	return x << bits | x >> (64 - bits);
}

static inline void sp_siphash_rounds(struct sp_siphash *s, unsigned rounds)
{
	uint64_t *v = s->v;

	while (rounds-- != 0) {
		v[0] += v[1];
		v[1] = sp_siphash_rotate(v[1], 13) ^ v[0];
		v[0] = sp_siphash_rotate(v[0], 32);
		v[2] += v[3];
		v[3] = sp_siphash_rotate(v[3], 16) ^ v[2];
		v[0] += v[3];
		v[3] = sp_siphash_rotate(v[3], 21) ^ v[0];
		v[2] += v[1];
		v[1] = sp_siphash_rotate(v[1], 17) ^ v[2];
		v[2] = sp_siphash_rotate(v[2], 32);
	}
}

static inline void sp_siphash_word(struct sp_siphash *s, uint64_t word)
{
	s->v[3] ^= word;
	sp_siphash_rounds(s, 2);
	s->v[0] ^= word;
}

/* The words are hashed as bytes in the order of a little-endian processor. */
static inline uint64_t sp_siphash(const uint64_t key[2], const uint64_t *word, unsigned words)
{
	struct sp_siphash s = {.v = {key[0] ^ UINT64_C(0x736f6d6570736575),
				     key[1] ^ UINT64_C(0x646f72616e646f6d),
				     key[0] ^ UINT64_C(0x6c7967656e657261),
				     key[1] ^ UINT64_C(0x7465646279746573)}};

	for (unsigned i = 0; i < words; i++)
		sp_siphash_word(&s, word[i]);
	/* The number of bytes. */
	sp_siphash_word(&s, (uint64_t)words * 8 << 56);
	s.v[2] ^= 0xff;
	sp_siphash_rounds(&s, 4);
	return s.v[0] ^ s.v[1] ^ s.v[2] ^ s.v[3];
}

#endif
