/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of frames (frame_table.h), in three parts.
 *
 * Sections are found by the file's section headers, because no program header mentions them. A .debug_frame may be
 * packed by zlib. It differs from an .eh_frame in the number that marks a CIE and in how an FDE points to its CIE.
 * Both are rewritten in the copy, so that one reader (ehframe_sig.h) reads both.
 *
 * An entry is kept if its code lies in an executable segment, and if all of its instructions are known. If two
 * functions claim the same address, both entries are kept, and lookups find the last one of .eh_frame rather than
 * others, and rather than .debug_frame.
 *
 * Kept entries are written in one form of .eh_frame: a CIE with "zR", or "zRS" for the frame of a signal; begin and
 * size of the code as 8 bytes, begin relative to its own place (SP_FRAME_TABLE_AT). In front of each FDE is a search
 * table with one row, which gives this FDE for every address behind the begin. One table of all FDEs would not do,
 * because a row of libunwind's tables reaches only 2 GiB.
 *
 * Context: the exporter.
 */
#include "export/objects/frame_table.h"

#include <elf.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "export/util/containers.h"
#include "sampler/base/arch_sig.h"
#include "sampler/unwind/ehframe_sig.h"

#define SP_SECTIONS_MAX 4096U
#define SP_SECTION_NAMES_MAX 65536U

/* A function: [begin, begin + bytes), an ELF address. */
struct row {
	uint64_t begin;
	uint32_t bytes;
	uint32_t at; /* offset of its row in the table */
};

struct sp_frame_table {
	struct row *row; /* sorted by begin */
	size_t rows, rows_cap;
	uint8_t *byte;
	size_t bytes, bytes_cap;
};

static _Atomic size_t bytes_of_all;

/*
 * --- Sections ------------------------------------------------------------------------------------
 */

/* A copy of one section's bytes, from malloc(). */
struct section {
	uint8_t *byte; /* NULL = there is none */
	size_t bytes;
	uint64_t addr; /* ELF address at which it is mapped, 0 = not mapped */
};

static bool read_bytes(const struct sp_frame_file *file, uint64_t offset, size_t bytes,
		       struct section *s)
{
	s->byte = bytes != 0 ? malloc(bytes) : NULL;
	s->bytes = bytes;
	if (s->byte != NULL && file->read(file->arg, offset, s->byte, bytes))
		return true;
	free(s->byte);
	s->byte = NULL;
	return false;
}

/* The size that the header claims bounds what zlib writes. */
static void unpack(struct section *s)
{
	struct section out = {.addr = s->addr};
	Elf64_Chdr head;
	uLongf got;

	if (s->bytes > sizeof(head)) {
		memcpy(&head, s->byte, sizeof(head));
		if (head.ch_type == ELFCOMPRESS_ZLIB && head.ch_size != 0 &&
		    head.ch_size <= SP_FRAME_SECTION_MAX)
			out.byte = malloc((size_t)head.ch_size);
	}
	if (out.byte != NULL) {
		got = (uLongf)head.ch_size;
		if (uncompress(out.byte, &got, s->byte + sizeof(head),
			       (uLong)(s->bytes - sizeof(head))) == Z_OK) {
			out.bytes = (size_t)got;
		} else {
			free(out.byte);
			out.byte = NULL;
		}
	}
	free(s->byte);
	*s = out;
}

static void read_section(const struct sp_frame_file *file, const Elf64_Shdr *sh, struct section *s)
{
	bool is_mapped = (sh->sh_flags & SHF_ALLOC) != 0;

	if (s->byte != NULL || sh->sh_type == SHT_NOBITS || sh->sh_size > SP_FRAME_SECTION_MAX)
		return;
	s->addr = is_mapped ? sh->sh_addr : 0;
	if (read_bytes(file, sh->sh_offset, (size_t)sh->sh_size, s) && !is_mapped &&
	    (sh->sh_flags & SHF_COMPRESSED) != 0)
		unpack(s);
}

static bool is_named(const struct section *names, const Elf64_Shdr *sh, const char *name)
{
	size_t len = strlen(name) + 1;

	return sh->sh_name < names->bytes && names->bytes - sh->sh_name >= len &&
	       memcmp(names->byte + sh->sh_name, name, len) == 0;
}

static bool read_headers(const struct sp_frame_file *file, Elf64_Ehdr *eh, struct section *headers)
{
	return file->read(file->arg, 0, eh, sizeof(*eh)) && eh->e_shentsize == sizeof(Elf64_Shdr) &&
	       eh->e_shnum <= SP_SECTIONS_MAX && eh->e_shstrndx < eh->e_shnum &&
	       read_bytes(file, eh->e_shoff, eh->e_shnum * sizeof(Elf64_Shdr), headers);
}

