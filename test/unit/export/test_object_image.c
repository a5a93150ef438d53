/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects without a file: their names from memory, whatever it contains; the names to show; and the contents that are
 * held.
 */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export/objects/modules.h"
#include "export/objects/object_name.h"
#include "export/symbols/builds.h"
#include "export/symbols/symbolize.h"
#include "fake_host.h"
#include "tiny_library.h"

#define AT UINT64_C(0x10000)
#define MAPPED_MAX ((size_t)64 << 10)
#define FLIPS 4000U

TestSuite(object_image, .fini = fake_host_end);

/* The library as a process has mapped it at AT, relocated as by glibc. */
static uint8_t memory[MAPPED_MAX];
static size_t mapped;
static uint64_t outer, hidden, seed = 88172645463325252U;

static uint64_t next(uint64_t below)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % below;
}

static int copy_loads(struct dl_phdr_info *info, size_t size, void *library)
{
	(void)size;
	if (info->dlpi_addr != ((struct link_map *)library)->l_addr)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type != PT_LOAD)
			continue;
		mapped = ph->p_vaddr + ph->p_memsz;
		cr_assert_leq(mapped, sizeof(memory));
		memcpy(memory + ph->p_vaddr,
		       (const void *)(info->dlpi_addr + ph->p_vaddr), // NOLINT
		       ph->p_memsz);
	}
	mapped = (mapped + 4095) & ~(size_t)4095;
	return 1;
}

/* Relocates it to its new address. */
static void move(uint64_t from)
{
	const Elf64_Ehdr *eh = (const void *)memory;
	const Elf64_Phdr *ph = (const void *)(memory + eh->e_phoff);

	for (unsigned i = 0; i < eh->e_phnum; i++) {
		Elf64_Dyn *d = (void *)(memory + ph[i].p_vaddr);

		for (; ph[i].p_type == PT_DYNAMIC && d->d_tag != DT_NULL; d++)
			if (d->d_un.d_ptr >= from && d->d_un.d_ptr < from + mapped)
				d->d_un.d_ptr += AT - from;
	}
}

static void build(const char *flags)
{
	char path[TINY_PATH_MAX];
	void *library;
	uint64_t from;

	tiny_library(flags, path);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	cr_assert_not_null(library);
	from = ((struct link_map *)library)->l_addr;
	memset(memory, 0, sizeof(memory));
	cr_assert_eq(dl_iterate_phdr(copy_loads, library), 1);
	outer = (uintptr_t)dlsym(library, "outer") - from;
	memcpy(&hidden, dlsym(library, "hidden_at"), sizeof(hidden));
	hidden -= from;
	move(from);
	cr_assert_eq(dlclose(library), 0);
	cr_assert_eq(unlink(path), 0);
}

static void write_memory(const uint8_t *bytes, size_t size)
{
	FILE *f = fopen(fake_host_file("mem", "", 0), "r+");

	cr_assert_not_null(f);
	cr_assert_eq(fseek(f, AT, SEEK_SET), 0);
	cr_assert_eq(fwrite(bytes, 1, size, f), size);
	cr_assert_eq(fclose(f), 0);
}

/* Starts a process with that memory, whose library has no file. */
static struct sp_modules *begin(const uint8_t *bytes, size_t size, const char *path)
{
	struct sp_modules *m = sp_modules_new(fake_host_start(), -1);

	cr_assert_not_null(m);
	write_memory(bytes, size);
	fake_host_line("%lx-%lx r-xp 00000000 00:77 4711 %s\n", (unsigned long)AT,
		       (unsigned long)(AT + mapped), path);
	return m;
}

#define GONE "/nonexistent/tmp/libtiny-12345678.so (deleted)"

static const char *name_of(struct sp_symbolizer *s, const struct sp_modules *m, uint64_t vaddr)
{
	static struct sp_frame frame;

	sp_symbolizer_begin(s);
	sp_symbolize(s, AT + vaddr, sp_modules_epoch(m), &frame);
	return frame.name;
}

