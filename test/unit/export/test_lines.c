/* SPDX-License-Identifier: Apache-2.0 */
/* Lines and inlined functions, what stays in memory of them, and objects that disappeared or changed. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "export/symbols/builds.h"
#include "export/symbols/symbolize.h"
#include "export/util/clock.h"
#include "test/unit/descriptors.h"
#include "tiny_library.h"

#define OUTER 96U /* size of outer() in bytes, at least */

static struct sp_modules *modules;
static struct sp_symbolizer *symbolizer;
static char path[TINY_PATH_MAX];
static void *library;
static uint64_t outer;

static time_t mono_still_at; /* 0 = the clock runs */

/* Replaces the C library's. */
int clock_gettime(clockid_t id, struct timespec *t)
{
	int err = (int)syscall(SYS_clock_gettime, id, t);

	if (id == CLOCK_MONOTONIC && mono_still_at != 0)
		*t = (struct timespec){mono_still_at, 0};
	return err;
}

/* A sanitizer has its own malloc(). */
#ifndef __SANITIZE_ADDRESS__
static unsigned fails_in; /* countdown of large allocations; 0 = none fails */

void *__libc_malloc(size_t bytes);
void *__libc_realloc(void *p, size_t bytes);

/*
 * At least as large as the blocks in which libdw stores what it has read. libdw 0.188 uses smaller tables without
 * checking the allocation.
 */
static bool fails(size_t bytes)
{
	if (bytes < 4000 || fails_in == 0 || --fails_in != 0)
		return false;
	errno = ENOMEM;
	return true;
}

/* Replaces the C library's, for libelf and libdw as well. */
__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
	return fails(bytes) ? NULL : __libc_malloc(bytes);
}

__attribute__((visibility("default"))) void *realloc(void *p, size_t bytes)
{
	return fails(bytes) ? NULL : __libc_realloc(p, bytes);
}
#endif

static void tear_down(void)
{
	sp_symbolizer_free(symbolizer);
	sp_modules_free(modules);
	if (library != NULL)
		dlclose(library);
	unlink(path);
}

TestSuite(lines, .fini = tear_down);

static void start(const struct sp_symbolizer_options *options)
{
	modules = sp_modules_new("/proc/self", -1);
	symbolizer = sp_symbolizer_new(modules, options);
	cr_assert_not_null(symbolizer);
}

static void load_made(void)
{
	library = dlopen(path, RTLD_NOW);
	cr_assert_not_null(library, "%s", dlerror());
	outer = (uintptr_t)dlsym(library, "outer");
	cr_assert_eq(sp_modules_refresh(modules), 0);
}

static void load(const char *flags)
{
	tiny_library(flags, path);
	load_made();
}

static void prepare(uint64_t from, uint64_t to)
{
	sp_symbolizer_begin(symbolizer);
	for (uint64_t pc = from; pc < to; pc++)
		sp_symbolizer_want(symbolizer, pc, sp_modules_epoch(modules));
	while (sp_symbolizer_step(symbolizer, 1000000))
		;
	sp_symbolizer_end(symbolizer);
}

static struct sp_frame frame(uint64_t pc)
{
	struct sp_frame f;

	sp_symbolize(symbolizer, pc, sp_modules_epoch(modules), &f);
	cr_assert_geq(f.lines, 1);
	for (unsigned i = 0; i < f.lines; i++) {
		cr_assert_neq(f.line[i].name[0], '\0');
		cr_assert_not_null(f.line[i].file);
	}
	cr_assert_str_eq(f.line[f.lines - 1].name, f.name);
	return f;
}

/* The greatest depth of inlined functions anywhere in outer(). */
static unsigned deepest(void)
{
	unsigned most = 0;

	for (uint64_t pc = outer; pc < outer + OUTER; pc++) {
		struct sp_frame f = frame(pc);

		cr_expect_str_eq(f.name, "outer");
		if (f.lines > most)
			most = f.lines;
	}
	return most;
}

