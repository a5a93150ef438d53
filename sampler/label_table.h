/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of the span names (label.h), which host and exporter share: the table, its slots, the
 * texts. For label*.c.
 */
#ifndef SP_LABEL_TABLE_H
#define SP_LABEL_TABLE_H

#include <stdatomic.h>
#include <stdint.h>

#include "sampler/label.h"

struct sp_label_entry {
	uint32_t len;
	char bytes[]; /* and a NUL */
};

struct sp_label_table {
	uint32_t slots; /* a power of two */
	_Atomic uint32_t names;
	uint64_t texts_at; /* from the beginning of this */
	uint64_t texts_bytes;
	_Atomic uint64_t texts_used;
	_Atomic uint64_t slot[]; /* tag in the upper half, offset of the text in the lower */
};

/* The longest text, with its length and its NUL. */
#define SP_LABEL_ENTRY_MAX (sizeof(struct sp_label_entry) + SP_LABEL_MAX_BYTES + 4)

#endif
