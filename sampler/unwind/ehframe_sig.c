/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads .eh_frame_hdr and .eh_frame as the Linux Standard Base 5.0 (10.6) and DWARF 5 (6.4) define
 * them: in the 32-bit format, the only one that compilers emit here, and with the sorted table that
 * linkers write.
 *
 * The file may be damaged, and a fault or an endless loop in the handler would end or stop the
 * host. So every read is inside the object's mapping and every loop is bounded, for any bytes.
 *
 * Runs inside the sampling signal on the sampled thread: no lock, heap, stdio or lazy TLS.
 */
#include "sampler/unwind/ehframe_sig.h"

#include <errno.h>

#pragma GCC poison malloc calloc realloc free printf fprintf snprintf pthread_mutex_lock dlsym

/* Low four bits of a pointer encoding: the format. */
enum {
	PE_ABSPTR = 0x00,
	PE_UDATA4 = 0x03,
	PE_UDATA8 = 0x04,
	PE_SDATA4 = 0x0b,
	PE_SDATA8 = 0x0c,
	PE_FORMAT_MASK = 0x0f,
};

/*
 * The next three bits: the base of a relative pointer. The next bit: the pointer is the address of
 * the value.
 */
enum {
	PE_PCREL = 0x10,
	PE_DATAREL = 0x30,
	PE_BASE_MASK = 0x70,
	PE_INDIRECT = 0x80,
	PE_OMIT = 0xff,
};

#define EH_FRAME_HDR_VERSION 1
/* The table that every linker writes: pairs of 32-bit offsets from the header. */
#define TABLE_ENCODING (PE_DATAREL | PE_SDATA4)
#define TABLE_ROW_BYTES 8U
/* A length of all ones announces the 64-bit format. */
#define LENGTH_64BIT UINT32_C(0xffffffff)
#define AUGMENTATION_MAX 8U

static struct sp_cursor object_cursor(const struct sp_object *object, uintptr_t at)
{
	struct sp_cursor c = sp_cursor_over(at, object->end);

	if (at < object->start)
		c.failed = true;
	return c;
}

static uint64_t read_format(struct sp_cursor *c, uint8_t encoding)
{
	switch (encoding & PE_FORMAT_MASK) {
	case PE_UDATA4:
		return sp_cursor_unsigned(c, 4);
	case PE_ABSPTR:
	case PE_UDATA8:
	case PE_SDATA8:
		return sp_cursor_unsigned(c, 8);
	case PE_SDATA4:
		return (uint64_t)sp_cursor_signed(c, 4);
	default:
		c->failed = true;
		return 0;
	}
}

/* On failure c->failed is set and the result is 0. */
static uintptr_t read_pointer(const struct sp_object *object, struct sp_cursor *c, uint8_t encoding)
{
	uintptr_t position = (uintptr_t)c->at;
	uintptr_t value;

	if ((encoding & PE_INDIRECT) != 0) {
		c->failed = true;
		return 0;
	}
	value = (uintptr_t)read_format(c, encoding);
	/* Linkers write 0 for discarded code; it stays 0 for every base. */
	if (value == 0 || c->failed)
		return 0;
	switch (encoding & PE_BASE_MASK) {
	case 0:
		break;
	case PE_PCREL:
		value += position;
		break;
	case PE_DATAREL:
		value += object->eh_frame_hdr;
		break;
	default:
		c->failed = true;
		return 0;
	}
	return value;
}

/* Reads the length of the entry at `at`; the cursor then covers the rest, from the id field on. */
static int entry_cursor(const struct sp_object *object, uintptr_t at, struct sp_cursor *c)
{
	uint64_t length;

	*c = object_cursor(object, at);
	length = sp_cursor_unsigned(c, 4);
	if (c->failed || length == 0 || length == LENGTH_64BIT || length > sp_cursor_left(c))
		return -EINVAL;
	c->end = c->at + length;
	return 0;
}

/*
 * Reads the augmentation data that the letters after 'z' describe. An unknown letter ends the list.
 */
static void parse_augmentation(const struct sp_object *object, const uint8_t *letters, size_t n,
			       struct sp_cursor *data, struct sp_fde *fde)
{
	for (size_t i = 1; i < n; i++) {
		switch (letters[i]) {
		case 'R':
			fde->pointer_encoding = sp_cursor_u8(data);
			break;
		case 'L':
			sp_cursor_skip(data, 1);
			break;
		case 'P':
			/*
			 * The pointer is skipped: an indirect personality would need a read of the
			 * GOT.
			 */
			(void)read_pointer(object, data,
					   sp_cursor_u8(data) & (uint8_t)~PE_INDIRECT);
			break;
		case 'S':
			fde->signal_frame = true;
			break;
		case 'B': /* aarch64: addresses signed with the B key; we strip both. */
		case 'G': /* aarch64: the stack is tagged memory. */
			break;
		default:
			return;
		}
	}
}

