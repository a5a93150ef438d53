/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Values of attributes, by the entry of their span and by key (span_values.h). Context: APP.
 *
 * A value is stored with its span id. So nothing has to be cleared when a span starts, and if a
 * slow caller writes a value after its span has ended, the next span of the entry does not get it.
 * A thread that copies a value marks its slot as taken, without a lock. If another thread finds the
 * slot taken, it is setting the same attribute of the same span at the same moment, and gives up:
 * either value may be the last one.
 */
#include "sampler/span/span_values.h"

#include <errno.h>

#include "sampler/base/arena.h"
#include "sampler/base/counters.h"
#include "sampler/base/log.h"
#include "sampler/base/text.h"
#include "sampler/region/ring.h"

#define TAKEN UINT64_MAX

struct value {
	_Atomic uint64_t span_id; /* the span of the value; TAKEN; 0 = no value */
	uint16_t type;
	uint16_t bytes;
	uint8_t value[SP_SPAN_VALUE_BYTES];
};

struct sp_span_keys sp_span_keys_wanted;
static struct value *values; /* SP_SPANS_MAX of them for each key */

static int note_roots(void)
{
	_Atomic uint64_t *marked;

	if (atomic_load_explicit(&sp_span_values_marked, memory_order_relaxed) != NULL)
		return 0;
	marked = sp_arena_map(SP_SPANS_MAX * sizeof(*marked));
	if (marked == NULL)
		return -ENOMEM;
	atomic_store_explicit(&sp_span_values_marked, marked, memory_order_release);
	return 0;
}

int sp_span_values_init(const char *keys, bool notes)
{
	struct sp_span_keys wanted = {0};
	const char *key;
	size_t len;

	if ((keys != NULL || notes) && note_roots() != 0)
		return -ENOMEM;
	if (keys == NULL || sp_span_values_on())
		return 0;
	while (wanted.n < SP_SPAN_VALUES_MAX && sp_text_next_item(&keys, &key, &len)) {
		wanted.key[wanted.n].text = key;
		wanted.key[wanted.n++].len = len;
		wanted.lengths |= UINT64_C(1) << (len < 63 ? len : 63);
	}
	values = sp_arena_map((size_t)wanted.n * SP_SPANS_MAX * sizeof(*values));
	if (values == NULL)
		return -ENOMEM;
	sp_span_keys_wanted = wanted;
	return 0;
}

void sp_span_values_forked(void)
{
	if (values != NULL)
		sp_arena_wipe(values,
			      sp_span_keys_wanted.n * (size_t)SP_SPANS_MAX * sizeof(*values));
}

static struct value *value_of(uint32_t ref, unsigned key)
{
	uint32_t n = (ref & SP_SPAN_NUMBER_MASK) - 1;

	return n < SP_SPANS_MAX ? &values[key * SP_SPANS_MAX + n] : NULL;
}

static bool take(struct value *v, uint64_t was)
{
	/* pairs with the release in leave(), whose writes are visible then */
	return was != TAKEN &&
	       atomic_compare_exchange_strong_explicit(&v->span_id, &was, TAKEN,
						       memory_order_acquire, memory_order_relaxed);
}

static void leave(struct value *v, uint64_t span_id)
{
	atomic_store_explicit(&v->span_id, span_id, memory_order_release);
}

void sp_span_values_set(const struct sp_span_record *r, unsigned key, enum sp_span_value_type type,
			const void *value, size_t bytes)
{
	struct value *v = value_of(r->ref, key);

	if (r->span_id != r->root_id || v == NULL ||
	    !take(v, atomic_load_explicit(&v->span_id, memory_order_relaxed)))
		return;
	if (type == SP_SPAN_VALUE_TEXT)
		v->bytes =
			(uint16_t)sp_text_clean((char *)v->value, sizeof(v->value), value, bytes);
	else if (type != SP_SPAN_VALUE_NONE && bytes == sizeof(uint64_t))
		memcpy(v->value, value, v->bytes = sizeof(uint64_t));
	else
		v->bytes = 0;
	v->type = (uint16_t)type;
	leave(v, v->bytes != 0 ? r->span_id : 0);
}

void sp_span_values_refuse(unsigned key)
{
	static _Atomic unsigned told; /* a bit for each key whose refusal was logged */
	const struct sp_span_keys *k = &sp_span_keys_wanted;

	if ((atomic_fetch_or_explicit(&told, 1U << key, memory_order_relaxed) & 1U << key) == 0)
		sp_log(SP_LOG_WARN, "SPANPROF_SPAN_LABELS: %.*s is an array, which makes no label",
		       (int)k->key[key].len, k->key[key].text);
}

/* Adds the value to the record after `used` bytes. Returns the bytes in use after it. */
static uint32_t add(struct sp_span_values *out, uint32_t used, unsigned key,
		    const struct sp_span_record *r)
{
	struct value *v = value_of(r->ref, key);
	uint32_t padded;

	if (v == NULL || !take(v, r->span_id))
		return used;
	padded = SP_SPAN_VALUE_PADDED(v->bytes);
	out->value[key].type = v->type;
	out->value[key].bytes = v->bytes;
	memcpy(out->bytes + used, v->value, v->bytes);
	memset(out->bytes + used + v->bytes, 0, padded - v->bytes);
	leave(v, 0);
	return used + padded;
}

void sp_span_values_end(const struct sp_span_record *r)
{
	struct sp_span_values out;
	uint32_t used = 0;

	if (r->span_id != r->root_id || !sp_span_values_is_marked(r->ref, r->span_id))
		return;
	memset(&out, 0, SP_SPAN_VALUES_HEAD_BYTES);
	out.root_id = r->span_id;
	for (unsigned key = 0; key < sp_span_keys_wanted.n; key++)
		used = add(&out, used, key, r);
	if (used == 0)
		return;
	sp_count(SP_COUNT_SPAN_VALUES);
	if (sp_ring_put(&sp_channel_now()->ring, SP_RECORD_SPAN_VALUES, &out,
			SP_SPAN_VALUES_HEAD_BYTES + used) != 0)
		sp_count(SP_COUNT_DROP_SPAN_VALUES);
}
