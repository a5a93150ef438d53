/* SPDX-License-Identifier: Apache-2.0 */
/* See image.h. Context: test. */
#define _GNU_SOURCE
#include "image.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "export/objects/object_file.h"

#define NOTES_MAX 4096U
/* No mapping of ours is there. */
#define BIAS UINT64_C(0x100000000000)

static struct sp_module_event event;

static void die(const char *path, const char *what)
{
	fprintf(stderr, "%s: %s\n", path, what);
	exit(2);
}

static void take_note(int fd, const Elf64_Phdr *ph)
{
	uint8_t notes[NOTES_MAX];
	ssize_t n = pread(fd, notes, ph->p_filesz < NOTES_MAX ? ph->p_filesz : NOTES_MAX,
			  (off_t)ph->p_offset);

	if (n > 0 && event.build_id_len == 0)
		event.build_id_len =
			sp_elf_build_id(notes, (size_t)n, event.build_id, sizeof(event.build_id));
}

/* Mapped as by a loader, because the exporter finds a file only for executable mappings. */
static void map(const char *path, int fd, const Elf64_Phdr *ph)
{
	uint64_t into = ph->p_vaddr % 4096;
	int prot = PROT_READ | ((ph->p_flags & PF_X) != 0 ? PROT_EXEC : 0);

	if (ph->p_filesz != 0 &&
	    mmap((void *)(uintptr_t)(BIAS + ph->p_vaddr - into), ph->p_filesz + into, prot,
		 MAP_PRIVATE | MAP_FIXED, fd, (off_t)(ph->p_offset - into)) == MAP_FAILED)
		die(path, "cannot be mapped");
}

static void take_load(const char *path, const Elf64_Phdr *ph)
{
	if (event.loads == SP_MODULE_EVENT_LOADS)
		die(path, "too many segments");
	event.load[event.loads].vaddr = ph->p_vaddr;
	event.load[event.loads].memsz = ph->p_memsz;
	event.load[event.loads].offset = ph->p_offset;
	event.load[event.loads++].flags = ph->p_flags;
}

uint64_t image_load(struct sp_modules *modules, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t page[SP_MODULE_CONTENT_BYTES / 8] = {0};
	Elf64_Phdr phdr[64];
	Elf64_Ehdr eh;

	if (fd < 0 || pread(fd, &eh, sizeof(eh), 0) != sizeof(eh) ||
	    memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 || eh.e_phnum > 64 ||
	    pread(fd, phdr, sizeof(phdr[0]) * eh.e_phnum, (off_t)eh.e_phoff) <= 0)
		die(path, "no ELF file");
	event.bias = BIAS;
	event.phdr = BIAS + eh.e_phoff;
	for (unsigned i = 0; i < eh.e_phnum; i++) {
		if (phdr[i].p_type == PT_LOAD) {
			take_load(path, &phdr[i]);
			map(path, fd, &phdr[i]);
		} else if (phdr[i].p_type == PT_NOTE) {
			take_note(fd, &phdr[i]);
		}
	}
	if (event.build_id_len == 0 && pread(fd, page, sizeof(page), 0) > 0)
		event.content = sp_module_content(page);
	close(fd);
	(void)snprintf(event.path, sizeof(event.path), "%s", path);
	sp_modules_take_event(modules, &event);
	return BIAS;
}

uint64_t image_code(void)
{
	for (unsigned i = 0; i < event.loads; i++)
		if ((event.load[i].flags & PF_X) != 0)
			return BIAS + event.load[i].vaddr;
	return 0;
}
