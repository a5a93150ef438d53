/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of several symbols names a function, stubs of functions in other objects, and names from debug information.
 */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "export/symbols/elf_file.h"
#include "export/symbols/lines.h"
#include "export/symbols/plt.h"
#include "export/symbols/symbolize.h"
#include "export/util/clock.h"
#include "test/unit/emulated.h"

static struct sp_modules *modules;
static struct sp_symbolizer *symbolizer;
static char path[64];
static void *library;

static void set_up(void)
{
	if (emulated())
		cr_skip_test("the compiler makes code for another processor");
	strcpy(path, "/tmp/spanprof-names-XXXXXX");
	close(mkstemp(path));
	modules = sp_modules_new("/proc/self", -1);
	symbolizer = sp_symbolizer_new(modules, &sp_symbolizer_options_default);
	cr_assert_not_null(symbolizer);
}

static void tear_down(void)
{
	sp_symbolizer_free(symbolizer);
	sp_modules_free(modules);
	if (library != NULL)
		dlclose(library);
	unlink(path);
}

static void again(void)
{
	tear_down();
	library = NULL;
	set_up();
}

TestSuite(names, .init = set_up, .fini = tear_down);

/* Compiles a library from that source. */
static void compile(const char *compiler, const char *source)
{
	char command[512];
	FILE *cc;

	(void)snprintf(command, sizeof(command), "%s -fPIC -shared -o %s -", compiler, path);
	cc = popen(command, "w");
	cr_assert_not_null(cc);
	cr_assert_geq(fputs(source, cc), 0);
	cr_assert_eq(pclose(cc), 0, "%s", command);
}

static void load_made(void)
{
	library = dlopen(path, RTLD_NOW);
	cr_assert_not_null(library, "%s", dlerror());
	cr_assert_eq(sp_modules_refresh(modules), 0);
}

static void load(const char *compiler, const char *source)
{
	compile(compiler, source);
	load_made();
}

static uint64_t at(const char *symbol)
{
	uint64_t address = (uintptr_t)dlsym(library, symbol);

	cr_assert_neq(address, 0, "no %s", symbol);
	return address;
}

static struct sp_frame frame(uint64_t pc)
{
	struct sp_frame f;

	sp_symbolizer_begin(symbolizer);
	sp_symbolizer_want(symbolizer, pc, sp_modules_epoch(modules));
	while (sp_symbolizer_step(symbolizer, SP_NS_PER_S))
		;
	sp_symbolizer_end(symbolizer);
	sp_symbolize(symbolizer, pc, sp_modules_epoch(modules), &f);
	return f;
}

static void expect_name(uint64_t pc, const char *name)
{
	struct sp_frame f = frame(pc);

	cr_expect_str_eq(f.name, name, "%s instead of %s", f.name, name);
}

#define ASSEMBLER "gcc -x assembler"
#define NO_STACK ".section .note.GNU-stack,\"\",%progbits\n"

/* glibc 2.41 has such a label behind the system call in which threads wait. */
Test(names, a_label_inside_of_a_function_of_known_size_names_nothing, .timeout = 20)
{
	char source[4096] = ".text\n.globl outer\n.type outer,%function\nouter:\n.skip 8\n";
	char *end = source + strlen(source);

	for (unsigned i = 0; i < 40; i++)
		end += sprintf(end, ".globl label%u\nlabel%u:\n.skip 4\n", i, i);
	strcpy(end, ".size outer,.-outer\n.globl next\nnext:\n.skip 16\n" NO_STACK);
	load(ASSEMBLER, source);

	expect_name(at("outer"), "outer");
	for (unsigned i = 0; i < 40; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "label%u", i);
		expect_name(at(name), "outer");
		expect_name(at(name) + 3, "outer");
	}
	expect_name(at("next") + 15, "next");
}