static void read_sections(const struct sp_frame_file *file, struct section *debug,
			  struct section *eh_frame)
{
	struct section headers = {0};
	struct section names = {0};
	const Elf64_Shdr *sh;
	Elf64_Ehdr eh;

	if (!read_headers(file, &eh, &headers))
		return;
	sh = (const void *)headers.byte;
	if (sh[eh.e_shstrndx].sh_size <= SP_SECTION_NAMES_MAX &&
	    read_bytes(file, sh[eh.e_shstrndx].sh_offset, (size_t)sh[eh.e_shstrndx].sh_size,
		       &names)) {
		for (unsigned i = 0; i < eh.e_shnum; i++) {
			if (is_named(&names, &sh[i], ".debug_frame"))
				read_section(file, &sh[i], debug);
			if (eh_frame != NULL && is_named(&names, &sh[i], ".eh_frame") &&
			    (sh[i].sh_flags & SHF_ALLOC) != 0)
				read_section(file, &sh[i], eh_frame);
		}
	}
	free(names.byte);
	free(headers.byte);
}

/*
 * --- Entries -------------------------------------------------------------------------------------
 */

#define SP_ID_BYTES 4U
#define SP_LENGTH_64BIT UINT32_C(0xffffffff)
#define SP_DEBUG_CIE UINT32_C(0xffffffff)

/*
 * The next entry of a section: where it begins, and its bytes behind the length. False at the end, and at bytes that
 * are no entry, because no later entry can be found behind them.
 */
static bool next_entry(struct sp_cursor *c, const uint8_t **at, struct sp_cursor *entry)
{
	uint64_t length;

	do {
		*at = c->at;
		if (sp_cursor_left(c) < SP_ID_BYTES)
			return false;
		length = sp_cursor_unsigned(c, SP_ID_BYTES);
	} while (length ==
		 0); /* padding that a linker has left between the sections of two objects */
	if (length == SP_LENGTH_64BIT || length < SP_ID_BYTES || length > sp_cursor_left(c))
		return false;
	*entry = *c;
	entry->end = c->at + length;
	sp_cursor_skip(c, length);
	return true;
}

static struct sp_cursor over(const struct section *s)
{
	return sp_cursor_over((uintptr_t)s->byte, (uintptr_t)s->byte + s->bytes);
}

/* From .debug_frame to .eh_frame: a CIE has 0 there, an FDE the distance to its CIE. */
static void rewrite_ids(const struct section *s)
{
	struct sp_cursor c = over(s);
	struct sp_cursor entry;
	const uint8_t *at;

	while (next_entry(&c, &at, &entry)) {
		uint32_t place = (uint32_t)(entry.at - s->byte);
		uint32_t id = (uint32_t)sp_load_unsigned(entry.at, SP_ID_BYTES);

		/* A CIE behind its FDE is not found, but no compiler writes one there. */
		id = id == SP_DEBUG_CIE ? 0 : place - id;
		memcpy(s->byte + place, &id, sizeof(id));
	}
}

/*
 * The operands of call frame instructions, by instruction; the instructions in the high two bits are handled
 * separately.
 */
enum operands { NONE = 1, BYTE, HALF, WORD, LEB, TWO_LEBS, BLOCK, LEB_BLOCK };

static const uint8_t operands[64] = {
	[0x00] = NONE,     [0x02] = BYTE,      [0x03] = HALF,  [0x04] = WORD,
	[0x05] = TWO_LEBS, [0x06] = LEB,       [0x07] = LEB,   [0x08] = LEB,
	[0x09] = TWO_LEBS, [0x0a] = NONE,      [0x0b] = NONE,  [0x0c] = TWO_LEBS,
	[0x0d] = LEB,      [0x0e] = LEB,       [0x0f] = BLOCK, [0x10] = LEB_BLOCK,
	[0x11] = TWO_LEBS, [0x12] = TWO_LEBS,  [0x13] = LEB,   [0x14] = TWO_LEBS,
	[0x15] = TWO_LEBS, [0x16] = LEB_BLOCK, [0x2d] = NONE,  [0x2e] = LEB,
};

static void skip_operands(struct sp_cursor *c, uint8_t kind)
{
	if (kind == LEB || kind == TWO_LEBS || kind == LEB_BLOCK)
		(void)sp_cursor_uleb(c);
	if (kind == TWO_LEBS)
		(void)sp_cursor_uleb(c);
	if (kind == BLOCK || kind == LEB_BLOCK)
		sp_cursor_skip(c, sp_cursor_uleb(c));
	if (kind == BYTE || kind == HALF || kind == WORD)
		sp_cursor_skip(c, UINT64_C(1) << (kind - BYTE));
	c->failed |= kind == 0;
}

