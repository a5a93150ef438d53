/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searches files for the classes of opentelemetry-cpp, as the object does in a process. The program maps each file
 * like the loader and relocates the file's own addresses, but never runs the file's code.
 *
 *	classes < LIST OF PATHS
 *
 * Prints "found PATH" for a file with a tracer and a span of a known layout, "named PATH" for a file with only their
 * names, and "files N longest US PATH".
 */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "preload/sdk/otelcpp/adapter_otelcpp_classes.h"

#define PAGE 4096UL
#define IMAGE_MAX (1UL << 31)
/* Linkers put position-dependent programs there; this program is position-independent. */
#define PROGRAM_AT 0x400000UL

#if defined(__aarch64__)
#define MACHINE EM_AARCH64
#define RELATIVE R_AARCH64_RELATIVE
#define ABSOLUTE R_AARCH64_ABS64
#else
#define MACHINE EM_X86_64
#define RELATIVE R_X86_64_RELATIVE
#define ABSOLUTE R_X86_64_64
#endif

struct file {
	const unsigned char *bytes;
	size_t size;
	const Elf64_Ehdr *head;
	const Elf64_Phdr *phdr;
};

static bool within(const struct file *f, uint64_t at, uint64_t size)
{
	return at <= f->size && size <= f->size - at;
}

static bool open_file(const char *path, struct file *f)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	void *bytes = MAP_FAILED;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	    st.st_size >= (off_t)sizeof(Elf64_Ehdr))
		bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (fd >= 0)
		close(fd);
	if (bytes == MAP_FAILED)
		return false;
	*f = (struct file){.bytes = bytes, .size = (size_t)st.st_size, .head = bytes};
	f->phdr = (const void *)(f->bytes + f->head->e_phoff);
	if (memcmp(f->bytes, ELFMAG, SELFMAG) == 0 && f->head->e_ident[EI_CLASS] == ELFCLASS64 &&
	    f->head->e_machine == MACHINE && f->head->e_phentsize == sizeof(Elf64_Phdr) &&
	    (f->head->e_type == ET_DYN || f->head->e_type == ET_EXEC) &&
	    within(f, f->head->e_phoff, f->head->e_phnum * sizeof(Elf64_Phdr)))
		return true;
	(void)munmap(bytes, f->size);
	return false;
}

static uint64_t end_of(const struct file *f)
{
	uint64_t end = 0;

	for (unsigned i = 0; i < f->head->e_phnum; i++) {
		const Elf64_Phdr *p = &f->phdr[i];

		if (p->p_type != PT_LOAD)
			continue;
		if (!within(f, p->p_offset, p->p_filesz) || p->p_vaddr >= IMAGE_MAX ||
		    p->p_memsz >= IMAGE_MAX || p->p_filesz > p->p_memsz ||
		    (f->head->e_type == ET_EXEC && p->p_vaddr < PROGRAM_AT))
			return 0;
		end = p->p_vaddr + p->p_memsz > end ? p->p_vaddr + p->p_memsz : end;
	}
	return (end + PAGE - 1) & ~(PAGE - 1);
}

/* The address of a symbol; for another object's symbol, such as a vtable of libstdc++, any address but 0. */
static uintptr_t address_of(const unsigned char *bias, const struct file *f,
			    const Elf64_Shdr *table, uint64_t index)
{
	const Elf64_Sym *sym = (const void *)(f->bytes + table->sh_offset);

	if (within(f, table->sh_offset, table->sh_size) && index < table->sh_size / sizeof(*sym) &&
	    sym[index].st_shndx != SHN_UNDEF)
		return (uintptr_t)bias + sym[index].st_value;
	return (uintptr_t)bias + PAGE;
}

static void apply(unsigned char *bias, uint64_t end, const struct file *f, const Elf64_Rela *r,
		  const Elf64_Shdr *symbols)
{
	uintptr_t word = (uintptr_t)bias;

	if (ELF64_R_TYPE(r->r_info) == ABSOLUTE)
		word = address_of(bias, f, symbols, ELF64_R_SYM(r->r_info));
	else if (ELF64_R_TYPE(r->r_info) != RELATIVE)
		return;
	word += (uintptr_t)r->r_addend;
	if (r->r_offset <= end - sizeof(word))
		memcpy(bias + r->r_offset, &word, sizeof(word));
}

