/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of attributes that become labels (SPANPROF_SPAN_LABELS). Programs set some of them just
 * before a span ends, after its samples were taken. So a value is stored here until its span, a
 * local root, ends. If the root has a sample or a wait, the value then goes to the exporter with
 * the root's id, which each sample of the root carries.
 *
 * Off unless the option is set: without it adapters pass no attributes, and samples carry no root.
 *
 * Contexts: APP, inside the reentrancy guard; SIG (note).
 */
#ifndef SP_SPAN_VALUES_H
#define SP_SPAN_VALUES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sampler/base/compiler.h"
#include "sampler/open_spans/span_table.h"
#include "sampler/region/record.h"

/*
 * APP, at activation: the keys in that list, which is never freed; NULL = none. notes: which roots
 * have samples is marked also without keys. Idempotent. 0 or -ENOMEM.
 */
int sp_span_values_init(const char *keys, bool notes);

/*
 * In a forked child: clears the values. Spans have other entries now, and a slot that a thread of
 * the parent had taken would stay taken.
 */
void sp_span_values_forked(void);

/* The keys of the wanted attributes. Written at activation, only read afterwards. */
struct sp_span_keys {
	unsigned n;
	/* a bit for each length of a key; all lengths from 63 on have the same bit */
	uint64_t lengths;
	struct {
		const char *text;
		size_t len;
	} key[SP_SPAN_VALUES_MAX];
};
SP_HIDDEN struct sp_span_keys sp_span_keys_wanted;

static inline bool sp_span_values_on(void)
{
	return sp_span_keys_wanted.n != 0;
}

#define SP_SPAN_KEY_NONE SP_SPAN_VALUES_MAX

/*
 * The number of that key, or SP_SPAN_KEY_NONE. Programs set attributes all the time; most of them
 * are excluded by their length.
 */
static inline unsigned sp_span_values_key(const char *key, size_t len)
{
	const struct sp_span_keys *k = &sp_span_keys_wanted;

	if ((k->lengths >> (len < 63 ? len : 63) & 1) == 0)
		return SP_SPAN_KEY_NONE;
	for (unsigned i = 0; i < k->n; i++)
		if (k->key[i].len == len && memcmp(k->key[i].text, key, len) == 0)
			return i;
	return SP_SPAN_KEY_NONE;
}

/*
 * Sets the value of the attribute with that number: a text of that length, or a word. Does nothing
 * if the span is no local root. SP_SPAN_VALUE_NONE, or an empty text: the attribute has no value
 * any more.
 */
void sp_span_values_set(const struct sp_span_record *r, unsigned key, enum sp_span_value_type type,
			const void *value, size_t bytes);

/*
 * The attribute with that number is an array, or of an unknown type, and cannot be a label: logged
 * once.
 */
void sp_span_values_refuse(unsigned key);

/* The span was closed (sp_span_close()): its values go to the exporter. */
void sp_span_values_end(const struct sp_span_record *r);

/*
 * For each entry of a span, by its number: the id of the last local root in the entry that has a
 * sample or a wait.
 */
SP_HIDDEN _Atomic uint64_t *_Atomic sp_span_values_marked;

/* SIG. A sample that was not lost, or a wait, carries that root. */
static inline SP_SIGSAFE void sp_span_values_mark(uint32_t root_ref, uint64_t root_id)
{
	/* pairs with the release in sp_span_values_init() */
	_Atomic uint64_t *marked =
		atomic_load_explicit(&sp_span_values_marked, memory_order_acquire);
	uint32_t n = (root_ref & SP_SPAN_NUMBER_MASK) - 1;

	if (marked != NULL && n < SP_SPANS_MAX)
		atomic_store_explicit(&marked[n], root_id, memory_order_relaxed);
}

/* Whether that root has a sample or a wait. */
static inline bool sp_span_values_is_marked(uint32_t root_ref, uint64_t root_id)
{
	_Atomic uint64_t *marked =
		atomic_load_explicit(&sp_span_values_marked, memory_order_acquire);
	uint32_t n = (root_ref & SP_SPAN_NUMBER_MASK) - 1;

	return marked != NULL && n < SP_SPANS_MAX &&
	       atomic_load_explicit(&marked[n], memory_order_relaxed) == root_id;
}

#endif
