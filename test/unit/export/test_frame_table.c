/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables for call frame information without a table. The test compares them with the linker's own table of the same
 * file.
 */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "export/objects/frame_table.h"
#include "sampler/unwind/ehframe_sig.h"

TestSuite(frame_table, .timeout = 60);

/* A file in memory. */
struct image {
	uint8_t *byte;
	size_t bytes;
};

static bool read_image(const void *arg, uint64_t offset, void *out, size_t bytes)
{
	const struct image *i = arg;
	size_t n = offset < i->bytes ? i->bytes - (size_t)offset : 0;

	memset(out, 0, bytes);
	memcpy(out, i->byte + (offset < i->bytes ? offset : 0), n < bytes ? n : bytes);
	return true;
}

static struct sp_frame_table *table_of(const struct image *i, const struct sp_object_layout *layout)
{
	return sp_frame_table_new(layout, &(struct sp_frame_file){read_image, i});
}

/*
 * --- Beside the table of a linker ----------------------------------------------------------------
 */

struct mapped {
	const char *name;
	struct image file;
	struct sp_object_load load[SP_OBJECT_LOADS];
	struct sp_object_layout layout;
	struct sp_object object; /* in our memory */
	uint64_t bias;
};

static int find_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct mapped *m = arg;

	(void)size;
	if (strstr(info->dlpi_name, m->name) == NULL)
		return 0;
	m->bias = info->dlpi_addr;
	m->layout.load = m->load;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_GNU_EH_FRAME)
			m->object.eh_frame_hdr = m->bias + p->p_vaddr;
		if (p->p_type != PT_LOAD || m->layout.loads == SP_OBJECT_LOADS)
			continue;
		m->load[m->layout.loads++] = (struct sp_object_load){
			p->p_vaddr, p->p_memsz, p->p_filesz, p->p_offset, p->p_flags};
		if (m->object.start == 0)
			m->object.start = m->bias + p->p_vaddr;
		if (p->p_flags == PF_R || p->p_flags == (PF_R | PF_X))
			m->object.end = m->bias + p->p_vaddr + p->p_memsz;
	}
	m->file.byte = NULL;
	if (m->object.eh_frame_hdr != 0) {
		struct stat st;
		int fd = open(info->dlpi_name, O_RDONLY | O_CLOEXEC);

		cr_assert_eq(fstat(fd, &st), 0);
		m->file.bytes = (size_t)st.st_size;
		m->file.byte = mmap(NULL, m->file.bytes, PROT_READ, MAP_PRIVATE, fd, 0);
		cr_assert_neq(m->file.byte, MAP_FAILED);
		close(fd);
	}
	return 1;
}

static uint64_t word_at(const struct sp_frame_table *t, uint64_t at)
{
	uint64_t word = 0;

	cr_assert(sp_frame_table_word(t, at, &word));
	return word;
}

/* Copies the bytes of the table from that offset on, as libunwind gets them. */
static uint8_t *copy_from(const struct sp_frame_table *t, uint64_t at, size_t bytes)
{
	uint8_t *copy = calloc(1, bytes + 8);

	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t word;

		if (!sp_frame_table_word(t, at + i, &word))
			break;
		memcpy(copy + i, &word, sizeof(word));
	}
	return copy;
}

/* Reads the FDE of that row in a copy of the table; addresses in it are relative to SP_FRAME_TABLE_AT. */
static void read_row(const struct sp_frame_table *t, uint64_t at, struct sp_fde *fde,
		     uint8_t **copy)
{
	struct sp_object whole;
	uint64_t begin;

	cr_assert_eq(word_at(t, at), UINT64_C(0x0000000880000000), "%#lx", word_at(t, at));
	*copy = copy_from(t, 0, at + 65536);
	whole = (struct sp_object){.start = (uintptr_t)*copy, .end = (uintptr_t)*copy + at + 65536};
	cr_assert_eq(sp_ehframe_parse(&whole, whole.start + at + 8, fde), 0);
	begin = fde->pc_begin - (uintptr_t)*copy + SP_FRAME_TABLE_AT;
	fde->pc_end = fde->pc_end - fde->pc_begin + begin;
	fde->pc_begin = begin;
}