Test(names, the_innermost_of_functions_in_functions_names_an_address, .timeout = 20)
{
	load(ASSEMBLER, ".text\n.globl outer\n.type outer,%function\nouter:\n.skip 8\n"
			".globl inner\n.type inner,%function\ninner:\n.skip 8\n.size inner,8\n"
			".globl label\nlabel:\n.skip 8\n"
			".globl second\n.type second,%function\nsecond:\n.skip 8\n.size second,8\n"
			".globl last\nlast:.skip 8\n.size outer,.-outer\n" NO_STACK);

	expect_name(at("outer") + 7, "outer");
	expect_name(at("inner"), "inner");
	expect_name(at("inner") + 7, "inner");
	expect_name(at("label"), "outer");
	expect_name(at("second") + 7, "second");
	expect_name(at("last") + 7, "outer");
}

/* Without sizes, the unwind tables say where functions begin and end. */
Test(names, unwind_tables_decide_where_sizes_are_missing, .timeout = 20)
{
	load(ASSEMBLER, ".text\n.globl kernel\nkernel:\n.cfi_startproc\n.skip 8\n"
			".globl loop\nloop:\n.skip 8\n.cfi_endproc\n"
			".globl behind\nbehind:\n.skip 16\n"
			".cfi_startproc\n.skip 8\n.globl label\nlabel:\n.skip 8\n"
			".globl typed\n.type typed,%function\ntyped:\n.skip 8\n.cfi_endproc\n"
			".skip 8\n" NO_STACK);

	expect_name(at("kernel") + 7, "kernel");
	expect_name(at("loop"), "kernel");
	expect_name(at("loop") + 7, "kernel");
	expect_name(at("behind") + 15, "behind");
	/*
	 * A function without a symbol: neither the symbol before it nor a label inside it names it; the unwind tables
	 * say that it is a function.
	 */
	cr_expect_not_null(strstr(frame(at("behind") + 16).name, "+0x"));
	cr_expect_not_null(strstr(frame(at("label")).name, "+0x"));
	cr_expect_str_eq(frame(at("label") + 7).name, frame(at("behind") + 16).name);
	expect_name(at("typed") + 7, "typed");
	/* Behind the function's end no function is known. */
	expect_name(at("kernel"), "kernel");
}

Test(names, a_symbol_ends_with_its_call_frame_information_and_its_section, .timeout = 20)
{
	load(ASSEMBLER,
	     ".text\n.globl kernel\nkernel:\n.cfi_startproc\n.skip 8\n.cfi_endproc\n"
	     ".globl label\n.skip 64\n"
	     ".section .text.other,\"ax\",%progbits\n.globl start\nstart:\n.skip 8\n" NO_STACK);

	expect_name(at("kernel") + 7, "kernel");
	cr_expect_not_null(strstr(frame(at("kernel") + 8).name, "+0x"));
	cr_expect_not_null(strstr(frame(at("kernel") + 71).name, "+0x"));
}

/* Puts one alias before the other, in both orders in the file. */
static void expect_of_aliases(const char *first, const char *second, const char *name)
{
	for (unsigned i = 0; i < 2; i++) {
		char source[1024];

		(void)snprintf(source, sizeof(source),
			       ".text\n.globl anchor\n.type anchor,%%function\nanchor:\n.skip 8\n"
			       ".size anchor,8\n%s\n%s\n.skip 8\n%s",
			       i == 0 ? first : second, i == 0 ? second : first, NO_STACK);
		load(ASSEMBLER, source);
		expect_name(at("anchor") + 9, name);
		again();
	}
}

#define FUNCTION(bind, name)                                                                       \
	"." bind " " name "\n.type " name ",%function\n" name ":\n.size " name ",8\n"

