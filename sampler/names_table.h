/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of the span names (names.h), which host and exporter share: the table, its slots, the
 * texts; and what the host alone knows of it. For names*.c.
 */
#ifndef SP_NAMES_TABLE_H
#define SP_NAMES_TABLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/names.h"

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
 * Stands in a slot that nobody may take any more: the table was moved to other memory. It is no text's
 * place, as those are multiples of 4.
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
	uint64_t last_offset; /* that a text of any length may have */
};

extern _Atomic(struct sp_names *) sp_names;

/* Up to where the texts begin. */
static inline size_t sp_names_head_bytes(uint32_t slots)
{
	return (sizeof(struct sp_names_table) + slots * sizeof(uint64_t) + 7) & ~(size_t)7;
}

/* Where everything is that the table's own words say as well, for the other side. */
static inline void sp_names_point(struct sp_names *t, void *memory)
{
	t->table = memory;
	t->texts = (char *)memory + sp_names_head_bytes(t->mask + 1);
}

/* Inside the texts, whatever stands in the slot. */
static inline const struct sp_names_entry *sp_names_text_of(const struct sp_names *t, uint64_t slot)
{
	uint64_t offset = (uint32_t)slot & ~UINT32_C(3);

	return (const struct sp_names_entry *)(const void *)(t->texts + (offset < t->last_offset
										 ? offset
										 : t->last_offset));
}

/*
 * Not memcpy(): a thread sanitizer of the host sees that one, but none of the atomics by which this memory
 * goes from thread to thread, and reports a race. The empty statement keeps the compiler from calling it.
 */
static inline void sp_names_copy_text(char *to, const char *from, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		to[i] = from[i];
		__asm__ volatile("" : : : "memory");
	}
}

/* The calling thread forgets what it had at hand of memory that goes. */
void sp_names_forget_recent(void);

/* The longest text, with its length and its NUL. */
#define SP_NAMES_ENTRY_MAX (sizeof(struct sp_names_entry) + SP_NAMES_MAX_BYTES + 4)

#endif
