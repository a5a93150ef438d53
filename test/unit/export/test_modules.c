/* SPDX-License-Identifier: Apache-2.0 */
/* The list of loaded objects: of this process, and of made-up ones for reused addresses. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "export/elf_notes.h"
#include "export/modules.h"
#include "export/symbol_tables.h"
#include "fake_host.h"
#include "sampler/text.h"
#include "test/unit/emulated.h"

/* Ships with libc and is loaded by nobody. */
#define RARE_LIB "libBrokenLocale.so.1"

TestSuite(modules, .fini = fake_host_end);

static uint64_t address(const void *p)
{
	return (uintptr_t)p;
}

Test(modules, knows_the_program_and_libc, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new("/proc/self", -1);
	const struct sp_module *self, *libc;

	cr_assert_eq(sp_modules_refresh(m), 0);

	self = sp_modules_find(m, address((void *)sp_modules_new), 0);
	libc = sp_modules_find(m, address(dlsym(RTLD_DEFAULT, "getenv")), 0);
	cr_assert_not_null(self);
	cr_expect(self->main);
	cr_expect_eq(self, sp_modules_main(m));
	cr_expect_str_eq(self->name, "test_modules");
	cr_expect_str_eq(strrchr(self->shown, '/'), "/test_modules");
	cr_expect_gt(self->build_id_len, 0);
	cr_assert_not_null(libc);
	cr_expect_str_eq(libc->name, "libc.so.6");
	cr_expect_neq(memcmp(libc->build_id, self->build_id, sizeof(self->build_id)), 0);
	cr_expect_null(sp_modules_find(m, 16, 0));
	cr_expect_null(sp_modules_find(m, UINT64_MAX, 0));
	sp_modules_free(m);
}

Test(modules, reads_the_build_id_that_readelf_reads, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new("/proc/self", -1);
	char hex[2 * SP_BUILD_ID_MAX + 1], line[256] = "";
	FILE *p = ask_shell("readelf -n \"$SELF\" | sed -n 's/.*Build ID: //p'");

	cr_assert_eq(sp_modules_refresh(m), 0);
	cr_assert_not_null(fgets(line, sizeof(line), p), "readelf said nothing");
	pclose(p);

	sp_text_hex(hex, sp_modules_main(m)->build_id, sp_modules_main(m)->build_id_len);
	line[strcspn(line, "\n")] = '\0';
	cr_expect_str_eq(hex, line);
	sp_modules_free(m);
}

Test(modules, knows_the_vdso, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new("/proc/self", -1);
	const struct sp_module *vdso;

	if (getauxval(AT_SYSINFO_EHDR) == 0)
		cr_skip_test("this kernel has no vdso");
	cr_assert_eq(sp_modules_refresh(m), 0);
	vdso = sp_modules_find(m, getauxval(AT_SYSINFO_EHDR) + 0x100, 0);

	cr_assert_not_null(vdso);
	cr_expect(vdso->vdso);
	cr_expect_str_eq(vdso->name, "[vdso]");
	cr_expect_eq(vdso->bias, getauxval(AT_SYSINFO_EHDR));
	sp_modules_free(m);
}

Test(modules, places_code_as_proc_maps_does, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new("/proc/self", -1);
	uint64_t pc = address(dlsym(RTLD_DEFAULT, "getenv"));
	unsigned long long start, end, offset;
	const struct sp_module *libc;
	bool found = false;
	char line[512], perms[8];
	FILE *maps = fopen("/proc/self/maps", "r");

	cr_assert_eq(sp_modules_refresh(m), 0);
	libc = sp_modules_find(m, pc, 0);
	while (fgets(line, sizeof(line), maps) != NULL) {
		cr_assert_eq(sscanf(line, "%llx-%llx %7s %llx", &start, &end, perms, &offset), 4);
		if (pc < start || pc >= end)
			continue;
		found = true;
		cr_expect_eq(libc->segment[0].start, start);
		cr_expect_eq(libc->segment[0].end, end);
		cr_expect_eq(libc->segment[0].offset, offset);
	}
	fclose(maps);
	cr_expect(found);
	sp_modules_free(m);
}

