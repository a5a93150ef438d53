/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interned span names. Every start of a span interns its name, on any thread, so no thread may wait
 * for another one here.
 *
 * One piece of memory holds an open-addressed hash table of 64-bit slots, followed by the texts. A
 * slot is 0, or refers to a text that is complete and never changes again; it is written once, by
 * the compare-and-swap that makes it non-zero. Two threads with the same new name reach the same
 * first empty slot. One thread's swap succeeds; the other thread then finds the text in the slot,
 * and both return the number of the slot as the id. A call probes a bounded number of slots, and
 * after a failed swap it goes on probing.
 *
 * A thread checks the limit before it claims a slot, and raises the count afterwards. So threads
 * that insert different names at the same moment may exceed the limit by their number. In return, a
 * name below the limit that another thread is just inserting never becomes "(other)".
 *
 * The memory is private: a forked child has a copy of it, whatever another thread was doing.
 *
 * Context: APP.
 */
#include "sampler/region/names.h"

#include <errno.h>
#include <string.h>

#include "sampler/base/arena.h"
#include "sampler/base/compiler.h"
#include "sampler/base/counters.h"
#include "sampler/base/text.h"
#include "sampler/region/record.h"

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

/* The memory for a text of that length, with its NUL, in whole words. */
#define ENTRY_BYTES(len) (sizeof(struct sp_name) + SP_NAME_WORDS((len) + 1))

/*
 * Up to seven bytes as a number, by overlapping loads; memcpy() of a variable length would be a
 * function call.
 */
static inline uint64_t tail_of(const char *name, size_t len)
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
 * Takes eight bytes at each step, because single bytes would cost more than the rest of a look-up.
 * The seed makes collisions unpredictable for an attacker who chooses names.
 */
static inline uint64_t hash_of(uint64_t seed, const char *name, size_t len)
{
	const uint64_t k = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t h = seed ^ (len * k);
	uint64_t word;

	for (; len >= 8; len -= 8, name += 8) {
		memcpy(&word, name, 8);
		h = (h ^ word) * k;
		h ^= h >> 29;
	}
	h = (h ^ tail_of(name, len)) * k;
	h ^= h >> 32;
	h *= k;
	return h ^ (h >> 29);
}

/*
 * Used instead of memcpy(): a thread sanitizer in the host sees memcpy(), but not the atomic
 * operations here that order the accesses, and would report a race. The empty statement keeps the
 * compiler from calling memcpy().
 */
static void copy_text(char *to, const char *from, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		to[i] = from[i];
		__asm__ volatile("" : : : "memory");
	}
}

static bool slot_is(const struct sp_names *t, uint64_t slot, uint64_t h, const char *name,
		    size_t len)
{
	const struct sp_name *text = sp_names_at(t, slot);

	return slot >> 32 == h >> 32 && text->len == len && sp_names_same(text->bytes, name, len);
}

/*
 * The id of a known name. For an unknown name 0, and *at is the step of the probe sequence at which
 * the name can be inserted; PROBES_MAX = none.
 */
static uint32_t find(const struct sp_names *t, uint64_t h, const char *name, size_t len,
		     uint32_t *at)
{
	uint32_t i;

	for (i = *at; i < PROBES_MAX; i++) {
		uint32_t n = ((uint32_t)h + i) & t->mask;
		/* Pairs with the release in insert(): the text is complete before its slot. */
		uint64_t slot = atomic_load_explicit(&t->slot[n], memory_order_acquire);

		if (slot == 0)
			break;
		if (slot_is(t, slot, h, name, len))
			return n + 1;
	}
	*at = i;
	return 0;
}

/* Writes a text after the other texts and returns its offset; 0 = no room. */
static uint32_t text_new(struct sp_names *t, const char *name, size_t len)
{
	uint64_t offset =
		atomic_fetch_add_explicit(&t->texts_used, ENTRY_BYTES(len), memory_order_relaxed);
	struct sp_name *text;

	if (offset > t->last_offset)
		return 0;
	text = sp_names_at(t, offset);
	text->len = (uint32_t)len;
	copy_text(text->bytes, name, len);
	text->bytes[len] = '\0';
	return (uint32_t)offset;
}

/*
 * Inserts clean text from probe `at` on. 0 = it cannot be stored. If another thread was quicker,
 * the text stays unused; that happens at most once for each thread and name.
 */
static uint32_t insert(struct sp_names *t, uint64_t h, const char *name, size_t len, uint32_t at)
{
	uint32_t id = 0;
	uint32_t offset;

	if (at == PROBES_MAX)
		return 0;
	/*
	 * Acquire pairs with the count below. Another thread may have inserted this same name as
	 * the last possible one since find(); then the name is visible now.
	 */
	if (atomic_load_explicit(&t->names, memory_order_acquire) >= t->max_names)
		return find(t, h, name, len, &at);
	offset = text_new(t, name, len);
	if (offset == 0)
		return 0;
	while (at < PROBES_MAX) {
		uint32_t n = ((uint32_t)h + at) & t->mask;
		uint64_t empty = 0;
		uint64_t slot = (h >> 32 << 32) | offset;

		/*
		 * Release pairs with the acquire in find(): a thread that sees the slot sees the
		 * text.
		 */
		if (atomic_compare_exchange_strong_explicit(&t->slot[n], &empty, slot,
							    memory_order_release,
							    memory_order_relaxed)) {
			atomic_fetch_add_explicit(&t->names, 1, memory_order_release);
			return n + 1;
		}
		id = find(t, h, name, len, &at);
		if (id != 0)
			break;
	}
	return id;
}

