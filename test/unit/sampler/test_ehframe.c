/* SPDX-License-Identifier: Apache-2.0 */
/*
 * .eh_frame_hdr and .eh_frame made by hand: lookup, augmentations, pointer encodings, and damage of every kind, in
 * front of an unreadable page.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "sampler/unwind/cfi_sig.h"
#include "sampler/unwind/ehframe_sig.h"
#include "test/unit/sampler/dwarf_bytes.h"

/* A hand-made object that ends at an unreadable page. */
struct image {
	uint8_t *start;
	uint8_t *limit;
	size_t n;
	size_t cie;
	struct sp_object object;
};

#define IMAGE_BYTES 512U
#define FUNCTION_AT 0x100000U /* address of the code that the image describes; it is never read */

static void put(struct image *m, uint64_t value, unsigned bytes)
{
	cr_assert(m->n + bytes <= IMAGE_BYTES);
	memcpy(m->start + m->n, &value, bytes);
	m->n += bytes;
}

static void put_bytes(struct image *m, const void *bytes, size_t n)
{
	cr_assert(m->n + n <= IMAGE_BYTES);
	memcpy(m->start + m->n, bytes, n);
	m->n += n;
}

/* Entries are padded to 8 bytes with nops. */
static void end_entry(struct image *m, size_t entry)
{
	uint32_t length;

	while ((m->n - entry) % 8 != 0)
		put(m, 0, 1);
	length = (uint32_t)(m->n - entry - 4);
	memcpy(m->start + entry, &length, 4);
}

static void image_new(struct image *m)
{
	uint8_t *pages = mmap(NULL, 3 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(pages, MAP_FAILED);
	cr_assert_eq(mprotect(pages + 4096, 4096, PROT_READ | PROT_WRITE), 0);
	m->limit = pages + 2 * 4096;
	m->start = m->limit - IMAGE_BYTES;
	m->n = 0;
}

/* Moves the image up against the unreadable page. */
static void image_done(struct image *m)
{
	memmove(m->limit - m->n, m->start, m->n);
	m->start = m->limit - m->n;
	m->object =
		(struct sp_object){(uintptr_t)m->start, (uintptr_t)m->limit, (uintptr_t)m->start};
}

static void image_free(struct image *m)
{
	munmap(m->limit - 2 * 4096, 3 * 4096);
}

static void put_cie(struct image *m, uint8_t version, const char *letters, const void *data,
		    size_t data_n)
{
	m->cie = m->n;
	put(m, 0, 4);
	put(m, 0, 4);
	put(m, version, 1);
	put_bytes(m, letters, strlen(letters) + 1);
	if (version == 4)
		put(m, 0x0008, 2);
	put(m, 1, 1);
	put(m, 0x78, 1); /* -8 */
	put(m, SP_ARCH_REG_PC, 1);
	if (letters[0] == 'z') {
		put(m, data_n, 1);
		put_bytes(m, data, data_n);
	}
	put_bytes(m, "\x0c\x07\x08\x90\x01", 5);
	end_entry(m, m->cie);
}

/* An FDE of the last CIE for [start, start + 16), with 4-byte pc-relative pointers. */
static size_t put_fde(struct image *m, uint32_t start, bool augmented)
{
	size_t entry = m->n;

	put(m, 0, 4);
	put(m, m->n - m->cie, 4);
	put(m, (uint32_t)(start - m->n), 4);
	put(m, 16, 4);
	if (augmented)
		put(m, 0, 1);
	put_bytes(m, "\x41\x0e\x10", 3);
	end_entry(m, entry);
	return entry;
}

/* Header, CIE, three FDEs with a gap between the second and the third, terminator. */
static void image_usual(struct image *m)
{
	size_t fde[3];

	image_new(m);
	put(m, 0x3b031b01, 4);
	put(m, 12 + 24 - 4, 4); /* .eh_frame, relative to this field */
	put(m, 3, 4);
	m->n += 24; /* the table, filled in below */
	put_cie(m, 1, "zR", "\x1b", 1);
	for (uint32_t i = 0; i < 3; i++)
		fde[i] = put_fde(m, FUNCTION_AT + i * 16 + (i == 2 ? 32 : 0), true);
	put(m, 0, 4);
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t row[2] = {FUNCTION_AT + i * 16 + (i == 2 ? 32 : 0), (uint32_t)fde[i]};

		memcpy(m->start + 12 + 8 * i, row, 8);
	}
	image_done(m);
}

