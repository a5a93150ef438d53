/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interned span names. APP context: the adapters intern on every span start; BG reads the texts.
 *
 * One mapping holds an open-addressed table of 64-bit slots and, behind it, the texts. A slot is 0
 * or names a text that is complete and never changes again, and it is written once, by the CAS
 * that makes it non-zero. So two threads with the same new name meet at the same first empty slot
 * of its probe sequence: one CAS wins, the loser sees the winner's text there, and both return the
 * same id, the slot's number. No thread waits for another: a call walks its probe sequence a
 * bounded number of times, and a failed CAS means that the walk goes on.
 *
 * The limit is checked before a slot is claimed and counted after, so threads that insert
 * different names at the same moment may pass it by their number. That is the price of never
 * giving "(other)" to a name below the limit that another thread is just inserting.
 */
#include "sampler/label.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>

#include "sampler/arena.h"
#include "sampler/compiler.h"
#include "sampler/counters.h"
#include "sampler/text.h"

/*
 * At most a quarter of the slots are used, so no honest set of names fills a run of this length;
 * names chosen to collide become "(other)" instead of making every look-up slow.
 */
#define PROBES_MAX 256U
#define SLOTS_PER_NAME 4U
#define SLOTS_MIN 1024U

/* Address space for texts, touched as they come. Only long names can use it up before the limit. */
#define TEXTS_MAX_BYTES (16U << 20)

#define RESERVED_NAMES 2U /* "(other)" and "(unnamed)" do not count against the limit */

struct text {
	uint32_t len;
	char bytes[]; /* and a NUL */
};

struct labels {
	uint32_t mask;
	uint32_t max_names;
	uint64_t seed;
	uint32_t other;
	uint32_t unnamed;
	size_t texts_bytes;
	char *texts;
	_Atomic uint32_t names;
	_Atomic size_t texts_used;
	_Atomic uint64_t slot[]; /* tag in the upper half, offset of the text in the lower */
};

static _Atomic(struct labels *) the_labels;

/* Up to seven bytes as a number, by loads that overlap: a copy of unknown length is a call. */
static inline uint64_t tail(const char *name, size_t len)
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
static uint64_t hash(uint64_t seed, const char *name, size_t len)
{
	const uint64_t k = UINT64_C(0x9e3779b97f4a7c15);
	uint64_t h = seed ^ (len * k);
	uint64_t word;

	for (; len >= 8; len -= 8, name += 8) {
		memcpy(&word, name, 8);
		h = (h ^ word) * k;
		h ^= h >> 29;
	}
	h = (h ^ tail(name, len)) * k;
	h ^= h >> 32;
	h *= k;
	return h ^ (h >> 29);
}

static inline uint64_t word_at(const char *p)
{
	uint64_t word;

	memcpy(&word, p, sizeof(word));
	return word;
}

/* Names are short: a call, and what would have to be saved around it, costs more than they do. */
static inline bool same(const char *a, const char *b, size_t len)
{
	if (len < 8)
		return tail(a, len) == tail(b, len);
	for (size_t i = 0; i < len - 8; i += 8) {
		if (word_at(a + i) != word_at(b + i))
			return false;
	}
	return word_at(a + len - 8) == word_at(b + len - 8);
}

static const struct text *text_of(const struct labels *t, uint64_t slot)
{
	return (const struct text *)(const void *)(t->texts + (uint32_t)slot);
}

static bool slot_is(const struct labels *t, uint64_t slot, uint64_t h, const char *name, size_t len)
{
	const struct text *text = text_of(t, slot);

	return slot >> 32 == h >> 32 && text->len == len && same(text->bytes, name, len);
}

/*
 * The id of a known name, or 0 with *at at the place of the probe sequence where it would go:
 * PROBES_MAX when there is none.
 */
static uint32_t find(const struct labels *t, uint64_t h, const char *name, size_t len, uint32_t *at)
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

/* Writes a text behind the others; 0 = no room. Offset 0 is the table's first text. */
static uint32_t text_new(struct labels *t, const char *name, size_t len, size_t *size)
{
	size_t offset;
	struct text *text;

	*size = (sizeof(*text) + len + 1 + 3) & ~(size_t)3;
	/* Acquire pairs with text_free(): its writes are over before ours begin. */
	offset = atomic_fetch_add_explicit(&t->texts_used, *size, memory_order_acquire);
	if (offset + *size > t->texts_bytes)
		return 0;
	text = (struct text *)(void *)(t->texts + offset);
	text->len = (uint32_t)len;
	memcpy(text->bytes, name, len);
	text->bytes[len] = '\0';
	return (uint32_t)offset;
}

/* Gives back the text of a lost race if nobody wrote behind it; otherwise it stays unused. */
static void text_free(struct labels *t, uint32_t offset, size_t size)
{
	size_t end = offset + size;

	(void)atomic_compare_exchange_strong_explicit(&t->texts_used, &end, offset,
						      memory_order_release, memory_order_relaxed);
}

/* Inserts clean text from probe `at` on. 0 = it cannot be stored. */
static uint32_t insert(struct labels *t, uint64_t h, const char *name, size_t len, uint32_t at)
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
	if (atomic_load_explicit(&t->names, memory_order_acquire) >= t->max_names)
		return find(t, h, name, len, &at);
	offset = text_new(t, name, len, &size);
	if (offset == 0)
		return 0;
	while (at < PROBES_MAX) {
		uint32_t n = ((uint32_t)h + at) & t->mask;
		uint64_t empty = 0;
		uint64_t slot = (h >> 32 << 32) | offset;

		/* Release pairs with the acquire in find(): whoever sees the slot sees the text. */
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
	text_free(t, offset, size);
	return id;
}