/*
 * Whether all instructions are known. An entry with DW_CFA_set_loc counts as unknown: its operand
 * is an address in the form that the CIE names, and the rewritten CIE has another form.
 */
static bool are_known(struct sp_cursor c)
{
	while (sp_cursor_left(&c) > 0) {
		uint8_t op = sp_cursor_u8(&c);

		if (op >= 0x40)
			skip_operands(&c, op >> 6 == 2 ? LEB : NONE);
		else
			skip_operands(&c, operands[op]);
	}
	return !c.failed;
}

static bool is_code(const struct sp_object_layout *f, uint64_t begin, uint64_t bytes)
{
	for (unsigned i = 0; i < f->loads; i++) {
		const struct sp_object_load *l = &f->load[i];

		if ((l->flags & PF_X) != 0 && begin >= l->vaddr && begin - l->vaddr < l->memsz &&
		    bytes <= l->memsz - (begin - l->vaddr))
			return true;
	}
	return false;
}

/*
 * --- The table -----------------------------------------------------------------------------------
 */

#define SP_PCREL 0x10
#define SP_BASE_MASK 0x70
#define SP_PCREL_SDATA8 0x1c

/* More bytes than a CIE or an FDE needs without its instructions. */
#define SP_FIELDS_MAX 64U

static bool put(struct sp_frame_table *t, const void *bytes, size_t n)
{
	if (!SP_GROW(t->byte, t->bytes_cap, t->bytes + n, SP_FRAME_SECTION_MAX))
		return false;
	memcpy(t->byte + t->bytes, bytes, n);
	t->bytes += n;
	return true;
}

struct fields {
	uint8_t byte[SP_FIELDS_MAX];
	size_t n;
};

static void add(struct fields *f, uint64_t value, unsigned bytes)
{
	/* Both processors are little-endian. */
	memcpy(f->byte + f->n, &value, bytes);
	f->n += bytes;
}

static void add_leb(struct fields *f, int64_t value, bool is_signed)
{
	uint64_t left = (uint64_t)value;
	bool more = true;

	while (more) {
		uint8_t group = left & 0x7f;

		left = is_signed ? (uint64_t)((int64_t)left >> 7) : left >> 7;
		more = is_signed ? left != ((group & 0x40) != 0 ? UINT64_MAX : 0) : left != 0;
		f->byte[f->n++] = (uint8_t)(more ? group | 0x80 : group);
	}
}

/* Length, fields, instructions. */
static bool put_entry(struct sp_frame_table *t, const struct fields *f,
		      const struct sp_cursor *code)
{
	size_t n = sp_cursor_left(code);
	uint32_t length = (uint32_t)(f->n + n);

	return put(t, &length, sizeof(length)) && put(t, f->byte, f->n) && put(t, code->at, n);
}

static bool put_cie(struct sp_frame_table *t, const struct sp_fde *fde)
{
	static const char letters[] = "zR";
	static const char letters_of_signal[] = "zRS";
	struct fields f = {.n = 0};

	add(&f, 0, SP_ID_BYTES);
	add(&f, 1, 1);
	for (const char *l = fde->signal_frame ? letters_of_signal : letters; *l != '\0'; l++)
		add(&f, (uint8_t)*l, 1);
	add(&f, 0, 1);
	add_leb(&f, (int64_t)fde->code_align, false);
	add_leb(&f, fde->data_align, true);
	add(&f, fde->return_reg, 1);
	add(&f, 1, 1);
	add(&f, SP_PCREL_SDATA8, 1);
	return put_entry(t, &f, &fde->initial);
}

static bool put_fde(struct sp_frame_table *t, const struct sp_fde *fde, uint64_t begin, size_t cie)
{
	struct row row = {begin, (uint32_t)(fde->pc_end - fde->pc_begin), (uint32_t)t->bytes};
	const int32_t head[2] = {INT32_MIN, sizeof(head)};
	struct fields f = {.n = 0};
	size_t at = t->bytes + sizeof(head) + sizeof(uint32_t); /* behind the length of the entry */

	add(&f, at - cie, SP_ID_BYTES);
	add(&f, begin - (SP_FRAME_TABLE_AT + at + f.n), 8);
	add(&f, row.bytes, 8);
	add(&f, 0, 1);
	if (!SP_GROW(t->row, t->rows_cap, t->rows + 1, SP_FRAME_ROWS_MAX) ||
	    !put(t, head, sizeof(head)) || !put_entry(t, &f, &fde->program))
		return false;
	t->row[t->rows++] = row;
	return true;
}