static void expect_same_code(struct sp_cursor a, struct sp_cursor b)
{
	cr_assert_eq(sp_cursor_left(&a), sp_cursor_left(&b));
	cr_assert_arr_eq(a.at, b.at, sp_cursor_left(&a));
}

Test(frame_table, has_each_function_that_the_linkers_table_has)
{
	static const char *const names[] = {"libc.so", "libstdc++", "libcurl", "libm.so"};
	unsigned compared = 0;

	for (unsigned n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
		struct mapped m = {.name = names[n]};
		struct sp_frame_table *t;
		unsigned asked = 0;

		if (dl_iterate_phdr(find_object, &m) == 0 || m.file.byte == NULL)
			continue;
		t = table_of(&m.file, &m.layout);
		cr_assert_not_null(t, "%s", names[n]);
		for (uint64_t pc = m.object.start; pc < m.object.end && asked < 400; pc += 977) {
			struct sp_fde want;
			struct sp_fde got;
			uint8_t *copy;
			uint64_t at;

			if (sp_ehframe_find(&m.object, pc, &want) != 0) {
				cr_expect(!sp_frame_table_find(t, pc - m.bias, &at), "%#lx",
					  pc - m.bias);
				continue;
			}
			asked++;
			cr_assert(sp_frame_table_find(t, pc - m.bias, &at), "%s: %#lx", names[n],
				  pc - m.bias);
			read_row(t, at, &got, &copy);
			cr_assert_eq(got.pc_begin, want.pc_begin - m.bias);
			cr_assert_eq(got.pc_end, want.pc_end - m.bias);
			cr_assert_eq(got.code_align, want.code_align);
			cr_assert_eq(got.data_align, want.data_align);
			cr_assert_eq(got.return_reg, want.return_reg);
			cr_assert_eq(got.signal_frame, want.signal_frame);
			expect_same_code(got.initial, want.initial);
			expect_same_code(got.program, want.program);
			free(copy);
			compared++;
		}
		sp_frame_table_free(t);
	}
	cr_assert_gt(compared, 200, "%u", compared);
}

/*
 * --- .debug_frame --------------------------------------------------------------------------------
 */

#define CODE_AT 0x1000U
#define FILE_MAX 16384U

static const struct sp_object_load code = {CODE_AT, 0x1000, 0x1000, 0, PF_R | PF_X};
static const struct sp_object_layout layout = {
	.load = &code, .loads = 1, .lo = CODE_AT, .hi = 0x2000};

struct writer {
	uint8_t byte[FILE_MAX];
	size_t n;
};

static void put(struct writer *w, uint64_t value, unsigned bytes)
{
	memcpy(w->byte + w->n, &value, bytes);
	w->n += bytes;
}

static size_t put_cie(struct writer *w, uint8_t version, uint8_t op)
{
	size_t at = w->n;

	put(w, version == 4 ? 16 : 14, 4);
	put(w, UINT32_MAX, 4);
	put(w, version, 1);
	put(w, 0, 1);
	if (version == 4)
		put(w, 8, 2);
	put(w, 1, 1);    /* code alignment */
	put(w, 0x78, 1); /* data alignment -8 */
	put(w, 16, 1);   /* return address */
	put(w, 0x0c, 1); /* DW_CFA_def_cfa r7, 8 */
	put(w, 7, 1);
	put(w, 8, 1);
	put(w, op, 1);
	put(w, 0, 1);
	return at;
}

static size_t put_fde(struct writer *w, size_t cie, uint64_t begin, uint64_t bytes, uint8_t op)
{
	size_t at = w->n;

	put(w, 24, 4);
	put(w, cie, 4);
	put(w, begin, 8);
	put(w, bytes, 8);
	put(w, op, 1);
	put(w, 0, 3);
	return at;
}

/* An ELF file with only that section. */
static struct image file_with(const struct writer *section, uint64_t flags)
{
	static const char names[] = "\0.debug_frame";
	struct image i = {calloc(1, FILE_MAX * 2), FILE_MAX * 2};
	Elf64_Ehdr eh = {
		.e_shoff = 64, .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 3, .e_shstrndx = 1};
	Elf64_Shdr sh[3] = {
		{0},
		{.sh_type = SHT_STRTAB, .sh_offset = 512, .sh_size = sizeof(names)},
		{.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_flags = flags, .sh_offset = 1024},
	};