Test(lines, inlined_functions_come_innermost_first, .timeout = 20)
{
	bool seen = false;

	start(&sp_symbolizer_options_default);
	load("-g");
	prepare(outer, outer + OUTER);

	for (uint64_t pc = outer; pc < outer + OUTER; pc++) {
		struct sp_frame f = frame(pc);

		cr_expect(f.place.lines);
		if (f.lines != 3)
			continue;
		seen = true;
		cr_expect_str_eq(f.line[0].name, "twice");
		cr_expect_eq(f.line[0].line, 1);
		cr_expect_str_eq(f.line[1].name, "walk");
		cr_expect_eq(f.line[1].line, 2);
		cr_expect_str_eq(f.line[2].name, "outer");
		cr_expect_eq(f.line[2].line, 4);
		cr_expect_str_eq(strrchr(f.line[2].file, '/'), "/<stdin>");
	}
	cr_expect(seen, "nothing inlined twice");
}

Test(lines, what_was_not_prepared_has_a_name_all_the_same, .timeout = 20)
{
	start(&sp_symbolizer_options_default);
	load("-g");

	cr_expect_eq(deepest(), 1);
	cr_expect_str_eq(frame(outer).line[0].file, "");
}

Test(lines, are_remembered_and_nothing_stays_open, .timeout = 20)
{
	unsigned before;

	start(&sp_symbolizer_options_default);
	load("-g");
	before = open_descriptors();
	sp_symbolizer_begin(symbolizer);
	sp_symbolizer_want(symbolizer, outer, 0);
	sp_symbolizer_want(symbolizer, outer + 1, 0);
	cr_expect(sp_symbolizer_step(symbolizer, 0), "more than one address in no time");
	cr_expect_not(sp_symbolizer_step(symbolizer, 1000000000));
	sp_symbolizer_end(symbolizer);
	cr_expect_eq(open_descriptors(), before, "a descriptor between two profiles");

	/* A second question needs no work, even without the file. */
	unlink(path);
	sp_symbolizer_want(symbolizer, outer, 0);
	cr_expect_not(sp_symbolizer_step(symbolizer, 0));
	cr_expect_eq(frame(outer).line[0].line, 4);
	cr_expect_eq(open_descriptors(), before);
}

Test(lines, given_up_in_time_are_counted, .timeout = 20)
{
	struct sp_symbolizer_losses lost;

	start(&sp_symbolizer_options_default);
	load("-g");
	sp_symbolizer_begin(symbolizer);
	for (unsigned i = 0; i < 10; i++)
		sp_symbolizer_want(symbolizer, outer + i, 0);
	cr_expect(sp_symbolizer_step(symbolizer, 0));
	sp_symbolizer_end(symbolizer);

	sp_symbolizer_losses(symbolizer, &lost);
	cr_expect_eq(lost.late, 9);
	cr_expect_eq(lost.over_limit, 0);
}

static char root[] = "/tmp/spanprof-debug-XXXXXX";
static char debug_path[256];

/*
 * Loads a library without symbols, and makes a debug file for it, found by build id, which also has some MiB of zeros
 * as a section.
 */
static void load_stripped(unsigned mib, bool is_packed)
{
	char command[2048];

	cr_assert_not_null(mkdtemp(root));
	tiny_library("-g -Wl,--build-id=0x1122334455667788", path);
	(void)snprintf(debug_path, sizeof(debug_path), "%s/.build-id/11/22334455667788.debug",
		       root);
	(void)snprintf(
		command, sizeof(command),
		"mkdir -p %s/.build-id/11 && objcopy --only-keep-debug %s %s && strip -s %s && "
		"truncate -s %uM %s/zeros && "
		"objcopy --add-section .debug_zeros=%s/zeros %s && "
		"objcopy --%s-debug-sections %s",
		root, path, debug_path, path, mib, root, root, debug_path,
		is_packed ? "compress" : "decompress", debug_path);
	cr_assert_eq(system(command), 0);
	library = dlopen(path, RTLD_NOW);
	cr_assert_not_null(library, "%s", dlerror());
	outer = (uintptr_t)dlsym(library, "outer");
	cr_assert_eq(sp_modules_refresh(modules), 0);
}

