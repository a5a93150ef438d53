/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds and parses the call frame information of one pc: the sorted table of .eh_frame_hdr, the FDE
 * that it names and the CIE of that FDE, in place and within the object's mapping. Context: SIG,
 * and the exporter on copies of files.
 */
#ifndef SP_EHFRAME_SIG_H
#define SP_EHFRAME_SIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

/*
 * A bounded reader of DWARF bytes, which never reads at or past its end. The first read that does
 * not fit sets failed for good, and failed reads return 0, so a parser may read a whole structure
 * and check once.
 */
struct sp_cursor {
	const uint8_t *at;
	const uint8_t *end;
	bool failed;
};

/* 64 bits are ten groups of seven; a longer number is malformed. */
#define SP_LEB_MAX_BYTES 10U

static inline SP_SIGSAFE struct sp_cursor sp_cursor_over(uintptr_t start, uintptr_t end)
{
	struct sp_cursor c = {
		.at = (const uint8_t *)start,
		.end = (const uint8_t *)end,
		.failed = start > end,
	};

	return c;
}

static inline SP_SIGSAFE size_t sp_cursor_left(const struct sp_cursor *c)
{
	return c->failed ? 0 : (size_t)(c->end - c->at);
}

static inline SP_SIGSAFE void sp_cursor_skip(struct sp_cursor *c, uint64_t n)
{
	if (n > sp_cursor_left(c))
		c->failed = true;
	else
		c->at += n;
}

/* Unaligned loads; both processors and the data are little-endian. */
static inline SP_SIGSAFE uint64_t sp_load_unsigned(const uint8_t *at, unsigned bytes)
{
	uint16_t half;
	uint32_t word;
	uint64_t giant;

	switch (bytes) {
	case 1:
		return *at;
	case 2:
		__builtin_memcpy(&half, at, sizeof(half));
		return half;
	case 4:
		__builtin_memcpy(&word, at, sizeof(word));
		return word;
	default:
		__builtin_memcpy(&giant, at, sizeof(giant));
		return giant;
	}
}

/* A number of 1, 2, 4 or 8 bytes. */
static inline SP_SIGSAFE uint64_t sp_cursor_unsigned(struct sp_cursor *c, unsigned bytes)
{
	uint64_t v;

	if (bytes > sp_cursor_left(c)) {
		c->failed = true;
		return 0;
	}
	v = sp_load_unsigned(c->at, bytes);
	c->at += bytes;
	return v;
}

static inline SP_SIGSAFE int64_t sp_cursor_signed(struct sp_cursor *c, unsigned bytes)
{
	uint64_t v = sp_cursor_unsigned(c, bytes);
	uint64_t sign = UINT64_C(1) << ((8 * bytes - 1) & 63);

	return (int64_t)((v ^ sign) - sign);
}

static inline SP_SIGSAFE uint8_t sp_cursor_u8(struct sp_cursor *c)
{
	return (uint8_t)sp_cursor_unsigned(c, 1);
}

static inline SP_SIGSAFE uint64_t sp_cursor_uleb(struct sp_cursor *c)
{
	uint64_t v = 0;

	/* Nearly all of these numbers are one byte long. */
	if (sp_cursor_left(c) > 0 && c->at[0] < 0x80)
		return *c->at++;
	for (unsigned i = 0; i < SP_LEB_MAX_BYTES; i++) {
		uint8_t byte = sp_cursor_u8(c);

		v |= (uint64_t)(byte & 0x7f) << (7 * i);
		if ((byte & 0x80) == 0)
			return v;
	}
	c->failed = true;
	return 0;
}

static inline SP_SIGSAFE int64_t sp_cursor_sleb(struct sp_cursor *c)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < SP_LEB_MAX_BYTES; i++) {
		uint8_t byte = sp_cursor_u8(c);
		unsigned next = 7 * (i + 1);

		v |= (uint64_t)(byte & 0x7f) << (7 * i);
		if ((byte & 0x80) != 0)
			continue;
		if ((byte & 0x40) != 0 && next < 64)
			v |= ~UINT64_C(0) << next;
		return (int64_t)v;
	}
	c->failed = true;
	return 0;
}

/* The unwind data of a loaded object. */
struct sp_object {
	uintptr_t start; /* [start, end): the mapping that has this data; nothing outside is read */
	uintptr_t end;
	uintptr_t eh_frame_hdr;
};

/* One function's call frame information. */
struct sp_fde {
	uintptr_t pc_begin;
	uintptr_t pc_end;
	struct sp_cursor initial; /* the CIE's instructions */
	struct sp_cursor program; /* the FDE's own */
	uint64_t code_align;
	int64_t data_align;
	uint64_t return_reg;
	uint8_t pointer_encoding;
	bool signal_frame;     /* augmentation 'S': pc was interrupted, it is no return address */
	bool has_augmentation; /* augmentation 'z': CIE and FDE have sized augmentation data */
};

/*
 * Returns 0; -ENOENT if no FDE covers pc; -EINVAL if the data is malformed or of a form that we do
 * not read.
 */
SP_SIGSAFE int sp_ehframe_find(const struct sp_object *object, uintptr_t pc, struct sp_fde *fde);

/*
 * Reads the FDE that begins at `at`, inside of the object. Returns 0, or -EINVAL as above, also for
 * a CIE.
 */
SP_SIGSAFE int sp_ehframe_parse(const struct sp_object *object, uintptr_t at, struct sp_fde *fde);

#endif
