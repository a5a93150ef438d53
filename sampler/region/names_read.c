/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the span names of another process (names.h). Context: the exporter. The memory may change
 * at any time, so what is read is copied first and then checked.
 */
#include <string.h>

#include "sampler/base/text.h"
#include "sampler/region/names_table.h"

/* The size of the texts, which begin at *at; 0 if they are not inside of the memory. */
static uint64_t texts_of(const struct sp_names_table *t, uint64_t bytes, uint32_t slots,
			 uint64_t *at)
{
	uint64_t size;

	memcpy(at, &t->texts_at, sizeof(*at));
	memcpy(&size, &t->texts_bytes, sizeof(size));
	if (*at < sizeof(*t) + (uint64_t)slots * sizeof(t->slot[0]) || *at > bytes ||
	    size > bytes - *at)
		return 0;
	return size;
}

size_t sp_names_read(const void *memory, uint64_t bytes, uint32_t id, char *out, size_t cap)
{
	const struct sp_names_table *t = memory;
	char text[SP_NAMES_MAX_BYTES];
	uint32_t slots;
	uint32_t len;
	uint64_t size;
	uint64_t slot;
	uint64_t at;

	if (id == 0 || bytes < sizeof(*t))
		return 0;
	memcpy(&slots, &t->slots, sizeof(slots));
	size = texts_of(t, bytes, slots, &at);
	if (id > slots || size < sizeof(len))
		return 0;
	/* Pairs with the release in insert(): the text is complete before its slot. */
	slot = atomic_load_explicit(&t->slot[id - 1], memory_order_acquire) & UINT32_MAX;
	if (slot == 0 || slot > size - sizeof(len))
		return 0;
	memcpy(&len, (const char *)memory + at + slot, sizeof(len));
	if (len > sizeof(text) || len > size - sizeof(len) - slot)
		return 0;
	memcpy(text, (const char *)memory + at + slot + sizeof(len), len);
	return sp_text_clean(out, cap, text, len);
}
