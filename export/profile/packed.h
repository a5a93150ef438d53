/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of protobuf that are written piece by piece, because messages for the whole would take too much memory, and
 * messages that live in a pool.
 */
#ifndef SP_PACKED_H
#define SP_PACKED_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "export/util/containers.h"

/* Zero it at first use. */
struct sp_packed {
	uint8_t *data; /* malloc'ed */
	size_t len;
	size_t cap;
};

/* Makes room for n more bytes. */
static inline bool sp_packed_reserve(struct sp_packed *p, size_t n)
{
	return SP_GROW(p->data, p->cap, p->len + n, SIZE_MAX);
}

/* The packed size of a field with n bytes whose number is below 16. */
static inline size_t sp_packed_framed(size_t n)
{
	size_t digits = 1;

	for (size_t v = n; v >= 128; v >>= 7)
		digits++;
	return 1 + digits + n;
}

/* The most bytes that sp_packed_head() writes. */
#define SP_PACKED_HEAD_MAX 11U

/* Writes the tag and the length of such a field; the caller has reserved room. */
static inline void sp_packed_head(struct sp_packed *p, unsigned number, size_t n)
{
	p->data[p->len++] = (uint8_t)(number << 3 | 2);
	for (; n >= 128; n >>= 7)
		p->data[p->len++] = (uint8_t)(n | 128);
	p->data[p->len++] = (uint8_t)n;
}

/* Writes a whole field; the caller has reserved room. */
static inline void sp_packed_field(struct sp_packed *p, unsigned number, const void *bytes,
				   size_t n)
{
	sp_packed_head(p, number, n);
	if (n != 0)
		memcpy(p->data + p->len, bytes, n);
	p->len += n;
}

static inline void *sp_pool_allocator_get(void *pool, size_t size)
{
	return sp_pool_get(pool, size);
}

static inline void sp_pool_allocator_free(void *pool, void *piece)
{
	(void)pool;
	(void)piece;
}

/* Messages that protobuf-c unpacks with this allocator are freed with the pool. */
static inline ProtobufCAllocator sp_pool_allocator(struct sp_pool *pool)
{
	return (ProtobufCAllocator){sp_pool_allocator_get, sp_pool_allocator_free, pool};
}

/*
 * n messages with their default values, and in *list an array of pointers to them, as protobuf-c needs it. False:
 * memory is short.
 */
static inline bool sp_pool_messages(struct sp_pool *pool, const ProtobufCMessageDescriptor *of,
				    size_t n, void *list)
{
	void **pointer = sp_pool_get(pool, (n + 1) * sizeof(*pointer));
	char *body = sp_pool_get(pool, (n + 1) * of->sizeof_message);

	for (size_t i = 0; pointer != NULL && body != NULL && i < n; i++) {
		pointer[i] = body + i * of->sizeof_message;
		protobuf_c_message_init(of, pointer[i]);
	}
	memcpy(list, &pointer, sizeof(pointer));
	return pointer != NULL && body != NULL;
}

#endif
