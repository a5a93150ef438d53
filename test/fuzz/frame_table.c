/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes call frame information in files: every FDE of the table can be read, and covers the requested address. The
 * first byte chooses the form of the rest: a whole file, the .debug_frame or .eh_frame of an otherwise sound file, or
 * a packed .debug_frame.
 */
#include <elf.h>
#include <stdint.h>

#include "export/objects/frame_table.h"
#include "sampler/unwind/ehframe_sig.h"
#include "test/fuzz/fuzz.h"

#define CODE_AT UINT64_C(0x1000)
#define SECTION_AT 512U
#define STEP 16U

struct input {
	const uint8_t *byte;
	size_t bytes;
};

static bool read_input(const void *arg, uint64_t offset, void *out, size_t bytes)
{
	const struct input *i = arg;
	size_t n = offset < i->bytes ? i->bytes - (size_t)offset : 0;

	memset(out, 0, bytes);
	if (n != 0)
		memcpy(out, i->byte + offset, n < bytes ? n : bytes);
	return true;
}

/* A file with that one section, mapped behind the code. */
static uint8_t *file_around(unsigned kind, const uint8_t *data, size_t size)
{
	static const char names[] = "\0.debug_frame\0.eh_frame";
	const Elf64_Ehdr head = {.e_shoff = sizeof(Elf64_Ehdr),
				 .e_shentsize = sizeof(Elf64_Shdr),
				 .e_shnum = 3,
				 .e_shstrndx = 1};
	const Elf64_Shdr sh[3] = {
		{0},
		{.sh_type = SHT_STRTAB, .sh_offset = 400, .sh_size = sizeof(names)},
		{.sh_name = kind == 2 ? 14 : 1,
		 .sh_type = SHT_PROGBITS,
		 .sh_flags = kind == 2   ? SHF_ALLOC
			     : kind == 3 ? SHF_COMPRESSED
					 : 0,
		 .sh_addr = 4 * CODE_AT,
		 .sh_offset = SECTION_AT,
		 .sh_size = size},
	};
	uint8_t *file = calloc(1, SECTION_AT + size);

	FUZZ_CHECK(file != NULL);
	memcpy(file, &head, sizeof(head));
	memcpy(file + sizeof(head), sh, sizeof(sh));
	memcpy(file + 400, names, sizeof(names));
	memcpy(file + SECTION_AT, data, size);
	return file;
}

static void check_row(const struct sp_frame_table *t, uint64_t addr, uint64_t at)
{
	size_t bytes = SP_FRAME_SECTION_MAX / 64;
	uint8_t *copy = calloc(1, bytes + 8);
	struct sp_object object = {.start = (uintptr_t)copy, .end = (uintptr_t)copy + bytes};
	struct sp_fde fde;
	uint64_t begin;

	FUZZ_CHECK(copy != NULL);
	for (size_t i = 0; i < bytes; i += 8) {
		uint64_t word;

		if (!sp_frame_table_word(t, i, &word))
			break;
		memcpy(copy + i, &word, sizeof(word));
	}
	FUZZ_CHECK(sp_ehframe_parse(&object, object.start + at + 8, &fde) == 0);
	begin = fde.pc_begin - object.start + SP_FRAME_TABLE_AT;
	FUZZ_CHECK(addr >= begin && addr - begin < fde.pc_end - fde.pc_begin);
	free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct sp_object_load code = {CODE_AT, CODE_AT, CODE_AT, 0, 5};
	static const struct sp_object_layout layout = {
		.load = &code, .loads = 1, .lo = CODE_AT, .hi = 2 * CODE_AT};
	unsigned kind = size != 0 ? data[0] % 4 : 0;
	struct sp_frame_table *t;
	struct input input;
	uint8_t *file;
	bool is_checked = false;
	uint64_t at;

	if (size == 0)
		return 0;
	file = kind != 0 ? file_around(kind, data + 1, size - 1) : NULL;
	input.byte = kind != 0 ? file : data + 1;
	input.bytes = size - 1 + (kind != 0 ? SECTION_AT : 0);
	t = sp_frame_table_new(&layout, &(struct sp_frame_file){read_input, &input});
	for (uint64_t addr = 0; t != NULL && addr < CODE_AT; addr += STEP)
		if (sp_frame_table_find(t, CODE_AT + addr, &at) && !is_checked) {
			check_row(t, CODE_AT + addr, at);
			is_checked = true;
		}
	sp_frame_table_free(t);
	free(file);
	return 0;
}
