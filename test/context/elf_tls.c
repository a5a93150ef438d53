/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads dynamic symbols and relocations of mapped files (elf_tls.h). The files are trusted, because they are our own
 * builds.
 */
#define _GNU_SOURCE
#include "test/context/elf_tls.h"

#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SYMBOL "otel_thread_ctx_v1"

#ifndef R_X86_64_TLSDESC
#define R_X86_64_TLSDESC 36
#endif
#ifndef R_AARCH64_TLSDESC
#define R_AARCH64_TLSDESC 1031
#endif

struct file {
	const char *bytes;
	size_t size;
	uint64_t load; /* address of the file's begin in the process */
};

static bool map_file(struct file *f, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	void *at = MAP_FAILED;

	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > (off_t)sizeof(Elf64_Ehdr))
		at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (fd >= 0)
		close(fd);
	if (at == MAP_FAILED)
		return false;
	f->bytes = at;
	f->size = (size_t)st.st_size;
	if (memcmp(f->bytes, ELFMAG, SELFMAG) == 0)
		return true;
	munmap(at, f->size);
	return false;
}

/* The number of the symbol in that table; 0 = not found. */
static size_t symbol_in(const struct file *f, const Elf64_Shdr *table, const Elf64_Shdr *strings)
{
	const Elf64_Sym *s = (const void *)(f->bytes + table->sh_offset);

	for (size_t i = 1; i < table->sh_size / sizeof(*s); i++) {
		if (ELF64_ST_TYPE(s[i].st_info) == STT_TLS && s[i].st_shndx != SHN_UNDEF &&
		    s[i].st_size == 8 && ELF64_ST_BIND(s[i].st_info) == STB_GLOBAL &&
		    strcmp(f->bytes + strings->sh_offset + s[i].st_name, SYMBOL) == 0)
			return i;
	}
	return 0;
}

/* The address of its descriptor in the file; 0 = there is none. */
static uint64_t descriptor_in(const struct file *f, const Elf64_Shdr *relocations, size_t symbol)
{
	const Elf64_Rela *r = (const void *)(f->bytes + relocations->sh_offset);

	for (size_t i = 0; i < relocations->sh_size / sizeof(*r); i++) {
		uint64_t type = ELF64_R_TYPE(r[i].r_info);

		if (ELF64_R_SYM(r[i].r_info) == symbol &&
		    (type == R_X86_64_TLSDESC || type == R_AARCH64_TLSDESC))
			return r[i].r_offset;
	}
	return 0;
}

static uint64_t descriptor_of(const struct file *f)
{
	const Elf64_Ehdr *e = (const void *)f->bytes;
	const Elf64_Shdr *s = (const void *)(f->bytes + e->e_shoff);
	size_t symbol = 0;
	uint64_t at = 0;

	for (unsigned i = 0; i < e->e_shnum && symbol == 0; i++)
		if (s[i].sh_type == SHT_DYNSYM)
			symbol = symbol_in(f, &s[i], &s[s[i].sh_link]);
	for (unsigned i = 0; symbol != 0 && i < e->e_shnum && at == 0; i++)
		if (s[i].sh_type == SHT_RELA)
			at = descriptor_in(f, &s[i], symbol);
	return at;
}

static bool offset_of(pid_t pid, const char *path, uint64_t load, int64_t *offset)
{
	struct file f = {.load = load};
	struct iovec to = {offset, sizeof(*offset)};
	struct iovec from = {NULL, sizeof(*offset)};
	uint64_t at;

	if (!map_file(&f, path))
		return false;
	at = descriptor_of(&f);
	munmap((void *)(uintptr_t)f.bytes, f.size);
	if (at == 0)
		return false;
	/* the second word of the descriptor: small if it is an offset, otherwise an address */
	from.iov_base = (void *)(uintptr_t)(load + at + 8);
	return process_vm_readv(pid, &to, 1, &from, 1, 0) == (ssize_t)sizeof(*offset) &&
	       *offset > -(INT64_C(1) << 24) && *offset < INT64_C(1) << 24;
}

bool elf_tls_find(pid_t pid, int64_t *offset)
{
	char line[4096];
	char path[64];
	bool found = false;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "re");
	while (maps != NULL && !found && fgets(line, sizeof(line), maps) != NULL) {
		unsigned long long start = 0;
		unsigned long long at = 0;
		char *name = strchr(line, '/');

		if (name == NULL || sscanf(line, "%llx-%*x %*s %llx", &start, &at) != 2 || at != 0)
			continue;
		name[strcspn(name, "\n")] = '\0';
		found = offset_of(pid, name, start, offset);
	}
	if (maps != NULL)
		fclose(maps);
	return found;
}
