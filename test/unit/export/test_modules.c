/* SPDX-License-Identifier: Apache-2.0 */
/* The list of loaded objects: of this process, and of fake ones with reused addresses. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "export/objects/modules.h"
#include "export/symbols/builds.h"
#include "fake_host.h"
#include "sampler/base/text.h"
#include "test/unit/emulated.h"

/* Comes with libc, and no program loads it. */
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
	pc = address(dlsym(lib, "__ctype_get_mb_cur_max"));
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
	sp_modules_forget(m, before + 2, before + 2);
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
	sp_modules_forget(m, 2, 2);
	cr_expect_str_eq(sp_modules_find(m, 0x10010, 0)->name, "second.so");
	sp_modules_free(m);
}

Test(modules, a_copy_knows_what_was_mapped_and_what_was, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new(fake_host_start(), -1);
	struct sp_modules *copy;
	char path[256], shown[256];

	fake_host_map(fake_host_object("first.so", 0x1000, 1), 0x10000, 0x1000);
	cr_assert_eq(sp_modules_refresh(m), 0);
	fake_host_unmap_all();
	fake_host_map(fake_host_object("second.so", 0x2000, 2), 0x10000, 0x2000);
	cr_assert_eq(sp_modules_refresh(m), 0);
	(void)snprintf(path, sizeof(path), "%s", sp_modules_find(m, 0x10010, 1)->path);
	(void)snprintf(shown, sizeof(shown), "%s", sp_modules_find(m, 0x10010, 1)->shown);
	cr_assert_neq(path[0], '\0');
	copy = sp_modules_copy(m);
	cr_assert_not_null(copy);
	cr_expect_neq(sp_modules_find(copy, 0x10010, 1)->path,
		      sp_modules_find(m, 0x10010, 1)->path);
	sp_modules_free(m);

	cr_expect_eq(sp_modules_epoch(copy), 1);
	cr_assert_not_null(sp_modules_find(copy, 0x10010, 1));
	cr_expect_str_eq(sp_modules_find(copy, 0x10010, 0)->name, "first.so");
	cr_expect_str_eq(sp_modules_find(copy, 0x10010, 1)->name, "second.so");
	cr_expect_eq(sp_modules_find(copy, 0x10010, 0)->died, 1);
	cr_expect_str_eq(sp_modules_find(copy, 0x10010, 1)->path, path);
	cr_expect_str_eq(sp_modules_find(copy, 0x10010, 1)->shown, shown);
	sp_modules_free(copy);
}

static uint32_t serial_for_another_process(const char *proc)
{
	struct sp_modules *m = sp_modules_new(proc, -1);
	uint32_t serial;

	cr_assert_eq(sp_modules_refresh(m), 0);
	serial = sp_modules_find(m, 0x10010, 0)->serial;
	sp_modules_free(m);
	return serial;
}

/* Processes of a family share the results of a file, but not with another file of the same name. */
Test(modules, an_object_without_build_id_is_known_by_its_file, .timeout = 20)
{
	const char *proc = fake_host_start();
	const char *object = fake_host_object("first.so", 0x1000, 0);
	char former[FAKE_PATH_MAX + 8];
	uint32_t serial;

	fake_host_map(object, 0x10000, 0x1000);
	serial = serial_for_another_process(proc);
	cr_expect_eq(serial_for_another_process(proc), serial);

	/* The former file still exists, so the new one gets another inode. */
	(void)snprintf(former, sizeof(former), "%s.former", object);
	cr_assert_eq(rename(object, former), 0);
	fake_host_unmap_all();
	fake_host_map(fake_host_object("first.so", 0x1000, 0), 0x10000, 0x1000);
	cr_expect_neq(serial_for_another_process(proc), serial);
}