Test(ehframe, finds_functions_by_the_table, .timeout = 20)
{
	struct image m;
	struct sp_fde fde;
	uintptr_t code;

	image_usual(&m);
	code = m.object.start + FUNCTION_AT;

	cr_assert_eq(sp_ehframe_find(&m.object, code, &fde), 0);
	cr_assert_eq(fde.pc_begin, code);
	cr_assert_eq(fde.pc_end, code + 16);
	cr_assert_eq(fde.data_align, -8);
	cr_assert_eq(fde.return_reg, SP_ARCH_REG_PC);
	cr_assert_not(fde.signal_frame);
	cr_assert_eq(sp_ehframe_find(&m.object, code + 15, &fde), 0);
	cr_assert_eq(fde.pc_begin, code);
	cr_assert_eq(sp_ehframe_find(&m.object, code + 16, &fde), 0);
	cr_assert_eq(fde.pc_begin, code + 16);
	cr_assert_eq(sp_ehframe_find(&m.object, code + 64, &fde), 0);
	cr_assert_eq(fde.pc_begin, code + 64);
	cr_assert_neq(sp_ehframe_find(&m.object, code - 1, &fde), 0);
	cr_assert_neq(sp_ehframe_find(&m.object, code + 32, &fde), 0);
	cr_assert_neq(sp_ehframe_find(&m.object, code + 80, &fde), 0);
	image_free(&m);
}

Test(ehframe, reports_a_gap_as_no_entry, .timeout = 20)
{
	struct image m;
	struct sp_fde fde;

	image_usual(&m);
	cr_assert_eq(sp_ehframe_find(&m.object, m.object.start + FUNCTION_AT + 40, &fde), -ENOENT);
	cr_assert_eq(sp_ehframe_find(&m.object, m.object.start, &fde), -ENOENT);
	image_free(&m);
}

/* One CIE and one FDE. */
static int find_with_cie(uint8_t version, const char *letters, const void *data, size_t n,
			 struct sp_fde *fde)
{
	struct image m;
	size_t fde_at;
	int rc;

	image_new(&m);
	put(&m, 0x3b031b01, 4);
	put(&m, 0, 4);
	put(&m, 1, 4);
	put(&m, FUNCTION_AT, 4);
	put(&m, 0, 4);
	put_cie(&m, version, letters, data, n);
	fde_at = put_fde(&m, FUNCTION_AT, letters[0] == 'z');
	memcpy(m.start + 16, &fde_at, 4);
	image_done(&m);
	rc = sp_ehframe_find(&m.object, m.object.start + FUNCTION_AT, fde);
	image_free(&m);
	return rc;
}

Test(ehframe, understands_every_augmentation, .timeout = 20)
{
	struct sp_fde fde;

	cr_assert_eq(find_with_cie(1, "zR", "\x1b", 1, &fde), 0);
	cr_assert_eq(find_with_cie(3, "zR", "\x1b", 1, &fde), 0);
	cr_assert_eq(find_with_cie(4, "zR", "\x1b", 1, &fde), 0);
	cr_assert_eq(find_with_cie(1, "zPLR", "\x9b\1\2\3\4\x1b\x1b", 7, &fde), 0);
	cr_assert_eq(find_with_cie(1, "zPLR", "\x00\1\2\3\4\5\6\7\x08\x1b\x1b", 11, &fde), 0);
	cr_assert_not(fde.signal_frame);
	cr_assert_eq(find_with_cie(1, "zRS", "\x1b", 1, &fde), 0);
	cr_assert(fde.signal_frame);
	cr_assert_eq(find_with_cie(1, "zRB", "\x1b", 1, &fde), 0);
	cr_assert_eq(find_with_cie(1, "zRG", "\x1b", 1, &fde), 0);
	cr_assert_eq(find_with_cie(1, "zRx", "\x1b\1\2\3", 4, &fde), 0);
}

Test(ehframe, refuses_a_cie_that_it_cannot_read, .timeout = 20)
{
	struct sp_fde fde;

	cr_assert_neq(find_with_cie(2, "zR", "\x1b", 1, &fde), 0);
	cr_assert_neq(find_with_cie(5, "zR", "\x1b", 1, &fde), 0);
	cr_assert_neq(find_with_cie(1, "eh", "", 0, &fde), 0);
	cr_assert_neq(find_with_cie(1, "zRabcdefgh", "\x1b", 1, &fde), 0);
	cr_assert_neq(find_with_cie(1, "zR", "\xff", 1, &fde), 0);
	cr_assert_neq(find_with_cie(1, "zR", "\x4b", 1, &fde), 0); /* function-relative */
	cr_assert_neq(find_with_cie(1, "zPLR", "\x9b\1\2", 3, &fde), 0);
}