static void expect_names(const char *flags, const char *name)
{
	struct sp_modules *m;
	struct sp_symbolizer *s;
	char want[64];

	build(flags);
	m = begin(memory, mapped, GONE);
	cr_assert_eq(sp_modules_refresh(m), 0);
	s = sp_symbolizer_new(m, &sp_symbolizer_options_default);
	cr_expect_str_eq(name_of(s, m, outer), "outer", "%s", flags);
	cr_expect_str_eq(name_of(s, m, outer + 5), "outer", "%s", flags);
	/* One name for all addresses of the function. */
	(void)snprintf(want, sizeof(want), "%s+0x%lx", name, (unsigned long)hidden);
	for (uint64_t i = 0; i < 4; i++)
		cr_expect_str_eq(name_of(s, m, hidden + i), want, "%s", flags);
	sp_symbolizer_free(s);
	sp_modules_free(m);
}

/* Loads with other permissions are in one mapping here, so they are in one segment. */
#define FLAGS "-s -Wl,-z,noseparate-code -Wl,-z,norelro "

Test(object_image, names_functions_by_memory, .timeout = 60)
{
	expect_names(FLAGS "-Wl,--hash-style=gnu", "libtiny-*.so");
	expect_names(FLAGS "-Wl,--hash-style=sysv", "libtiny-*.so");
	expect_names(FLAGS "-Wl,--hash-style=both -Wl,--build-id=none", "libtiny-*.so");
	expect_names(FLAGS "-Wl,-soname,libtiny.so.3", "libtiny.so.3");
	expect_names(FLAGS "-Wl,-soname,../build/libtiny.so", "libtiny.so");
}

/* Another library without a build id, with the same first page, takes the inode and the address of the first one. */
Test(object_image, tells_objects_without_build_id_apart, .timeout = 60)
{
	char flags[FAKE_PATH_MAX + sizeof(FLAGS) + 32];
	struct sp_symbolizer *s;
	struct sp_modules *m;
	const char *many;
	char *name;
	FILE *f;

	/* Enough names that the strings begin behind the first page. */
	(void)fake_host_start();
	many = fake_host_file("many.c", "", 0);
	f = fopen(many, "w");
	cr_assert_not_null(f);
	for (unsigned i = 0; i < 300; i++)
		fprintf(f, "int many_%u = %u;\n", i, i);
	cr_assert_eq(fclose(f), 0);
	(void)snprintf(flags, sizeof(flags), FLAGS "-Wl,--build-id=none %s", many);
	build(flags);
	m = begin(memory, mapped, GONE);
	cr_assert_eq(sp_modules_refresh(m), 0);
	s = sp_symbolizer_new(m, &sp_symbolizer_options_default);
	cr_expect_str_eq(name_of(s, m, outer), "outer");

	name = memmem(memory, mapped, "\0outer", 7);
	cr_assert_not_null(name);
	cr_assert_gt(name - (char *)memory, 4096);
	memcpy(name + 1, "other", 5);
	write_memory(memory, mapped);
	cr_assert_eq(sp_modules_refresh(m), 0);
	cr_expect_str_eq(name_of(s, m, outer), "other");
	sp_symbolizer_free(s);
	sp_modules_free(m);
}

static void ask(const uint8_t *bytes, size_t size)
{
	struct sp_modules *m = begin(bytes, size, GONE);
	struct sp_symbolizer *s;

	(void)sp_modules_refresh(m);
	s = sp_symbolizer_new(m, &sp_symbolizer_options_default);
	for (uint64_t at = 0; at < mapped; at += 97)
		cr_assert_gt(strlen(name_of(s, m, at)), 0);
	sp_symbolizer_free(s);
	sp_modules_free(m);
}