#ifndef __SANITIZE_ADDRESS__ /* AddressSanitizer has its own allocator */
static size_t memory(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

Test(modules, a_copy_tells_how_much_memory_it_takes, .timeout = 20)
{
	const unsigned alive = 30, dead = 60;
	struct sp_modules *m = sp_modules_new(fake_host_start(), -1);
	struct sp_modules *copy;
	size_t before, grown, bytes;

	for (unsigned n = dead; n != 0; n = n == dead ? alive : 0) {
		fake_host_unmap_all();
		for (unsigned i = 0; i < n; i++) {
			char name[24];

			(void)snprintf(name, sizeof(name), "%u-%u.so", n, i);
			fake_host_map(fake_host_object(name, 0x1000, (uint8_t)(n + i)),
				      0x100000 + i * UINT64_C(0x1000), 0x1000);
		}
		cr_assert_eq(sp_modules_refresh(m), 0);
	}
	before = memory();
	copy = sp_modules_copy(m);
	grown = memory() - before;
	bytes = sp_modules_bytes(copy);

	/* An allocation takes a few bytes more than requested. */
	cr_expect_leq(bytes, grown);
	cr_expect_leq(grown, bytes + (alive + dead + 10) * 32, "%zu of %zu", bytes, grown);
	cr_expect_leq(grown, (alive + dead) * 512 + 8192, "%zu", grown);
	sp_modules_free(copy);
	sp_modules_free(m);
}

Test(modules, takes_no_more_memory_than_its_paths_are_long, .timeout = 20)
{
	const unsigned objects = 400;
	struct sp_modules *m = sp_modules_new(fake_host_start(), -1);
	size_t before, grown;

	for (unsigned i = 0; i < objects; i++) {
		char name[24];

		(void)snprintf(name, sizeof(name), "%u.so", i);
		fake_host_map(fake_host_object(name, 0x1000, (uint8_t)i),
			      0x100000 + i * UINT64_C(0x1000), 0x1000);
	}
	cr_assert_eq(sp_host_objects_refresh(sp_modules_host(m)), 0);
	before = memory();
	cr_assert_eq(sp_modules_refresh(m), 0);
	grown = memory() - before;

	cr_expect_leq(grown, objects * 1024, "%zu", grown);
	sp_modules_free(m);
}
#endif

Test(modules, takes_in_what_comes_and_buries_what_is_gone, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new(fake_host_start(), -1);
	const char *path[40];

	for (unsigned i = 0; i < 40; i++) {
		char name[24];

		(void)snprintf(name, sizeof(name), "%u.so", i);
		path[i] = fake_host_object(name, 0x1000, (uint8_t)(i + 1));
	}
	/* First every second object, then those between them. */
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
	sp_modules_forget(m, 2, 2);
	cr_expect_null(sp_modules_find(m, 0x101005, 1));
	cr_expect_not_null(sp_modules_find(m, 0x100005, 1));
	sp_modules_free(m);
}

/* On aarch64 the vDSO is in the loader's gap. */
Test(modules, may_lie_in_the_gap_of_another_one, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new(fake_host_start(), -1);

	fake_host_map_around(fake_host_object("outer.so", 0x2000, 1),
			     fake_host_object("inner.so", 0x1000, 2));
	cr_assert_eq(sp_modules_refresh(m), 0);

	cr_assert_not_null(sp_modules_find(m, 0x10500, 0));
	cr_expect_str_eq(sp_modules_find(m, 0x10500, 0)->name, "outer.so");
	cr_assert_not_null(sp_modules_find(m, 0x20500, 0));
	cr_expect_str_eq(sp_modules_find(m, 0x20500, 0)->name, "inner.so");
	cr_expect_null(sp_modules_find(m, 0x30500, 0), "no code");
	sp_modules_free(m);
}

/* Mappings behind the part of the list that was read are not gone. */
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

/* The start of a function, by the call frame information alone. */
static bool function_of(const struct sp_module *mod, uint64_t pc, uint64_t *start)
{
	static const struct sp_build_sources none = {.debug_root = "/nonexistent"};
	static struct sp_answer answer;
	static struct sp_builds *builds;

	if (builds == NULL)
		builds = sp_builds_new(&none);
	sp_builds_ask(builds, mod, pc - mod->bias, false, &answer);
	*start = answer.start;
	return answer.start != pc - mod->bias;
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
	cr_expect_not(function_of(libc, libc->bias, &start), "that is the ELF header");
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
		    size < 2 || strchr(name, '.') != NULL)
			continue;
		cr_expect(function_of(self, self->bias + vaddr + size - 1, &start), "%s", name);
		cr_expect_eq(start, vaddr, "%s", name);
		checked++;
	}
	pclose(nm);
	cr_expect_gt(checked, 20);
	sp_modules_free(m);
}

/* A path may lead to another file by now, with other functions. */
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