Test(modules, notices_dlopen_and_remembers_what_was_closed, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new("/proc/self", -1);
	const struct sp_module *mod;
	uint32_t before;
	uint64_t pc;
	void *lib;

	cr_assert_eq(sp_modules_refresh(m), 0);
	before = sp_modules_epoch(m);
	lib = dlopen(RARE_LIB, RTLD_NOW);
	cr_assert_not_null(lib);
	pc = ((struct link_map *)lib)->l_addr + 0x1000;
	cr_expect_null(sp_modules_find(m, pc, before), "not looked yet");
	cr_assert_eq(sp_modules_refresh(m), 0);
	mod = sp_modules_find(m, pc, before);
	cr_assert_not_null(mod);
	cr_expect_str_eq(mod->name, RARE_LIB);
	cr_expect_eq(sp_modules_epoch(m), before, "loading ends no epoch");

	dlclose(lib);
	cr_assert_eq(sp_modules_refresh(m), 0);

	cr_expect_eq(sp_modules_epoch(m), before + 1);
	mod = sp_modules_find(m, pc, before);
	cr_assert_not_null(mod, "the tombstone is gone");
	cr_expect_eq(mod->died, before + 1);
	sp_modules_forget(m, before + 2);
	cr_expect_null(sp_modules_find(m, pc, before));
	sp_modules_free(m);
}

Test(modules, tells_two_objects_at_one_address_apart_by_epoch, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new(fake_host_start(), -1);

	fake_host_map(fake_host_object("first.so", 0x1000, 1), 0x10000, 0x1000);
	cr_assert_eq(sp_modules_refresh(m), 0);
	cr_assert_eq(sp_modules_epoch(m), 0);
	fake_host_unmap_all();
	fake_host_map(fake_host_object("second.so", 0x2000, 2), 0x10000, 0x2000);
	cr_assert_eq(sp_modules_refresh(m), 0);

	cr_expect_eq(sp_modules_epoch(m), 1);
	cr_expect_str_eq(sp_modules_find(m, 0x10010, 0)->name, "first.so");
	cr_expect_str_eq(sp_modules_find(m, 0x10010, 1)->name, "second.so");
	sp_modules_forget(m, 2);
	cr_expect_str_eq(sp_modules_find(m, 0x10010, 0)->name, "second.so");
	sp_modules_free(m);
}

Test(modules, takes_in_what_comes_and_buries_what_is_gone, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new(fake_host_start(), -1);
	const char *path[40];

	for (unsigned i = 0; i < 40; i++) {
		char name[24];

		(void)snprintf(name, sizeof(name), "%u.so", i);
		path[i] = fake_host_object(name, 0x1000, (uint8_t)(i + 1));
	}
	/* Half of them, then the others between these. */
	for (unsigned step = 2; step >= 1; step--) {
		fake_host_unmap_all();
		for (unsigned i = 0; i < 40; i += step)
			fake_host_map(path[i], 0x100000 + i * UINT64_C(0x1000), 0x1000);
		cr_assert_eq(sp_modules_refresh(m), 0);
	}

	for (unsigned i = 0; i < 40; i++) {
		const struct sp_module *mod =
			sp_modules_find(m, 0x100005 + i * UINT64_C(0x1000), 0);

		cr_assert_not_null(mod, "object %u is missing", i);
		cr_expect_str_eq(mod->shown, path[i]);
	}
	fake_host_unmap_all();
	cr_assert_lt(sp_modules_refresh(m), 0);
	cr_expect_not_null(sp_modules_find(m, 0x100005, 0), "the process has ended, not unloaded");
	fake_host_map(path[0], 0x100000, 0x1000);
	cr_assert_eq(sp_modules_refresh(m), 0);
	cr_expect_eq(sp_modules_epoch(m), 1);
	sp_modules_forget(m, 2);
	cr_expect_null(sp_modules_find(m, 0x101005, 1));
	cr_expect_not_null(sp_modules_find(m, 0x100005, 1));
	sp_modules_free(m);
}