/* Where the code of that FDE begins. The reader has resolved a relative address against our copy of the section. */
static uint64_t begin_of(const struct section *s, const struct sp_fde *fde)
{
	uint64_t begin = fde->pc_begin;

	if ((fde->pointer_encoding & SP_BASE_MASK) == SP_PCREL)
		begin += s->addr - (uint64_t)(uintptr_t)s->byte;
	return begin;
}

static bool is_usable(const struct sp_object_layout *f, const struct section *s,
		      const struct sp_fde *fde)
{
	uint64_t bytes = fde->pc_end - fde->pc_begin;

	return fde->return_reg < SP_ARCH_REGS && bytes != 0 && bytes <= UINT32_MAX &&
	       is_code(f, begin_of(s, fde), bytes) && are_known(fde->program);
}

/* A compiler's CIE is a dozen bytes long. Each FDE may name another CIE, and each change of CIE costs a check. */
#define SP_CIE_CODE_MAX 256U

static bool is_usable_cie(const struct sp_fde *fde)
{
	return sp_cursor_left(&fde->initial) <= SP_CIE_CODE_MAX && are_known(fde->initial);
}

/* Adds the functions of a section, as long as there is memory and no bound is reached. */
static void add_section(struct sp_frame_table *t, const struct sp_object_layout *f,
			const struct section *s)
{
	const struct sp_object object = {.start = (uintptr_t)s->byte,
					 .end = (uintptr_t)s->byte + s->bytes};
	struct sp_cursor c = over(s);
	/* the initial instructions of the CIE that was written last */
	const uint8_t *initial = NULL;
	struct sp_cursor entry;
	const uint8_t *at;
	size_t cie = 0;

	while (next_entry(&c, &at, &entry)) {
		struct sp_fde fde;

		if (sp_ehframe_parse(&object, (uintptr_t)at, &fde) != 0 || !is_usable(f, s, &fde))
			continue;
		if (fde.initial.at != initial) {
			if (!is_usable_cie(&fde))
				continue;
			cie = t->bytes;
			initial = fde.initial.at;
			if (!put_cie(t, &fde))
				return;
		}
		if (!put_fde(t, &fde, begin_of(s, &fde), cie))
			return;
	}
}

static int by_begin(const void *a, const void *b)
{
	const struct row *x = a;
	const struct row *y = b;

	if (x->begin != y->begin)
		return x->begin < y->begin ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

static size_t bytes_of(const struct sp_frame_table *t)
{
	return t->bytes_cap + t->rows_cap * sizeof(*t->row);
}

struct sp_frame_table *sp_frame_table_new(const struct sp_object_layout *f,
					  const struct sp_frame_file *file)
{
	struct sp_frame_table *t = calloc(1, sizeof(*t));
	struct section debug = {0};
	struct section eh_frame = {0};

	if (t == NULL)
		return NULL;
	read_sections(file, &debug, f->eh_frame_hdr == 0 ? &eh_frame : NULL);
	if (debug.byte != NULL) {
		rewrite_ids(&debug);
		add_section(t, f, &debug);
	}
	if (eh_frame.byte != NULL)
		add_section(t, f, &eh_frame);
	free(debug.byte);
	free(eh_frame.byte);
	(void)atomic_fetch_add(&bytes_of_all, bytes_of(t));
	if (t->rows == 0 || atomic_load(&bytes_of_all) > SP_FRAME_BYTES_MAX) {
		sp_frame_table_free(t);
		return NULL;
	}
	qsort(t->row, t->rows, sizeof(*t->row), by_begin);
	return t;
}

void sp_frame_table_free(struct sp_frame_table *t)
{
	if (t == NULL)
		return;
	(void)atomic_fetch_sub(&bytes_of_all, bytes_of(t));
	free(t->row);
	free(t->byte);
	free(t);
}

bool sp_frame_table_find(const struct sp_frame_table *t, uint64_t addr, uint64_t *at)
{
	size_t n = t != NULL ? SP_SORTED_UPTO(t->row, t->rows, begin, addr) : 0;

	if (n == 0 || addr - t->row[n - 1].begin >= t->row[n - 1].bytes)
		return false;
	*at = t->row[n - 1].at;
	return true;
}

bool sp_frame_table_word(const struct sp_frame_table *t, uint64_t at, uint64_t *word)
{
	size_t left = at < t->bytes ? t->bytes - (size_t)at : 0;

	*word = 0;
	if (left != 0)
		memcpy(word, t->byte + at, left < sizeof(*word) ? left : sizeof(*word));
	return left != 0;
}
