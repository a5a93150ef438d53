/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damaged ELF files: no byte is read or written outside of the buffers, and reading ends. Meant for the sanitizers.
 */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export/objects/object_file.h"
#include "export/symbols/builds.h"
#include "export/symbols/elf_file.h"
#include "test/unit/emulated.h"
#include "tiny_library.h"

#define IMAGE_MAX ((size_t)256 << 10)
#define FLIPS 3000U

static uint8_t good[IMAGE_MAX], bad[IMAGE_MAX];
static size_t good_len;
static uint64_t seed = 88172645463325252U;

static uint64_t next(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

static void build(const char *flags)
{
	char path[TINY_PATH_MAX];
	FILE *image;

	tiny_library(flags, path);
	image = fopen(path, "r");
	cr_assert_not_null(image);
	good_len = fread(good, 1, sizeof(good), image);
	cr_assert_gt(good_len, 4096);
	cr_assert_lt(good_len, sizeof(good));
	fclose(image);
	unlink(path);
}

static const uint8_t *image;
static size_t image_len;

/* The vDSO is the only file that is used unchecked, because the kernel maps it. So here it is the damaged file. */
const uint8_t *sp_vdso_image(size_t *size)
{
	*size = image_len;
	return image;
}

static struct sp_answer answer;

static void ask(const struct sp_build_sources *sources, uint64_t at)
{
	static struct sp_module mod = {.vdso = true, .hi = UINT64_MAX, .path = "", .shown = ""};
	static struct sp_builds *builds;

	if (at == 0x1000) {
		sp_builds_free(builds);
		builds = sp_builds_new(sources);
	}
	sp_builds_ask(builds, &mod, at, true, &answer);
}

/* Reads everything in the file. Returns the number of items, which is checked for the undamaged file. */
static unsigned read_all(const uint8_t *bytes, size_t len)
{
	static const struct sp_build_sources names = {.debug_root = "/nonexistent"};
	static const struct sp_build_sources all = {
		.debug_root = "/nonexistent", .symbols = true, .dwarf = true};
	unsigned found = 0;

	image = bytes;
	image_len = len;
	for (uint64_t at = 0x1000; at < 0x1400; at += 3) {
		ask(&all, at);
		found |= answer.symbol != NULL && answer.symbol[0] != '\0' ? 1 : 0;
		found |= answer.lines > 1 && answer.line[0].line != 0 ? 4 : 0;
		cr_assert_leq(answer.start, at);
	}
	for (uint64_t at = 0x1000; at < 0x1400; at += 3) {
		ask(&names, at);
		found |= answer.start != at ? 2 : 0;
	}
	return found;
}

static void damage(void)
{
	unsigned n = 1 + (unsigned)next(6);

	memcpy(bad, good, good_len);
	while (n-- != 0) {
		size_t at = next(good_len - 8);
		/* Headers are a small part of the file and the most interesting one. */
		size_t table = next(4) == 0 ? next(sizeof(Elf64_Ehdr) + 512) : at;

		if (next(3) == 0)
			memset(bad + table, (int)next(2) * 255, 1 + next(8));
		else
			bad[table] ^= (uint8_t)(1U << next(8));
	}
}

static void try_all(const char *flags)
{
	uint8_t *copy;

	build(flags);
	copy = malloc(good_len);
	memcpy(copy, good, good_len);
	cr_expect_eq(read_all(copy, good_len), 7, "not all of the good file is read");
	free(copy);
	for (size_t len = 0; len < good_len; len += 61) {
		/* Exactly that size, so that a sanitizer notices one byte too many. */
		copy = malloc(len != 0 ? len : 1);
		memcpy(copy, good, len);
		(void)read_all(copy, len);
		free(copy);
	}
	for (unsigned i = 0; i < FLIPS; i++) {
		damage();
		copy = malloc(good_len);
		memcpy(copy, bad, good_len);
		(void)read_all(copy, good_len);
		free(copy);
	}
}

Test(elf_hostile, damaged_files_do_no_harm, .timeout = 120)
{
	try_all("-g");
}

Test(elf_hostile, damaged_old_forms_do_no_harm, .timeout = 120)
{
	try_all("-gdwarf-4 -gz -fdebug-types-section");
}

/* Makes an empty file for the assembler's output; path is a template for mkstemp. */
static void make_file(char *path)
{
	int fd;

	if (emulated())
		cr_skip_test("the assembler makes objects for another processor");
	fd = mkstemp(path);
	cr_assert_geq(fd, 0);
	close(fd);
}

/* Assembles a section of that name and flags, with a header that promises a GiB. */
static void promise(const char *name, const char *flags, const char *header)
{
	char command[256], path[] = "/tmp/spanprof-promise-XXXXXX";
	FILE *as, *object;

	make_file(path);
	(void)snprintf(command, sizeof(command), "gcc -x assembler -c -o %s -", path);
	as = popen(command, "w");
	cr_assert_not_null(as);
	fprintf(as, ".section %s,\"%s\",%%progbits\n%s\n.byte 1\n", name, flags, header);
	cr_assert_eq(pclose(as), 0);
	object = fopen(path, "r");
	cr_assert_not_null(object);
	good_len = fread(good, 1, sizeof(good), object);
	fclose(object);
	unlink(path);
}

Test(elf_hostile, what_a_packed_section_promises_is_counted_by_any_name, .timeout = 60)
{
	static const char packed[] = ".long 1, 0\n.8byte 0x40000000, 1";
	static const char *const name[] = {".debug_info", ".gnu_debugaltlink",
					   ".gnu.debuglto_.debug_line"};
	Elf *elf;

	elf_version(EV_CURRENT);
	for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
		promise(name[i], "0x800", packed);
		elf = elf_memory((char *)good, good_len);
		cr_expect_geq(sp_lines_need(elf), (uint64_t)1 << 30, "%s", name[i]);
		elf_end(elf);
	}
	promise(".zdebug_info", "", ".ascii \"ZLIB\"\n.4byte 0, 64");
	elf = elf_memory((char *)good, good_len);
	cr_expect_geq(sp_lines_need(elf), (uint64_t)1 << 30);
	elf_end(elf);
	/* These sections are not read. */
	promise(".debug_loc", "0x800", packed);
	elf = elf_memory((char *)good, good_len);
	cr_expect_lt(sp_lines_need(elf), (uint64_t)1 << 20);
	elf_end(elf);
}

