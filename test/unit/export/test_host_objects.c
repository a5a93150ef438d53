/* SPDX-License-Identifier: Apache-2.0 */
/* The objects of another process, and of fake processes with unusual mappings. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "export/objects/modules.h"
#include "export/symbols/elf_file.h"
#include "fake_host.h"
#include "test/unit/emulated.h"

/* Comes with libc, and no program loads it. */
#define RARE_LIB "libBrokenLocale.so.1"

static struct sp_host_objects *host;

static void set_up(void)
{
	host = sp_host_objects_new(fake_host_start(), -1);
	cr_assert_not_null(host);
}

static void tear_down(void)
{
	sp_host_objects_free(host);
	fake_host_end();
}

TestSuite(host_objects, .init = set_up, .fini = tear_down, .timeout = 20);

static const struct sp_host_object *object_at(uint64_t addr)
{
	cr_assert_eq(sp_host_objects_refresh(host), 0);
	return sp_host_objects_find(host, addr);
}

static void map_as(const char *path, const char *shown, uint64_t device, uint64_t inode)
{
	struct stat st;

	cr_assert_eq(stat(path, &st), 0);
	fake_host_line("10000-11000 r-xp 00000000 %02x:%02x %lu %s\n", major(st.st_dev + device),
		       minor(st.st_dev + device), (unsigned long)(st.st_ino + inode), shown);
}

struct told {
	uint64_t bias;
	uint64_t code;
	uint64_t main;
};

/* Starts a process that has loaded a library that we have not. A signal has to kill it. */
static pid_t start_child(struct told *told)
{
	int pipes[2];
	pid_t pid;

	cr_assert_eq(pipe(pipes), 0);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (pid == 0) {
		void *lib = dlopen(RARE_LIB, RTLD_NOW);

		told->bias = ((struct link_map *)lib)->l_addr;
		told->code = (uintptr_t)dlsym(lib, "__ctype_get_mb_cur_max");
		told->main = (uintptr_t)set_up;
		if (write(pipes[1], told, sizeof(*told)) == sizeof(*told))
			pause();
		_exit(1);
	}
	cr_assert_eq(read(pipes[0], told, sizeof(*told)), sizeof(*told));
	close(pipes[0]);
	close(pipes[1]);
	return pid;
}

Test(host_objects, are_those_of_another_process)
{
	struct told told;
	pid_t pid;
	char proc[32];
	struct sp_modules *m;
	const struct sp_module *mod;

	if (emulated())
		cr_skip_test("the emulator shows its own mappings for another process");
	pid = start_child(&told);
	(void)snprintf(proc, sizeof(proc), "/proc/%d", (int)pid);
	m = sp_modules_new(proc, -1);
	cr_assert_eq(sp_modules_refresh(m), 0);

	mod = sp_modules_find(m, told.code, 0);
	cr_assert_not_null(mod);
	cr_expect_str_eq(mod->name, RARE_LIB);
	cr_expect_eq(mod->bias, told.bias);
	cr_expect_gt(mod->build_id_len, 0);
	mod = sp_modules_find(m, told.main, 0);
	cr_assert_not_null(mod);
	cr_expect(mod->main);
	cr_expect_eq(mod, sp_modules_main(m));
	cr_expect_eq(strncmp(mod->path, proc, strlen(proc)), 0, "%s", mod->path);

	/* The objects are remembered after the process has ended. */
	kill(pid, SIGKILL);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	cr_expect_lt(sp_modules_refresh(m), 0);
	cr_expect_eq(sp_modules_find(m, told.code, 0)->died, SP_EPOCH_ALIVE);
	sp_modules_free(m);
}

/* Checks for every object of the loader its address and its program headers. */
static int compare(struct dl_phdr_info *info, size_t size, void *arg)
{
	unsigned *compared = arg;
	const struct sp_host_object *o = NULL;
	uint64_t code = 0;

	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X))
			code = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
	if (code == 0)
		return 0;
	o = sp_host_objects_find(host, code);
	cr_assert_not_null(o, "%s", info->dlpi_name);
	cr_expect_eq(o->bias, info->dlpi_addr, "%s", info->dlpi_name);
	cr_expect_eq(o->bias + o->file->phdr, (uintptr_t)info->dlpi_phdr, "%s", info->dlpi_name);
	cr_expect_eq(o->main, info->dlpi_name[0] == '\0', "%s", info->dlpi_name);
	++*compared;
	return 0;
}

Test(host_objects, are_those_that_the_loader_lists)
{
	unsigned compared = 0;

	sp_host_objects_free(host);
	host = sp_host_objects_new("/proc/self", -1);
	cr_assert_eq(sp_host_objects_refresh(host), 0);
	(void)dl_iterate_phdr(compare, &compared);
	cr_expect_gt(compared, 5);
}

