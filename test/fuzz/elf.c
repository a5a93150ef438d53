/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzzes ELF and DWARF files: symbols, PLT stubs, call frame information, lines, links to debug
 * files. libelf and libdw are not instrumented, but their reads of our memory are. */
#include <stdint.h>
#include <stdio.h>

#include "export/symbols/elf_file.h"
#include "export/symbols/fde_file.h"
#include "export/symbols/lines.h"
#include "export/symbols/symtab.h"
#include "test/fuzz/fuzz.h"

#define DEBUG_MAX ((uint64_t)4 << 20)
#define STEP 7U

static void look_up(const struct sp_symtab *symbols, const struct sp_fde_file *fde,
		    struct sp_lines *lines, uint64_t from, uint64_t to)
{
	struct sp_source_line line[SP_LINES_DEPTH];
	struct sp_symbol symbol;
	uint64_t start;

	for (uint64_t at = from; at < to; at += STEP) {
		if (symbols != NULL && sp_symtab_find(symbols, at, &symbol))
			FUZZ_CHECK(symbol.start <= at && symbol.name[0] != '\0');
		if (fde != NULL && sp_fde_file_find(fde, at, &start))
			FUZZ_CHECK(start <= at);
		if (lines != NULL)
			FUZZ_CHECK(sp_lines_find(lines, at, line) <= SP_LINES_DEPTH);
	}
}

static void read_symbols(const uint8_t *data, size_t size, struct sp_symtab **out)
{
	void *image = malloc(size != 0 ? size : 1);

	*out = NULL;
	FUZZ_CHECK(image != NULL);
	memcpy(image, data, size);
	if (sp_symtab_read_image(image, size, out) != 0)
		*out = NULL;
	free(image);
	if (*out != NULL)
		FUZZ_CHECK(strchr(sp_symtab_debug_link(*out)->name, '/') == NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *image = malloc(size != 0 ? size : 1);
	struct sp_elf_file file = {.fd = -1};
	struct sp_fde_file *fde = NULL;
	struct sp_lines *lines = NULL;
	struct sp_symtab *symbols;
	uint8_t id[SP_BUILD_ID_MAX];

	FUZZ_CHECK(image != NULL);
	memcpy(image, data, size);
	(void)elf_version(EV_CURRENT);
	read_symbols(data, size, &symbols);
	file.elf = elf_memory(image, size);
	if (file.elf != NULL) {
		FUZZ_CHECK(sp_elf_file_build_id(file.elf, id, sizeof(id)) <= sizeof(id));
		fde = sp_fde_file_read(file.elf);
		if (sp_lines_need(file.elf) > DEBUG_MAX || sp_lines_new(&file, &lines) != 0)
			lines = NULL;
	}
	look_up(symbols, fde, lines, 0x1000, 0x1200);
	look_up(symbols, fde, lines, UINT64_MAX - 100, UINT64_MAX - STEP);
	sp_symtab_free(symbols);
	sp_fde_file_free(fde);
	sp_lines_free(lines);
	sp_elf_file_close(&file);
	free(image);
	return 0;
}
