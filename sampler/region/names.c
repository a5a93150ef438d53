/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interned span names. Every start of a span interns its name, on any thread, so no thread may wait
 * for another one here.
 *
 * One piece of memory holds an open-addressed hash table of 64-bit slots and, behind it, the texts.
 * A slot is 0, or refers to a text that is complete and never changes again; it is written once, by
 * the compare-and-swap that makes it non-zero. Two threads with the same new name reach the same
 * first empty slot. One swap succeeds, the loser finds the winner's text there, and both return the
 * same id, which is the number of the slot. A call probes a bounded number of slots, and a failed
 * swap only means that it probes on.
 *
 * The limit is checked before a slot is claimed, and the count is raised after. So threads that
 * insert different names at the same moment may exceed the limit by their number. In return, a name
 * below the limit that another thread is just inserting never becomes "(other)".
 *
 * The memory may be shared with the exporter (region.h), so it holds offsets. What guides a look-up
 * (place, size, seed) is in private memory: whatever is written into the table, a look-up reads
 * nothing outside of it.
 *
 * Context: APP.
 */
#include "sampler/region/names.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "sampler/base/arena.h"
#include "sampler/base/compiler.h"
#include "sampler/base/counters.h"
#include "sampler/base/text.h"
#include "sampler/region/names_hash.h"
#include "sampler/region/names_table.h"

/*
 * At most a quarter of the slots are used, so ordinary names never fill a run of this length. Names
 * that are chosen to collide become "(other)" instead of making every look-up slow.
 */
#define PROBES_MAX 256U
#define SLOTS_PER_NAME 4U
#define SLOTS_MIN 1024U

/*
 * Address space for texts; its pages get memory as they are used. Only long names can use it up
 * before the limit of names.
 */
#define TEXTS_MAX_BYTES (16U << 20)

#define RESERVED_NAMES 2U /* "(other)" and "(unnamed)" do not count against the limit */

_Atomic(struct sp_names *) sp_names;

static bool slot_is(const struct sp_names *t, uint64_t slot, uint64_t h, const char *name,
		    size_t len)
{
	const struct sp_names_entry *text = sp_names_text_of(t, slot);

	return slot >> 32 == h >> 32 && text->len == len && sp_names_same(text->bytes, name, len);
}

/*
 * The id of a known name, or 0 with *at at the place of the probe sequence where it would go:
 * PROBES_MAX when there is none.
 */
static uint32_t find(const struct sp_names *t, uint64_t h, const char *name, size_t len,
		     uint32_t *at)
{
	uint32_t i;

	for (i = *at; i < PROBES_MAX; i++) {
		uint32_t n = ((uint32_t)h + i) & t->mask;
		/* Pairs with the release in insert(): the text is complete before its slot. */
		uint64_t slot = atomic_load_explicit(&t->table->slot[n], memory_order_acquire);

		if (slot == 0)
			break;
		if (slot_is(t, slot, h, name, len))
			return n + 1;
	}
	*at = i;
	return 0;
}

/* Writes a text behind the others; 0 = no room. Offset 0 is the table's first text. */
static uint32_t text_new(struct sp_names *t, const char *name, size_t len, size_t *size)
{
	uint64_t offset;
	struct sp_names_entry *text;

	*size = (sizeof(*text) + len + 1 + 3) & ~(size_t)3;
	/* Acquire pairs with text_free(): its writes are over before ours begin. */
	offset = atomic_fetch_add_explicit(&t->table->texts_used, *size, memory_order_acquire);
	if (offset > t->last_offset || offset % 4 != 0)
		return 0;
	text = (struct sp_names_entry *)(void *)(t->texts + offset);
	text->len = (uint32_t)len;
	sp_names_copy_text(text->bytes, name, len);
	text->bytes[len] = '\0';
	return (uint32_t)offset;
}

/* Gives back the text of a lost race if nobody wrote behind it; otherwise it stays unused. */
static void text_free(struct sp_names *t, uint32_t offset, size_t size)
{
	uint64_t end = offset + size;

	(void)atomic_compare_exchange_strong_explicit(&t->table->texts_used, &end, offset,
						      memory_order_release, memory_order_relaxed);
}