#define SYMBOLS (1U << 20)

/* n tables of symbols, all with the same million undefined symbols, and behind them one with a function at 0x1000. */
static void symbol_tables(unsigned n)
{
	static const char strings[] = "\0late";
	struct image {
		Elf64_Ehdr head;
		char strings[16];
		Elf64_Sym function[2];
		Elf64_Shdr section[64 + 3];
		Elf64_Sym symbol[SYMBOLS];
	} *all = calloc(1, sizeof(*all));
	Elf64_Shdr *at = &all->section[1];

	memcpy(all->strings, strings, sizeof(strings));
	all->head = (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1},
				 .e_type = ET_DYN,
				 .e_machine = EM_X86_64,
				 .e_version = 1,
				 .e_ehsize = sizeof(Elf64_Ehdr),
				 .e_shoff = offsetof(struct image, section),
				 .e_shentsize = sizeof(Elf64_Shdr),
				 .e_shnum = (Elf64_Half)(n + 3),
				 .e_shstrndx = 1};
	all->function[1] = (Elf64_Sym){.st_name = 1,
				       .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
				       .st_shndx = 1,
				       .st_value = 0x1000,
				       .st_size = 16};
	*at++ = (Elf64_Shdr){.sh_type = SHT_STRTAB,
			     .sh_offset = offsetof(struct image, strings),
			     .sh_size = sizeof(strings)};
	for (unsigned i = 0; i < n; i++)
		*at++ = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
				     .sh_offset = offsetof(struct image, symbol),
				     .sh_size = sizeof(all->symbol),
				     .sh_link = 1,
				     .sh_addralign = 8,
				     .sh_entsize = sizeof(Elf64_Sym)};
	*at = (Elf64_Shdr){.sh_type = SHT_SYMTAB,
			   .sh_offset = offsetof(struct image, function),
			   .sh_size = sizeof(all->function),
			   .sh_link = 1,
			   .sh_addralign = 8,
			   .sh_entsize = sizeof(Elf64_Sym)};
	image = (const uint8_t *)all;
	image_len = sizeof(*all);
}

/*
 * A file of 24 MiB can have thousands of such tables, which differ only in their headers: reading all would take
 * minutes.
 */