/* A package manager writes the new file beside the old one and renames it. */
Test(host_objects, are_not_believed_of_a_file_of_another_inode)
{
	const char *path = fake_host_object("a.so", 0x1000, 1);

	map_as(path, path, 0, 1);
	cr_expect_null(object_at(0x10500));
	cr_expect_eq(sp_host_objects_count(host), 1);
	cr_expect_not_null(sp_host_objects_map(host, 0x10500), "it has a name all the same");
}

/* btrfs and overlayfs show two devices. */
Test(host_objects, are_believed_of_a_file_of_another_device)
{
	const char *path = fake_host_object("a.so", 0x1000, 1);

	map_as(path, path, 1, 0);
	cr_expect_not_null(object_at(0x10500));
}

Test(host_objects, are_looked_for_in_the_root_of_the_process)
{
	const char *path = fake_host_object("a.so", 0x1000, 1);
	char folder[FAKE_PATH_MAX];
	char root[FAKE_PATH_MAX + 8];

	(void)snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(path, '/') - path), path);
	(void)snprintf(root, sizeof(root), "%s/root", folder);
	cr_assert_eq(symlink(folder, root), 0);
	map_as(path, "/a.so", 0, 0);
	cr_expect_not_null(object_at(0x10500));
}

Test(host_objects, stay_known_when_their_files_are_deleted)
{
	const char *path = fake_host_object("a.so", 0x1000, 1);
	char shown[FAKE_PATH_MAX + 16];

	map_as(path, path, 0, 0);
	cr_expect_not_null(object_at(0x10500));
	fake_host_unmap_all();
	(void)snprintf(shown, sizeof(shown), "%s (deleted)", path);
	map_as(path, shown, 0, 0);
	cr_assert_eq(unlink(path), 0);
	cr_assert_not_null(object_at(0x10500));
	cr_expect_eq(object_at(0x10500)->file->build_id_len, 20);
}

/* Programs are upgraded like this while they run. */
Test(host_objects, know_the_program_whose_file_was_deleted)
{
	const char *path = fake_host_object("program", 0x1000, 1);
	const char *proc = sp_host_objects_proc(host);
	char shown[FAKE_PATH_MAX + 16];
	char exe[FAKE_PATH_MAX];

	/* The link leads to the file as /proc/PID/exe does, and shows the same text. */
	(void)snprintf(shown, sizeof(shown), "%s (deleted)", path);
	(void)snprintf(exe, sizeof(exe), "%s/exe", proc);
	cr_assert_eq(rename(path, shown), 0);
	cr_assert_eq(symlink(shown, exe), 0);
	map_as(shown, shown, 0, 0);
	cr_assert_not_null(object_at(0x10500));
	cr_expect(object_at(0x10500)->main);
}

Test(host_objects, keep_reading_the_program_when_its_file_is_replaced)
{
	const char *path = fake_host_object("program", 0x1000, 1);
	const struct sp_host_object *o;
	char shown[FAKE_PATH_MAX + 16];
	char exe[FAKE_PATH_MAX];
	uint8_t bytes[4];

	(void)snprintf(exe, sizeof(exe), "%s/exe", sp_host_objects_proc(host));
	cr_assert_eq(symlink(path, exe), 0);
	map_as(path, path, 0, 0);
	cr_assert(object_at(0x10500)->main);
	/* The link leads to the old file, and says that it was deleted. */
	(void)snprintf(shown, sizeof(shown), "%s (deleted)", path);
	cr_assert_eq(rename(path, shown), 0);
	cr_assert_eq(unlink(exe), 0);
	cr_assert_eq(symlink(shown, exe), 0);
	fake_host_unmap_all();
	map_as(shown, shown, 0, 0);
	(void)fake_host_object("program", 0x1000, 2);

	o = object_at(0x10500);
	cr_assert_not_null(o);
	cr_expect(o->main);
	cr_expect_eq(o->file->build_id[0], 1);
	cr_assert(sp_object_file_read(o->file, 0, bytes, sizeof(bytes)));
	cr_expect_eq(memcmp(bytes, "\177ELF", 4), 0);
}

Test(host_objects, are_read_anew_when_an_inode_is_used_again)
{
	const char *path = fake_host_object("a.so", 0x1000, 1);
	int fd;

	map_as(path, path, 0, 0);
	cr_expect_eq(object_at(0x10500)->file->build_id[0], 1);
	/* Certainly the same inode, with other contents. */
	fd = open(path, O_WRONLY | O_CLOEXEC);
	cr_assert_eq(pwrite(fd, "\2\2\2\2", 4, FAKE_BUILD_ID_AT), 4);
	cr_assert_eq(futimens(fd, (struct timespec[2]){{1, 0}, {1, 0}}), 0);
	close(fd);
	cr_expect_eq(object_at(0x10500)->file->build_id[0], 2);
}