static void remove_root(void)
{
	char command[128];

	(void)snprintf(command, sizeof(command), "rm -r %s", root);
	cr_expect_eq(system(command), 0);
}

static struct sp_symbolizer_losses losses(void)
{
	struct sp_symbolizer_losses lost;

	sp_symbolizer_losses(symbolizer, &lost);
	return lost;
}

static struct sp_symbolizer_options under_root(void)
{
	struct sp_symbolizer_options options = sp_symbolizer_options_default;

	options.debug_root = root;
	return options;
}

Test(lines, of_a_debug_file_that_needs_too_much_memory_are_left_out_and_counted, .timeout = 60)
{
	struct sp_symbolizer_options options = under_root();

	start(&options);
	load_stripped(200, true);
	prepare(outer, outer + OUTER);

	cr_expect_eq(deepest(), 1);
	cr_expect_eq(losses().over_limit, 1);
	remove_root();
}

#ifndef __SANITIZE_ADDRESS__ /* AddressSanitizer's shadow counts as data, and exceeds any limit */
/* In a container the exporter may have less memory. */
Test(lines, of_a_debug_file_that_needs_more_than_the_process_may_have_are_left_out, .timeout = 60)
{
	const struct rlimit less = {(rlim_t)160 << 20, RLIM_INFINITY};
	struct sp_symbolizer_options options = under_root();

	cr_assert_eq(setrlimit(RLIMIT_DATA, &less), 0);
	start(&options);
	load_stripped(64, true);
	prepare(outer, outer + OUTER);

	cr_expect_str_eq(frame(outer).name, "outer");
	cr_expect_eq(deepest(), 1);
	cr_expect_eq(losses().over_limit, 1);
	remove_root();
}
#endif

/* Only the parts for the address are read, at any time. */
Test(lines, of_a_debug_file_of_any_size_are_found_if_it_is_not_packed, .timeout = 60)
{
	struct sp_symbolizer_options options = under_root();

	start(&options);
	load_stripped(300, false);
	sp_symbolizer_hurry(symbolizer, true);
	prepare(outer, outer + OUTER);

	cr_expect_geq(deepest(), 2);
	cr_expect_eq(frame(outer).line[0].line, 4);
	cr_expect_eq(losses().over_limit, 0);
	cr_expect_eq(losses().late, 0);
	remove_root();
}

Test(lines, of_dear_debug_files_come_later_when_time_is_short, .timeout = 60)
{
	struct sp_symbolizer_options options = under_root();

	start(&options);
	load_stripped(32, true);
	sp_symbolizer_hurry(symbolizer, true);
	prepare(outer, outer + 3);

	cr_expect_str_eq(frame(outer).line[0].file, "");
	cr_expect_eq(losses().late, 3);

	sp_symbolizer_hurry(symbolizer, false);
	prepare(outer, outer + 3);

	cr_expect_eq(frame(outer).line[0].line, 4);
	cr_expect_eq(losses().late, 3);
	remove_root();
}

Test(lines, of_cheap_debug_files_are_read_at_any_time, .timeout = 60)
{
	struct sp_symbolizer_options options = under_root();

	start(&options);
	load_stripped(0, true);
	sp_symbolizer_hurry(symbolizer, true);
	prepare(outer, outer + 1);

	cr_expect_eq(frame(outer).line[0].line, 4);
	cr_expect_eq(losses().late, 0);
	remove_root();
}

static unsigned mappings_of_debug_file(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned n = 0;

	cr_assert_not_null(maps);
	while (fgets(line, sizeof(line), maps) != NULL)
		n += strstr(line, debug_path) != NULL;
	(void)fclose(maps);
	return n;
}