	sh[2].sh_size = section->n;
	memcpy(i.byte, &eh, sizeof(eh));
	memcpy(i.byte + 64, sh, sizeof(sh));
	memcpy(i.byte + 512, names, sizeof(names));
	memcpy(i.byte + 1024, section->byte, section->n);
	return i;
}

static bool has(const struct writer *w, uint64_t addr)
{
	struct image i = file_with(w, 0);
	struct sp_frame_table *t = table_of(&i, &layout);
	uint64_t at;
	bool found = t != NULL && sp_frame_table_find(t, addr, &at);

	sp_frame_table_free(t);
	free(i.byte);
	return found;
}

#define NOP 0x00
#define SET_LOC 0x01

Test(frame_table, reads_each_version_of_debug_frame)
{
	for (uint8_t version = 1; version <= 5; version++) {
		struct writer w = {.n = 0};

		put_fde(&w, put_cie(&w, version, NOP), CODE_AT + 0x100, 0x20, NOP);
		if (version == 2 || version == 5) {
			cr_expect(!has(&w, CODE_AT + 0x100), "version %u", version);
			continue;
		}
		cr_expect(!has(&w, CODE_AT + 0xff));
		cr_expect(has(&w, CODE_AT + 0x100), "version %u", version);
		cr_expect(has(&w, CODE_AT + 0x11f));
		cr_expect(!has(&w, CODE_AT + 0x120));
	}
}

Test(frame_table, reads_a_packed_section)
{
	struct writer w = {.n = 0};
	struct writer packed = {.n = sizeof(Elf64_Chdr)};
	Elf64_Chdr head = {.ch_type = ELFCOMPRESS_ZLIB, .ch_addralign = 1};
	uLongf bytes = FILE_MAX - sizeof(head);

	put_fde(&w, put_cie(&w, 3, NOP), CODE_AT, 16, NOP);
	head.ch_size = w.n;
	memcpy(packed.byte, &head, sizeof(head));
	cr_assert_eq(compress(packed.byte + sizeof(head), &bytes, w.byte, w.n), Z_OK);
	packed.n += bytes;
	for (unsigned damage = 0; damage < 4; damage++) {
		static const uint64_t sizes[] = {0, 1, UINT64_MAX};
		struct image i;
		struct sp_frame_table *t;
		uint64_t at;

		if (damage != 0)
			memcpy(packed.byte + offsetof(Elf64_Chdr, ch_size), &sizes[damage - 1], 8);
		i = file_with(&packed, SHF_COMPRESSED);
		t = table_of(&i, &layout);
		cr_expect_eq(t != NULL && sp_frame_table_find(t, CODE_AT, &at), damage == 0, "%u",
			     damage);
		sp_frame_table_free(t);
		free(i.byte);
	}
}

Test(frame_table, leaves_out_what_it_may_not_trust)
{
	struct writer w = {.n = 0};
	size_t cie = put_cie(&w, 3, NOP);
	size_t bad_cie = put_cie(&w, 3, SET_LOC);

	put_fde(&w, cie, 0x10, 16, NOP);                /* no code */
	put_fde(&w, cie, CODE_AT, UINT64_MAX, NOP);     /* longer than the address space */
	put_fde(&w, cie, CODE_AT + 0x10, 0x2000, NOP);  /* beyond the segment */
	put_fde(&w, cie, CODE_AT + 0x20, 16, SET_LOC);  /* an operand in another form */
	put_fde(&w, cie, CODE_AT + 0x30, 16, 0x3f);     /* an unknown instruction */
	put_fde(&w, bad_cie, CODE_AT + 0x40, 16, NOP);  /* the same in its CIE */
	put_fde(&w, cie + 4, CODE_AT + 0x50, 16, NOP);  /* no CIE at that place */
	put_fde(&w, FILE_MAX, CODE_AT + 0x60, 16, NOP); /* nor at that place */
	put_fde(&w, cie, CODE_AT + 0x70, 0, NOP);       /* empty */
	put_fde(&w, cie, CODE_AT + 0x80, 16, NOP);      /* a valid one */
	put(&w, UINT32_MAX, 4);                         /* 64-bit form, which ends the reading */
	put(&w, 24, 8);
	put_fde(&w, cie, CODE_AT + 0x90, 16, NOP);

	for (uint64_t addr = 0; addr < 0x100; addr += 4)
		cr_expect_eq(has(&w, CODE_AT + addr), addr >= 0x80 && addr < 0x90, "%#lx", addr);
	cr_expect(!has(&w, 0x10));
}