/* Opening a FIFO for reading would wait for a writer. */
Test(host_objects, are_regular_files)
{
	char fifo[FAKE_PATH_MAX];

	(void)snprintf(fifo, sizeof(fifo), "%s/fifo", sp_host_objects_proc(host));
	cr_assert_eq(mkfifo(fifo, 0600), 0);
	map_as(fifo, fifo, 0, 0);
	cr_expect_null(object_at(0x10500));
}

Test(host_objects, are_not_what_a_program_maps_to_read_it)
{
	const char *path = fake_host_object("a.so", 0x3000, 1);
	struct stat st;

	cr_assert_eq(stat(path, &st), 0);
	/*
	 * First no executable mapping; then fewer bytes of code than the headers say; then code from its middle on.
	 */
	for (unsigned i = 0; i < 3; i++) {
		fake_host_unmap_all();
		fake_host_line("8000-9000 r-xp 00000000 00:00 0 \n");
		fake_host_line("%x-%x %s 0000%s000 %02x:%02x %lu %s\n", 0x10000,
			       i == 1 ? 0x11000 : 0x13000, i == 0 ? "r--p" : "r-xp",
			       i == 2 ? "1" : "0", major(st.st_dev), minor(st.st_dev),
			       (unsigned long)st.st_ino, path);
		cr_expect_null(object_at(0x10500), "%u", i);
	}
	fake_host_unmap_all();
	fake_host_map(path, 0x10000, 0x3000);
	cr_expect_not_null(object_at(0x10500), "but this is one");
}

/* Some programs copy their code to huge pages. */
Test(host_objects, have_code_in_anonymous_memory)
{
	const char *path = fake_host_object("a.so", 0x3000, 1);
	struct stat st;

	cr_assert_eq(stat(path, &st), 0);
	fake_host_line("10000-11000 r-xp 00000000 %02x:%02x %lu %s\n", major(st.st_dev),
		       minor(st.st_dev), (unsigned long)st.st_ino, path);
	fake_host_line("11000-13000 r-xp 00000000 00:00 0 \n");
	cr_expect_not_null(object_at(0x12500));
}

Test(host_objects, do_not_reach_into_each_other)
{
	const char *a = fake_host_object("a.so", 0x1000, 1);
	const char *b = fake_host_object("b.so", 0x1000, 2);
	Elf64_Phdr ph;
	FILE *f = fopen(a, "r+");

	/* The memory of this object would end behind the beginning of the other one. */
	cr_assert_eq(fseek(f, sizeof(Elf64_Ehdr), SEEK_SET), 0);
	cr_assert_eq(fread(&ph, sizeof(ph), 1, f), 1);
	ph.p_memsz = 0x1800;
	cr_assert_eq(fseek(f, sizeof(Elf64_Ehdr), SEEK_SET), 0);
	cr_assert_eq(fwrite(&ph, sizeof(ph), 1, f), 1);
	cr_assert_eq(fclose(f), 0);
	fake_host_map(a, 0x10000, 0x1000);
	fake_host_map(b, 0x11000, 0x1000);

	cr_expect_null(object_at(0x10500));
	cr_expect_eq(object_at(0x11500)->file->build_id[0], 2);
}

Test(host_objects, may_lie_in_the_gap_of_another_one)
{
	fake_host_map_around(fake_host_object("outer.so", 0x2000, 1),
			     fake_host_object("inner.so", 0x1000, 2));

	cr_assert_not_null(object_at(0x10500));
	cr_expect_eq(object_at(0x10500)->file->build_id[0], 1);
	cr_expect_eq(object_at(0x20500)->file->build_id[0], 2);
	cr_assert_not_null(object_at(0x30500));
	cr_expect_eq(object_at(0x30500)->file->build_id[0], 1, "behind the inner one");
	cr_expect_null(object_at(0x31500));
}

Test(host_objects, survive_damaged_headers)
{
	const char *good = fake_host_object("a.so", 0x1000, 1);
	uint64_t seed = 88172645463325252U;
	uint8_t image[0x1000];
	unsigned known = 0;
	FILE *f = fopen(good, "r");

	cr_assert_eq(fread(image, 1, sizeof(image), f), sizeof(image));
	fclose(f);
	for (unsigned round = 0; round < 1000; round++) {
		uint8_t bad[sizeof(image)];
		const char *path;

		memcpy(bad, image, sizeof(bad));
		for (unsigned i = 0; i < 1 + round % 3; i++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			bad[seed % 216] ^= (uint8_t)(1U << (seed >> 16) % 8);
		}
		path = fake_host_file("bad.so", bad, round % 4 == 0 ? seed % 300 : sizeof(bad));
		fake_host_unmap_all();
		map_as(path, path, 0, 0);
		known += object_at(0x10500) != NULL;
	}
	cr_expect_gt(known, 20);
}