/* What stands behind the part of the list that was read is not gone. */
Test(modules, buries_nothing_that_it_could_not_look_at, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new(fake_host_start(), -1);
	const char *path = fake_host_object("last.so", 0x1000, 1);
	FILE *maps;
	char name[FAKE_PATH_MAX];

	fake_host_map(path, 0x100000000, 0x1000);
	cr_assert_eq(sp_modules_refresh(m), 0);
	fake_host_unmap_all();
	(void)snprintf(name, sizeof(name), "%.*s/maps", (int)(strrchr(path, '/') - path), path);
	maps = fopen(name, "w");
	for (unsigned i = 0; i < 70000; i++)
		fprintf(maps, "%x-%x rwxp 00000000 00:00 0 \n", 0x100000 + i * 0x2000,
			0x101000 + i * 0x2000);
	fclose(maps);
	fake_host_map(path, 0x100000000, 0x1000);

	cr_expect_eq(sp_modules_refresh(m), -E2BIG);
	cr_expect_eq(sp_modules_epoch(m), 0);
	cr_expect_eq(sp_modules_find(m, 0x100000005, 0)->died, SP_EPOCH_ALIVE);
	sp_modules_free(m);
}

/* Where a function begins, by the call frame information alone. */
static bool function_of(const struct sp_module *mod, uint64_t pc, uint64_t *start)
{
	static const struct sp_symbol_sources none;
	static struct sp_symbol_tables *tables;

	if (tables == NULL)
		tables = sp_symbol_tables_new(&none, (size_t)64 << 20);
	return sp_symbol_tables_function(tables, mod, pc - mod->bias, start);
}

Test(modules, finds_the_function_around_an_address_without_symbols, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new("/proc/self", -1);
	const char *const known[] = {"getenv", "nl_langinfo", "wordexp", "getservbyname"};
	const struct sp_module *libc;
	uint64_t start = 0;

	cr_assert_eq(sp_modules_refresh(m), 0);
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		uint64_t pc = address(dlsym(RTLD_DEFAULT, known[i]));

		libc = sp_modules_find(m, pc, 0);
		cr_assert(function_of(libc, pc + 1, &start), "%s", known[i]);
		cr_expect_eq(start + libc->bias, pc, "%s", known[i]);
	}
	libc = sp_modules_find(m, address(dlsym(RTLD_DEFAULT, "getenv")), 0);
	cr_expect_not(function_of(libc, libc->lo, &start), "that is the ELF header");
	sp_modules_free(m);
}

Test(modules, agrees_with_the_symbol_table_on_every_function_of_this_program, .timeout = 60)
{
	struct sp_modules *m = sp_modules_new("/proc/self", -1);
	const struct sp_module *self;
	unsigned long long vaddr, size;
	unsigned checked = 0;
	char type, name[256];
	FILE *nm = ask_shell("nm -S --defined-only \"$SELF\" | grep -w '[tT] sp_.*'");
	char line[512];

	cr_assert_eq(sp_modules_refresh(m), 0);
	self = sp_modules_main(m);
	while (fgets(line, sizeof(line), nm) != NULL) {
		uint64_t start = 0;

		if (sscanf(line, "%llx %llx %c %255s", &vaddr, &size, &type, name) != 4 ||
		    size == 0 || strchr(name, '.') != NULL)
			continue;
		cr_expect(function_of(self, self->bias + vaddr + size - 1, &start));
		cr_expect_eq(start, vaddr, "%s", name);
		checked++;
	}
	pclose(nm);
	cr_expect_gt(checked, 20);
	sp_modules_free(m);
}

