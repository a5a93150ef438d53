/* SPDX-License-Identifier: Apache-2.0 */
/* Names of addresses: symbol tables, stripped code, code without a file. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export/objects/maps.h"
#include "export/symbols/builds.h"
#include "export/symbols/demangle.h"
#include "export/symbols/elf_file.h"
#include "export/symbols/symbolize.h"
#include "sampler/base/text.h"
#include "test/unit/emulated.h"
#include "tiny_library.h"

static struct sp_modules *modules;
static struct sp_symbolizer *symbolizer;

static void set_up(void)
{
	modules = sp_modules_new("/proc/self", -1);
	cr_assert_eq(sp_modules_refresh(modules), 0);
	symbolizer = sp_symbolizer_new(modules, &sp_symbolizer_options_default);
	cr_assert_not_null(symbolizer);
}

static void tear_down(void)
{
	sp_symbolizer_free(symbolizer);
	sp_modules_free(modules);
}

TestSuite(symbolize, .init = set_up, .fini = tear_down);

static struct sp_frame name_of(uint64_t pc)
{
	struct sp_frame f;

	sp_symbolize(symbolizer, pc, sp_modules_epoch(modules), &f);
	cr_assert_not_null(f.name);
	cr_assert_neq(f.name[0], '\0');
	cr_assert_not_null(f.system_name);
	cr_assert_not_null(f.place.file);
	cr_assert_neq(f.place.file[0], '\0');
	cr_assert_neq(f.place.key, 0);
	return f;
}

static uint64_t libc_address(const char *symbol)
{
	return (uintptr_t)dlsym(RTLD_DEFAULT, symbol);
}

static int static_function(int x)
{
	return x * 3 + 1;
}

Test(symbolize, names_static_and_exported_functions, .timeout = 20)
{
	struct sp_frame f = name_of((uintptr_t)static_function + 1);

	cr_expect_str_eq(f.name, "static_function");
	cr_expect_eq(f.address, (uintptr_t)static_function + 1);
	cr_expect_leq(f.place.start, f.address);
	cr_expect_gt(f.place.limit, f.address);
	f = name_of(libc_address("getenv") + 3);
	cr_expect_str_eq(f.name, "getenv");
	cr_expect_str_eq(strrchr(f.place.file, '/'), "/libc.so.6");
}

Test(symbolize, agrees_with_nm_on_this_program, .timeout = 60)
{
	const struct sp_module *self = sp_modules_main(modules);
	FILE *nm = ask_shell("nm -S --defined-only \"$SELF\"");
	unsigned long long vaddr, size;
	unsigned checked = 0;
	char line[512], type, name[256];

	while (fgets(line, sizeof(line), nm) != NULL) {
		struct sp_frame f;

		if (sscanf(line, "%llx %llx %c %255s", &vaddr, &size, &type, name) != 4 ||
		    (type != 't' && type != 'T') || size == 0 || strncmp(name, "sp_", 3) != 0 ||
		    strchr(name, '.') != NULL)
			continue;
		f = name_of(self->bias + vaddr);
		cr_expect_str_eq(f.name, name);
		f = name_of(self->bias + vaddr + size - 1);
		cr_expect_str_eq(f.name, name);
		checked++;
	}
	pclose(nm);
	cr_expect_gt(checked, 20);
}

Test(symbolize, gives_stripped_functions_one_name_each, .timeout = 20)
{
	/* A stripped library: few of its functions are exported, and all have frame information. */
	void *lib = dlopen("libjansson.so.4", RTLD_NOW);
	const struct sp_build_sources none = {.debug_root = "/nonexistent"};
	struct sp_builds *builds = sp_builds_new(&none);
	static struct sp_answer answer;
	const struct sp_module *mod;
	struct sp_frame f = {0};
	char want[64], first[64] = "";
	uint64_t vaddr = 0;

	cr_assert_not_null(lib);
	cr_assert_eq(sp_modules_refresh(modules), 0);
	mod = sp_modules_find(modules, (uintptr_t)dlsym(lib, "json_loads"), 0);
	/* Searches an address in a function without a symbol. */
	for (uint64_t at = mod->segment[0].start; at < mod->segment[0].end && vaddr == 0;
	     at += 16) {
		f = name_of(at);
		sp_builds_ask(builds, mod, at - mod->bias, false, &answer);
		if (strncmp(f.name, "libjansson.so.4", 15) == 0 &&
		    answer.start + 32 < at - mod->bias)
			vaddr = at - mod->bias;
	}
	cr_assert_neq(vaddr, 0, "no stripped function found");
	(void)snprintf(want, sizeof(want), "%s+0x%llx", mod->name,
		       (unsigned long long)answer.start);
	cr_expect_str_eq(f.name, want);
	strcpy(first, f.name);
	f = name_of(mod->bias + answer.start);
	cr_expect_str_eq(f.name, first, "its first instruction has another name");
	sp_builds_free(builds);
}