Test(elf_hostile, not_all_is_read_of_tables_of_symbols_without_end, .timeout = 120)
{
	static const struct sp_build_sources symbols = {.debug_root = "/nonexistent",
							.symbols = true};

	symbol_tables(1);
	ask(&symbols, 0x1000);
	cr_assert_not_null(answer.symbol);
	cr_expect_str_eq(answer.symbol, "late");
	free((void *)(uintptr_t)image);
	symbol_tables(64);
	ask(&symbols, 0x1000);
	cr_expect_null(answer.symbol);
	free((void *)(uintptr_t)image);
}

/*
 * Debug information in the assembler's language: a list of RANGES empty ranges, abbreviations, and units. "function
 * NAME START" and "unit START END" have one range, the others have the list.
 */
#define RANGES "0x10000"
#define ABBREVIATION(N, TAG, CHILDREN, ATTRIBUTES)                                                 \
	".uleb128 " N ", " TAG "\n.byte " CHILDREN "\n.uleb128 " ATTRIBUTES ", 0, 0\n"
#define PLACE "0x11, 1, 0x12, 7" /* DW_AT_low_pc, DW_AT_high_pc */
#define LIST "0x55, 0x17"        /* DW_AT_ranges */
#define NAME "3, 8"
static const char debug_head[] =
	".macro unit_head table=0\n.long 2f - 1f\n1: .short 4\n.long \\table\n.byte 8\n.endm\n"
	".macro unit start, size, table=0\nunit_head \\table\n.byte 1\n.quad \\start, "
	"\\size\n.endm\n"
	".macro unit_of_list\nunit_head\n.byte 2\n.long 0\n2:\n.endm\n"
	".macro end_unit\n.byte 0\n2:\n.endm\n"
	".macro function name, start, size\n.byte 3\n.asciz \"\\name\"\n.quad \\start, "
	"\\size\n.endm\n"
	".macro function_of_list\n.byte 4\n.asciz \"list\"\n.long 0\n.endm\n"
	".macro inlined name, start, size\n.byte 5\n.asciz \"\\name\"\n.quad \\start, "
	"\\size\n.endm\n"
	".macro inlined_of_list\n.byte 6\n.asciz \"list\"\n.long 0\n.endm\n"
	".section .debug_ranges\n.fill 2 * " RANGES ", 8, 1\n.quad 0, 0\n"
	".section .debug_abbrev\nfirst:\n" ABBREVIATION("1", "0x11", "1", PLACE)
		ABBREVIATION("2", "0x11", "0", LIST) ABBREVIATION("3", "0x2e", "1", NAME ", " PLACE)
			ABBREVIATION("4", "0x2e", "0",
				     NAME ", " LIST) ABBREVIATION("5", "0x1d", "0", NAME ", " PLACE)
				ABBREVIATION("6", "0x1d", "0",
					     NAME ", " LIST) ".byte 0\n.section .debug_info\n";

/* Assembles a file with that debug information. "MANY" in it is the number of entries that name the list. */
static void assemble(const char *path, const char *flags, const char *info, unsigned many)
{
	char command[256];
	FILE *as;

	(void)snprintf(command, sizeof(command), "gcc -shared -nostdlib %s -x assembler -o %s -",
		       flags, path);
	as = popen(command, "w");
	cr_assert_not_null(as);
	fprintf(as, ".set MANY, %u\n%s%s", many, debug_head, info);
	cr_assert_eq(pclose(as), 0);
}

static void debug_information(const char *info, unsigned many)
{
	char path[] = "/tmp/spanprof-ranges-XXXXXX";
	FILE *library;

	make_file(path);
	assemble(path, "", info, many);
	free((void *)(uintptr_t)image);
	image = malloc((size_t)4 << 20);
	library = fopen(path, "r");
	cr_assert_not_null(library);
	image_len = fread((void *)(uintptr_t)image, 1, (size_t)4 << 20, library);
	fclose(library);
	unlink(path);
}