static int parse_cie(const struct sp_object *object, uintptr_t at, struct sp_fde *fde)
{
	struct sp_cursor c;
	const uint8_t *letters;
	size_t n = 0;
	uint8_t version;

	if (entry_cursor(object, at, &c) != 0 || sp_cursor_unsigned(&c, 4) != 0)
		return -EINVAL;
	version = sp_cursor_u8(&c);
	letters = c.at;
	while (sp_cursor_u8(&c) != 0)
		n++;
	if (c.failed || n > AUGMENTATION_MAX || (n > 0 && letters[0] != 'z'))
		return -EINVAL;
	if (version == 4)
		sp_cursor_skip(&c, 2); /* address and segment selector size */
	else if (version != 1 && version != 3)
		return -EINVAL;
	fde->code_align = sp_cursor_uleb(&c);
	fde->data_align = sp_cursor_sleb(&c);
	fde->return_reg = version == 1 ? sp_cursor_u8(&c) : sp_cursor_uleb(&c);
	fde->pointer_encoding = PE_ABSPTR;
	fde->signal_frame = false;
	fde->has_augmentation = n > 0;
	if (n > 0) {
		uint64_t length = sp_cursor_uleb(&c);
		struct sp_cursor data = c;

		sp_cursor_skip(&c, length);
		data.end = c.at;
		parse_augmentation(object, letters, n, &data, fde);
		c.failed |= data.failed;
	}
	fde->initial = c;
	return c.failed ? -EINVAL : 0;
}

int sp_ehframe_parse(const struct sp_object *object, uintptr_t at, struct sp_fde *fde)
{
	struct sp_cursor c;
	uintptr_t id_at;
	uint64_t id;

	if (entry_cursor(object, at, &c) != 0)
		return -EINVAL;
	id_at = (uintptr_t)c.at;
	id = sp_cursor_unsigned(&c, 4);
	/* An id of 0 marks a CIE. A CIE outside of the object is not read. */
	if (c.failed || id == 0 || parse_cie(object, id_at - id, fde) != 0)
		return -EINVAL;
	fde->pc_begin = read_pointer(object, &c, fde->pointer_encoding);
	fde->pc_end = fde->pc_begin + (uintptr_t)read_format(&c, fde->pointer_encoding);
	if (fde->has_augmentation)
		sp_cursor_skip(&c, sp_cursor_uleb(&c));
	fde->program = c;
	return c.failed || fde->pc_end < fde->pc_begin ? -EINVAL : 0;
}

/* Half of a table row: a signed offset from the header. */
static uintptr_t row_value(const struct sp_object *object, const uint8_t *at)
{
	return object->eh_frame_hdr + (uintptr_t)(int32_t)sp_load_unsigned(at, 4);
}

/* Finds the last row whose function starts at or before pc. */
static int search_table(const struct sp_object *object, const struct sp_cursor *table,
			uint64_t rows, uintptr_t pc, uintptr_t *fde_at)
{
	uint64_t low = 0;
	uint64_t high = rows;

	if (rows > sp_cursor_left(table) / TABLE_ROW_BYTES)
		return -EINVAL;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (row_value(object, table->at + middle * TABLE_ROW_BYTES) <= pc)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0)
		return -ENOENT;
	*fde_at = row_value(object, table->at + (low - 1) * TABLE_ROW_BYTES + 4);
	return 0;
}

int sp_ehframe_find(const struct sp_object *object, uintptr_t pc, struct sp_fde *fde)
{
	struct sp_cursor c = object_cursor(object, object->eh_frame_hdr);
	uint8_t version = sp_cursor_u8(&c);
	uint8_t frame_encoding = sp_cursor_u8(&c);
	uint8_t count_encoding = sp_cursor_u8(&c);
	uint8_t table_encoding = sp_cursor_u8(&c);
	uintptr_t fde_at;
	uint64_t rows;
	int rc;

	/* The address of .eh_frame, which the table does not need. */
	(void)read_pointer(object, &c, frame_encoding);
	rows = read_pointer(object, &c, count_encoding);
	if (c.failed || version != EH_FRAME_HDR_VERSION || table_encoding != TABLE_ENCODING)
		return -EINVAL;
	rc = search_table(object, &c, rows, pc, &fde_at);
	if (rc != 0)
		return rc;
	if (sp_ehframe_parse(object, fde_at, fde) != 0)
		return -EINVAL;
	return fde->pc_begin <= pc && pc < fde->pc_end ? 0 : -ENOENT;
}