/* A process that ends, or whose memory contains lies. */
Test(object_image, takes_no_harm_from_memory, .timeout = 120)
{
	uint8_t *bad = malloc(sizeof(memory));

	build(FLAGS);
	for (size_t size = 0; size < mapped; size += 509)
		ask(memory, size);
	for (unsigned i = 0; i < FLIPS / 8; i++) {
		memcpy(bad, memory, mapped);
		for (uint64_t n = 1 + next(6); n != 0; n--) {
			size_t at = next(2) == 0 ? next(1024) : next(mapped - 8);

			if (next(3) == 0)
				memset(bad + at, (int)next(2) * 255, 1 + next(8));
			else
				bad[at] ^= (uint8_t)(1U << next(8));
		}
		ask(bad, mapped);
	}
	free(bad);
}

/* An object of one page: the addresses that its dynamic section has, relative to the file. */
struct page {
	Elf64_Dyn dynamic[8];
	uint32_t hash[8];
	Elf64_Sym symbol[2];
	char strings[16];
};

static bool read_page(void *arg, uint64_t vaddr, void *out, size_t bytes)
{
	cr_assert(vaddr <= sizeof(struct page) && bytes <= sizeof(struct page) - vaddr,
		  "it reads what no segment has");
	memcpy(out, (const uint8_t *)arg + vaddr, bytes);
	return true;
}

#define AT_OF(field) offsetof(struct page, field)

static uint8_t *image_of(struct page *p, size_t most, size_t *bytes)
{
	const struct sp_object_load load = {
		.memsz = sizeof(*p), .filesz = sizeof(*p), .flags = PF_R | PF_X};
	const struct sp_object_layout layout = {
		.load = &load,
		.loads = 1,
		.hi = sizeof(*p),
		.dynamic = AT_OF(dynamic),
		.dynamic_bytes = sizeof(p->dynamic),
	};
	const struct sp_object_reader reader = {read_page, p, 0};

	return sp_object_image(&layout, &reader, most, bytes);
}

static struct page good_page(void)
{
	return (struct page){
		.dynamic = {{DT_SYMTAB, {AT_OF(symbol)}},
			    {DT_STRTAB, {AT_OF(strings)}},
			    {DT_STRSZ, {6}},
			    {DT_HASH, {AT_OF(hash)}}},
		.hash = {1, 2},
		.symbol = {{0}, {.st_name = 1, .st_info = STT_FUNC, .st_shndx = 1, .st_value = 8}},
		.strings = "\0name",
	};
}

Test(object_image, is_within_its_bounds_whatever_the_tables_say)
{
	const Elf64_Dyn lie[] = {
		{DT_SYMTAB, {sizeof(struct page) - 8}}, {DT_SYMTAB, {UINT64_MAX}},
		{DT_STRTAB, {UINT64_MAX - 3}},          {DT_STRTAB, {sizeof(struct page) + 4096}},
		{DT_STRSZ, {UINT64_C(4) << 30}},        {DT_STRSZ, {4}},
		{DT_HASH, {sizeof(struct page) - 2}},   {DT_GNU_HASH, {UINT64_MAX}},
	};
	struct page p = good_page();
	size_t bytes = 0;
	uint8_t *image = image_of(&p, 4096, &bytes);

	cr_assert_not_null(image);
	cr_expect_leq(bytes, 4096);
	cr_expect_not_null(memmem(image, bytes, "\0name", 6));
	free(image);
	cr_expect_null(image_of(&p, bytes - 1, &bytes));
	for (size_t i = 0; i < sizeof(lie) / sizeof(lie[0]); i++) {
		p = good_page();
		if (lie[i].d_tag == DT_GNU_HASH)
			p.dynamic[3].d_tag = DT_NULL;
		p.dynamic[lie[i].d_tag == DT_GNU_HASH ? 3 : 4] = lie[i];
		cr_expect_null(image_of(&p, 4096, &bytes), "lie %zu", i);
	}
	/* 4,294,967,295 symbols. */
	p = good_page();
	p.hash[1] = UINT32_MAX;
	cr_expect_null(image_of(&p, (size_t)64 << 20, &bytes));
	/* A GNU table whose chain never ends, and one that claims too many buckets. */
	p = good_page();
	p.dynamic[3].d_tag = DT_GNU_HASH;
	memcpy(p.hash, (uint32_t[]){1, 1, 0, 0, 1}, 20);
	cr_expect_null(image_of(&p, 4096, &bytes));
	p.hash[5] = 1;
	image = image_of(&p, 4096, &bytes);
	cr_expect_not_null(image);
	free(image);
	p.hash[0] = UINT32_MAX;
	cr_expect_null(image_of(&p, 4096, &bytes));
}