/* Inserts clean text from probe `at` on. 0 = it cannot be stored. */
static uint32_t insert(struct sp_names *t, uint64_t h, const char *name, size_t len, uint32_t at)
{
	uint32_t id = 0;
	uint32_t offset;
	size_t size;

	if (at == PROBES_MAX)
		return 0;
	/*
	 * Acquire pairs with the count below. The last name that filled the table may be this very
	 * one, inserted since we looked; then it is visible now.
	 */
	if (atomic_load_explicit(&t->table->names, memory_order_acquire) >= t->max_names)
		return find(t, h, name, len, &at);
	offset = text_new(t, name, len, &size);
	if (offset == 0)
		return 0;
	while (at < PROBES_MAX) {
		uint32_t n = ((uint32_t)h + at) & t->mask;
		uint64_t empty = 0;
		uint64_t slot = (h >> 32 << 32) | offset;

		/* Release pairs with the acquire in find(): whoever sees the slot sees the text. */
		if (atomic_compare_exchange_strong_explicit(&t->table->slot[n], &empty, slot,
							    memory_order_release,
							    memory_order_relaxed)) {
			atomic_fetch_add_explicit(&t->table->names, 1, memory_order_release);
			return n + 1;
		}
		id = find(t, h, name, len, &at);
		if (id != 0)
			break;
	}
	text_free(t, offset, size);
	return id;
}

static uint32_t intern_clean(struct sp_names *t, uint64_t h, const char *name, size_t len,
			     uint32_t at)
{
	uint32_t id = insert(t, h, name, len, at);
	struct sp_names *now = atomic_load_explicit(&sp_names, memory_order_acquire);

	/* Meanwhile the names have been moved to other memory, with the same hash. */
	if (id == 0 && now != t) {
		at = 0;
		id = find(now, h, name, len, &at);
		id = id != 0 ? id : insert(now, h, name, len, at);
	}
	if (id == 0) {
		id = t->other;
		sp_count(SP_COUNT_NAMES_OTHER);
	}
	return id;
}

/*
 * Repairs and cuts the name first. Not inlined, so that the fast path does not need its 2 KiB of
 * stack.
 */
__attribute__((noinline)) static uint32_t intern_dirty(struct sp_names *t, const char *name,
						       size_t len)
{
	char clean[SP_NAMES_MAX_BYTES];
	uint32_t at = 0;
	uint32_t id;
	uint64_t h;

	len = sp_text_clean(clean, sizeof(clean), name, len);
	h = sp_names_hash(t->seed, clean, len);
	id = find(t, h, clean, len, &at);
	return id != 0 ? id : intern_clean(t, h, clean, len, at);
}

/*
 * The names that a thread used last, found by the address of the string: most names are string
 * literals. An address may hold another name by now, so the bytes are compared. Texts stay for
 * ever.
 */
#define RECENT 4U
struct recent {
	const struct sp_names_entry *text;
	uint32_t id;
	uint32_t len;
};
static SP_TLS struct recent recent[RECENT];

void sp_names_forget_recent(void)
{
	memset(recent, 0, sizeof(recent));
}

static struct recent *recent_of(const char *name)
{
	return &recent[((uintptr_t)name >> 4 ^ (uintptr_t)name >> 2) % RECENT];
}

/* noinline: the fast path then saves none of its registers. */
__attribute__((noinline)) static uint32_t look_up(const char *name, size_t len, struct recent *r)
{
	/* Pairs with the release in sp_names_init_at(). */
	struct sp_names *t = atomic_load_explicit(&sp_names, memory_order_acquire);
	uint32_t at = 0;
	uint32_t id;
	uint64_t h;

	if (t == NULL)
		return 0;
	if (name == NULL || len == 0)
		return t->unnamed;
	if (len > SP_NAMES_MAX_BYTES)
		return intern_dirty(t, name, len);
	/* Stored names are valid UTF-8, so bytes that equal one need no check of their own. */
	h = sp_names_hash(t->seed, name, len);
	id = find(t, h, name, len, &at);
	if (id != 0) {
		r->text = sp_names_text_of(
			t, atomic_load_explicit(&t->table->slot[id - 1], memory_order_relaxed));
		r->id = id;
		r->len = (uint32_t)len;
		return id;
	}
	if (!sp_text_valid(name, len))
		return intern_dirty(t, name, len);
	return intern_clean(t, h, name, len, at);
}