/* The names of the functions at an address, innermost first. The call for 0x1000 opens the file. */
static const char *functions_at(uint64_t at)
{
	static const struct sp_build_sources dwarf = {
		.debug_root = "/nonexistent", .symbols = true, .dwarf = true};
	static char names[256];
	size_t len = 0;

	ask(&dwarf, at);
	names[0] = '\0';
	for (unsigned i = 0; i < answer.lines && len < sizeof(names); i++)
		len += (size_t)snprintf(names + len, sizeof(names) - len, "%s ",
					answer.line[i].name != NULL ? answer.line[i].name : "-");
	return names;
}

/* Checks the functions at 0x1000 and at 0x1100 in a file with that debug information. */
static void expect_functions(const char *info, unsigned many, const char *first, const char *second)
{
	debug_information(info, many);
	cr_expect_str_eq(functions_at(0x1000), first);
	cr_expect_str_eq(functions_at(0x1100), second);
}

/*
 * A list of a MiB, and a MiB of entries that all name it: seven thousand million ranges. An address that an unread
 * range might cover has no names.
 */
Test(elf_hostile, not_all_is_read_of_ranges_of_units_without_end, .timeout = 120)
{
	static const char info[] =
		"unit 0x1000, 16\nfunction early, 0x1000, 16\n.byte 0\nend_unit\n"
		".rept MANY\nunit_of_list\n.endr\n"
		"unit 0x1100, 16\nfunction late, 0x1100, 16\n.byte 0\nend_unit\n";

	expect_functions(info, 1, "early ", "late ");
	expect_functions(info, 512, "early ", "");
}

Test(elf_hostile, not_all_is_read_of_ranges_of_functions_without_end, .timeout = 120)
{
	static const char info[] =
		"unit 0x1000, 16\nfunction early, 0x1000, 16\n.byte 0\nend_unit\n"
		"unit 0x1100, 16\nfunction before, 0x1100, 16\n.byte 0\n"
		".rept MANY\nfunction_of_list\n.endr\nend_unit\n";

	expect_functions(info, 1, "early ", "before ");
	expect_functions(info, 512, "early ", "");
}

Test(elf_hostile, not_all_is_read_of_ranges_of_inlined_functions_without_end, .timeout = 120)
{
	static const char info[] = "unit 0x1000, 0x200\nfunction outer, 0x1000, 16\n"
				   ".rept MANY\ninlined_of_list\n.endr\n"
				   "inlined inner, 0x1000, 8\n.byte 0\n"
				   "function plain, 0x1100, 16\n.byte 0\nend_unit\n";

	expect_functions(info, 1, "inner outer ", "plain ");
	expect_functions(info, 512, "", "plain ");
}

/* Attributes of no bytes. libdw reads each of them to reach the next entry. */
#define WIDE ".rept MANY\n.uleb128 0x2001, 0x19\n.endr\n.uleb128 0, 0\n"
#define WIDE_UNIT                                                                                  \
	".section .debug_abbrev\nwide:\n.uleb128 1, 0x11\n.byte 1\n.uleb128 " PLACE "\n" WIDE      \
	".byte 0\n.section .debug_info\n"
#define WIDE_ENTRY                                                                                 \
	".section .debug_abbrev\nwide:\n" ABBREVIATION("1", "0x11", "1", PLACE)                    \
		ABBREVIATION("3", "0x2e", "1", NAME ", " PLACE) ".uleb128 7, 0x34\n.byte 0\n" WIDE \
								".byte 0\n.section .debug_info\n"

/* A MiB of one-byte entries with 60 thousand attributes each would take minutes. */
Test(elf_hostile, wide_entries_are_not_read, .timeout = 120)
{
	static const char info[] =
		WIDE_ENTRY "unit 0x1000, 16\nfunction early, 0x1000, 16\n.byte 0\nend_unit\n"
			   "unit 0x1100, 16, wide-first\nfunction before, 0x1100, 16\n.byte 0\n"
			   ".fill 1000, 1, 7\nend_unit\n";

	expect_functions(info, 200, "early ", "before ");
	expect_functions(info, 60000, "early ", "");
}

Test(elf_hostile, not_all_is_read_of_wide_units_without_end, .timeout = 120)
{
	static const char info[] =
		WIDE_UNIT "unit 0x1000, 16\nfunction early, 0x1000, 16\n.byte 0\nend_unit\n"
			  ".rept 5000\nunit 0x1200, 16, wide-first\nend_unit\n.endr\n"
			  "unit 0x1100, 16\nfunction late, 0x1100, 16\n.byte 0\nend_unit\n";

	expect_functions(info, 200, "early ", "late ");
	expect_functions(info, 60000, "early ", "");
}