/* A header with one row, whose count has that encoding. */
static int find_with_count(uint8_t encoding, const void *count, size_t n)
{
	struct image m;
	struct sp_fde fde;
	uint32_t row[2] = {FUNCTION_AT};
	size_t row_at;
	int rc;

	image_new(&m);
	put(&m, 0x3b001b01, 4);
	m.start[2] = encoding;
	put(&m, 0, 4);
	put_bytes(&m, count, n);
	row_at = m.n;
	put_bytes(&m, row, sizeof(row));
	put_cie(&m, 1, "zR", "\x1b", 1);
	row[1] = (uint32_t)put_fde(&m, FUNCTION_AT, true);
	memcpy(m.start + row_at, row, sizeof(row));
	image_done(&m);
	rc = sp_ehframe_find(&m.object, m.object.start + FUNCTION_AT, &fde);
	image_free(&m);
	return rc;
}

Test(ehframe, reads_the_encodings_that_linkers_write, .timeout = 20)
{
	cr_assert_eq(find_with_count(0x03, BYTES(1, 0, 0, 0)), 0);
	cr_assert_eq(find_with_count(0x0b, BYTES(1, 0, 0, 0)), 0);
	cr_assert_eq(find_with_count(0x04, BYTES(1, 0, 0, 0, 0, 0, 0, 0)), 0);
	cr_assert_eq(find_with_count(0x0c, BYTES(1, 0, 0, 0, 0, 0, 0, 0)), 0);
	cr_assert_eq(find_with_count(0x00, BYTES(1, 0, 0, 0, 0, 0, 0, 0)), 0);
	cr_assert_eq(find_with_count(0x03, BYTES(0, 0, 0, 0)), -ENOENT);
	cr_assert_eq(find_with_count(0x03, BYTES(200, 0, 0, 0)), -EINVAL);
	cr_assert_eq(find_with_count(0x02, BYTES(1, 0)), -EINVAL);
	cr_assert_eq(find_with_count(0x83, BYTES(1, 0, 0, 0)), -EINVAL, "indirect");
	cr_assert_eq(find_with_count(0xff, BYTES(1, 0, 0, 0)), -EINVAL, "omitted");
}

Test(ehframe, refuses_a_header_of_another_form, .timeout = 20)
{
	struct image m;
	struct sp_fde fde;

	image_usual(&m);
	m.start[3] = 0xff;
	cr_assert_eq(sp_ehframe_find(&m.object, m.object.start + FUNCTION_AT, &fde), -EINVAL);
	m.start[3] = 0x3b;
	m.start[0] = 2;
	cr_assert_eq(sp_ehframe_find(&m.object, m.object.start + FUNCTION_AT, &fde), -EINVAL);
	image_free(&m);
}

/* After a change of any bytes there are only three answers, and no read leaves the image. */
static void survive(const struct image *m)
{
	struct sp_cfi_row row;
	struct sp_fde fde;

	for (uintptr_t at = 0; at < 96; at += 5) {
		uintptr_t pc = m->object.start + FUNCTION_AT + at;
		int rc = sp_ehframe_find(&m->object, pc, &fde);

		cr_assert(rc == 0 || rc == -ENOENT || rc == -EINVAL);
		if (rc == 0)
			rc = sp_cfi_decode(&m->object, &fde, pc, &row);
		cr_assert(rc == 0 || rc == -ENOENT || rc == -EINVAL);
	}
}

Test(ehframe, survives_truncation_at_every_byte, .timeout = 20)
{
	struct image m;
	size_t n;

	image_usual(&m);
	n = m.n;
	for (size_t cut = 1; cut <= n; cut++) {
		/* Moves the end of the data, not the end of the object, into the unreadable page. */
		memmove(m.start + 1, m.start, m.n - 1);
		m.start++;
		m.n--;
		m.object.start++;
		m.object.eh_frame_hdr++;
		survive(&m);
	}
	image_free(&m);
}

Test(ehframe, survives_random_damage, .timeout = 20)
{
	uint64_t seed = 88172645463325252;

	for (unsigned round = 0; round < 20000; round++) {
		static struct image m;

		if (round == 0)
			image_usual(&m);
		for (unsigned i = 0; i < 1 + round % 3; i++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			m.start[seed % m.n] = (uint8_t)(seed >> 40);
		}
		survive(&m);
		if (round % 8 == 7) {
			image_free(&m);
			image_usual(&m);
		}
	}
}