/* A label has no size. */
Test(symbolize, names_a_function_by_its_own_symbol_where_a_label_stands_before_it, .timeout = 20)
{
	char source[] = "/tmp/spanprof-twice-XXXXXX";
	char path[TINY_PATH_MAX];
	char flags[128];
	int fd = mkstemp(source);
	void *lib;

	cr_assert_geq(fd, 0);
	(void)dprintf(fd, ".text\n");
	for (unsigned i = 0; i < 3; i++)
		(void)dprintf(fd,
			      "label%u:\n.type sized%u,%%function\nsized%u:\n.skip 64\n"
			      ".size sized%u,.-sized%u\n",
			      i, i, i, i, i);
	(void)dprintf(fd, ".globl behind\nbehind:\n.skip 64\n"
			  ".section .note.GNU-stack,\"\",%%progbits\n");
	close(fd);
	(void)snprintf(flags, sizeof(flags), "-x assembler %s -x c", source);
	tiny_library(flags, path);
	lib = dlopen(path, RTLD_NOW);
	cr_assert_not_null(lib);
	cr_assert_eq(sp_modules_refresh(modules), 0);

	cr_expect_str_eq(name_of((uintptr_t)dlsym(lib, "behind")).name, "behind");
	for (unsigned i = 0; i < 3; i++) {
		char name[] = "sized?";

		name[5] = (char)('2' - i);
		cr_expect_str_eq(name_of((uintptr_t)dlsym(lib, "behind") - 64 * i - 5).name, name);
	}
	unlink(source);
	unlink(path);
}

static int fetched; /* the server's answer; 0 = the debug file */
static unsigned asked;
static char debug_path[TINY_PATH_MAX + 8];

static int fetch(void *arg, const uint8_t *id, size_t id_len, char *path, size_t cap)
{
	(void)arg;
	(void)id;
	cr_assert_eq(id_len, 20);
	asked++;
	if (fetched != 0)
		return fetched;
	(void)snprintf(path, cap, "%s", debug_path);
	return open(debug_path, O_RDONLY | O_CLOEXEC);
}

/* Prepares as for a push; then returns the frame of that address. */
static struct sp_frame prepare(uint64_t pc)
{
	sp_symbolizer_begin(symbolizer);
	sp_symbolizer_want(symbolizer, pc, sp_modules_epoch(modules));
	while (sp_symbolizer_step(symbolizer, SP_NS_PER_S))
		;
	sp_symbolizer_end(symbolizer);
	return name_of(pc);
}

/*
 * Loads a stripped library that was compiled with these flags. Its debug file is debug_path, and the library names it
 * if names_it. From now on a server is asked for debug files. Returns the address of the library's function hidden().
 */
static uint64_t load_with_debug_file(const char *flags, bool names_it, char path[TINY_PATH_MAX])
{
	const struct sp_symbolizer_options options = {
		.mode = SP_SYMBOLIZE_FULL, .debug_root = "/nonexistent", .fetch = fetch};
	char command[1024];
	void *lib;

	tiny_library(flags, path);
	(void)snprintf(debug_path, sizeof(debug_path), "%s.debug", path);
	(void)snprintf(command, sizeof(command),
		       "objcopy --only-keep-debug %s %s && strip -s %s && "
		       "%s objcopy --add-gnu-debuglink=%s %s",
		       path, debug_path, path, names_it ? "" : ":", debug_path, path);
	cr_assert_eq(system(command), 0);
	lib = dlopen(path, RTLD_NOW);
	cr_assert_not_null(lib);
	cr_assert_eq(sp_modules_refresh(modules), 0);
	sp_symbolizer_free(symbolizer);
	symbolizer = sp_symbolizer_new(modules, &options);
	return *(const uintptr_t *)dlsym(lib, "hidden_at");
}