Test(host_objects, survive_lines_of_nonsense)
{
	const char *path = fake_host_object("a.so", 0x1000, 1);
	char *longest = malloc(40000);

	fake_host_line("\n \nnonsense\n1-\n1-2 r-x\n2000-1000 r-xp 0 0:0 0\n-1--2 r-xp 0 0:0 0\n");
	fake_host_line("3000-4000 r-xp 0 0:0 99999999999999999999999 %s\n", path);
	fake_host_line("3000-4000 r-xp zz 0:0 1\n5000-6000 r-xp 0 fe:00 12\n");
	fake_host_map(path, 0x10000, 0x1000);
	cr_expect_not_null(object_at(0x10500));
	memset(longest, 'x', 40000);
	fake_host_line("20000-21000 r-xp 0 0:1 1 /%.*s\n", 39999, longest);
	cr_expect_eq(sp_host_objects_refresh(host), -E2BIG);
	cr_expect_not_null(sp_host_objects_find(host, 0x10500));
	free(longest);
}

/* A database maps its files, and may have more of them than we could store. */
Test(host_objects, are_found_among_many_mappings_without_code)
{
	const char *path = fake_host_object("a.so", 0x1000, 1);
	char name[FAKE_PATH_MAX];
	FILE *maps;

	(void)snprintf(name, sizeof(name), "%s/maps", sp_host_objects_proc(host));
	maps = fopen(name, "w");
	for (unsigned i = 0; i < 100000; i++)
		fprintf(maps, "%x-%x r--s 00000000 fe:01 %u /data/%u\n", 0x100000 + i * 0x1000,
			0x101000 + i * 0x1000, i + 1, i);
	fclose(maps);
	fake_host_line("90000000-90001000 r-xp 00000000 00:00 0 [vdso]\n");
	fake_host_map(path, 0x100000000, 0x1000);
	cr_expect_not_null(object_at(0x100000500));
	cr_expect_null(sp_host_objects_map(host, 0x100500));
	cr_expect_leq(sp_host_objects_count(host), 2, "that and the vDSO");
}

Test(host_objects, read_zeros_behind_the_end_of_a_truncated_file)
{
	const char *path = fake_host_object("a.so", 0x1000, 1);
	const struct sp_host_object *o;
	uint8_t bytes[16];

	map_as(path, path, 0, 0);
	o = object_at(0x10500);
	cr_assert(sp_object_file_read(o->file, 0xff8, bytes, sizeof(bytes)));
	cr_assert(sp_object_file_read(o->file, UINT64_MAX / 2 - 20, bytes, sizeof(bytes)));
	cr_assert_not(sp_object_file_read(o->file, UINT64_MAX - 4, bytes, sizeof(bytes)));
	cr_assert_eq(truncate(path, 10), 0);
	cr_assert_not(sp_object_file_read(o->file, 0, bytes, sizeof(bytes)), "it has changed");
}

/* A walk reads words behind values of the stack that may be return addresses; most are none, and lie anywhere. */
Test(host_objects, keep_a_page_when_one_is_asked_for_that_is_not_there)
{
	const char *path = fake_host_object("a.so", 0x1000, 1);
	uint8_t byte;

	fake_host_map(path, 0x10000, 0x1000);
	cr_assert_not_null(object_at(0x10500));
	cr_assert(sp_host_objects_read(host, 0x10500, &byte, 1));
	for (uint64_t at = 0x11500; at < 0x10000000; at += 0x1000)
		cr_assert_not(sp_host_objects_read(host, at, &byte, 1));
	cr_assert_eq(truncate(path, 10), 0);
	cr_expect(sp_host_objects_read(host, 0x10500, &byte, 1), "nothing has to be read again");
}

Test(host_objects, are_due_unless_looking_took_long)
{
	fake_host_map(fake_host_object("a.so", 0x1000, 1), 0x10000, 0x1000);
	cr_expect(sp_host_objects_due(host));
	cr_assert_eq(sp_host_objects_refresh(host), 0);
	cr_expect_not(sp_host_objects_due(host), "it has only just been done");
	for (unsigned i = 0; i < 2000 && !sp_host_objects_due(host); i++)
		usleep(1000);
	cr_expect(sp_host_objects_due(host));
}
