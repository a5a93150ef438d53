/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binary search of .eh_frame_hdr and just enough of .eh_frame to know how long the function is:
 * without its length the last function before a gap would swallow everything up to the next one.
 */
#include "export/fde.h"

#include <string.h>

/* DW_EH_PE_ pointer encodings (Linux Standard Base, "DWARF extensions") */
#define ENC_FORMAT 0x0fU
#define ENC_ABSPTR 0x00U
#define ENC_UDATA4 0x03U
#define ENC_UDATA8 0x04U
#define ENC_SDATA4 0x0bU
#define ENC_SDATA8 0x0cU
#define ENC_BASE 0x70U
#define ENC_PCREL 0x10U
#define ENC_DATAREL 0x30U
#define ENC_INDIRECT 0x80U

/* A position inside the segment; bad once a read would have left it. */
struct cursor {
	uintptr_t at;
	uintptr_t lo;
	uintptr_t hi;
	bool bad;
};

static void take(struct cursor *c, void *out, size_t n)
{
	if (c->bad || c->at < c->lo || c->at > c->hi || c->hi - c->at < n) {
		c->bad = true;
		memset(out, 0, n);
		return;
	}
	/* The cursor is an address of mapped memory by construction. */
	memcpy(out, (const void *)c->at, n); // NOLINT(performance-no-int-to-ptr)
	c->at += n;
}

static uint8_t take_u8(struct cursor *c)
{
	uint8_t v;

	take(c, &v, sizeof(v));
	return v;
}

static uint32_t take_u32(struct cursor *c)
{
	uint32_t v;

	take(c, &v, sizeof(v));
	return v;
}

static uint64_t take_u64(struct cursor *c)
{
	uint64_t v;

	take(c, &v, sizeof(v));
	return v;
}

static uint64_t take_uleb(struct cursor *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		uint8_t byte = take_u8(c);

		v |= (uint64_t)(byte & 0x7fU) << shift;
		if ((byte & 0x80U) == 0)
			return v;
	}
	c->bad = true;
	return 0;
}

/* A pointer in encoding enc; data is what "data relative" counts from. */
static uint64_t take_encoded(struct cursor *c, unsigned enc, uint64_t data)
{
	uint64_t base = (enc & ENC_BASE) == ENC_PCREL ? c->at : 0;
	uint64_t v = 0;

	if ((enc & ENC_BASE) == ENC_DATAREL)
		base = data;
	else if ((enc & ENC_BASE) != ENC_PCREL && (enc & ENC_BASE) != 0)
		c->bad = true;
	switch (enc & ENC_FORMAT) {
	case ENC_UDATA4:
		v = take_u32(c);
		break;
	case ENC_SDATA4:
		v = (uint64_t)(int64_t)(int32_t)take_u32(c);
		break;
	case ENC_ABSPTR:
	case ENC_UDATA8:
	case ENC_SDATA8:
		v = take_u64(c);
		break;
	default:
		c->bad = true;
	}
	if ((enc & ENC_INDIRECT) != 0)
		c->bad = true;
	return base + v;
}

/* Encoding of the addresses in FDEs that belong to the CIE at `at`. */
static unsigned cie_encoding(struct cursor c, uintptr_t at)
{
	char aug[8] = "";
	size_t n = 0;
	uint8_t version;

	c.at = at;
	if (take_u32(&c) == UINT32_MAX || take_u32(&c) != 0)
		return ENC_INDIRECT;
	version = take_u8(&c);
	while (n < sizeof(aug) - 1 && (aug[n] = (char)take_u8(&c)) != '\0')
		n++;
	if (aug[0] != 'z' || c.bad)
		return n == 0 && !c.bad ? ENC_ABSPTR : ENC_INDIRECT;
	take_uleb(&c); /* code alignment */
	take_uleb(&c); /* data alignment: signed, but as long */
	if (version == 1)
		take_u8(&c);
	else
		take_uleb(&c);
	take_uleb(&c); /* length of the augmentation data */
	for (size_t i = 1; i < n && !c.bad; i++) {
		if (aug[i] == 'R')
			return take_u8(&c);
		if (aug[i] == 'L')
			take_u8(&c);
		else if (aug[i] == 'P')
			take_encoded(&c, take_u8(&c) & ~ENC_INDIRECT, 0);
		else if (aug[i] != 'S' && aug[i] != 'B')
			break;
	}
	return c.bad ? ENC_INDIRECT : ENC_ABSPTR;
}

static bool fde_range(struct cursor c, uint64_t fde, uint64_t *start, uint64_t *end)
{
	uint32_t back;
	unsigned enc;
	uintptr_t id;

	c.at = (uintptr_t)fde;
	if (take_u32(&c) == UINT32_MAX)
		return false;
	id = c.at;
	back = take_u32(&c);
	if (c.bad || back == 0)
		return false;
	enc = cie_encoding(c, id - back);
	*start = take_encoded(&c, enc, 0);
	*end = *start + take_encoded(&c, enc & ENC_FORMAT, 0);
	return !c.bad;
}

bool sp_fde_find(const uint8_t *hdr, uintptr_t lo, uintptr_t hi, uint64_t pc, uint64_t *start,
		 uint64_t *end)
{
	struct cursor c = {.at = (uintptr_t)hdr, .lo = lo, .hi = hi};
	uint8_t version = take_u8(&c);
	uint8_t frame_enc = take_u8(&c);
	uint8_t count_enc = take_u8(&c);
	uint8_t table_enc = take_u8(&c);
	uint64_t count, low = 0, fde;
	uintptr_t table;

	if (c.bad || version != 1 || table_enc != (ENC_DATAREL | ENC_SDATA4))
		return false;
	take_encoded(&c, frame_enc, (uintptr_t)hdr);
	count = take_encoded(&c, count_enc, (uintptr_t)hdr);
	table = c.at;
	if (c.bad || count == 0 || count > (hi - table) / 8)
		return false;
	for (uint64_t high = count; high - low > 1;) {
		uint64_t mid = low + (high - low) / 2;

		c.at = table + (uintptr_t)mid * 8;
		if (take_encoded(&c, table_enc, (uintptr_t)hdr) <= pc)
			low = mid;
		else
			high = mid;
	}
	c.at = table + (uintptr_t)low * 8 + 4;
	fde = take_encoded(&c, table_enc, (uintptr_t)hdr);
	return !c.bad && fde_range(c, fde, start, end) && pc >= *start && pc < *end;
}