static void expect_asked_again_after(int err)
{
	char path[TINY_PATH_MAX];
	uint64_t hidden = load_with_debug_file("-g -Wl,--build-id=sha1", false, path);
	struct sp_frame f;

	fetched = err;
	f = prepare(hidden);
	cr_expect_not_null(strstr(f.name, "+0x"), "%s", f.name);
	cr_expect_geq(asked, 1);
	fetched = 0;
	f = prepare(hidden);
	cr_expect_str_eq(f.name, "hidden");
	cr_expect_gt(f.line[0].line, 0, "it has no line");
	asked = 0;
	(void)prepare(hidden);
	cr_expect_eq(asked, 0, "it was asked for again");

	unlink(debug_path);
	unlink(path);
}

Test(symbolize, asks_again_for_a_debug_file_that_there_was_no_time_for, .timeout = 20)
{
	expect_asked_again_after(-EAGAIN);
}

/* The server was away, or the way to it was interrupted. */
Test(symbolize, asks_again_for_a_debug_file_where_a_server_gave_no_answer, .timeout = 20)
{
	expect_asked_again_after(-ECONNREFUSED);
}

Test(symbolize, asks_once_for_a_debug_file_that_no_server_has, .timeout = 20)
{
	char path[TINY_PATH_MAX];
	uint64_t hidden = load_with_debug_file("-g -Wl,--build-id=sha1", false, path);

	fetched = -ENOENT;
	(void)prepare(hidden);
	cr_expect_eq(asked, 1);
	(void)prepare(hidden);
	cr_expect_eq(asked, 1, "it was asked for again");

	unlink(debug_path);
	unlink(path);
}

/* The debug file has no lines. A server would be asked for ever for each such object. */
Test(symbolize, asks_for_no_debug_file_where_one_is_installed, .timeout = 20)
{
	char path[TINY_PATH_MAX];
	uint64_t hidden = load_with_debug_file("-Wl,--build-id=sha1", true, path);

	cr_expect_str_eq(prepare(hidden).name, "hidden");
	cr_expect_eq(asked, 0);
	unlink(debug_path);
	unlink(path);
}

Test(symbolize, names_vdso_functions, .timeout = 20)
{
	uint64_t base = getauxval(AT_SYSINFO_EHDR);
	bool found = false;

	if (base == 0)
		cr_skip_test("this kernel has no vdso");
	for (uint64_t at = base; at < base + 8192 && !found; at += 16)
		found = strstr(name_of(at).name, "clock_gettime") != NULL;
	cr_expect(found);
}

Test(symbolize, tells_generated_code_from_nonsense, .timeout = 20)
{
	char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
			  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(code, MAP_FAILED);
	cr_assert_eq(sp_modules_refresh(modules), 0);

	cr_expect_str_eq(name_of((uintptr_t)code + 10).name, "[anon]");
	cr_expect_str_eq(name_of(0x10).name, "[unknown]");
	cr_expect_str_eq(name_of(UINT64_MAX).name, "[unknown]");
	cr_expect_eq(name_of((uintptr_t)code + 10).address, (uintptr_t)code + 10);
	cr_expect_eq(name_of(0x10).address, 0x10);
	cr_expect_neq(name_of((uintptr_t)code).place.key, name_of(0x10).place.key);
}

Test(symbolize, names_code_that_was_mapped_by_hand_after_its_file, .timeout = 20)
{
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	char *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	cr_assert_neq(code, MAP_FAILED);
	cr_assert_eq(sp_modules_refresh(modules), 0);

	cr_expect_str_eq(name_of((uintptr_t)code + 0x123).name, "test_symbolize+0x123");
	close(fd);
}

Test(symbolize, reads_each_file_once, .timeout = 20)
{
	unsigned loads;

	name_of(libc_address("getenv"));
	loads = sp_symbolizer_loads(symbolizer);
	for (unsigned i = 0; i < 100; i++) {
		sp_symbolizer_begin(symbolizer);
		name_of(libc_address("getenv") + i % 4);
		name_of(libc_address("nl_langinfo") + i % 4);
	}

	cr_expect_eq(loads, 1);
	cr_expect_eq(sp_symbolizer_loads(symbolizer), 1);
}