static void expect_name(const char *path, const char *soname, const char *want)
{
	char name[64];

	sp_object_name(path, soname, name, sizeof(name));
	cr_expect_str_eq(name, want, "%s is %s", path, name);
}

Test(object_image, is_called_by_one_name)
{
	expect_name("/usr/lib/libz.so.1.2.13", "libz.so.1", "libz.so.1.2.13");
	expect_name("/usr/lib/libz.so.20231105 (deleted)", "", "libz.so.20231105");
	expect_name("/tmp/jna-3506402/jna8237498327498.tmp (deleted)", "", "jna*.tmp");
	expect_name("/tmp/jna-3506402/jna8237498327498.tmp", "libjnidispatch.so",
		    "libjnidispatch.so");
	expect_name("/home/a/.cache/JNA/temp/jna77777.tmp", "", "jna*.tmp");
	expect_name("/var/tmp/libzstd-jni-1.5.5-51234567890.so", "", "libzstd-jni-1.5.5-*.so");
	expect_name("/tmp/libnetty_transport_native_epoll_x86_6415309183914.so", "",
		    "libnetty_transport_native_epoll_x86_*.so");
	expect_name("/tmp/snappy-1.1.10.5-3f2a77b1-0123-4567-89ab-cdef01234567-libsnappyjava.so",
		    "", "snappy-1.1.10.5-*-libsnappyjava.so");
	expect_name("/dev/shm/a1b2c3d4.so", "", "a*.so");
	expect_name("/memfd:generated (deleted)", "", "memfd:generated");
	expect_name("/memfd:generated (deleted)", "libx.so", "libx.so");
	expect_name("/proc/self/fd/17", "", "[memfd]");
	/* Names that people choose. */
	expect_name("/tmp/build/libh264dec.so", "", "libh264dec.so");
	expect_name("/tmp/build/sha256sum", "", "sha256sum");
	expect_name("/tmp/lib1234.so", "", "lib1234.so");
	expect_name("/tmp/lib12345.so", "", "lib*.so");
	expect_name("/template/lib12345.so", "", "lib12345.so");
	/* A long name is cut, and nothing is written behind the buffer's end. */
	expect_name(
		"/tmp/"
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa11111",
		"", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
}

Test(object_image, is_held_within_bounds)
{
	struct sp_held_object *all[SP_HELD_FILES_MAX];
	struct sp_held_object *image;

	for (unsigned i = 0; i < SP_HELD_FILES_MAX; i++) {
		all[i] = sp_held_object_file(STDIN_FILENO);
		cr_assert_not_null(all[i]);
	}
	cr_expect_null(sp_held_object_file(STDIN_FILENO));
	cr_expect_eq(sp_held_object_take(all[0]), all[0]);
	sp_held_object_drop(all[0]);
	cr_expect_null(sp_held_object_file(STDIN_FILENO), "it has a holder");
	sp_held_object_drop(all[0]);
	all[0] = sp_held_object_file(STDIN_FILENO);
	cr_expect_not_null(all[0]);
	for (unsigned i = 0; i < SP_HELD_FILES_MAX; i++)
		sp_held_object_drop(all[i]);
	sp_held_object_drop(NULL);

	image = sp_held_object_image(NULL, malloc(1), SP_HELD_BYTES_MAX);
	cr_expect_not_null(image);
	cr_expect_null(sp_held_object_image(NULL, malloc(1), 1));
	sp_held_object_drop(image);
	image = sp_held_object_image(NULL, malloc(1), 1);
	cr_expect_not_null(image);
	sp_held_object_drop(image);
}
