/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves the span names to other memory, with their ids, for a new region. Contexts: APP, while
 * other threads intern, and INIT (forked child).
 *
 * An id is the number of a slot. If another thread put a name into the old memory after its slot
 * was copied, another name could get the same id in the new memory, and samples would show a wrong
 * name. Therefore each free slot is first closed, by the same compare-and-swap that would take it:
 * what is copied then is final. A thread with a new name in this moment finds no free slot. It
 * looks whether there is new memory by now; if not, the name becomes "(other)" this one time.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "sampler/base/arena.h"
#include "sampler/region/names.h"
#include "sampler/region/names_table.h"

/* Closes the slot if it is free. Returns what it holds from now on. */
static uint64_t close_slot(_Atomic uint64_t *slot)
{
	uint64_t now = atomic_load_explicit(slot, memory_order_acquire);

	if (now == 0 &&
	    atomic_compare_exchange_strong_explicit(slot, &now, SP_NAMES_CLOSED,
						    memory_order_acquire, memory_order_acquire))
		return SP_NAMES_CLOSED;
	return now;
}

/* The text gets the same offset. */
static void copy_entry(const struct sp_names *to, const struct sp_names *from, uint64_t slot)
{
	const struct sp_names_entry *text = sp_names_text_of(from, slot);
	size_t at = (size_t)((const char *)text - from->texts);
	uint32_t len = text->len <= SP_NAMES_MAX_BYTES ? text->len : 0;
	struct sp_names_entry *copy = (struct sp_names_entry *)(void *)(to->texts + at);

	copy->len = len;
	sp_names_copy_text(copy->bytes, text->bytes, len);
	copy->bytes[len] = '\0';
}

static void copy_all(const struct sp_names *to, const struct sp_names *from, bool closing)
{
	uint32_t names = 0;
	uint64_t used;

	to->table->slots = to->mask + 1;
	to->table->texts_at = sp_names_head_bytes(to->mask + 1);
	to->table->texts_bytes = from->table->texts_bytes;
	for (uint32_t i = 0; i <= from->mask; i++) {
		_Atomic uint64_t *at = &from->table->slot[i];
		/* pairs with the release in insert(): the text is complete before its slot */
		uint64_t slot =
			closing ? close_slot(at) : atomic_load_explicit(at, memory_order_acquire);

		if (slot == 0 || slot == SP_NAMES_CLOSED)
			continue;
		copy_entry(to, from, slot);
		atomic_store_explicit(&to->table->slot[i], slot, memory_order_relaxed);
		names++;
	}
	/* Read after all slots, so that all their texts lie before it. */
	used = atomic_load_explicit(&from->table->texts_used, memory_order_acquire);
	if (used > from->last_offset + SP_NAMES_ENTRY_MAX)
		used = from->last_offset + SP_NAMES_ENTRY_MAX;
	atomic_store_explicit(&to->table->texts_used, used, memory_order_relaxed);
	atomic_store_explicit(&to->table->names, names, memory_order_relaxed);
}

/* The description of the table in the new memory. False if the memory is too small. */
static bool point_to(struct sp_names *to, const struct sp_names *from, void *memory, size_t bytes)
{
	if (bytes < sp_names_head_bytes(from->mask + 1) + from->last_offset + SP_NAMES_ENTRY_MAX)
		return false;
	*to = *from;
	sp_names_point(to, memory);
	return true;
}

int sp_names_move(void *memory, size_t bytes)
{
	struct sp_names *from = atomic_load_explicit(&sp_names, memory_order_acquire);
	struct sp_names to;

	if (from == NULL)
		return 0;
	if (!point_to(&to, from, memory, bytes))
		return -EINVAL;
	copy_all(&to, from, false);
	*from = to;
	sp_names_forget_recent();
	return 0;
}

int sp_names_move_live(void *memory, size_t bytes)
{
	struct sp_names *from = atomic_load_explicit(&sp_names, memory_order_acquire);
	struct sp_names *to;

	if (from == NULL)
		return 0;
	to = sp_arena_map(sizeof(*to));
	if (to == NULL)
		return -ENOMEM;
	if (!point_to(to, from, memory, bytes)) {
		sp_arena_unmap(to, sizeof(*to));
		return -EINVAL;
	}
	copy_all(to, from, true);
	/* pairs with the acquire in sp_names_intern() and sp_names_text() */
	atomic_store_explicit(&sp_names, to, memory_order_release);
	return 0;
}
