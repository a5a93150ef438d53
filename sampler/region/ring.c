/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Setup and consumer side of the ring. Contexts: APP (setup), the exporter (all of it).
 *
 * The consumer trusts only its own view. It copies each word of the shared memory once and checks
 * the copy: a record is between tail and head, consists of whole words and does not cross the
 * ring's end. If a record does not, somebody has overwritten the ring, and nobody knows where the
 * next record begins. So the consumer zeroes and skips everything up to the head.
 */
#include "sampler/region/ring.h"

#include <errno.h>
#include <string.h>

#define WORD sizeof(uint64_t)

int sp_ring_at(struct sp_ring *r, void *part, uint64_t bytes)
{
	uint64_t size = SP_RING_SIZE_MIN;

	memset(r, 0, sizeof(*r));
	if (bytes < SP_RING_BYTES(size))
		return -EINVAL;
	while (size <= (bytes - SP_RING_WORDS_AT) / 2)
		size *= 2;
	r->ends = part;
	r->word = (_Atomic uint64_t *)(void *)((char *)part + SP_RING_WORDS_AT);
	r->size = size;
	r->taken = atomic_load_explicit(&r->ends->tail, memory_order_relaxed) & ~(WORD - 1);
	return 0;
}

static _Atomic uint64_t *word_at(const struct sp_ring *r, uint64_t at)
{
	return &r->word[(at & (r->size - 1)) / WORD];
}

/* Frees the space of the taken records; the consumer has zeroed it. */
static void free_taken(struct sp_ring *r)
{
	/* pairs with the acquire of tail in reserve(): zeroed before it is free */
	atomic_store_explicit(&r->ends->tail, r->taken, memory_order_release);
}

static void zero(struct sp_ring *r, uint64_t at, uint64_t bytes)
{
	for (uint64_t i = 0; i < bytes; i += WORD)
		atomic_store_explicit(word_at(r, at + i), 0, memory_order_relaxed);
}

/*
 * Somebody has overwritten the ring. Records that are being written now may be found broken later.
 * A header without a record is zeroed too, because it would be found again and again.
 */
static void resynchronize(struct sp_ring *r, uint64_t head)
{
	uint64_t used = head - r->taken;

	r->damaged++;
	if (used == 0)
		used = WORD;
	zero(r, r->taken, used <= r->size ? used : r->size);
	r->taken = head & ~(WORD - 1);
	free_taken(r);
}

/* Whether the distance from the consumer to that head is possible. */
static bool head_is_sound(const struct sp_ring *r, uint64_t head)
{
	return head - r->taken <= r->size && head % WORD == 0;
}

/* Whether a record of that length (or padding up to the ring's end) can be there. */
static bool is_sound(const struct sp_ring *r, uint64_t header, uint64_t at, uint64_t head)
{
	uint64_t len = SP_RING_LENGTH(header);
	uint64_t end = r->size - (at & (r->size - 1));
	uint64_t used = head - at;

	if (len == 0 || len % WORD != 0)
		return false;
	if (SP_RING_KIND(header) == SP_RECORD_PAD)
		return len == end && len <= used && len < r->size;
	return len < end && len + WORD <= end && len + WORD <= used;
}

/* Copies at most `size` bytes, and zeroes all words of the record. */
static void copy_out(char *out, uint64_t size, _Atomic uint64_t *from, uint64_t words)
{
	for (uint64_t i = 0; i < words; i++) {
		uint64_t w = atomic_load_explicit(&from[i], memory_order_relaxed);

		if ((i + 1) * sizeof(w) <= size)
			memcpy(out + i * sizeof(w), &w, sizeof(w));
		atomic_store_explicit(&from[i], 0, memory_order_relaxed);
	}
}

uint64_t sp_ring_take(struct sp_ring *r, uint32_t *kind, void *out, uint64_t size)
{
	uint64_t header;
	uint64_t head;
	uint64_t len;

	if (r->word == NULL)
		return 0;
	/* Twice at most: a pad as long as the ring is not sound. */
	do {
		_Atomic uint64_t *at = word_at(r, r->taken);

		/* pairs with the release of the header in sp_ring_put_parts() */
		header = atomic_load_explicit(at, memory_order_acquire);
		/* Read after the header, so the head is not older than the header. */
		head = atomic_load_explicit(&r->ends->head, memory_order_relaxed);
		if (!head_is_sound(r, head) ||
		    (header != 0 && !is_sound(r, header, r->taken, head))) {
			resynchronize(r, head);
			return 0;
		}
		if (header == 0)
			return 0;
		len = SP_RING_LENGTH(header);
		*kind = SP_RING_KIND(header);
		atomic_store_explicit(at, 0, memory_order_relaxed);
		if (*kind == SP_RECORD_PAD) {
			r->taken += len;
		} else {
			copy_out(out, size, at + 1, len / WORD);
			r->taken += len + WORD;
		}
		free_taken(r);
	} while (*kind == SP_RECORD_PAD);
	return len;
}

static bool is_known(uint64_t header)
{
	uint32_t kind = SP_RING_KIND(header);

	return kind >= SP_RECORD_PAD && kind <= SP_RECORD_NAME;
}

/*
 * Whether a record may begin here: from here on, record must follow record up to the head, up to
 * the next unfinished record, or for PROOF_RECORDS records. The data of a dead producer may look
 * like one header by chance, but hardly like PROOF_RECORDS of them.
 */
