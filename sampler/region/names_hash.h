/* SPDX-License-Identifier: Apache-2.0 */
/* Hashing and comparing of span names, which every start of a span does. For names.c. */
#ifndef SP_NAMES_HASH_H
#define SP_NAMES_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * Up to seven bytes as a number, by overlapping loads; memcpy() of a variable length would be a
 * function call.
 */
static inline uint64_t sp_names_tail(const char *name, size_t len)
{
	uint32_t first;
	uint32_t last;

	if (len >= 4) {
		memcpy(&first, name, 4);
		memcpy(&last, name + len - 4, 4);
		return (uint64_t)last << 32 | first;
	}
	if (len == 0)
		return 0;
	return (uint64_t)(uint8_t)name[0] << 16 | (uint64_t)(uint8_t)name[len / 2] << 8 |
	       (uint8_t)name[len - 1];
}

/*
 * Eight bytes a step, because a byte a step would cost more than all the rest of a look-up. The
 * seed keeps the collisions unpredictable for whoever chooses the names.
 */
static inline uint64_t sp_names_hash(uint64_t seed, const char *name, size_t len)
{
	const uint64_t k = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t h = seed ^ (len * k);
	uint64_t word;

	for (; len >= 8; len -= 8, name += 8) {
		memcpy(&word, name, 8);
		h = (h ^ word) * k;
		h ^= h >> 29;
	}
	h = (h ^ sp_names_tail(name, len)) * k;
	h ^= h >> 32;
	h *= k;
	return h ^ (h >> 29);
}

static inline uint64_t sp_names_word(const char *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return word;
}

/* Compares inline: names are short, and a function call would cost more than the comparison. */
static inline bool sp_names_same(const char *a, const char *b, size_t len)
{
	if (len < 8)
		return sp_names_tail(a, len) == sp_names_tail(b, len);
	for (size_t i = 0; i < len - 8; i += 8) {
		if (sp_names_word(a + i) != sp_names_word(b + i))
			return false;
	}
	return sp_names_word(a + len - 8) == sp_names_word(b + len - 8);
}

#endif