/* bias: the address of the file's address 0. */
static void relocate(unsigned char *bias, uint64_t end, const struct file *f)
{
	const Elf64_Shdr *s = (const void *)(f->bytes + f->head->e_shoff);

	if (f->head->e_type != ET_DYN ||
	    !within(f, f->head->e_shoff, f->head->e_shnum * sizeof(*s)))
		return;
	for (unsigned i = 0; i < f->head->e_shnum; i++) {
		const Elf64_Rela *r = (const void *)(f->bytes + s[i].sh_offset);

		if (s[i].sh_type != SHT_RELA || (s[i].sh_flags & SHF_ALLOC) == 0 ||
		    s[i].sh_link >= f->head->e_shnum || !within(f, s[i].sh_offset, s[i].sh_size))
			continue;
		for (uint64_t k = 0; k < s[i].sh_size / sizeof(*r); k++)
			apply(bias, end, f, &r[k], &s[s[i].sh_link]);
	}
}

static void add(struct sp_elf_image *image, const unsigned char *bias, const Elf64_Phdr *p)
{
	bool relro = p->p_type == PT_GNU_RELRO;

	if ((p->p_type != PT_LOAD && !relro) || (p->p_flags & PF_R) == 0 ||
	    image->n == SP_ELF_SEGMENTS_MAX)
		return;
	image->segment[image->n++] = (struct sp_elf_segment){
		.start = (uintptr_t)bias + p->p_vaddr,
		.size = p->p_memsz,
		.from_file = p->p_filesz < p->p_memsz ? p->p_filesz : p->p_memsz,
		.writable = relro || (p->p_flags & PF_W) != 0,
		.executable = !relro && (p->p_flags & PF_X) != 0,
		.relro = relro,
	};
}

/* NULL if it cannot be mapped, such as a program at an address that is in use. */
static unsigned char *load(const struct file *f, uint64_t end, struct sp_elf_image *image)
{
	bool fixed = f->head->e_type == ET_EXEC;
	unsigned char *bias = mmap(NULL, end, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (bias == MAP_FAILED)
		return NULL;
	if (fixed) {
		/* The program's data has unrelocated addresses, so the program must be mapped at these addresses. */
		(void)munmap(bias, end);
		bias = NULL;
		if (mmap((void *)PROGRAM_AT, end - PROGRAM_AT, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
			 0) != (void *)PROGRAM_AT)
			return NULL;
	}
	image->n = 0;
	image->fixed = fixed;
	for (unsigned i = 0; i < f->head->e_phnum; i++) {
		const Elf64_Phdr *p = &f->phdr[i];

		if (p->p_type == PT_LOAD)
			memcpy(bias + p->p_vaddr, f->bytes + p->p_offset, p->p_filesz);
		add(image, bias, p);
	}
	relocate(bias, end, f);
	return fixed ? (unsigned char *)PROGRAM_AT : bias;
}

static double now_us(void)
{
	struct timespec ts;

	(void)clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static double look(const char *path, const struct sp_elf_image *image)
{
	struct sp_typeinfo_found found[SP_ARRAY_LEN(sp_otelcpp_classes)];
	double began = now_us();
	bool complete = sp_typeinfo_find(image, SP_OTELCPP_MARKER, sp_otelcpp_classes, found,
					 SP_ARRAY_LEN(sp_otelcpp_classes));
	double us = now_us() - began;

	for (unsigned v = 0; complete && v < SP_OTELCPP_VERSIONS; v++) {
		const struct sp_typeinfo_found *c = &found[v * SP_OTELCPP_CLASSES];

		if (c[SP_OTELCPP_TYPE_TRACER].n != 0 && c[SP_OTELCPP_TYPE_SPAN].n != 0)
			printf("found %s\n", path);
		else if (c[SP_OTELCPP_TYPE_TRACER].named || c[SP_OTELCPP_TYPE_SPAN].named)
			printf("named %s\n", path);
	}
	return us;
}

int main(void)
{
	static char path[4096];
	static char longest[4096];
	double most = 0;
	unsigned n = 0;

	while (fgets(path, sizeof(path), stdin) != NULL) {
		struct sp_elf_image image;
		struct file f;
		uint64_t end;
		unsigned char *at;
		double us;

		path[strcspn(path, "\n")] = '\0';
		if (!open_file(path, &f))
			continue;
		end = end_of(&f);
		at = end >= PAGE && (f.head->e_type == ET_DYN || end > PROGRAM_AT)
			     ? load(&f, end, &image)
			     : NULL;
		if (at != NULL) {
			us = look(path, &image);
			n++;
			if (us > most) {
				most = us;
				strcpy(longest, path);
			}
			(void)munmap(at, f.head->e_type == ET_EXEC ? end - PROGRAM_AT : end);
		}
		(void)munmap((void *)(uintptr_t)f.bytes, f.size);
	}
	printf("files %u longest %.0f %s\n", n, most, longest);
	return 0;
}
