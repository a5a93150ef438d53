/* SPDX-License-Identifier: Apache-2.0 */
/* See image.h. Context: test. Callers: lookup.c, bench.c. */
#define _GNU_SOURCE
#include "image.h"

#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static ElfW(Phdr) phdr[64];
static struct dl_phdr_info info;

static void die(const char *path, const char *what)
{
	fprintf(stderr, "%s: %s\n", path, what);
	exit(2);
}

static void map_segment(const char *path, int fd, const ElfW(Phdr) * ph, char *base)
{
	uint64_t skip = ph->p_vaddr & 4095;
	char *at = base + ph->p_vaddr - skip;

	if (ph->p_filesz != 0 && mmap(at, ph->p_filesz + skip, PROT_READ, MAP_PRIVATE | MAP_FIXED,
				      fd, (off_t)(ph->p_offset - skip)) == MAP_FAILED)
		die(path, "cannot map");
}

uint64_t image_map(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t end = 0;
	ElfW(Ehdr) eh;
	char *base;

	if (fd < 0 || pread(fd, &eh, sizeof(eh), 0) != sizeof(eh) ||
	    memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 || eh.e_phnum > 64 ||
	    pread(fd, phdr, sizeof(phdr[0]) * eh.e_phnum, (off_t)eh.e_phoff) <= 0)
		die(path, "no ELF file");
	for (unsigned i = 0; i < eh.e_phnum; i++)
		if (phdr[i].p_type == PT_LOAD && phdr[i].p_vaddr + phdr[i].p_memsz > end)
			end = phdr[i].p_vaddr + phdr[i].p_memsz;
	base = mmap(NULL, end + 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		    0);
	if (base == MAP_FAILED)
		die(path, "no room");
	for (unsigned i = 0; i < eh.e_phnum; i++)
		if (phdr[i].p_type == PT_LOAD)
			map_segment(path, fd, &phdr[i], base);
	close(fd);
	info = (struct dl_phdr_info){
		.dlpi_addr = (uintptr_t)base,
		.dlpi_name = path,
		.dlpi_phdr = phdr,
		.dlpi_phnum = eh.e_phnum,
		.dlpi_adds = 1,
	};
	return (uintptr_t)base;
}

uint64_t image_code(void)
{
	for (unsigned i = 0; i < info.dlpi_phnum; i++)
		if (phdr[i].p_type == PT_LOAD && (phdr[i].p_flags & PF_X) != 0)
			return info.dlpi_addr + phdr[i].p_vaddr;
	return 0;
}

int image_iterate(sp_phdr_callback fn, void *arg)
{
	return fn(&info, sizeof(info), arg);
}