static long peak_kib(void)
{
	struct rusage use;

	cr_assert_eq(getrusage(RUSAGE_SELF, &use), 0);
	return use.ru_maxrss;
}

/* The name of the function is in a shared file (DW_FORM_GNU_strp_alt). */
static const char sharing[] = ".section .debug_abbrev\nother:\n" ABBREVIATION("1", "0x11", "1",
									      PLACE)
	ABBREVIATION("3", "0x2e", "0",
		     "3, 0x1f21, " PLACE) ".byte 0\n"
					  ".section .debug_info\nunit 0x1000, 16, other-first\n"
					  ".byte 3\n.long 0\n.quad 0x1000, 16\nend_unit\n"
					  ".section .gnu_debugaltlink\n.asciz \"%s\"\n.byte 1, "
					  "2, 3, 4\n";

/* The file to which dwz has moved shared debug information is named in the object. */
Test(elf_hostile, of_a_shared_file_nothing_is_unpacked_that_nobody_reads, .timeout = 120)
{
	static const char shared[] = "unit 0x1000, 16\nend_unit\n.section .debug_str\n"
				     ".asciz \"shared\"\n.section .debug_loc\n.zero 0x8000000\n";
	char path[] = "/tmp/spanprof-shared-XXXXXX";
	char info[sizeof(sharing) + sizeof(path)];
	long before;

	make_file(path);
	assemble(path, "-gz=zlib -Wl,--build-id=0x01020304", shared, 0);
	(void)snprintf(info, sizeof(info), sharing, path);
	debug_information(info, 0);
	before = peak_kib();
	cr_expect_str_eq(functions_at(0x1000), "shared ");
	cr_expect_lt(peak_kib() - before, 64 << 10);
	unlink(path);
}

/* libdw would wait for a writer. */
Test(elf_hostile, a_split_unit_is_not_looked_for_in_a_fifo, .timeout = 20)
{
	/* DW_AT_GNU_dwo_name, DW_AT_GNU_dwo_id */
	static const char split[] = ".section .debug_abbrev\nother:\n" ABBREVIATION(
		"1", "0x11", "0",
		PLACE
		", 0x2130, 8, 0x2131, 7") ".byte 0\n"
					  ".section .debug_info\nunit 0x1000, 16, other-first\n"
					  ".asciz \"%s\"\n.quad 5\n2:\n"
					  "unit 0x1100, 16\nfunction whole, 0x1100, 16\n.byte "
					  "0\nend_unit\n";
	char path[] = "/tmp/spanprof-split-XXXXXX";
	char info[sizeof(split) + sizeof(path)];

	make_file(path);
	unlink(path);
	cr_assert_eq(mkfifo(path, 0600), 0);
	(void)snprintf(info, sizeof(info), split, path);
	expect_functions(info, 0, "", "whole ");
	unlink(path);
}

Test(elf_hostile, a_shared_file_is_not_looked_for_in_a_fifo, .timeout = 20)
{
	char path[] = "/tmp/spanprof-shared-XXXXXX";
	char info[sizeof(sharing) + sizeof(path)];

	make_file(path);
	unlink(path);
	(void)snprintf(info, sizeof(info), sharing, path);
	debug_information(info, 0);
	cr_expect_str_eq(functions_at(0x1000), "", "there is no such file, so no name");
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_expect_str_eq(functions_at(0x1000), "");
	unlink(path);
}

Test(elf_hostile, a_shared_file_shares_nothing_in_turn, .timeout = 60)
{
	static const char shared[] = "unit 0x1000, 16\nend_unit\n.section .debug_str\n"
				     ".asciz \"shared\"\n.section .gnu_debugaltlink\n"
				     ".asciz \"/nonexistent\"\n.byte 1, 2, 3, 4\n";
	char path[] = "/tmp/spanprof-shared-XXXXXX";
	char info[sizeof(sharing) + sizeof(path)];

	make_file(path);
	assemble(path, "-Wl,--build-id=0x01020304", shared, 0);
	(void)snprintf(info, sizeof(info), sharing, path);
	debug_information(info, 0);
	cr_expect_str_eq(functions_at(0x1000), "");
	unlink(path);
}