/* The file with the symbols stays mapped, and is never unpacked. */
Test(lines, unpacked_for_nobody_any_more_are_given_back, .timeout = 60)
{
	struct sp_symbolizer_options options = under_root();
	unsigned rests = 0;

	start(&options);
	load_stripped(0, true);
	prepare(outer, outer + 1);
	cr_expect_eq(frame(outer).line[0].line, 4);
	cr_expect_eq(mappings_of_debug_file(), 1);

	/* After a second question a third one may follow soon. */
	prepare(outer + 1, outer + OUTER);
	cr_expect_geq(deepest(), 2);
	cr_expect_eq(mappings_of_debug_file(), 2);

	for (; rests < 1000 && mappings_of_debug_file() == 2; rests++)
		prepare(outer, outer);
	cr_expect_gt(rests, 10);
	cr_expect_lt(rests, 1000);
	cr_expect_str_eq(frame(outer).name, "outer");
	remove_root();
}

#ifndef __SANITIZE_ADDRESS__
/* Sections larger than the usual share are not unpacked again for each profile with a new address. */
Test(lines, of_large_packed_files_are_unpacked_twice_and_kept, .timeout = 60)
{
	const struct rlimit less = {(rlim_t)80 << 20, RLIM_INFINITY};
	char command[1024];
	unsigned once;

	cr_assert_eq(setrlimit(RLIMIT_DATA, &less), 0);
	start(&sp_symbolizer_options_default);
	tiny_library("-g -Wl,--build-id=0x1122334455667788", path);
	(void)snprintf(command, sizeof(command),
		       "truncate -s 24M %s.zeros && "
		       "objcopy --add-section .debug_zeros=%s.zeros %s && rm %s.zeros && "
		       "objcopy --compress-debug-sections %s",
		       path, path, path, path, path);
	cr_assert_eq(system(command), 0);
	load_made();
	(void)snprintf(debug_path, sizeof(debug_path), "%s", path);

	prepare(outer, outer + 1);
	once = mappings_of_debug_file();
	prepare(outer + 1, outer + 2);
	cr_expect_eq(mappings_of_debug_file(), once + 1);
	prepare(outer + 2, outer + 3);
	cr_expect_eq(mappings_of_debug_file(), once + 1);

	cr_expect_eq(frame(outer + 2).line[0].line, 4);
	cr_expect_eq(sp_symbolizer_loads(symbolizer), 1);
	cr_expect_eq(losses().over_limit, 0);
}
#endif

Test(lines, of_the_object_itself_are_read_at_any_time, .timeout = 20)
{
	start(&sp_symbolizer_options_default);
	load("-g -gz");
	sp_symbolizer_hurry(symbolizer, true);
	prepare(outer, outer + 1);

	cr_expect_eq(frame(outer).line[0].line, 4);
}

#define LINES 3000U

