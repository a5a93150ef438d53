/* SPDX-License-Identifier: Apache-2.0 */
/* Build ids in the notes of objects, wherever the notes are. */
#include "export/objects/object_file.h"

#include <criterion/criterion.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "export/objects/modules.h"
#include "fake_host.h"

TestSuite(elf_notes, .fini = fake_host_end);

static const struct {
	Elf64_Nhdr n;
	char name[4];
	uint8_t id[4];
} note = {{4, 4, NT_GNU_BUILD_ID}, "GNU", {1, 2, 3, 4}};

/* Linkers put notes into segments. Notes of other tools need not be in a segment, and then are not mapped. */
Test(elf_notes, are_not_read_outside_of_what_is_mapped, .timeout = 20)
{
	enum { PAGE = 4096 };
	const struct {
		uint64_t at, size;
		unsigned id;
	} where[] = {
		{PAGE - sizeof(note), sizeof(note), 4},
		{PAGE - sizeof(note) + 4, sizeof(note), 0},
		{PAGE, sizeof(note), 0},
		{PAGE - 8, UINT64_MAX, 0},
		{UINT64_MAX - 7, 16, 0},
	};
	const char *folder = fake_host_start();
	_Alignas(8) uint8_t image[2 * PAGE];
	FILE *f;

	for (size_t i = 0; i < sizeof(where) / sizeof(where[0]); i++) {
		struct sp_modules *m = sp_modules_new(folder, -1);
		Elf64_Phdr *header = (Elf64_Phdr *)(void *)(image + sizeof(Elf64_Ehdr));
		const struct sp_module *mod;
		const char *path = fake_host_object("odd.so", PAGE, 1);

		f = fopen(path, "r");
		cr_assert_eq(fread(image, 1, PAGE, f), PAGE);
		fclose(f);
		memcpy(image + PAGE - sizeof(note), &note, sizeof(note));
		memcpy(image + PAGE, &note, sizeof(note));
		header[1].p_vaddr = where[i].at;
		header[1].p_offset = where[i].at;
		header[1].p_filesz = where[i].size;
		header[1].p_memsz = where[i].size;
		path = fake_host_file("odd.so", image, sizeof(image));
		fake_host_unmap_all();
		fake_host_map(path, 0x10000, PAGE);
		cr_assert_eq(sp_modules_refresh(m), 0);
		mod = sp_modules_find(m, 0x10000, 0);
		cr_assert_not_null(mod);
		cr_expect_eq(mod->build_id_len, where[i].id, "%zu", i);
		sp_modules_free(m);
	}
}

Test(elf_notes, may_be_damaged, .timeout = 20)
{
	uint8_t id[SP_BUILD_ID_MAX];
	uint8_t copy[sizeof(note)];

	cr_expect_eq(sp_elf_build_id(&note, sizeof(note), id, sizeof(id)), 4);
	cr_expect_eq(memcmp(id, note.id, 4), 0);
	for (size_t len = 0; len < sizeof(note); len++)
		cr_expect_eq(sp_elf_build_id(&note, len, id, sizeof(id)), 0, "%zu bytes", len);
	cr_expect_eq(sp_elf_build_id(&note, sizeof(note), id, 3), 0, "too long for the caller");
	memcpy(copy, &note, sizeof(copy));
	memset(copy, 0xff, 8);
	cr_expect_eq(sp_elf_build_id(copy, sizeof(copy), id, sizeof(id)), 0);
}