Test(names, of_aliases_the_one_that_programs_call_is_shown, .timeout = 60)
{
	expect_of_aliases(FUNCTION("globl", "__libc_free"), FUNCTION("globl", "free"), "free");
	expect_of_aliases(FUNCTION("globl", "_IO_puts"), FUNCTION("weak", "puts"), "puts");
	expect_of_aliases(FUNCTION("globl", "__write"), FUNCTION("globl", "_write"), "_write");
	/* Other objects can call a global symbol, and stripped builds have only that one. */
	expect_of_aliases(FUNCTION("local", "helper"), FUNCTION("globl", "__exported"),
			  "__exported");
	expect_of_aliases(FUNCTION("weak", "bcmp"), FUNCTION("globl", "memcmp"), "memcmp");
	expect_of_aliases(FUNCTION("globl", "strtoll"), FUNCTION("globl", "strtol"), "strtol");
	expect_of_aliases(FUNCTION("globl", "strtol"), FUNCTION("globl", "strtoq"), "strtol");
	expect_of_aliases(FUNCTION("local", "f.localalias"), FUNCTION("local", "f_alias"),
			  "f_alias");
	expect_of_aliases(FUNCTION("globl", "_ZN4shop4Cart3addEi"), FUNCTION("globl", "_add_it"),
			  "shop::Cart::add");
	expect_of_aliases(FUNCTION("globl", "__f"), ".globl f\nf:\n", "__f");
	expect_of_aliases(".globl f\nf:\n.size f,8\n", FUNCTION("globl", "__g"), "__g");
	expect_of_aliases(FUNCTION("globl", "part"),
			  ".globl whole\n.type whole,%function\nwhole:\n.size whole,16\n", "whole");
}

/* cfree() is only for programs that were linked long ago. */
Test(names, of_versions_the_default_is_shown, .timeout = 20)
{
	char script[] = "/tmp/spanprof-versions-XXXXXX";
	int fd = mkstemp(script);

	cr_assert_eq(dprintf(fd, "V1 {};\nV2 {};\n"), 14);
	close(fd);
	for (unsigned strip = 0; strip < 2; strip++) {
		char compiler[128];

		(void)snprintf(compiler, sizeof(compiler),
			       "gcc %s -Wl,--version-script=%s -x assembler",
			       strip != 0 ? "-s" : "", script);
		load(compiler,
		     ".text\n" FUNCTION("globl", "a_old")
			     FUNCTION("globl", "the_new_one") ".symver a_old,a@V1,remove\n.symver "
							      "the_new_one,the_new@@V2,remove\n"
							      ".skip 8\n" NO_STACK);
		expect_name(at("the_new") + 7, "the_new");
		again();
	}
	unlink(script);
}

Test(names, are_the_same_in_every_build_of_a_library, .timeout = 20)
{
	static const char source[] = ".text\n" FUNCTION("globl", "__libc_free")
		FUNCTION("globl", "free") FUNCTION("local", "a_local") ".skip 8\n" NO_STACK;

	load(ASSEMBLER, source);
	expect_name(at("free") + 7, "free");
	again();
	load("gcc -s -x assembler", source);
	expect_name(at("free") + 7, "free");
}

/* A stub has 8 bytes or more. */
static void expect_stub(const struct sp_elf_file *file, uint64_t vaddr, const char *name)
{
	struct sp_plt_stub stub;

	cr_assert(sp_plt_find(file->elf, vaddr, &stub));
	cr_expect_eq(stub.start, vaddr);
	cr_expect_eq(stub.resolver, 0);
	cr_assert_not_null(stub.name, "%#lx has no name", (unsigned long)vaddr);
	cr_expect_str_eq(stub.name, name);
	cr_assert(sp_plt_find(file->elf, vaddr + 7, &stub));
	cr_expect_eq(stub.start, vaddr);
	cr_expect_str_eq(stub.name, name);
}

/*
 * The stubs of a library whose names binutils knows: its disassembly has "0000000000001030 <getenv@plt>:". Checks the
 * names and returns their number.
 */
static unsigned expect_stubs_of(const char *tools, const char *flags)
{
	static const char source[] =
		"extern int getpid(void); extern int getuid(void); extern void *malloc(unsigned "
		"long);"
		"void *(*at)(unsigned long); int f(void) { at = malloc; malloc(1);"
		" return getpid() + getuid(); }";
	char command[512], line[512], name[256];
	struct sp_elf_file file;
	unsigned long vaddr;
	unsigned n = 0;
	FILE *p;

	(void)snprintf(command, sizeof(command),
		       "echo '%s' | %sgcc -x c -O1 -fPIC -shared -nostdlib -w -Wl,--build-id=none "
		       "%s -o %s - &&"
		       " %sobjdump -d %s | grep '@plt>:$'",
		       source, tools, flags, path, tools, path);
	p = popen(command, "r");
	cr_assert_not_null(p);
	while (fgets(line, sizeof(line), p) != NULL) {
		if (n++ == 0)
			cr_assert_eq(sp_elf_file_open(path, NULL, 0, &file), 0);
		cr_assert_eq(sscanf(line, "%lx <%255[^@]", &vaddr, name), 2, "%s", line);
		expect_stub(&file, vaddr, name);
	}
	pclose(p);
	if (n != 0)
		sp_elf_file_close(&file);
	return n;
}