/* Each forked child has its own modules. */
Test(symbolize, reads_a_file_without_a_build_id_once_for_all_processes, .timeout = 20)
{
	struct sp_modules *child = sp_modules_new("/proc/self", -1);
	char path[TINY_PATH_MAX];
	void *library;
	uint64_t outer;
	unsigned loads;

	tiny_library("-Wl,--build-id=none", path);
	library = dlopen(path, RTLD_NOW);
	cr_assert_not_null(library, "%s", dlerror());
	outer = (uintptr_t)dlsym(library, "outer");
	cr_assert_eq(sp_modules_refresh(modules), 0);
	cr_expect_str_eq(name_of(outer).name, "outer");
	loads = sp_symbolizer_loads(symbolizer);

	cr_assert_eq(sp_modules_refresh(child), 0);
	sp_symbolizer_turn_to(symbolizer, child);
	sp_symbolizer_begin(symbolizer);
	cr_expect_str_eq(name_of(outer + 1).name, "outer");

	cr_expect_eq(sp_symbolizer_loads(symbolizer), loads, "it was read again");
	sp_symbolizer_turn_to(symbolizer, modules);
	sp_modules_free(child);
	unlink(path);
}

Test(symbolize, does_not_trust_a_file_with_another_build_id, .timeout = 20)
{
	const struct sp_module *self = sp_modules_main(modules);
	uint8_t id[SP_BUILD_ID_MAX];
	struct sp_elf_file file;

	memcpy(id, self->build_id, sizeof(id));
	cr_assert_eq(sp_elf_file_open("/proc/self/exe", id, self->build_id_len, &file), 0);
	cr_expect_not_null(sp_elf_file_section(file.elf, ".symtab"));
	sp_elf_file_close(&file);
	id[0] ^= 1;
	cr_expect_eq(sp_elf_file_open("/proc/self/exe", id, self->build_id_len, &file), -ESTALE);
	cr_expect_eq(sp_elf_file_open("/proc/self/exe", id, 0, &file), -ESTALE);
}

/* An attacker who controls a confined process may have changed the file. */
Test(symbolize, refuses_files_that_changed_too_late, .timeout = 20)
{
	const struct sp_module *self = sp_modules_main(modules);
	struct sp_elf_file file;
	struct stat st;
	int64_t changed;

	cr_assert_eq(stat("/proc/self/exe", &st), 0);
	changed = st.st_ctim.tv_sec * INT64_C(1000000000) + st.st_ctim.tv_nsec;
	sp_elf_files_only_before(changed);
	cr_expect_eq(sp_elf_file_open("/proc/self/exe", self->build_id, self->build_id_len, &file),
		     -ESTALE);
	sp_elf_files_only_before(changed + INT64_C(1000000000));
	cr_expect_eq(sp_elf_file_open("/proc/self/exe", self->build_id, self->build_id_len, &file),
		     0);
	sp_elf_file_close(&file);
	sp_elf_files_only_before(1);
	cr_expect_eq(sp_elf_file_open("/proc/self/exe", self->build_id, self->build_id_len, &file),
		     -ESTALE);
	sp_elf_files_only_before(0);
	cr_expect_eq(sp_elf_file_open("/proc/self/exe", self->build_id, self->build_id_len, &file),
		     0);
	sp_elf_file_close(&file);
}

Test(symbolize, refuses_files_that_are_no_elf, .timeout = 20)
{
	char path[] = "/tmp/spanprof-elf-XXXXXX";
	int fd = mkstemp(path);
	int self = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	const uint8_t id[20] = {1};
	struct sp_elf_file file;
	char *bytes = malloc(65536);

	cr_expect_eq(sp_elf_file_open("/nonexistent", NULL, 0, &file), -ENOENT);
	cr_expect_lt(sp_elf_file_open(path, NULL, 0, &file), 0, "empty");
	cr_expect_lt(sp_elf_file_open("/proc/self/cmdline", NULL, 0, &file), 0);
	cr_expect_lt(sp_elf_file_open("/tmp", NULL, 0, &file), 0);
	/* The head of a real file: its section headers lie behind the end. */
	cr_assert_eq(read(self, bytes, 4096), 4096);
	cr_assert_eq(write(fd, bytes, 4096), 4096);
	cr_expect_eq(sp_elf_file_open(path, id, sizeof(id), &file), -ESTALE);
	if (sp_elf_file_open(path, NULL, 0, &file) == 0) {
		cr_expect_null(sp_elf_file_section(file.elf, ".symtab"), "nothing to find");
		sp_elf_file_close(&file);
	}
	close(self);
	free(bytes);
	close(fd);
	unlink(path);
}