static size_t memory(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

/* A host may have hundreds of objects, and the results are stored elsewhere. */
Test(lines, of_a_small_object_are_read_again_and_not_kept, .timeout = 120)
{
	char header[] = "/tmp/spanprof-lines-XXXXXX";
	char flags[128];
	size_t before, after;
	FILE *many = fdopen(mkstemp(header), "w");

	cr_assert_not_null(many);
	(void)fputs("__attribute__((optimize(0))) void many(int *x) {\n", many);
	for (unsigned i = 0; i < LINES; i++)
		(void)fputs("++*x;\n", many);
	(void)fputs("}\n", many);
	cr_assert_eq(fclose(many), 0);
	(void)snprintf(flags, sizeof(flags), "-g -include %s", header);
	start(&sp_symbolizer_options_default);
	load(flags);
	before = memory();
	prepare(outer, outer + 1);
	after = memory();
	cr_expect_eq(frame(outer).line[0].line, 4);
	cr_expect_lt(after - before, LINES * 64U, "%zu KiB more", (after - before) >> 10);
	prepare(outer + 1, outer + 2);
	cr_expect_eq(frame(outer + 1).line[0].line, 4);
	(void)unlink(header);
}

/* Access to a missing part of the file raises SIGBUS. */
Test(lines, of_a_file_that_is_cut_off_while_it_is_mapped_end_and_are_counted, .timeout = 60)
{
	struct sp_symbolizer_options options = under_root();
	uint64_t hidden;

	start(&options);
	load_stripped(0, true);
	memcpy(&hidden, dlsym(library, "hidden_at"), sizeof(hidden));
	prepare(outer, outer + 1);
	cr_assert_eq(frame(outer).line[0].line, 4);
	cr_assert_eq(truncate(debug_path, 0), 0);
	prepare(hidden, hidden + 8);

	cr_expect_eq(losses().changed, 1);
	cr_expect(strstr(frame(hidden).name, "+0x") != NULL, "%s", frame(hidden).name);
	/* Results from before stay, and other objects are not affected. */
	cr_expect_eq(frame(outer).line[0].line, 4);
	prepare((uintptr_t)losses, (uintptr_t)losses + 1);
	cr_expect_str_eq(frame((uintptr_t)losses).name, "losses");
	cr_expect_gt(frame((uintptr_t)losses).line[0].line, 0);
	cr_expect_eq(losses().changed, 1);
	remove_root();
}

static void load_with_id(unsigned id)
{
	char flags[64];

	(void)snprintf(flags, sizeof(flags), "-g -Wl,--build-id=0x11223344556677%02x", id);
	load(flags);
}

static void unload(void)
{
	dlclose(library);
	library = NULL;
}

/* Loads a library, asks for it, cuts it off, and asks again. */
static void load_and_cut_off(unsigned id)
{
	load_with_id(id);
	prepare(outer, outer + 1);
	cr_assert_str_eq(frame(outer).name, "outer", "library %u", id);
	unload();
	cr_assert_eq(truncate(path, 0), 0);
	prepare(outer + 1, outer + 2);
	cr_assert(strstr(frame(outer + 1).name, "+0x") != NULL, "%s", frame(outer + 1).name);
	unlink(path);
}

/* Memory that is left behind for such a file is never freed, so there is a limit. */
Test(lines, of_other_objects_come_again_an_hour_after_eight_were_cut_off, .timeout = 60)
{
	const time_t begin = 100000, hour = 3600;
	unsigned id = 0;

	start(&sp_symbolizer_options_default);
	cr_assert_eq(sp_modules_refresh(modules), 0);
	prepare((uintptr_t)losses, (uintptr_t)losses + 1);
	for (unsigned n = 0; n < 2; n++) {
		mono_still_at = begin + n * hour;
		for (unsigned i = 0; i < SP_BUILDS_CHANGED_MAX; i++)
			load_and_cut_off(id++);
		cr_expect_eq(losses().changed, id);
		load_with_id(100 + n);
		mono_still_at += hour - 1;
		prepare(outer, outer + 1);
		cr_expect(strstr(frame(outer).name, "+0x") != NULL, "%s", frame(outer).name);
		/* Results from before are not affected. */
		prepare((uintptr_t)losses + 1, (uintptr_t)losses + 2);
		cr_expect_str_eq(frame((uintptr_t)losses + 1).name, "losses");

		mono_still_at++;
		prepare(outer, outer + 1);
		cr_expect_str_eq(frame(outer).name, "outer");
		cr_expect_eq(frame(outer).line[0].line, 4);
		unload();
		unlink(path);
	}
}

Test(lines, are_not_read_when_names_are_asked_for, .timeout = 20)
{
	struct sp_symbolizer_options names = sp_symbolizer_options_default;

	names.mode = SP_SYMBOLIZE_NAMES;
	start(&names);
	load("-g");
	prepare(outer, outer + OUTER);

	cr_expect_eq(deepest(), 1);
	cr_expect_not(frame(outer).place.lines);
	cr_expect_str_eq(frame(outer).line[0].file, "");
}

Test(lines, off_leaves_objects_to_the_server_and_names_the_rest, .timeout = 20)
{
	struct sp_symbolizer_options off = sp_symbolizer_options_default;
	struct sp_frame f;
	Dl_info info;

	off.mode = SP_SYMBOLIZE_OFF;
	start(&off);
	load("-g -Wl,--build-id=sha1");
	prepare(outer, outer + OUTER);
	cr_assert_neq(dladdr((void *)(uintptr_t)outer, &info), 0); // NOLINT

	f = frame(outer + 5);
	cr_expect(f.place.raw);
	cr_expect_eq(f.address, outer + 5 - (uintptr_t)info.dli_fbase);
	cr_expect_leq(f.place.start, f.address);
	cr_expect_gt(f.place.limit, f.address);
	cr_expect_eq(f.place.build_id_len, 20);
	cr_expect_eq(sp_symbolizer_loads(symbolizer), 0, "files were read");
	f = frame(0x10);
	cr_expect_not(f.place.raw);
	cr_expect_str_eq(f.name, "[unknown]");
}

Test(lines, off_names_an_object_without_build_id, .timeout = 20)
{
	struct sp_symbolizer_options off = sp_symbolizer_options_default;
	struct sp_frame f;

	off.mode = SP_SYMBOLIZE_OFF;
	start(&off);
	load("-Wl,--build-id=none");

	f = frame(outer + 5);
	cr_expect_not(f.place.raw, "no server could find it");
	cr_expect_eq(f.address, outer + 5);
	cr_expect(strstr(f.name, "spanprof-tiny") != NULL && strstr(f.name, "+0x") != NULL, "%s",
		  f.name);
}

Test(lines, an_unloaded_stripped_object_keeps_one_name_a_function, .timeout = 20)
{
	uint32_t epoch;
	struct sp_frame f;
	char name[256];
	uint64_t hidden;

	start(&sp_symbolizer_options_default);
	load("-s -Wl,--build-id=sha1");
	memcpy(&hidden, dlsym(library, "hidden_at"), sizeof(hidden));
	epoch = sp_modules_epoch(modules);
	sp_symbolize(symbolizer, hidden + 1, epoch, &f);
	cr_assert(strstr(f.name, "+0x") != NULL, "%s", f.name);
	(void)snprintf(name, sizeof(name), "%s", f.name);
	dlclose(library);
	library = NULL;
	cr_assert_eq(sp_modules_refresh(modules), 0);
	cr_assert_neq(sp_modules_epoch(modules), epoch, "still mapped");
	/* Drops the stored results. */
	sp_symbolizer_free(symbolizer);
	symbolizer = sp_symbolizer_new(modules, &sp_symbolizer_options_default);

	for (unsigned i = 0; i < 8; i++) {
		sp_symbolize(symbolizer, hidden + i, epoch, &f);
		cr_expect_str_eq(f.name, name);
	}
}

/* From now on objects are known only by their paths. */
static void hold_no_more(void)
{
	static struct sp_held_object *all[SP_HELD_FILES_MAX + 1];

	all[SP_HELD_FILES_MAX] = sp_held_object_image(NULL, malloc(1), SP_HELD_BYTES_MAX);
	for (unsigned i = 0; i < SP_HELD_FILES_MAX; i++) {
		all[i] = sp_held_object_file(STDERR_FILENO);
		cr_assert_not_null(all[i]);
	}
}

/* The object is in a folder for temporary files, so its content is held. */
Test(lines, a_file_replaced_on_disk_keeps_its_names, .timeout = 20)
{
	char other[TINY_PATH_MAX];

	start(&sp_symbolizer_options_default);
	load("-g -Wl,--build-id=sha1");
	tiny_library("-O0 -g -Wl,--build-id=sha1", other);
	cr_assert_eq(rename(other, path), 0);
	prepare(outer, outer + OUTER);
	cr_expect_str_eq(frame(outer).name, "outer");
	cr_expect_geq(deepest(), 2);
}

Test(lines, a_file_replaced_on_disk_that_is_not_held_names_nothing, .timeout = 20)
{
	char other[TINY_PATH_MAX];

	hold_no_more();
	start(&sp_symbolizer_options_default);
	load("-g -Wl,--build-id=sha1");
	/* Other code under the same path: another function begins at this address. */
	tiny_library("-O0 -g -Wl,--build-id=sha1", other);
	cr_assert_eq(rename(other, path), 0);
	prepare(outer, outer + OUTER);

	/* The begin of the function is not known any more. */
	cr_expect(strstr(frame(outer + 5).name, "+0x") != NULL, "%s", frame(outer + 5).name);
	cr_expect_str_neq(frame(outer + 5).name, frame(outer + 9).name);
	cr_expect_str_eq(frame(outer + 5).line[0].file, "");
}

/*
 * The first process of a family in which it is looked up has ended, so that its path leads to another file; other
 * processes still run.
 */
Test(lines, of_a_file_that_was_deleted_are_found_by_whoever_runs, .timeout = 20)
{
	char proc[32], link[TINY_PATH_MAX + 8];
	struct sp_modules *ended;
	pid_t child;

	hold_no_more();
	start(&sp_symbolizer_options_default);
	load("-g -Wl,--build-id=sha1");
	child = fork();
	if (child == 0)
		for (;;)
			(void)pause();
	(void)snprintf(proc, sizeof(proc), "/proc/%d", child);
	/* The path of an ended process leads to no file, like this path for a while. */
	(void)snprintf(link, sizeof(link), "%s.moved", path);
	ended = sp_modules_new(proc, -1);
	cr_assert_eq(sp_modules_refresh(ended), 0);
	cr_assert_eq(kill(child, SIGKILL), 0);
	cr_assert_eq(waitpid(child, NULL, 0), child);
	cr_assert_eq(rename(path, link), 0);
	sp_symbolizer_turn_to(symbolizer, ended);
	prepare(outer, outer + OUTER);
	cr_expect(strstr(frame(outer).name, "+0x") != NULL, "%s", frame(outer).name);

	cr_assert_eq(rename(link, path), 0);
	sp_symbolizer_turn_to(symbolizer, modules);
	prepare(outer, outer + OUTER);
	cr_expect_str_eq(frame(outer).name, "outer");
	cr_expect_geq(deepest(), 2);
	sp_modules_free(ended);
}

static void prepare_with(__rlimit_resource_t resource, rlim_t limit)
{
	struct rlimit before;

	cr_assert_eq(getrlimit(resource, &before), 0);
	cr_assert_eq(setrlimit(resource, &(struct rlimit){limit, before.rlim_max}), 0);
	prepare(outer, outer + OUTER);
	cr_assert_eq(setrlimit(resource, &before), 0);
}

Test(lines, that_could_not_be_read_for_want_of_descriptors_come_later, .timeout = 20)
{
	start(&sp_symbolizer_options_default);
	load("-g");
	prepare_with(RLIMIT_NOFILE, 0);
	cr_expect(strstr(frame(outer).name, "+0x") != NULL, "%s", frame(outer).name);

	prepare(outer, outer + OUTER);
	cr_expect_str_eq(frame(outer).name, "outer");
	cr_expect_geq(deepest(), 2);
}

Test(lines, of_a_debug_file_that_could_not_be_opened_for_want_of_descriptors_come_later,
     .timeout = 20)
{
	struct sp_symbolizer_options options = under_root();

	start(&options);
	load_stripped(0, true);
	prepare_with(RLIMIT_NOFILE, 0);

	prepare(outer, outer + OUTER);
	cr_expect_str_eq(frame(outer).name, "outer");
	cr_expect_geq(deepest(), 2);
	remove_root();
}

/* This is no shortage that would pass. */
Test(lines, of_a_file_without_line_tables_are_functions_that_were_inlined, .timeout = 20)
{
	char command[TINY_PATH_MAX + 64];

	start(&sp_symbolizer_options_default);
	tiny_library("-g", path);
	(void)snprintf(command, sizeof(command), "objcopy --remove-section=.debug_line '%s'", path);
	cr_assert_eq(system(command), 0);
	load_made();
	prepare(outer, outer + OUTER);
	cr_expect_geq(deepest(), 2);
	cr_expect_eq(losses().late, 0);
}

/* The start of an object is in no unit. */
Test(lines, that_are_not_there_come_no_later, .timeout = 20)
{
	uint64_t begin = 0;

	start(&sp_symbolizer_options_default);
	load("-g");
	for (const ElfW(Dyn) *d = ((struct link_map *)library)->l_ld; d->d_tag != DT_NULL; d++)
		if (d->d_tag == DT_INIT)
			begin = ((struct link_map *)library)->l_addr + d->d_un.d_ptr;
	prepare(begin, begin + 1);
	cr_expect_eq(frame(begin).line[0].line, 0);
	cr_expect_eq(losses().late, 0);
}

#ifndef __SANITIZE_ADDRESS__
/*
 * A failed allocation must not count as a truncated file: after eight truncated files, no file is read for an hour.
 */
Test(lines, for_which_an_allocation_failed_come_later, .timeout = 120)
{
	uint64_t here = (uintptr_t)losses;
	unsigned n = 0;
	bool failed;

	start(&sp_symbolizer_options_default);
	cr_assert_eq(sp_modules_refresh(modules), 0);
	do {
		sp_symbolizer_free(symbolizer);
		symbolizer = sp_symbolizer_new(modules, &sp_symbolizer_options_default);
		cr_assert_not_null(symbolizer);
		fails_in = ++n;
		prepare(here, here + 1);
		failed = fails_in == 0;
		fails_in = 0;
		cr_expect_eq(losses().changed, 0, "allocation %u", n);

		prepare(here, here + 1);
		cr_expect_str_eq(frame(here).name, "losses", "allocation %u", n);
		cr_expect_gt(frame(here).line[0].line, 0, "allocation %u", n);
	} while (failed);
	cr_expect_gt(n, 10);
}
#endif

Test(lines, a_replaced_file_without_build_id_is_told_by_its_segments, .timeout = 20)
{
	char other[TINY_PATH_MAX];

	hold_no_more();
	start(&sp_symbolizer_options_default);
	load("-g -Wl,--build-id=none");
	tiny_library("-g -Wl,--build-id=none -Wl,-z,noseparate-code", other);
	cr_assert_eq(rename(other, path), 0);
	prepare(outer, outer + OUTER);

	cr_expect(strstr(frame(outer + 5).name, "+0x") != NULL, "%s", frame(outer + 5).name);
}

Test(lines, a_file_without_build_id_is_read_when_it_is_the_same, .timeout = 20)
{
	start(&sp_symbolizer_options_default);
	load("-g -Wl,--build-id=none");
	prepare(outer, outer + OUTER);

	cr_expect_geq(deepest(), 2);
}

Test(lines, a_file_cut_after_it_was_mapped_names_nothing, .timeout = 20)
{
	hold_no_more();
	start(&sp_symbolizer_options_default);
	load("-g");
	unlink(path);
	fclose(fopen(path, "w"));
	prepare(outer, outer + OUTER);

	cr_expect(strstr(frame(outer + 5).name, "+0x") != NULL, "%s", frame(outer + 5).name);
}

/* The mapped file got one byte more: only the parts that were in memory before are believed. */
Test(lines, a_file_written_to_after_it_was_mapped_is_not_read, .timeout = 20)
{
	FILE *f;

	start(&sp_symbolizer_options_default);
	load("-g -Wl,--build-id=none");
	f = fopen(path, "a");
	cr_assert_not_null(f);
	cr_assert_neq(fputc('x', f), EOF);
	cr_assert_eq(fclose(f), 0);
	prepare(outer, outer + OUTER);

	cr_expect_str_eq(frame(outer).name, "outer");
	cr_expect_str_eq(frame(outer).line[0].file, "");
	cr_expect_eq(deepest(), 1);
}

/* Renaming or unlinking a file does not write to it. */
Test(lines, a_file_without_build_id_that_was_unlinked_keeps_its_names, .timeout = 20)
{
	start(&sp_symbolizer_options_default);
	load("-g -Wl,--build-id=none");
	cr_assert_eq(unlink(path), 0);
	prepare(outer, outer + OUTER);

	cr_expect_str_eq(frame(outer).name, "outer");
	cr_expect_geq(deepest(), 2);
}