uint32_t sp_names_intern(const char *name, size_t len)
{
	struct recent *r = recent_of(name);

	if (r->text != NULL && r->len == len && sp_names_same(r->text->bytes, name, len))
		return r->id;
	return look_up(name, len, r);
}

const char *sp_names_text(uint32_t id, size_t *len)
{
	const struct sp_names *t = atomic_load_explicit(&sp_names, memory_order_acquire);
	const struct sp_names_entry *text;
	uint64_t slot = 0;

	*len = 0;
	if (t != NULL && id != 0 && id - 1 <= t->mask)
		slot = atomic_load_explicit(&t->table->slot[id - 1], memory_order_acquire);
	if (slot == 0)
		return "";
	text = sp_names_text_of(t, slot);
	*len = text->len <= SP_NAMES_MAX_BYTES ? text->len : 0;
	return text->bytes;
}

static uint32_t limit(uint32_t max_names)
{
	return max_names < SP_NAMES_MAX ? max_names : SP_NAMES_MAX;
}

static uint32_t slots_for(uint32_t max_names)
{
	uint32_t slots = SLOTS_MIN;

	while (slots < (limit(max_names) + RESERVED_NAMES) * SLOTS_PER_NAME)
		slots *= 2;
	return slots;
}

size_t sp_names_bytes(uint32_t max_names)
{
	size_t texts = ((size_t)limit(max_names) + RESERVED_NAMES) * (SP_NAMES_MAX_BYTES + 8);

	if (texts > TEXTS_MAX_BYTES)
		texts = TEXTS_MAX_BYTES;
	/* The last text may begin at a place where the longest one still fits. */
	return sp_names_head_bytes(slots_for(max_names)) + texts + SP_NAMES_ENTRY_MAX;
}

/*
 * The reserved names are inserted before the table is published, and do not count against the
 * limit.
 */
static void names_fill(struct sp_names *t, void *memory, size_t size, uint32_t max_names)
{
	static const char other[] = "(other)";
	static const char unnamed[] = "(unnamed)";

	t->mask = slots_for(max_names) - 1;
	sp_names_point(t, memory);
	t->max_names = limit(max_names) + RESERVED_NAMES;
	/* The address of the mapping is random in each process, and costs no system call. */
	t->seed = (uint64_t)(uintptr_t)t->table * UINT64_C(0xd6e8feb86659fd93);
	t->table->slots = t->mask + 1;
	t->table->texts_at = sp_names_head_bytes(t->mask + 1);
	t->table->texts_bytes = size - t->table->texts_at;
	t->last_offset = (size - t->table->texts_at - SP_NAMES_ENTRY_MAX) & ~(uint64_t)3;
	/* Offset 0 would make an empty slot of a text. */
	atomic_store_explicit(&t->table->texts_used, sizeof(struct sp_names_entry),
			      memory_order_relaxed);
	t->other = insert(t, sp_names_hash(t->seed, other, sizeof(other) - 1), other,
			  sizeof(other) - 1, 0);
	t->unnamed = insert(t, sp_names_hash(t->seed, unnamed, sizeof(unnamed) - 1), unnamed,
			    sizeof(unnamed) - 1, 0);
}

int sp_names_init_at(void *memory, size_t bytes, uint32_t max_names)
{
	struct sp_names *expected = NULL;
	struct sp_names *t;

	if (atomic_load_explicit(&sp_names, memory_order_acquire) != NULL)
		return -EEXIST;
	if (bytes < sp_names_bytes(max_names))
		return -EINVAL;
	t = sp_arena_map(sizeof(*t));
	if (t == NULL)
		return -ENOMEM;
	names_fill(t, memory, sp_names_bytes(max_names), max_names);
	/* Release pairs with the acquire in sp_names_intern() and sp_names_text(). */
	if (atomic_compare_exchange_strong_explicit(&sp_names, &expected, t, memory_order_release,
						    memory_order_relaxed))
		return 0;
	(void)munmap(t, sizeof(*t));
	return -EEXIST;
}