/* Linkers put notes into segments; what other tools write need not be there, and is not mapped. */
Test(modules, reads_no_note_outside_of_what_is_mapped, .timeout = 20)
{
	enum { PAGE = 4096 };
	const struct {
		Elf64_Nhdr n;
		char name[4];
		uint8_t id[4];
	} note = {{4, 4, NT_GNU_BUILD_ID}, "GNU", {1, 2, 3, 4}};
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

Test(modules, build_id_survives_damaged_notes, .timeout = 20)
{
	const struct {
		Elf64_Nhdr n;
		char name[4];
		uint8_t id[4];
	} note = {{4, 4, NT_GNU_BUILD_ID}, "GNU", {1, 2, 3, 4}};
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

/* Of code that belongs to no object. */
#define NOTHING "1000-2000 r-xp 00000000 00:00 0 \n"

static struct sp_module_event event_of(const char *path, uint64_t bias, uint64_t bytes,
				       uint8_t build)
{
	struct sp_module_event s = {.bias = bias,
				    .phdr = bias + 64,
				    .loads = 1,
				    .build_id_len = build != 0 ? 20 : 0,
				    .load = {{.vaddr = 0, .memsz = bytes, .flags = PF_R | PF_X}}};

	memset(s.build_id, build, (size_t)s.build_id_len);
	(void)snprintf(s.path, sizeof(s.path), "%s", path);
	return s;
}

static const char *name_at(const struct sp_modules *m, uint64_t pc, uint32_t epoch)
{
	const struct sp_module *mod = sp_modules_find(m, pc, epoch);

	return mod != NULL ? mod->name : "";
}

Test(modules, knows_what_was_only_ever_told_of, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new(fake_host_start(), -1);
	struct sp_module_event s = event_of("/lib/brief.so", 0x10000, 0x2000, 1);
	uint32_t epoch;

	fake_host_line(NOTHING);
	cr_assert_eq(sp_modules_refresh(m), 0);
	sp_modules_take_event(m, &s);
	epoch = sp_modules_epoch(m);
	cr_expect_str_eq(name_at(m, 0x11fff, epoch), "brief.so");
	cr_expect_str_eq(name_at(m, 0x12000, epoch), "");
	for (unsigned interval = 1; interval <= 3; interval++) {
		cr_assert_eq(sp_modules_refresh(m), 0);
		cr_expect_eq(sp_modules_find(m, 0x11000, epoch)->died == SP_EPOCH_ALIVE,
			     interval <= 2, "interval %u", interval);
		cr_expect_str_eq(name_at(m, 0x11000, epoch), "brief.so");
		sp_modules_forget(m, 0);
	}
	sp_modules_free(m);
}

/* What the handler does not tell because it told it before, the list must not contradict. */
Test(modules, what_is_listed_in_between_does_not_replace_what_was_told_of, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new(fake_host_start(), -1);
	struct sp_module_event s = event_of("/lib/a.so", 0x10000, 0x2000, 1);

	fake_host_line(NOTHING);
	cr_assert_eq(sp_modules_refresh(m), 0);
	sp_modules_take_event(m, &s);
	/* Another one that no sample is in, over the end of the first and beyond. */
	fake_host_unmap_all();
	fake_host_map(fake_host_object("unseen.so", 0x3000, 9), 0x11000, 0x3000);
	for (unsigned interval = 1; interval <= 2; interval++) {
		cr_assert_eq(sp_modules_refresh(m), 0);
		cr_expect_str_eq(name_at(m, 0x11800, sp_modules_epoch(m)), "a.so");
		cr_expect_str_eq(name_at(m, 0x13800, sp_modules_epoch(m)), "");
		sp_modules_forget(m, 0);
	}
	cr_assert_eq(sp_modules_refresh(m), 0);
	cr_expect_str_eq(name_at(m, 0x11800, sp_modules_epoch(m)), "unseen.so",
			 "the third interval was not told of the first one");
	sp_modules_take_event(m, &s);
	cr_expect_str_eq(name_at(m, 0x11800, sp_modules_epoch(m)), "a.so");
	s = event_of("/lib/b.so", 0x11000, 0x1000, 2);
	sp_modules_take_event(m, &s);
	cr_expect_str_eq(name_at(m, 0x11800, sp_modules_epoch(m)), "b.so");

	sp_modules_free(m);
}

/* A path may by now lead to another file, with other functions. */
Test(modules, reads_no_functions_of_another_build_at_the_same_path, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new("/proc/self", -1);
	struct sp_module other;
	uint64_t start = 0;

	cr_assert_eq(sp_modules_refresh(m), 0);
	other = *sp_modules_find(m, (uintptr_t)&printf, 0);
	other.build_id[0] ^= 1;
	cr_expect_not(function_of(&other, (uintptr_t)&printf + 1, &start));
	other.build_id[0] ^= 1;
	cr_expect(function_of(&other, (uintptr_t)&printf + 1, &start));
	sp_modules_free(m);
}

Test(modules, an_epoch_ends_where_one_object_takes_the_place_of_another, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new(fake_host_start(), -1);
	uint32_t epoch[60];
	uint32_t serial[3];

	fake_host_line(NOTHING);
	cr_assert_eq(sp_modules_refresh(m), 0);
	for (unsigned i = 0; i < 60; i++) {
		static const char *const path[] = {"/lib/a.so", "/lib/b.so", "/lib/c.so"};
		/* The last one is larger, and begins before the others. */
		struct sp_module_event s =
			event_of(path[i % 3], i % 3 == 2 ? 0xf000 : 0x10000,
				 i % 3 == 2 ? 0x3000 : 0x2000, (uint8_t)(1 + i % 3));

		sp_modules_take_event(m, &s);
		sp_modules_take_event(m, &s);
		epoch[i] = sp_modules_epoch(m);
	}
	cr_assert_eq(sp_modules_refresh(m), 0);

	for (unsigned i = 0; i < 60; i++) {
		const struct sp_module *mod = sp_modules_find(m, 0x11000, epoch[i]);

		cr_assert_eq(epoch[i], i);
		cr_expect_eq(mod->name[0], "abc"[i % 3], "%u: %s", i, mod->name);
		if (i < 3)
			serial[i] = mod->serial;
		cr_expect_eq(mod->serial, serial[i % 3], "caches know it by that");
	}
	sp_modules_free(m);
}

Test(modules, what_is_mapped_is_no_news_when_told_of, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new("/proc/self", -1);
	const struct sp_module *mod;
	struct sp_module_event s = {.loads = 1};
	uint32_t serial;

	cr_assert_eq(sp_modules_refresh(m), 0);
	mod = sp_modules_find(m, (uintptr_t)&printf, 0);
	cr_assert_not_null(mod);
	serial = mod->serial;
	s.bias = mod->bias;
	s.build_id_len = mod->build_id_len;
	memcpy(s.build_id, mod->build_id, mod->build_id_len);
	s.load[0].vaddr = mod->lo - mod->bias;
	/* As _dl_find_object has it: to the page. */
	s.load[0].memsz = mod->hi - mod->lo + 100;
	(void)snprintf(s.path, sizeof(s.path), "%s", mod->path);
	sp_modules_take_event(m, &s);

	cr_expect_eq(sp_modules_epoch(m), 0);
	cr_expect_eq(sp_modules_find(m, (uintptr_t)&printf, 0)->serial, serial);
	sp_modules_free(m);
}

Test(modules, an_event_without_sense_changes_nothing, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new(fake_host_start(), -1);
	struct sp_module_event s = event_of("/lib/odd.so", UINT64_MAX - 8, 4096, 1);

	fake_host_line(NOTHING);
	cr_assert_eq(sp_modules_refresh(m), 0);
	sp_modules_take_event(m, &s);
	s = event_of("", 0x1000, 0, 1);
	sp_modules_take_event(m, &s);
	s = event_of("/lib/odd.so", 0x1000, 0x1000, 1);
	s.loads = UINT64_MAX;
	s.build_id_len = UINT64_MAX;
	memset(s.path, 'x', sizeof(s.path));
	sp_modules_take_event(m, &s);

	cr_expect_null(sp_modules_find(m, UINT64_MAX - 4, 0));
	cr_expect_eq(sp_modules_find(m, 0x1800, 0)->build_id_len, 0);
	sp_modules_free(m);
}
