/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of the span names (names.h), which host and exporter share: the table, its slots, the
 * texts; and the host's private description of it. For names.c, names_move.c and names_read.c.
 */
#ifndef SP_NAMES_TABLE_H
#define SP_NAMES_TABLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/region/names.h"

struct sp_names_entry {
	uint32_t len;
	char bytes[]; /* and a NUL */
};

struct sp_names_table {
	uint32_t slots; /* a power of two */
	_Atomic uint32_t names;
	uint64_t texts_at; /* from the beginning of this */
	uint64_t texts_bytes;
	_Atomic uint64_t texts_used;
	_Atomic uint64_t slot[]; /* tag in the upper half, offset of the text in the lower */
};

/*
 * The content of a closed slot, which nobody may take any more because the table was moved. It is
 * not the offset of a text, as those are multiples of 4.
 */
#define SP_NAMES_CLOSED UINT64_C(1)

/* The host's own. */
struct sp_names {
	struct sp_names_table *table;
	char *texts;
	uint32_t mask;
	uint32_t max_names;
	uint64_t seed;
	uint32_t other;
	uint32_t unnamed;
	uint64_t last_offset; /* the last offset at which the longest text fits */
};

extern _Atomic(struct sp_names *) sp_names;

/* Up to where the texts begin. */
static inline size_t sp_names_head_bytes(uint32_t slots)
{
	return (sizeof(struct sp_names_table) + slots * sizeof(uint64_t) + 7) & ~(size_t)7;
}

/*
 * Sets the pointers by the host's own knowledge. The same facts are in the table, for the exporter.
 */
static inline void sp_names_point(struct sp_names *t, void *memory)
{
	t->table = memory;
	t->texts = (char *)memory + sp_names_head_bytes(t->mask + 1);
}

/* Always inside the texts, whatever the slot contains. */
static inline const struct sp_names_entry *sp_names_text_of(const struct sp_names *t, uint64_t slot)
{
	uint64_t offset = (uint32_t)slot & ~UINT32_C(3);

	return (const struct sp_names_entry *)(const void *)(t->texts + (offset < t->last_offset
										 ? offset
										 : t->last_offset));
}

/*
 * Not memcpy(): in a host with a thread sanitizer, the sanitizer sees memcpy() but not the atomic
 * operations here that order the accesses, and would report a race. The empty statement keeps the
 * compiler from calling memcpy().
 */
static inline void sp_names_copy_text(char *to, const char *from, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		to[i] = from[i];
		__asm__ volatile("" : : : "memory");
	}
}

/* The longest text, with its length and its NUL. */
#define SP_NAMES_ENTRY_MAX (sizeof(struct sp_names_entry) + SP_NAMES_MAX_BYTES + 4)

#endif