Test(demangle, makes_cpp_readable_and_leaves_the_rest, .timeout = 20)
{
	static const char *const pair[][2] = {
		{"main", "main"},
		{"_ZN4shop4Cart3addEi", "shop::Cart::add"},
		{"_ZNSt6vectorIiSaIiEE9push_backEOi",
		 "std::vector<int, std::allocator<int> >::push_back"},
		{"_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write"},
		{"_ZN58_$LT$alloc..string..String$u20$as$u20$core..fmt..Debug$GT$"
		 "3fmt17h0123456789abcdefE",
		 "<alloc::string::String as core::fmt::Debug>::fmt"},
		{"_ZN4shop13Cart$LT$A$GT$4grow17h37ebee66544dc74aE.llvm.12345",
		 "shop::Cart<A>::grow"},
		{"_RNvNtCs1234_4shop4cart5total", "shop::cart::total"},
		{"_Rnonsense", "_Rnonsense"},
		{"_Znonsense", "_Znonsense"},
		{"_Z", "_Z"},
		{"a\xff", "a\xef\xbf\xbd"},
	};
	char out[SP_FUNCTION_NAME_MAX + 1];

	for (size_t i = 0; i < sizeof(pair) / sizeof(pair[0]); i++) {
		cr_expect_eq(sp_demangle(pair[i][0], out), strlen(pair[i][1]));
		cr_expect_str_eq(out, pair[i][1]);
	}
}

/* The sanitizers notice that the demangler passes a null pointer with length 0. */
Test(demangle, takes_a_rust_name_with_an_empty_part, .timeout = 20)
{
	char out[SP_FUNCTION_NAME_MAX + 1];

	cr_expect_neq(sp_demangle("_RINwNtC0xE", out), 0);
}

/* The demangler would count to a number in the name, although it prints nothing. */
Test(demangle, leaves_a_rust_name_that_binds_without_end, .timeout = 20)
{
	static const char symbol[] = "_RMYFGzzzzzzzzzz_EuC1tu";
	char out[SP_FUNCTION_NAME_MAX + 1];

	cr_expect_eq(sp_demangle("_RMYFG_EuC1tu", out), strlen("<()>"));
	(void)sp_demangle(symbol, out);
	cr_expect_str_eq(out, symbol);
}

/* Two names that differ in one place stay different, and have the greatest length. */
static void expect_apart(const char *a, const char *b)
{
	char out[2][SP_FUNCTION_NAME_MAX + 1];

	cr_expect_eq(sp_demangle(a, out[0]), SP_FUNCTION_NAME_MAX);
	cr_expect_eq(sp_demangle(b, out[1]), SP_FUNCTION_NAME_MAX);
	cr_expect_eq(strlen(out[0]), SP_FUNCTION_NAME_MAX);
	cr_expect_str_neq(out[0], out[1]);
	cr_expect_not_null(strstr(out[0], "[..."), "%s has no mark", out[0]);
	cr_expect_not_null(strstr(out[0], "...]"), "%s has no mark", out[0]);
}

Test(demangle, shortens_long_names_in_the_middle_and_marks_them, .timeout = 20)
{
	char symbol[2][5000], out[SP_FUNCTION_NAME_MAX + 1];

	for (unsigned i = 0; i < 2; i++) {
		memset(symbol[i], 'x', sizeof(symbol[i]));
		strcpy(symbol[i] + sizeof(symbol[i]) - 5, "tail");
	}
	memcpy(symbol[1] + 2500, "y", 1);
	expect_apart(symbol[0], symbol[1]);
	(void)sp_demangle(symbol[0], out);
	cr_expect_eq(strncmp(out, "xxxx", 4), 0);
	cr_expect_str_eq(out + SP_FUNCTION_NAME_MAX - 5, "xtail");
	/* 1,024 bytes are not too long. */
	symbol[0][SP_FUNCTION_NAME_MAX] = '\0';
	cr_expect_eq(sp_demangle(symbol[0], out), SP_FUNCTION_NAME_MAX);
	cr_expect_str_eq(out, symbol[0]);
}

Test(demangle, cuts_no_character_into_two, .timeout = 20)
{
	char text[300], out[65];

	for (size_t i = 0; i + 2 < sizeof(text); i += 2)
		memcpy(text + i, "\xc3\xa4", 2);
	for (size_t len = 200; len < 204; len++) {
		size_t n = sp_shorten(text, len / 2 * 2, out, 63);

		cr_expect(sp_text_valid(out, n));
		cr_expect_null(strstr(out, "\xef\xbf\xbd"), "%s", out);
		cr_expect_eq(strlen(out), n);
		cr_expect_leq(n, 63);
		cr_expect_geq(n, 60);
	}
}