Test(names, stubs_have_the_name_of_the_function_that_they_call, .timeout = 60)
{
	static const char *const flags[] = {
		"-Wl,-z,lazy",
		"-Wl,-z,now",
		"-Wl,-z,lazy,-z,ibtplt -fcf-protection",
		"-Wl,-z,now,-z,ibtplt -fcf-protection",
	};

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		cr_expect_geq(expect_stubs_of("", flags[i]), 2, "%s", flags[i]);
	cr_expect_eq(expect_stubs_of("", "-fno-plt"), 0);
}

Test(names, stubs_of_aarch64_have_names, .timeout = 60)
{
	if (system("aarch64-linux-gnu-gcc --version >/dev/null 2>&1") != 0)
		cr_skip_test("no compiler for aarch64");
	cr_expect_geq(expect_stubs_of("aarch64-linux-gnu-", "-Wl,-z,now"), 2);
	cr_expect_geq(expect_stubs_of("aarch64-linux-gnu-",
				      "-mbranch-protection=standard -Wl,-z,force-bti"),
		      2);
}

/* A stack of that text, innermost first with " < " between, exists at an address of the function. */
static bool is_in(const char *function, const char *stack)
{
	for (uint64_t pc = at(function); pc < at("the_end"); pc++) {
		struct sp_frame f = frame(pc);
		char text[8192] = "";

		for (unsigned i = 0; i < f.lines; i++) {
			strcat(text, i != 0 ? " < " : "");
			strcat(text, f.line[i].name);
		}
		if (strcmp(text, stack) == 0)
			return true;
	}
	return false;
}

#define INLINED "__attribute__((always_inline)) inline "

static const char inlined[] =
	"#include <cstddef>\n"
	"extern volatile int sink; volatile int sink;\n"
	"namespace {\n"
	"struct Parser { " INLINED "void step() { sink += 1; } };\n"
	"struct Writer { " INLINED "void step() { sink += 2; } };\n"
	"template <class T, unsigned long N> struct Box {\n"
	"	template <char C, bool B> " INLINED "void put() { sink += N; } };\n"
	"enum class Color { red, blue };\n"
	"template <class... T> " INLINED "void pack() { sink += 3; }\n"
	"template <Color C, short S, unsigned U> " INLINED "void color() { sink += 4; }\n"
	"template <template <class, unsigned long> class B> " INLINED "void of() { sink += 5; }\n"
	"template <int *P> " INLINED "void at() { sink += 6; }\n"
	"template <unsigned U, int I> " INLINED "void large() { sink += 7; }\n"
	"struct Order { " INLINED "bool operator>(int n) { return sink > n; } };\n"
	"int here;\n"
	"}\n"
	"namespace shop { inline namespace v1 { static " INLINED "void total() { sink += 7; } } }\n"
	"namespace bank { static " INLINED "void total() { sink += 8; }\n"
	"struct Outer { struct Inner { void run(); }; }; }\n" INLINED
	"void bank::Outer::Inner::run() { sink += 9; }\n"
	"template <class F> static " INLINED "void with(F f) { f(); }\n"
	"extern \"C\" void outer(int n) {\n"
	"	Parser().step();\n"
	"	Writer().step();\n"
	"	Box<const char *, 3>().put<'a', true>();\n"
	"	Box<Parser *volatile &, 2>().put<'b', false>();\n"
	"	pack<>();\n"
	"	pack<Color, long, unsigned char &&>();\n"
	"	color<Color::blue, -1, 7>();\n"
	"	of<Box>();\n"
	"	large<200, 40000>();\n"
	"	sink += Order() > sink;\n"
	"	at<&here>();\n"
	"	shop::total();\n"
	"	bank::total();\n"
	"	bank::Outer::Inner().run();\n"
	"	struct Local { " INLINED "void go() { sink += 10; } };\n"
	"	Local().go();\n"
	"	with([&] { sink += n; });\n"
	"}\n"
	"extern \"C\" void lambdas(int n) {\n"
	"	auto a = [&](int, const char *) { sink += n; }; auto b = [&] { sink -= n; };\n"
	"	auto c = [&](auto x) { sink ^= n + x; };\n"
	"	a(1, \"\"); b(); c(3);\n"
	"}\n"
	"extern \"C\" void the_end() {}\n";

