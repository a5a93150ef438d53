/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of protobuf that are put together piece by piece, because the whole would be too much memory as messages. */
#ifndef SP_PACKED_H
#define SP_PACKED_H

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

/* Bytes of a field of n bytes whose number is below 16. */
static inline size_t sp_packed_framed(size_t n)
{
	size_t digits = 1;

	for (size_t v = n; v >= 128; v >>= 7)
		digits++;
	return 1 + digits + n;
}

/* Puts the tag and the length of such a field; there must be room. */
static inline void sp_packed_head(struct sp_packed *p, unsigned number, size_t n)
{
	p->data[p->len++] = (uint8_t)(number << 3 | 2);
	for (; n >= 128; n >>= 7)
		p->data[p->len++] = (uint8_t)(n | 128);
	p->data[p->len++] = (uint8_t)n;
}

/* Puts all of it; there must be room. */
static inline void sp_packed_field(struct sp_packed *p, unsigned number, const void *bytes,
				   size_t n)
{
	sp_packed_head(p, number, n);
	if (n != 0)
		memcpy(p->data + p->len, bytes, n);
	p->len += n;
}

#endif