/* "f" with an argument that is a pair of the last two, repeated many times: gigabytes. */
static void make_gigabytes(char *symbol, const char *first)
{
	(void)sprintf(symbol, "_Z1fISt4pairI%sE", first);
	for (const char *digit = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"; *digit != 0; digit++) {
		char twice[16];

		(void)snprintf(twice, sizeof(twice), "S0_IS%c_S%c_E", *digit, *digit);
		strcat(symbol, twice);
	}
	strcat(symbol, "Evv");
}

Test(demangle, ends_where_a_name_would_be_gigabytes_long, .timeout = 20)
{
	char symbol[2][1000], out[SP_FUNCTION_NAME_MAX + 1];

	make_gigabytes(symbol[0], "ii");
	make_gigabytes(symbol[1], "ij");
	expect_apart(symbol[0], symbol[1]);
	(void)sp_demangle(symbol[0], out);
	cr_expect_eq(strncmp(out, "f<std::pair<int, int>, ", 23), 0, "%.40s", out);
}

/* libiberty would refuse more than 1,024 bytes. */
Test(demangle, reads_symbols_of_thousands_of_bytes, .timeout = 20)
{
	static char symbol[SP_MANGLED_MAX + 100], other[sizeof(symbol)];
	char out[SP_FUNCTION_NAME_MAX + 1];
	char *end = symbol + sprintf(symbol, "_ZN4shop");

	for (unsigned i = 0; i < 30; i++)
		end += sprintf(end, "%u%.*s", 40 + i, (int)(40 + i),
			       "a_name_that_is_long_enough_"
			       "for_any_of_thirty_namespaces_and_for_more_than_that");
	strcpy(end, "Ev");
	cr_expect_gt(strlen(symbol), 1500);
	(void)sp_demangle(symbol, out);
	cr_expect_eq(strncmp(out, "shop::a_name_that", 17), 0, "%.40s", out);
	memcpy(other, symbol, sizeof(symbol));
	memcpy(strstr(other, "thirty_namespaces"), "forty", 5);
	expect_apart(symbol, other);

	/* The greatest depth. */
	memset(symbol, 'P', sizeof(symbol));
	memcpy(symbol, "_Z1f", 4);
	strcpy(symbol + SP_MANGLED_MAX - 1, "i");
	cr_expect_neq(sp_demangle(symbol, out), 0);
	memcpy(symbol, "_ZNK1fI", 7);
	cr_expect_neq(sp_demangle(symbol, out), 0);
	/* Longer symbols are shown unchanged. */
	strcpy(symbol + SP_MANGLED_MAX - 1, "ii");
	memcpy(symbol, "_Z1f", 4);
	cr_expect_eq(sp_demangle(symbol, out), SP_FUNCTION_NAME_MAX);
	cr_expect_eq(strncmp(out, "_Z1f", 4), 0);
}

Test(demangle, leaves_what_is_behind_the_symbol, .timeout = 20)
{
	char out[SP_FUNCTION_NAME_MAX + 1];

	(void)sp_demangle("_ZN4shop4Cart3addEi@plt", out);
	cr_expect_str_eq(out, "shop::Cart::add@plt");
	(void)sp_demangle("_Znonsense@plt", out);
	cr_expect_str_eq(out, "_Znonsense@plt");
	(void)sp_demangle("free@plt", out);
	cr_expect_str_eq(out, "free@plt");
}

Test(maps, reads_lines_of_code, .timeout = 20)
{
	struct sp_maps m = {0};
	const struct sp_map *map;

	cr_assert_eq(sp_maps_read(&m, "/proc/self/maps", -1), 0);
	map = sp_maps_find(&m, (uintptr_t)static_function);
	cr_assert_not_null(map);
	cr_expect_str_eq(strrchr(sp_maps_path(&m, map), '/'), "/test_symbolize");
	cr_expect_eq(map->prot, PROT_READ | PROT_EXEC);
	cr_expect_null(sp_maps_find(&m, (uintptr_t)&m), "the stack is not executable");
	cr_expect_eq(sp_maps_read(&m, "/nonexistent", -1), -ENOENT);
	cr_expect_null(sp_maps_find(&m, (uintptr_t)static_function), "a stale snapshot");
	sp_maps_fini(&m);
}