/* gcc writes linkage names for some of these, clang for all. */
Test(names, of_inlined_functions_have_their_namespaces_and_classes, .timeout = 60)
{
	static const char *const stack[] = {
		"(anonymous namespace)::Parser::step < outer",
		"(anonymous namespace)::Writer::step < outer",
		"(anonymous namespace)::Box<char const*, 3ul>::put<(char)97, true> < outer",
		"(anonymous namespace)::Box<(anonymous namespace)::Parser* volatile&, 2ul>::"
		"put<(char)98, false> < outer",
		"(anonymous namespace)::pack<> < outer",
		"(anonymous namespace)::pack<(anonymous namespace)::Color, long, unsigned char&&> "
		"< "
		"outer",
		"(anonymous namespace)::color<((anonymous namespace)::Color)1, (short)-1, 7u> < "
		"outer",
		"(anonymous namespace)::of<(anonymous namespace)::Box> < outer",
		"(anonymous namespace)::at<(& (anonymous namespace)::here)> < outer",
		"(anonymous namespace)::large<200u, 40000> < outer",
		"(anonymous namespace)::Order::operator> < outer",
		"shop::v1::total < outer",
		"bank::total < outer",
		"bank::Outer::Inner::run < outer",
		"outer::Local::go < outer",
		"outer::{lambda()}::operator() < with<outer::{lambda()}> < outer",
	};

	load("g++ -std=c++17 -O2 -g -x c++", inlined);

	for (size_t i = 0; i < sizeof(stack) / sizeof(stack[0]); i++)
		cr_expect(is_in("outer", stack[i]), "%s", stack[i]);
}

/* Two lambdas of one function have their line in the name, two on one line also their column. */
Test(names, of_lambdas_say_where_they_are, .timeout = 60)
{
	load("g++ -std=c++17 -O2 -g -x c++", inlined);

	cr_expect(is_in("lambdas",
			"lambdas::{lambda(int, char const*):42:13}::operator() < lambdas"));
	cr_expect(is_in("lambdas", "lambdas::{lambda():42:61}::operator() < lambdas"));
	cr_expect(is_in("lambdas", "lambdas::{lambda:43}::operator()<int> < lambdas"));
}

Test(names, of_link_time_optimization_come_from_other_units, .timeout = 60)
{
	load("g++ -std=c++17 -O2 -g -flto -x c++", inlined);

	cr_expect(is_in("outer", "(anonymous namespace)::Parser::step < outer"));
	cr_expect(is_in("outer", "bank::Outer::Inner::run < outer"));
}

Test(names, of_split_debug_information_are_complete, .timeout = 60)
{
	char folder[] = "/tmp/spanprof-split-XXXXXX";
	char command[128];

	cr_assert_not_null(mkdtemp(folder));
	(void)snprintf(command, sizeof(command),
		       "g++ -std=c++17 -O2 -g -gsplit-dwarf -dumpdir %s/ -x c++", folder);
	load(command, inlined);

	cr_expect(is_in("outer", "(anonymous namespace)::Parser::step < outer"));
	cr_expect(is_in("outer", "bank::Outer::Inner::run < outer"));
	(void)snprintf(command, sizeof(command), "rm -r %s", folder);
	cr_expect_eq(system(command), 0);
}

/* Types in separate units, to which the entry of a class refers. */
Test(names, of_members_of_type_units_are_complete, .timeout = 60)
{
	load("g++ -std=c++17 -O2 -g -fdebug-types-section -x c++", inlined);

	cr_expect(is_in("outer", "(anonymous namespace)::Parser::step < outer"));
	cr_expect(is_in("outer", "bank::Outer::Inner::run < outer"));
}

