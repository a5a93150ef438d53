/* SPDX-License-Identifier: Apache-2.0 */
/* Headers, segments and the dynamic section. Runs in spanprof-run only. */
#include "scripts/run/elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Far beyond real files; what is larger is damaged or hostile. */
#define DYNAMIC_MAX ((uint64_t)1 << 20)

bool sp_elf_read(const struct sp_elf *f, uint64_t offset, void *out, size_t len)
{
	char *at = out;

	if (offset > f->size || len > f->size - offset)
		return false;
	while (len != 0) {
		ssize_t got = pread(f->fd, at, len, (off_t)offset);

		if (got <= 0)
			return false;
		at += got;
		offset += (uint64_t)got;
		len -= (size_t)got;
	}
	return true;
}

char *sp_elf_copy(const struct sp_elf *f, uint64_t offset, uint64_t len, uint64_t max)
{
	char *copy;

	/* Before memory is asked for: a header may claim any size. */
	if (len > max || offset > f->size || len > f->size - offset)
		return NULL;
	copy = malloc((size_t)len + 1);
	if (copy == NULL || !sp_elf_read(f, offset, copy, (size_t)len)) {
		free(copy);
		return NULL;
	}
	copy[len] = '\0';
	return copy;
}

static const Elf64_Phdr *segment(const struct sp_elf *f, uint32_t type)
{
	for (unsigned i = 0; i < f->phdrs; i++)
		if (f->phdr[i].p_type == type)
			return &f->phdr[i];
	return NULL;
}

/* Tables whose entries have another size than ours are of a format we do not know. */
static void read_tables(struct sp_elf *f, const Elf64_Ehdr *h)
{
	if (h->e_phentsize == sizeof(Elf64_Phdr) && h->e_phnum != 0) {
		f->phdr = (void *)sp_elf_copy(f, h->e_phoff, h->e_phnum * sizeof(Elf64_Phdr),
					      f->size);
		f->phdrs = f->phdr != NULL ? h->e_phnum : 0;
	}
	if (h->e_shentsize == sizeof(Elf64_Shdr) && h->e_shnum != 0 && h->e_shoff != 0) {
		f->shdr = (void *)sp_elf_copy(f, h->e_shoff, h->e_shnum * sizeof(Elf64_Shdr),
					      f->size);
		f->shdrs = f->shdr != NULL ? h->e_shnum : 0;
	}
}

static int read_headers(struct sp_elf *f)
{
	Elf64_Ehdr h = {.e_type = 0};
	const Elf64_Phdr *p;

	/* The 32-bit header is shorter, and begins alike up to the machine. */
	if (!sp_elf_read(f, 0, &h, sizeof(Elf32_Ehdr)) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
		return -ENOEXEC;
	f->word_size = h.e_ident[EI_CLASS];
	f->type = h.e_type;
	f->machine = h.e_machine;
	f->readable = f->word_size == ELFCLASS64 && h.e_ident[EI_DATA] == ELFDATA2LSB;
	if (!f->readable)
		return 0;
	if (!sp_elf_read(f, 0, &h, sizeof(h)))
		return -ENOEXEC;
	read_tables(f, &h);
	if (f->phdr == NULL)
		return -ENOEXEC;
	f->dynamic = segment(f, PT_DYNAMIC) != NULL;
	p = segment(f, PT_INTERP);
	if (p != NULL && (p->p_filesz == 0 || p->p_filesz >= sizeof(f->interp) ||
			  !sp_elf_read(f, p->p_offset, f->interp, (size_t)p->p_filesz)))
		return -ENOEXEC;
	return 0;
}

int sp_elf_open(const char *path, struct sp_elf *f)
{
	/* Opening must not wait for whoever writes into a pipe. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	return fd >= 0 ? sp_elf_take(fd, f) : -errno;
}

int sp_elf_take(int fd, struct sp_elf *f)
{
	struct stat st;
	int err;

	memset(f, 0, sizeof(*f));
	f->fd = fd;
	if (fstat(f->fd, &st) != 0 || !S_ISREG(st.st_mode))
		err = -EACCES;
	else {
		f->size = (uint64_t)st.st_size;
		err = read_headers(f);
	}
	if (err != 0)
		sp_elf_close(f);
	return err;
}

void sp_elf_close(struct sp_elf *f)
{
	if (f->fd >= 0)
		(void)close(f->fd);
	free(f->phdr);
	free(f->shdr);
	f->fd = -1;
	f->phdr = NULL;
	f->shdr = NULL;
}

bool sp_elf_pie(const struct sp_elf *f)
{
	const Elf64_Phdr *p = segment(f, PT_DYNAMIC);
	Elf64_Dyn *d;
	bool pie = false;

	d = p != NULL ? (void *)sp_elf_copy(f, p->p_offset, p->p_filesz, DYNAMIC_MAX) : NULL;
	if (d == NULL)
		return false;
	for (size_t i = 0; i < p->p_filesz / sizeof(*d) && d[i].d_tag != DT_NULL; i++)
		if (d[i].d_tag == DT_FLAGS_1)
			pie = (d[i].d_un.d_val & DF_1_PIE) != 0;
	free(d);
	return pie;
}
