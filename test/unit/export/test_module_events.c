/* SPDX-License-Identifier: Apache-2.0 */
/* Module events of the handler compared with the list of mappings. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "export/objects/modules.h"
#include "export/symbols/symbolize.h"
#include "fake_host.h"
#include "tiny_library.h"

TestSuite(module_events, .fini = fake_host_end);

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

Test(module_events, make_known_what_was_only_ever_told_of, .timeout = 20)
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
		sp_modules_forget(m, 0, 0);
	}
	sp_modules_free(m);
}

/* The handler does not repeat an event, so the list must not contradict it. */
Test(module_events, are_not_replaced_by_what_is_listed_in_between, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new(fake_host_start(), -1);
	struct sp_module_event s = event_of("/lib/a.so", 0x10000, 0x2000, 1);

	fake_host_line(NOTHING);
	cr_assert_eq(sp_modules_refresh(m), 0);
	sp_modules_take_event(m, &s);
	/* Another object without samples covers the end of the first one and more. */
	fake_host_unmap_all();
	fake_host_map(fake_host_object("unseen.so", 0x3000, 9), 0x11000, 0x3000);
	for (unsigned interval = 1; interval <= 2; interval++) {
		cr_assert_eq(sp_modules_refresh(m), 0);
		cr_expect_str_eq(name_at(m, 0x11800, sp_modules_epoch(m)), "a.so");
		cr_expect_str_eq(name_at(m, 0x13800, sp_modules_epoch(m)), "");
		sp_modules_forget(m, 0, 0);
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

Test(module_events, end_an_epoch_where_one_object_takes_the_place_of_another, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new(fake_host_start(), -1);
	uint32_t epoch[60];
	uint32_t serial[3];

	fake_host_line(NOTHING);
	cr_assert_eq(sp_modules_refresh(m), 0);
	for (unsigned i = 0; i < 60; i++) {
		static const char *const path[] = {"/lib/a.so", "/lib/b.so", "/lib/c.so"};
		/* The last object is larger, and begins before the others. */
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

Test(module_events, of_what_is_mapped_are_no_news, .timeout = 20)
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
	/* _dl_find_object rounds to the page. */
	s.load[0].memsz = mod->hi - mod->lo + 100;
	(void)snprintf(s.path, sizeof(s.path), "%s", mod->path);
	sp_modules_take_event(m, &s);

	cr_expect_eq(sp_modules_epoch(m), 0);
	cr_expect_eq(sp_modules_find(m, (uintptr_t)&printf, 0)->serial, serial);
	sp_modules_free(m);
}

/* Makes an object without a build id and with that byte somewhere in its file; and the handler's event for it. */
static const char *plugin(const char *name, uint8_t byte, long at)
{
	const char *path = fake_host_object(name, 0x2000, 0);
	FILE *f = fopen(path, "r+");

	cr_assert_not_null(f);
	cr_assert_eq(fseek(f, at, SEEK_SET), 0);
	cr_assert_eq(fputc(byte, f), byte);
	cr_assert_eq(fclose(f), 0);
	return path;
}

static struct sp_module_event plugin_event(const char *path, uint64_t bias)
{
	struct sp_module_event s = event_of(path, bias, 0x2000, 0);
	uint64_t page[SP_MODULE_CONTENT_BYTES / 8];
	FILE *f = fopen(path, "r");

	cr_assert_not_null(f);
	cr_assert_eq(fread(page, sizeof(page), 1, f), 1);
	(void)fclose(f);
	s.content = sp_module_content(page);
	return s;
}

#define IN_FIRST_PAGE 1000
#define BEHIND_IT 5000

/* An object without a build id is identified by its file, and the loader's path may be a link to the file. */
Test(module_events, of_a_file_that_is_mapped_are_no_news_by_whatever_path, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new(fake_host_start(), -1);
	char *file = strdup(plugin("file.so", 1, IN_FIRST_PAGE));
	struct sp_module_event s = plugin_event(file, 0x10000);

	fake_host_map(file, 0x10000, 0x2000);
	cr_assert_eq(sp_modules_refresh(m), 0);
	(void)snprintf(s.path, sizeof(s.path), "%s.link", file);
	cr_assert_eq(symlink(file, s.path), 0);
	sp_modules_take_event(m, &s);
	cr_expect_eq(sp_modules_epoch(m), 0);
	cr_expect_str_eq(name_at(m, 0x11000, 0), "file.so");
	(void)snprintf(s.path, sizeof(s.path), "./file.so");
	sp_modules_take_event(m, &s);
	cr_expect_eq(sp_modules_epoch(m), 0, "of a relative path the last part is known");
	cr_assert_eq(unlink(file), 0);
	(void)snprintf(s.path, sizeof(s.path), "%s", file);
	sp_modules_take_event(m, &s);
	cr_expect_eq(sp_modules_epoch(m), 0, "the file is deleted");
	(void)snprintf(s.path, sizeof(s.path), "%s.link", file);
	(void)unlink(s.path);
	free(file);
	sp_modules_free(m);
}

/* The mappings that were read last show the earlier plugin. */
Test(module_events, of_another_plugin_at_the_addresses_get_no_file_of_the_first, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new(fake_host_start(), -1);
	char *first = strdup(plugin("first.so", 1, IN_FIRST_PAGE));
	char *second = strdup(plugin("second.so", 2, IN_FIRST_PAGE));
	char *alike = strdup(plugin("alike.so", 1, IN_FIRST_PAGE));
	struct sp_module_event s = plugin_event(first, 0x10000);
	uint32_t epoch;

	fake_host_map(first, 0x10000, 0x2000);
	cr_assert_eq(sp_modules_refresh(m), 0);
	sp_modules_take_event(m, &s);
	cr_expect_eq(sp_modules_epoch(m), 0);
	cr_expect_str_eq(sp_modules_find(m, 0x11000, 0)->path, first);

	s = plugin_event(second, 0x10000);
	sp_modules_take_event(m, &s);
	epoch = sp_modules_epoch(m);
	cr_expect_str_eq(name_at(m, 0x11000, epoch), "second.so");
	cr_expect_str_eq(sp_modules_find(m, 0x11000, epoch)->path, "", "the first one's file");
	cr_expect_str_eq(name_at(m, 0x11000, 0), "first.so");

	/* The same bytes under another name. */
	s = plugin_event(alike, 0x10000);
	sp_modules_take_event(m, &s);
	epoch = sp_modules_epoch(m);
	cr_expect_str_eq(name_at(m, 0x11000, epoch), "alike.so");
	cr_expect_str_eq(sp_modules_find(m, 0x11000, epoch)->path, "");
	/* It gets its file once the mappings show it. */
	fake_host_unmap_all();
	fake_host_map(alike, 0x10000, 0x2000);
	cr_assert_eq(sp_modules_refresh(m), 0);
	cr_expect_str_eq(sp_modules_find(m, 0x11000, epoch)->path, alike);

	/* Other bytes under the same name: a generated plugin. */
	(void)plugin("alike.so", 3, IN_FIRST_PAGE);
	s = plugin_event(alike, 0x10000);
	sp_modules_take_event(m, &s);
	cr_expect_gt(sp_modules_epoch(m), epoch);
	cr_expect_str_eq(sp_modules_find(m, 0x11000, sp_modules_epoch(m))->path, "");
	cr_expect_neq(sp_modules_find(m, 0x11000, sp_modules_epoch(m))->serial,
		      sp_modules_find(m, 0x11000, epoch)->serial);
	free(first);
	free(second);
	free(alike);
	sp_modules_free(m);
}

/* Two plugins with equal first pages, and the second has taken the file name of the first. */
Test(module_events, are_not_believed_where_the_mappings_show_another_file, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new(fake_host_start(), -1);
	char *path = strdup(plugin("plugin.so", 1, BEHIND_IT));
	struct sp_module_event s = plugin_event(path, 0x10000);
	uint32_t serial;

	fake_host_map(path, 0x10000, 0x2000);
	cr_assert_eq(sp_modules_refresh(m), 0);
	sp_modules_take_event(m, &s);
	serial = sp_modules_find(m, 0x11000, 0)->serial;
	cr_assert_eq(sp_modules_refresh(m), 0);
	cr_expect_eq(sp_modules_epoch(m), 0, "the same file");

	/* The old file keeps its inode, so the new one gets another. */
	(void)snprintf(s.path, sizeof(s.path), "%s.old", path);
	cr_assert_eq(rename(path, s.path), 0);
	cr_assert_str_eq(plugin("plugin.so", 2, BEHIND_IT), path);
	fake_host_unmap_all();
	fake_host_map(path, 0x10000, 0x2000);
	cr_assert_eq(sp_modules_refresh(m), 0);
	cr_expect_eq(sp_modules_epoch(m), 1);
	cr_expect_neq(sp_modules_find(m, 0x11000, sp_modules_epoch(m))->serial, serial);
	cr_expect_eq(sp_modules_find(m, 0x11000, 0)->serial, serial);
	(void)unlink(s.path);
	free(path);
	sp_modules_free(m);
}

static bool was_opened(int watch)
{
	char event[4096];

	return read(watch, event, sizeof(event)) > 0;
}

/* Prepares as for a push; then names that address. */
static void prepare(struct sp_symbolizer *s, struct sp_modules *m, uint64_t pc, struct sp_frame *f)
{
	sp_symbolizer_begin(s);
	sp_symbolizer_want(s, pc, sp_modules_epoch(m));
	while (sp_symbolizer_step(s, SP_NS_PER_S))
		;
	sp_symbolizer_end(s);
	sp_symbolize(s, pc, sp_modules_epoch(m), f);
}

/* Everything that the exporter does with an address. */
static void symbolize(struct sp_modules *m, uint64_t pc, char name[256])
{
	const struct sp_symbolizer_options options = {.mode = SP_SYMBOLIZE_FULL,
						      .debug_root = "/nonexistent"};
	struct sp_symbolizer *s = sp_symbolizer_new(m, &options);
	struct sp_frame f;

	prepare(s, m, pc, &f);
	(void)snprintf(name, 256, "%s", f.name);
	sp_symbolizer_free(s);
}

/* Otherwise a writer to the ring could have the exporter open files that only the exporter may open. */
Test(module_events, lead_to_no_file_that_is_not_mapped, .timeout = 20)
{
	struct sp_modules *m = sp_modules_new(fake_host_start(), -1);
	char *path = strdup(fake_host_object("secret.so", 0x2000, 1));
	struct sp_module_event s = event_of(path, 0x10000, 0x2000, 1);
	struct stat st;
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	char name[256];

	cr_assert_geq(inotify_add_watch(watch, path, IN_OPEN), 0);
	fake_host_line(NOTHING);
	cr_assert_eq(sp_modules_refresh(m), 0);
	sp_modules_take_event(m, &s);
	symbolize(m, 0x11000, name);
	cr_expect_str_eq(name_at(m, 0x11000, sp_modules_epoch(m)), "secret.so");
	cr_expect_str_eq(name, "secret.so+0x1000");
	cr_expect_not(was_opened(watch), "a file was opened because an event named it");
	/* Without a build id only the file identifies the object. */
	s = event_of(path, 0x40000, 0x2000, 0);
	sp_modules_take_event(m, &s);
	symbolize(m, 0x41000, name);
	cr_expect_not(was_opened(watch), "a file without a build id was opened");

	/* The kernel's text in place of a path is not searched in our folder either. */
	cr_assert_eq(stat(path, &st), 0);
	*strrchr(path, '/') = '\0';
	cr_assert_eq(chdir(path), 0);
	path[strlen(path)] = '/';
	fake_host_unmap_all();
	fake_host_line("10000-12000 r-xp 00000000 %02x:%02x %lu secret.so\n", major(st.st_dev),
		       minor(st.st_dev), (unsigned long)st.st_ino);
	cr_assert_eq(sp_modules_refresh(m), 0);
	symbolize(m, 0x11000, name);
	cr_expect_not(was_opened(watch), "a file was opened that is no path");

	fake_host_unmap_all();
	fake_host_map(path, 0x10000, 0x2000);
	cr_assert_eq(sp_modules_refresh(m), 0);
	symbolize(m, 0x11000, name);
	cr_expect(was_opened(watch), "it is mapped, and not read");
	cr_expect_str_eq(sp_modules_find(m, 0x11000, sp_modules_epoch(m))->path, path);
	close(watch);
	free(path);
	sp_modules_free(m);
}

/* A symbolizer that has met a build without its file reads the file once the mappings show it. */
Test(module_events, have_symbols_once_they_are_seen_mapped, .timeout = 20)
{
	struct sp_modules *before = sp_modules_new("/proc/self", -1);
	struct sp_modules *m = sp_modules_new("/proc/self", -1);
	struct sp_symbolizer *s = sp_symbolizer_new(m, &sp_symbolizer_options_default);
	struct sp_module_event e = {.loads = 1};
	char path[TINY_PATH_MAX];
	const struct sp_module *mod;
	struct sp_frame f;
	uint64_t outer;
	void *lib;

	cr_assert_eq(sp_modules_refresh(m), 0);
	tiny_library("-g -Wl,--build-id=sha1", path);
	lib = dlopen(path, RTLD_NOW);
	cr_assert_not_null(lib);
	outer = (uintptr_t)dlsym(lib, "outer");
	cr_assert_eq(sp_modules_refresh(before), 0);
	mod = sp_modules_find(before, outer, 0);
	cr_assert_not_null(mod);
	/* The same build at another address, which is gone again. */
	e.bias = 0x100000;
	e.load[0].vaddr = mod->lo - mod->bias;
	e.load[0].memsz = mod->hi - mod->lo;
	e.load[0].flags = PF_R | PF_X;
	e.build_id_len = mod->build_id_len;
	memcpy(e.build_id, mod->build_id, mod->build_id_len);
	(void)snprintf(e.path, sizeof(e.path), "%s", path);
	sp_modules_take_event(m, &e);
	prepare(s, m, outer - mod->bias + e.bias, &f);
	cr_expect_str_neq(f.name, "outer");

	cr_assert_eq(sp_modules_refresh(m), 0);
	prepare(s, m, outer, &f);
	cr_expect_str_eq(f.name, "outer");
	prepare(s, m, outer - mod->bias + e.bias, &f);
	cr_expect_str_eq(f.name, "outer", "its build is known by now");
	cr_expect_gt(f.line[0].line, 0);
	sp_symbolizer_free(s);
	sp_modules_free(m);
	sp_modules_free(before);
	unlink(path);
}

Test(module_events, without_sense_change_nothing, .timeout = 20)
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

/* A block in use has a stack in an object that is gone. Still there is room for objects that come and go. */
Test(module_events, of_what_is_gone_are_kept_for_old_stacks_as_long_as_there_is_room, .timeout = 60)
{
	struct sp_modules *m = sp_modules_new(fake_host_start(), -1);
	uint32_t first = 0, lost = 0;

	fake_host_line(NOTHING);
	cr_assert_eq(sp_modules_refresh(m), 0);
	for (unsigned i = 0; i < 3 * SP_MODULES_MAX; i++) {
		struct sp_module_event s = event_of(i == 0  ? "/lib/first.so"
						    : i % 2 ? "/lib/a.so"
							    : "/lib/b.so",
						    0x10000, 0x2000, (uint8_t)(1 + i % 200));

		sp_modules_take_event(m, &s);
		cr_assert_str_eq(name_at(m, 0x11000, sp_modules_epoch(m)),
				 i == 0  ? "first.so"
				 : i % 2 ? "a.so"
					 : "b.so",
				 "%u", i);
		if (i == 0)
			first = sp_modules_epoch(m);
		if (lost == 0)
			cr_assert_str_eq(name_at(m, 0x11000, first), "first.so");
		lost = sp_modules_forget(m, sp_modules_epoch(m), first);
		cr_assert_eq(lost != 0, i > SP_MODULES_MAX / 2, "%u", i);
		cr_assert(lost == 0 || lost < sp_modules_epoch(m));
	}
	cr_expect_eq(sp_modules_forget(m, sp_modules_epoch(m), sp_modules_epoch(m)), 0);
	sp_modules_free(m);
}

/*
 * The number of dead modules is bounded. The object of an old sample is then unknown, and never the object that came
 * to its addresses later.
 */
Test(module_events, beyond_what_an_interval_has_room_for_leave_old_samples_without_a_name,
     .timeout = 60)
{
	const unsigned plugins = SP_MODULES_MAX + 500;
	struct sp_modules *m = sp_modules_new(fake_host_start(), -1);
	struct sp_module_event s = event_of("/lib/stays.so", 0x40000, 0x2000, 1);
	uint32_t *epoch = calloc(plugins, sizeof(*epoch));
	struct sp_modules *copy;
	unsigned named = 0;
	uint32_t lost;

	fake_host_line(NOTHING);
	cr_assert_eq(sp_modules_refresh(m), 0);
	sp_modules_take_event(m, &s);
	for (unsigned i = 0; i < plugins; i++) {
		char path[32];

		(void)snprintf(path, sizeof(path), "/lib/p%u.so", i);
		s = event_of(path, 0x10000, 0x2000, (uint8_t)(1 + i % 200));
		sp_modules_take_event(m, &s);
		epoch[i] = sp_modules_epoch(m);
		cr_assert_str_eq(name_at(m, 0x11000, epoch[i]), path + strlen("/lib/"));
	}
	copy = sp_modules_copy(m);
	lost = sp_modules_forget(m, 0, 0);

	for (unsigned i = 0; i < plugins; i++) {
		const char *name = name_at(copy, 0x11000, epoch[i]);
		char own[32];

		(void)snprintf(own, sizeof(own), "p%u.so", i);
		cr_assert_str_eq(name, epoch[i] < lost ? "" : own, "plugin %u", i);
		named += name[0] != '\0';
		cr_assert_str_eq(name_at(copy, 0x41000, epoch[i]), "stays.so");
	}
	cr_expect_eq(named, SP_MODULES_MAX + 1, "as many as find room, and the last one: %u",
		     named);
	cr_expect_eq(sp_modules_forget(m, 0, epoch[plugins - 1]), 0, "no stack is that old");
	sp_modules_free(copy);
	sp_modules_free(m);
	free(epoch);
}