/*
 * In a chain of n functions that are inlined into one another, the number of functions that the innermost address
 * has.
 */
static unsigned told_of_chain(unsigned n, const char **leaf)
{
	char source[16384] =
		"volatile int sink;\nstatic inline __attribute__((always_inline)) void "
		"f0(void) { sink++; sink++; }\n";
	char *end = source + strlen(source);
	unsigned most = 0;

	for (unsigned i = 1; i < n; i++)
		end += sprintf(end,
			       "static inline __attribute__((always_inline)) void f%u(void) "
			       "{ f%u(); }\n",
			       i, i - 1);
	(void)sprintf(end, "void outer(void) { f%u(); }\nvoid the_end(void) {}\n", n - 1);
	load("gcc -O1 -g -x c", source);
	for (uint64_t pc = at("outer"); pc < at("the_end"); pc++) {
		struct sp_frame f = frame(pc);

		cr_expect_str_eq(f.name, "outer");
		*leaf = strcmp(f.line[0].name, "f0") == 0 ? "f0" : *leaf;
		most = f.lines > most ? f.lines : most;
	}
	return most;
}

Test(names, of_many_inlined_functions_are_all_there, .timeout = 20)
{
	const char *leaf = "none";

	cr_expect_eq(told_of_chain(SP_LINES_DEPTH - 1, &leaf), SP_LINES_DEPTH);
	cr_expect_str_eq(leaf, "f0");
}

/* Otherwise the leaf would be one of the functions around it. */
Test(names, of_more_inlined_functions_than_are_kept_are_not_told, .timeout = 20)
{
	const char *leaf = "none";

	cr_expect_eq(told_of_chain(SP_LINES_DEPTH, &leaf), 1);
	cr_expect_str_eq(leaf, "none");
}

static unsigned unreadable(void)
{
	struct sp_symbolizer_losses losses;

	sp_symbolizer_losses(symbolizer, &losses);
	return losses.unreadable;
}

static const char lines_of_one[] =
	"int f(int x) { return x * 3; }\nint g(int x) { return x + 3; }\n";

/* libdw 0.188 reads no .dwp, and a .dwo may be missing. */
Test(names, without_the_files_of_split_units_are_counted_once, .timeout = 20)
{
	char folder[] = "/tmp/spanprof-split-XXXXXX";
	char command[128];

	cr_assert_not_null(mkdtemp(folder));
	(void)snprintf(command, sizeof(command), "gcc -O1 -g -gsplit-dwarf -dumpdir %s/ -x c",
		       folder);
	load(command, lines_of_one);
	expect_name(at("f"), "f");
	cr_expect_eq(unreadable(), 0);
	again();
	load(command, lines_of_one);
	(void)snprintf(command, sizeof(command), "rm -r %s", folder);
	cr_assert_eq(system(command), 0);
	expect_name(at("f"), "f");
	cr_expect_eq(unreadable(), 1);
	expect_name(at("g"), "g");
	cr_expect_eq(unreadable(), 1);
}

/* libelf 0.188 knows no zstd. */
Test(names, of_debug_information_in_zstd_are_there_or_are_counted_once, .timeout = 20)
{
	char command[128];
	unsigned lines;

	compile("gcc -O1 -g -x c", lines_of_one);
	(void)snprintf(command, sizeof(command),
		       "objcopy --compress-debug-sections=zstd %s 2>/dev/null", path);
	if (system(command) != 0)
		cr_skip_test("objcopy knows no zstd");
	load_made();
	lines = frame(at("f")).line[0].line;
	cr_expect_eq(unreadable(), lines == 0 ? 1 : 0);
	(void)frame(at("g"));
	cr_expect_eq(unreadable(), lines == 0 ? 1 : 0);
}

Test(names, of_packed_debug_information_are_there, .timeout = 20)
{
	load("gcc -O1 -g -gz=zlib -x c", lines_of_one);
	cr_expect_eq(frame(at("g")).line[0].line, 2);
	cr_expect_eq(unreadable(), 0);
}
