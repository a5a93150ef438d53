/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of spans, interned. A sample can then carry a small id instead of a text of any length.
 * Ids start at 1 and stay valid, with their text, until the process ends, and in its forked
 * children.
 *
 * The exporter gets a name by a record in the ring of names, before it gets the first sample with
 * the id: a thread that puts a sample puts the name first (sp_names_announce()), once in each region.
 * So names without samples cost nothing, and a new exporter, or that of a forked child, gets all
 * names that it needs.
 *
 * Contexts: APP; SIG (tell).
 */
#ifndef SP_NAMES_H
#define SP_NAMES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sampler/base/compiler.h"

struct sp_channel;

#define SP_NAMES_MAX 100000U /* the upper limit of max_names */

/* At activation, one thread: makes the table, unless it is there already. 0 or -ENOMEM. */
int sp_names_init(uint32_t max_names);

/*
 * APP. The id of a name. The text is cut at SP_NAME_MAX bytes on a UTF-8 boundary, and invalid
 * UTF-8 becomes U+FFFD before it is stored. Beyond the limit every new name becomes "(other)" and
 * is counted. An empty name is "(unnamed)". Returns 0 only if there is no table.
 */
static inline uint32_t sp_names_intern(const char *name, size_t len);

/* APP. The text of an id, with a NUL; "" for an unknown id. */
const char *sp_names_text(uint32_t id, size_t *len);

/*
 * SIG. Puts the name of that id into the ring of names, unless that was done before. True: the
 * exporter will know the name before it takes a record that is put from now on. False: the ring is
 * full, and no record with this id must be put. Id 0 is no name.
 */
SP_SIGSAFE bool sp_names_announce(struct sp_channel *o, uint32_t id);

/* A stored name; only names.c and ring_sig.c use it. */
struct sp_name {
	uint32_t len;
	_Atomic uint32_t told; /* number of the last channel whose ring has the name */
	char bytes[];          /* with a NUL, in whole words */
};

struct sp_names {
	char *texts; /* after the slots */
	uint32_t mask;
	uint32_t max_names;
	uint64_t seed;
	uint64_t last_offset; /* the last offset at which the longest text fits */
	uint32_t other;
	uint32_t unnamed;
	_Atomic uint32_t names;
	_Atomic uint64_t texts_used;
	/* tag in the upper half, offset of the text in the lower; 0 = free */
	_Atomic uint64_t slot[];
};

extern _Atomic(struct sp_names *) sp_names;

/*
 * The names that a thread used last, found by the address of the string: most names are string
 * literals. Another name may be at that address by now, so a reader compares the bytes. Texts are
 * never freed. len is 0 in an unused entry.
 */
#define SP_NAMES_RECENT 4U
struct sp_names_recent {
	const struct sp_name *text;
	uint32_t id;
	uint32_t len;
};
extern SP_TLS struct sp_names_recent sp_names_recent[SP_NAMES_RECENT];

/* For sp_names_intern(), if `r` has another name. Stores the name in `r` if the table has it. */
uint32_t sp_names_look_up(const char *name, size_t len, struct sp_names_recent *r);

/*
 * Whether two names of that length are equal, by overlapping words: names are short, and a call
 * would cost more than the comparison. Names of less than four bytes, which are rare, are compared
 * byte by byte.
 */
static inline bool sp_names_same(const char *a, const char *b, size_t len)
{
	uint64_t wide[2];
	uint32_t word[2];

	if (len < 4) {
		while (len != 0 && a[len - 1] == b[len - 1])
			len--;
		return len == 0;
	}
	if (len < 8) {
		memcpy(&word[0], a, 4);
		memcpy(&word[1], b, 4);
		if (word[0] != word[1])
			return false;
		memcpy(&word[0], a + len - 4, 4);
		memcpy(&word[1], b + len - 4, 4);
		return word[0] == word[1];
	}
	for (size_t i = 0; i < len - 8; i += 8) {
		memcpy(&wide[0], a + i, 8);
		memcpy(&wide[1], b + i, 8);
		if (wide[0] != wide[1])
			return false;
	}
	memcpy(&wide[0], a + len - 8, 8);
	memcpy(&wide[1], b + len - 8, 8);
	return wide[0] == wide[1];
}

static inline uint32_t sp_names_intern(const char *name, size_t len)
{
	struct sp_names_recent *r =
		&sp_names_recent[((uintptr_t)name >> 4 ^ (uintptr_t)name >> 2) % SP_NAMES_RECENT];

	return len != 0 && r->len == len && sp_names_same(r->text->bytes, name, len)
		       ? r->id
		       : sp_names_look_up(name, len, r);
}

static inline SP_SIGSAFE struct sp_name *sp_names_at(const struct sp_names *t, uint64_t slot)
{
	return (struct sp_name *)(void *)(t->texts + (uint32_t)slot);
}

/* NULL = unknown id. */
static inline SP_SIGSAFE struct sp_name *sp_names_of(uint32_t id)
{
	/* pairs with the release in sp_names_init() */
	const struct sp_names *t = atomic_load_explicit(&sp_names, memory_order_acquire);
	uint64_t slot = 0;

	/* pairs with the release in insert(): the text is complete before its slot */
	if (t != NULL && id != 0 && id - 1 <= t->mask)
		slot = atomic_load_explicit(&t->slot[id - 1], memory_order_acquire);
	return slot != 0 ? sp_names_at(t, slot) : NULL;
}

#endif
