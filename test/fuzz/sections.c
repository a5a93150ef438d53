/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes a file's references to other files, inside an otherwise sound ELF file, so that every byte of the input
 * reaches its reader. The first byte chooses the section: .gnu_debugdata unchanged, .gnu_debugdata whose packed
 * content is the input, .gnu_debuglink, or the build id's note.
 */
#include <elf.h>
#include <libelf.h>
#include <lzma.h>
#include <stdint.h>

#include "export/objects/object_file.h"
#include "export/symbols/builds.h"
#include "export/symbols/elf_file.h"
#include "test/fuzz/fuzz.h"

#define SECTIONS 3U /* none, the input's, names */
#define PACKED_MAX (1U << 18)

enum kind { DEBUGDATA, DEBUGDATA_PACKED, DEBUGLINK, BUILD_ID, KINDS };

static const char names[] = "\0.gnu_debugdata\0.gnu_debuglink\0.note.gnu.build-id\0.shstrtab";

static uint32_t name_at(const char *name)
{
	for (uint32_t at = 1; at < sizeof(names); at += (uint32_t)strlen(names + at) + 1)
		if (strcmp(names + at, name) == 0)
			return at;
	return 0;
}

/* An ELF file with that one section. */
static uint8_t *file_around(enum kind kind, const uint8_t *data, size_t size, size_t *len)
{
	static const char *const section[KINDS] = {".gnu_debugdata", ".gnu_debugdata",
						   ".gnu_debuglink", ".note.gnu.build-id"};
	size_t padded = (size + 7) & ~(size_t)7;
	size_t at = sizeof(Elf64_Ehdr) + SECTIONS * sizeof(Elf64_Shdr);
	Elf64_Ehdr head = {
		.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			    EV_CURRENT},
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = EV_CURRENT,
		.e_shoff = sizeof(Elf64_Ehdr),
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = SECTIONS,
		.e_shstrndx = 2,
	};
	Elf64_Shdr sh[SECTIONS] = {
		{.sh_type = SHT_NULL},
		{.sh_name = name_at(section[kind]),
		 .sh_type = kind == BUILD_ID ? SHT_NOTE : SHT_PROGBITS,
		 .sh_offset = at,
		 .sh_size = size,
		 .sh_addralign = 4},
		{.sh_name = name_at(".shstrtab"),
		 .sh_type = SHT_STRTAB,
		 .sh_offset = at + padded,
		 .sh_size = sizeof(names),
		 .sh_addralign = 1},
	};
	uint8_t *image = calloc(1, at + padded + sizeof(names));

	FUZZ_CHECK(image != NULL);
	memcpy(image, &head, sizeof(head));
	memcpy(image + sizeof(head), sh, sizeof(sh));
	if (size != 0)
		memcpy(image + at, data, size);
	memcpy(image + at + padded, names, sizeof(names));
	*len = at + padded + sizeof(names);
	return image;
}

static const uint8_t *file;
static size_t file_size;

/* The vDSO is the one file that is used unchecked. */
const uint8_t *sp_vdso_image(size_t *size)
{
	*size = file_size;
	return file;
}

static void read_file(uint8_t *image, size_t len)
{
	static const struct sp_build_sources sources = {
		.debug_root = "/nonexistent", .symbols = true, .dwarf = true};
	static const struct sp_module mod = {
		.vdso = true, .hi = UINT64_MAX, .path = "", .shown = ""};
	static struct sp_answer answer;
	struct sp_builds *builds = sp_builds_new(&sources);
	struct sp_debug_query query = {.root = "/nonexistent", .object = "/nonexistent/object"};
	char path[SP_DEBUG_PATH_MAX];
	struct sp_elf_file debug;

	FUZZ_CHECK(builds != NULL);
	file = image;
	file_size = len;
	for (uint64_t at = 0x1000; at < 0x1100; at += 5) {
		sp_builds_ask(builds, &mod, at, true, &answer);
		FUZZ_CHECK(answer.start <= at);
		FUZZ_CHECK(answer.symbol == NULL || answer.symbol[0] != '\0');
	}
	sp_builds_free(builds);
	(void)elf_version(EV_CURRENT);
	query.elf = elf_memory((char *)image, len);
	FUZZ_CHECK(query.elf != NULL);
	/* Any link leads only into folders that do not exist. */
	FUZZ_CHECK(sp_elf_file_open_debug(&query, &debug, path) != 0);
	elf_end(query.elf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t packed[PACKED_MAX];
	enum kind kind = size != 0 ? data[0] % KINDS : DEBUGDATA;
	uint8_t *image;
	size_t len = 0;

	data += size != 0;
	size -= size != 0;
	if (kind == DEBUGDATA_PACKED) {
		FUZZ_CHECK(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, data, size, packed,
						   &len, sizeof(packed)) == LZMA_OK);
		data = packed;
		size = len;
	}
	image = file_around(kind, data, size, &len);
	read_file(image, len);
	free(image);
	return 0;
}