#define PROOF_RECORDS 16U
static bool begins_records(const struct sp_ring *r, uint64_t at, uint64_t head)
{
	for (unsigned n = 0; at != head && n < PROOF_RECORDS; n++) {
		uint64_t header = atomic_load_explicit(word_at(r, at), memory_order_relaxed);

		if (header == 0)
			return true;
		if (!is_sound(r, header, at, head) || !is_known(header))
			return false;
		at += SP_RING_LENGTH(header) + (SP_RING_KIND(header) == SP_RECORD_PAD ? 0 : WORD);
	}
	return true;
}

bool sp_ring_pass(struct sp_ring *r)
{
	uint64_t head;
	uint64_t at;

	if (r->word == NULL)
		return false;
	head = atomic_load_explicit(&r->ends->head, memory_order_acquire);
	if (!head_is_sound(r, head)) {
		resynchronize(r, head);
		return false;
	}
	if (r->taken == head)
		return false;
	for (at = r->taken + WORD; at != head; at += WORD) {
		uint64_t header = atomic_load_explicit(word_at(r, at), memory_order_relaxed);

		if (header != 0 && begins_records(r, at, head))
			break;
	}
	r->unfinished++;
	zero(r, r->taken, at - r->taken);
	r->taken = at;
	free_taken(r);
	return true;
}

/* Checked on our copy, which nobody else can change any more. */
static bool check_sample(struct sp_sample *s, uint64_t len)
{
	if (len < sp_sample_bytes(0) || s->depth > SP_FRAMES_MAX ||
	    len != sp_sample_bytes(s->depth))
		return false;
	s->thread_name[SP_THREAD_NAME_BYTES - 1] = '\0';
	return true;
}

static bool check_span_values(const struct sp_span_values *v, uint64_t len)
{
	uint64_t bytes = SP_SPAN_VALUES_HEAD_BYTES;

	if (len < bytes)
		return false;
	for (unsigned i = 0; i < SP_SPAN_VALUES_MAX; i++) {
		uint32_t type = v->value[i].type;
		uint32_t n = v->value[i].bytes;

		if (type >= SP_SPAN_VALUE_TYPES || n > SP_SPAN_VALUE_BYTES ||
		    (n == 0) != (type == SP_SPAN_VALUE_NONE) ||
		    (type > SP_SPAN_VALUE_TEXT && n != sizeof(uint64_t)))
			return false;
		bytes += SP_SPAN_VALUE_PADDED(n);
	}
	return len == bytes;
}

static bool check(struct sp_record *record, uint64_t len)
{
	switch (record->kind) {
	case SP_RECORD_SAMPLE:
		return check_sample(&record->sample, len);
	case SP_RECORD_CPU_TIME:
		record->cpu_time.thread_name[SP_THREAD_NAME_BYTES - 1] = '\0';
		return len == sizeof(record->cpu_time);
	case SP_RECORD_MODULE_EVENT:
		return len == sizeof(record->module_event);
	case SP_RECORD_SPAN_VALUES:
		return check_span_values(&record->span_values, len);
	case SP_RECORD_SLOW_ROOT:
		return len == sizeof(record->slow_root);
	case SP_RECORD_ROOT_END:
		return len == sizeof(record->root_end);
	case SP_RECORD_FREED:
	case SP_RECORD_SPAN_ENDED:
		return len == sizeof(record->word);
	default:
		return false;
	}
}

unsigned sp_ring_drain(struct sp_ring *r, void (*put)(const struct sp_record *record, void *arg),
		       void *arg, unsigned max)
{
	/* static: one consumer, and 4 KiB would be much for a small stack */
	static struct sp_record out;
	unsigned n = 0;
	uint64_t len;

	/*
	 * Damaged records count against max as well, so that a ring full of them ends the loop,
	 * too.
	 */
	for (unsigned taken = 0; taken < max && (len = sp_ring_take(r, &out.kind, &out.sample,
								    sizeof(out.sample))) != 0;
	     taken++) {
		if (!check(&out, len)) {
			r->damaged++;
			continue;
		}
		n++;
		put(&out, arg);
	}
	return n;
}

/*
 * Checked on our copy: the stack is as long as the record says, and does not wrap around the
 * address space.
 */
static bool check_snapshot(struct sp_snapshot *s, uint32_t kind, uint64_t len)
{
	char *head = (char *)s->sample;

	if (kind != SP_RECORD_SNAPSHOT || len < offsetof(struct sp_snapshot, stack) ||
	    s->stack_bytes > SP_SNAPSHOT_STACK_MAX ||
	    len != offsetof(struct sp_snapshot, stack) + s->stack_bytes ||
	    s->stack_bytes > UINT64_MAX - s->stack_at)
		return false;
	head[offsetof(struct sp_sample, thread_name) + SP_THREAD_NAME_BYTES - 1] = '\0';
	return true;
}

unsigned sp_snapshot_drain(struct sp_ring *r, void (*put)(const struct sp_snapshot *s, void *arg),
			   void *arg, unsigned max)
{
	/* static: one consumer, and 16 KiB would be much for its stack */
	static struct sp_snapshot s;
	unsigned n = 0;
	uint32_t kind;
	uint64_t len;

	for (unsigned taken = 0; taken < max && (len = sp_ring_take(r, &kind, &s, sizeof(s))) != 0;
	     taken++) {
		if (!check_snapshot(&s, kind, len)) {
			r->damaged++;
			continue;
		}
		n++;
		put(&s, arg);
	}
	return n;
}