Test(frame_table, finds_the_last_that_begins_before_an_address)
{
	struct writer w = {.n = 0};
	size_t cie = put_cie(&w, 3, NOP);

	put_fde(&w, cie, CODE_AT + 0x100, 0x10, NOP);
	put_fde(&w, cie, CODE_AT + 0x200, 0x10, NOP);
	put_fde(&w, cie, CODE_AT, 0x10, NOP);
	for (uint64_t addr = 0; addr < 0x400; addr += 8)
		cr_expect_eq(has(&w, CODE_AT + addr), addr % 0x100 < 0x10 && addr < 0x300, "%#lx",
			     addr);
}

static uint64_t random_word(void)
{
	static uint64_t x = 88172645463325252;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return x;
}

/* Every row that is found can be read, whatever the file contains. */
Test(frame_table, survives_files_with_bytes_changed)
{
	struct writer w = {.n = 0};
	size_t cie = put_cie(&w, 3, NOP);
	unsigned found = 0;

	for (unsigned i = 0; i < 20; i++)
		put_fde(&w, cie, CODE_AT + i * 0x10, 0x10, NOP);
	for (unsigned round = 0; round < 3000; round++) {
		struct image i = file_with(&w, 0);
		struct sp_frame_table *t;

		for (unsigned k = 0; k < 1 + round % 8; k++) {
			/* in the headers, or in the section */
			size_t at = k % 4 == 3 ? random_word() % 256 : 1024 + random_word() % w.n;

			i.byte[at] = (uint8_t)random_word();
		}
		t = table_of(&i, &layout);
		for (uint64_t addr = 0; t != NULL && addr < 0x1000; addr += 0x10) {
			struct sp_fde fde;
			uint8_t *copy;
			uint64_t at;

			if (!sp_frame_table_find(t, CODE_AT + addr, &at))
				continue;
			read_row(t, at, &fde, &copy);
			cr_assert(fde.pc_begin <= CODE_AT + addr && CODE_AT + addr < fde.pc_end);
			free(copy);
			found++;
		}
		sp_frame_table_free(t);
		free(i.byte);
	}
	cr_assert_gt(found, 3000);
}

/* 600,000 functions: a section of the largest size takes a moment. */
Test(frame_table, is_bounded_by_the_size_of_the_file, .timeout = 20)
{
	const size_t bytes = (size_t)24 << 20;
	struct writer head = {.n = 0};
	struct image small = file_with(&head, 0);
	struct image i = {calloc(1, bytes), bytes};
	uint64_t size = SP_FRAME_SECTION_MAX;
	struct sp_frame_table *t;

	memcpy(i.byte, small.byte, 1024);
	memcpy(i.byte + 64 + 2 * sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_size), &size, 8);
	for (size_t at = 1024; at + 28 < 1024 + SP_FRAME_SECTION_MAX;) {
		struct writer w = {.n = 0};

		if (at < 1024 + 4096)
			put_cie(&w, 3, NOP);
		else
			put_fde(&w, at % 2 * 18, CODE_AT + at % 0x800, 16, NOP);
		memcpy(i.byte + at, w.byte, w.n);
		at += w.n;
	}
	t = table_of(&i, &layout);
	for (uint64_t at = SP_FRAME_SECTION_MAX; t != NULL && at < 2 * SP_FRAME_SECTION_MAX;
	     at += 4096) {
		uint64_t word;

		cr_assert(!sp_frame_table_word(t, at, &word));
	}
	sp_frame_table_free(t);
	/* A larger section is not read at all. */
	size++;
	memcpy(i.byte + 64 + 2 * sizeof(Elf64_Shdr) + offsetof(Elf64_Shdr, sh_size), &size, 8);
	cr_expect_null(table_of(&i, &layout));
	free(i.byte);
	free(small.byte);
}