static uint32_t intern_clean(struct labels *t, uint64_t h, const char *name, size_t len,
			     uint32_t at)
{
	uint32_t id = insert(t, h, name, len, at);

	if (id == 0) {
		id = t->other;
		sp_count(SP_COUNT_NAMES_OTHER);
	}
	return id;
}

/* Repairs and cuts first. Apart from the fast path so that the 2 KiB of stack are only its own. */
__attribute__((noinline)) static uint32_t intern_dirty(struct labels *t, const char *name,
						       size_t len)
{
	char clean[SP_LABEL_MAX_BYTES];
	uint32_t at = 0;
	uint32_t id;
	uint64_t h;

	len = sp_text_clean(clean, sizeof(clean), name, len);
	h = hash(t->seed, clean, len);
	id = find(t, h, clean, len, &at);
	return id != 0 ? id : intern_clean(t, h, clean, len, at);
}

/*
 * The names that a thread used last, by where it had them: most come from string literals. A place
 * may hold another name by now, so the bytes decide. Texts stay for ever.
 */
#define RECENT 4U
struct recent {
	const struct text *text;
	uint32_t id;
};
static SP_TLS struct recent recent[RECENT];

static struct recent *recent_of(const char *name)
{
	return &recent[((uintptr_t)name >> 4 ^ (uintptr_t)name >> 2) % RECENT];
}

/* noinline: a name that is at hand needs none of its registers. */
__attribute__((noinline)) static uint32_t look_up(const char *name, size_t len, struct recent *r)
{
	/* Pairs with the release in sp_label_init(). */
	struct labels *t = atomic_load_explicit(&the_labels, memory_order_acquire);
	uint32_t at = 0;
	uint32_t id;
	uint64_t h;

	if (t == NULL)
		return 0;
	if (name == NULL || len == 0)
		return t->unnamed;
	if (len > SP_LABEL_MAX_BYTES)
		return intern_dirty(t, name, len);
	/* Stored names are valid UTF-8, so bytes that equal one need no check of their own. */
	h = hash(t->seed, name, len);
	id = find(t, h, name, len, &at);
	if (id != 0) {
		r->text = text_of(t, atomic_load_explicit(&t->slot[id - 1], memory_order_relaxed));
		r->id = id;
		return id;
	}
	if (!sp_text_valid(name, len))
		return intern_dirty(t, name, len);
	return intern_clean(t, h, name, len, at);
}

uint32_t sp_label_intern(const char *name, size_t len)
{
	struct recent *r = recent_of(name);

	if (r->text != NULL && r->text->len == len && same(r->text->bytes, name, len))
		return r->id;
	return look_up(name, len, r);
}

const char *sp_label_text(uint32_t id, size_t *len)
{
	const struct labels *t = atomic_load_explicit(&the_labels, memory_order_acquire);
	uint64_t slot = 0;

	*len = 0;
	if (t != NULL && id != 0 && id - 1 <= t->mask)
		slot = atomic_load_explicit(&t->slot[id - 1], memory_order_acquire);
	if (slot == 0)
		return "";
	*len = text_of(t, slot)->len;
	return text_of(t, slot)->bytes;
}

/* The reserved names go in before the table is published and take the count to the limit's zero. */
static void labels_fill(struct labels *t, size_t size, uint32_t slots, uint32_t max_names)
{
	static const char other[] = "(other)";
	static const char unnamed[] = "(unnamed)";
	size_t head = (sizeof(*t) + slots * sizeof(t->slot[0]) + 7) & ~(size_t)7;

	t->mask = slots - 1;
	t->max_names = max_names + RESERVED_NAMES;
	/* Where the kernel put us is random per process and costs no system call. */
	t->seed = (uint64_t)(uintptr_t)t * UINT64_C(0xd6e8feb86659fd93);
	t->texts = (char *)t + head;
	t->texts_bytes = size - head;
	/* Offset 0 would make an empty slot of a text. */
	atomic_store_explicit(&t->texts_used, sizeof(struct text), memory_order_relaxed);
	t->other = insert(t, hash(t->seed, other, sizeof(other) - 1), other, sizeof(other) - 1, 0);
	t->unnamed = insert(t, hash(t->seed, unnamed, sizeof(unnamed) - 1), unnamed,
			    sizeof(unnamed) - 1, 0);
}

int sp_label_init(uint32_t max_names)
{
	uint32_t slots = SLOTS_MIN;
	struct labels *expected = NULL;
	struct labels *t;
	size_t texts;
	size_t size;

	if (atomic_load_explicit(&the_labels, memory_order_acquire) != NULL)
		return 0;
	if (max_names > SP_LABEL_MAX_NAMES)
		max_names = SP_LABEL_MAX_NAMES;
	while (slots < (max_names + RESERVED_NAMES) * SLOTS_PER_NAME)
		slots *= 2;
	texts = ((size_t)max_names + RESERVED_NAMES) * (SP_LABEL_MAX_BYTES + 8);
	if (texts > TEXTS_MAX_BYTES)
		texts = TEXTS_MAX_BYTES;
	size = sizeof(*t) + slots * sizeof(t->slot[0]) + 8 + texts;
	t = sp_arena_map(size);
	if (t == NULL)
		return -ENOMEM;
	labels_fill(t, size, slots, max_names);
	/* Release pairs with the acquire in sp_label_intern() and sp_label_text(). */
	if (!atomic_compare_exchange_strong_explicit(&the_labels, &expected, t,
						     memory_order_release, memory_order_relaxed))
		(void)munmap(t, size);
	return 0;
}