static uint32_t intern_clean(struct sp_names *t, uint64_t h, const char *name, size_t len,
			     uint32_t at)
{
	uint32_t id = insert(t, h, name, len, at);

	if (id == 0) {
		id = t->other;
		sp_count(SP_COUNT_NAMES_OTHER);
	}
	return id;
}

/*
 * Repairs and cuts the name first. Not inlined, because it needs 2 KiB of stack, and the usual path
 * does not.
 */
__attribute__((noinline)) static uint32_t intern_dirty(struct sp_names *t, const char *name,
						       size_t len)
{
	char clean[SP_NAME_MAX];
	uint32_t at = 0;
	uint32_t id;
	uint64_t h;

	len = sp_text_clean(clean, sizeof(clean), name, len);
	h = hash_of(t->seed, clean, len);
	id = find(t, h, clean, len, &at);
	return id != 0 ? id : intern_clean(t, h, clean, len, at);
}

SP_TLS struct sp_names_recent sp_names_recent[SP_NAMES_RECENT];

uint32_t sp_names_look_up(const char *name, size_t len, struct sp_names_recent *r)
{
	/* Pairs with the release in sp_names_init(). */
	struct sp_names *t = atomic_load_explicit(&sp_names, memory_order_acquire);
	uint32_t at = 0;
	uint32_t id;
	uint64_t h;

	if (t == NULL)
		return 0;
	if (name == NULL || len == 0)
		return t->unnamed;
	if (len > SP_NAME_MAX)
		return intern_dirty(t, name, len);
	/* Stored names are valid UTF-8, so a name with the same bytes needs no check. */
	h = hash_of(t->seed, name, len);
	id = find(t, h, name, len, &at);
	if (id != 0) {
		r->text = sp_names_at(t,
				      atomic_load_explicit(&t->slot[id - 1], memory_order_relaxed));
		r->id = id;
		r->len = (uint32_t)len;
		return id;
	}
	if (!sp_text_valid(name, len))
		return intern_dirty(t, name, len);
	return intern_clean(t, h, name, len, at);
}

const char *sp_names_text(uint32_t id, size_t *len)
{
	const struct sp_name *text = sp_names_of(id);

	*len = text != NULL ? text->len : 0;
	return text != NULL ? text->bytes : "";
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

static size_t head_bytes(uint32_t max_names)
{
	return sizeof(struct sp_names) + slots_for(max_names) * sizeof(uint64_t);
}

/* The memory of a table for up to max_names names. Most of its pages are never touched. */
static size_t bytes_for(uint32_t max_names)
{
	size_t texts = ((size_t)limit(max_names) + RESERVED_NAMES) * ENTRY_BYTES(SP_NAME_MAX);

	if (texts > TEXTS_MAX_BYTES)
		texts = TEXTS_MAX_BYTES;
	/* The last text may begin at the last offset at which the longest one fits. */
	return head_bytes(max_names) + texts + ENTRY_BYTES(SP_NAME_MAX);
}

static uint32_t reserve(struct sp_names *t, const char *name)
{
	size_t len = strlen(name);

	return insert(t, hash_of(t->seed, name, len), name, len, 0);
}

int sp_names_init(uint32_t max_names)
{
	struct sp_names *t;

	if (atomic_load_explicit(&sp_names, memory_order_acquire) != NULL)
		return 0;
	max_names = limit(max_names);
	while (max_names > 1 && bytes_for(max_names) > sp_arena_share(bytes_for(max_names)))
		max_names /= 2;
	/* A smaller limit is tried only if address space is limited. */
	while ((t = sp_arena_map(bytes_for(max_names))) == NULL && max_names > 1)
		max_names /= 2;
	if (t == NULL)
		return -ENOMEM;
	t->mask = slots_for(max_names) - 1;
	t->texts = (char *)t + head_bytes(max_names);
	t->last_offset = bytes_for(max_names) - head_bytes(max_names) - ENTRY_BYTES(SP_NAME_MAX);
	/* The address of the mapping is random in each process, and costs no system call. */
	t->seed = (uint64_t)(uintptr_t)t * UINT64_C(0xd6e8feb86659fd93);
	/* A text with offset 0 would make its slot look empty. */
	atomic_store_explicit(&t->texts_used, sizeof(struct sp_name), memory_order_relaxed);
	/*
	 * These two names are inserted before the table is published, and do not count against the
	 * limit.
	 */
	t->max_names = max_names + RESERVED_NAMES;
	t->other = reserve(t, "(other)");
	t->unnamed = reserve(t, "(unnamed)");
	/* Release pairs with the acquire in sp_names_intern() and sp_names_of(). */
	atomic_store_explicit(&sp_names, t, memory_order_release);
	return 0;
}
