/* SPDX-License-Identifier: Apache-2.0 */
/* A fake process (fake_host.h). Context: tests. */
#define _GNU_SOURCE
#include "fake_host.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#define PATHS_MAX 64U

#ifdef __aarch64__
#define MACHINE EM_AARCH64
#else
#define MACHINE EM_X86_64
#endif

static char folder[64];
static char path[PATHS_MAX][FAKE_PATH_MAX];
static unsigned paths;

const char *fake_host_start(void)
{
	fake_host_end();
	strcpy(folder, "/tmp/spanprof-host-XXXXXX");
	cr_assert(mkdtemp(folder) != NULL);
	fake_host_unmap_all();
	return folder;
}

void fake_host_end(void)
{
	char command[128];

	if (folder[0] == '\0')
		return;
	(void)snprintf(command, sizeof(command), "rm -rf %s", folder);
	cr_assert_eq(system(command), 0);
	folder[0] = '\0';
	paths = 0;
}

static FILE *open_maps(const char *mode)
{
	char maps[128];
	FILE *f;

	(void)snprintf(maps, sizeof(maps), "%s/maps", folder);
	f = fopen(maps, mode);
	cr_assert_not_null(f);
	return f;
}

void fake_host_unmap_all(void)
{
	fclose(open_maps("w"));
}

const char *fake_host_file(const char *name, const void *bytes, uint64_t n)
{
	char *at = path[paths++ % PATHS_MAX];
	FILE *f;

	(void)snprintf(at, FAKE_PATH_MAX, "%s/%s", folder, name);
	f = fopen(at, "w");
	cr_assert_not_null(f);
	cr_assert_eq(fwrite(bytes, 1, n, f), n);
	cr_assert_eq(fclose(f), 0);
	return at;
}

const char *fake_host_object(const char *name, uint64_t bytes, uint8_t build)
{
	struct {
		Elf64_Ehdr eh;
		Elf64_Phdr ph[3]; /* the last one is for move_data() */
		Elf64_Nhdr note;
		char owner[4];
		uint8_t id[20];
	} head = {
		.eh = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, 1},
		       .e_type = ET_DYN,
		       .e_machine = MACHINE,
		       .e_phoff = sizeof(Elf64_Ehdr),
		       .e_phentsize = sizeof(Elf64_Phdr),
		       .e_phnum = build != 0 ? 2 : 1},
		.note = {4, 20, NT_GNU_BUILD_ID},
		.owner = "GNU",
	};
	_Static_assert(offsetof(__typeof__(head), id) == FAKE_BUILD_ID_AT, "fake_host.h");
	uint8_t *image = calloc(1, bytes);
	const char *made;

	head.ph[0] = (Elf64_Phdr){
		.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = bytes, .p_memsz = bytes};
	head.ph[1] = (Elf64_Phdr){.p_type = PT_NOTE,
				  .p_offset = sizeof(head.eh) + sizeof(head.ph),
				  .p_vaddr = sizeof(head.eh) + sizeof(head.ph),
				  .p_filesz = sizeof(head) - sizeof(head.eh) - sizeof(head.ph)};
	memset(head.id, build, sizeof(head.id));
	memcpy(image, &head, sizeof(head));
	made = fake_host_file(name, image, bytes);
	free(image);
	return made;
}

/* Makes the last bytes of the object a second load, at that address. */
static void move_data(const char *object, uint64_t bytes, uint64_t at)
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph[3];
	FILE *f = fopen(object, "r+");

	cr_assert_not_null(f);
	cr_assert_eq(fread(&eh, sizeof(eh), 1, f), 1);
	cr_assert_eq(fread(ph, sizeof(ph), 1, f), 1);
	ph[0].p_filesz = ph[0].p_memsz -= bytes;
	ph[2] = (Elf64_Phdr){.p_type = PT_LOAD,
			     .p_flags = PF_R | PF_W,
			     .p_offset = ph[0].p_filesz,
			     .p_vaddr = at,
			     .p_filesz = bytes,
			     .p_memsz = bytes};
	eh.e_phnum = 3;
	rewind(f);
	cr_assert_eq(fwrite(&eh, sizeof(eh), 1, f), 1);
	cr_assert_eq(fwrite(ph, sizeof(ph), 1, f), 1);
	cr_assert_eq(fclose(f), 0);
}

void fake_host_map_around(const char *outer, const char *inner)
{
	struct stat st;

	move_data(outer, 0x1000, 0x20000);
	cr_assert_eq(stat(outer, &st), 0);
	fake_host_map(outer, 0x10000, 0x1000);
	fake_host_map(inner, 0x20000, 0x1000);
	fake_host_line("30000-31000 rw-p 00001000 %02x:%02x %lu %s\n", major(st.st_dev),
		       minor(st.st_dev), (unsigned long)st.st_ino, outer);
}

void fake_host_line(const char *format, ...)
{
	FILE *f = open_maps("a");
	va_list args;

	va_start(args, format);
	(void)vfprintf(f, format, args);
	va_end(args);
	cr_assert_eq(fclose(f), 0);
}

void fake_host_map(const char *file, uint64_t start, uint64_t bytes)
{
	struct stat st;

	cr_assert_eq(stat(file, &st), 0);
	fake_host_line("%lx-%lx r-xp 00000000 %02x:%02x %lu                  %s\n",
		       (unsigned long)start, (unsigned long)(start + bytes), major(st.st_dev),
		       minor(st.st_dev), (unsigned long)st.st_ino, file);
}
