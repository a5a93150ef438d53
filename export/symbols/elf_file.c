/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens ELF files by libelf. Files are read, not mapped: access to a mapped file that somebody
 * truncates raises SIGBUS. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/symbols/elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "export/objects/elf_notes.h"

#define SP_NOTES_MAX 65536U

size_t sp_elf_file_build_id(Elf *elf, uint8_t *id, size_t cap)
{
	Elf_Scn *scn = NULL;
	size_t len = 0;

	while (len == 0 && (scn = elf_nextscn(elf, scn)) != NULL) {
		const Elf_Data *data;
		GElf_Shdr sh;

		if (gelf_getshdr(scn, &sh) == NULL || sh.sh_type != SHT_NOTE ||
		    sh.sh_size > SP_NOTES_MAX || (data = elf_rawdata(scn, NULL)) == NULL ||
		    data->d_buf == NULL)
			continue;
		len = sp_elf_build_id(data->d_buf, data->d_size, id, cap);
	}
	return len;
}

const char *sp_elf_file_section_name(Elf *elf, Elf_Scn *scn)
{
	const char *name = NULL;
	size_t strings;
	GElf_Shdr sh;

	if (gelf_getshdr(scn, &sh) != NULL && elf_getshdrstrndx(elf, &strings) == 0)
		name = elf_strptr(elf, strings, sh.sh_name);
	return name != NULL ? name : "";
}

Elf_Scn *sp_elf_file_section(Elf *elf, const char *name)
{
	Elf_Scn *scn = NULL;

	while ((scn = elf_nextscn(elf, scn)) != NULL)
		if (strcmp(sp_elf_file_section_name(elf, scn), name) == 0)
			return scn;
	return NULL;
}

bool sp_elf_file_has_dwarf(Elf *elf)
{
	Elf_Scn *scn = sp_elf_file_section(elf, ".debug_info");
	GElf_Shdr sh;

	if (scn == NULL)
		scn = sp_elf_file_section(elf, ".zdebug_info");
	return scn != NULL && gelf_getshdr(scn, &sh) != NULL && sh.sh_type != SHT_NOBITS;
}

/* A name, padded with NULs to 4 bytes, and the checksum. */
void sp_elf_file_debug_link(Elf *elf, struct sp_debug_link *out)
{
	Elf_Scn *scn = sp_elf_file_section(elf, ".gnu_debuglink");
	const Elf_Data *data = NULL;
	GElf_Shdr sh;
	size_t len;

	memset(out, 0, sizeof(*out));
	if (scn != NULL && gelf_getshdr(scn, &sh) != NULL && sh.sh_size <= SP_NOTES_MAX)
		data = elf_rawdata(scn, NULL);
	if (data == NULL || data->d_buf == NULL || data->d_size < 8)
		return;
	len = strnlen(data->d_buf, data->d_size - 4);
	/* A name with a "/" could lead to any place. */
	if (len == 0 || len >= sizeof(out->name) || (len & ~(size_t)3) + 8 > data->d_size ||
	    memchr(data->d_buf, '/', len) != NULL)
		return;
	memcpy(out->name, data->d_buf, len);
	memcpy(&out->crc, (const char *)data->d_buf + (len & ~(size_t)3) + 4, sizeof(out->crc));
}

bool sp_elf_file_laid_out_as(Elf *elf, const struct sp_module *mod)
{
	unsigned segments = 0;
	size_t n = 0;
	GElf_Phdr ph;

	if (elf_getphdrnum(elf, &n) != 0)
		return false;
	for (size_t i = 0; i < n && gelf_getphdr(elf, (int)i, &ph) != NULL; i++) {
		const struct sp_segment *g = &mod->segment[segments];
		uint64_t start = mod->bias + ph.p_vaddr;

		if (ph.p_type != PT_LOAD || (ph.p_flags & PF_X) == 0)
			continue;
		if (segments == SP_MODULE_SEGMENTS)
			return true;
		if (segments == mod->segments || start < g->start || start - g->start >= 4096 ||
		    start + ph.p_memsz > g->end || g->end - (start + ph.p_memsz) >= 4096)
			return false;
		segments++;
	}
	return segments == mod->segments;
}

static int check(struct sp_elf_file *f, const uint8_t *id, size_t id_len)
{
	uint8_t have[64];
	struct stat st;
	size_t n;

	/* The path may lead to a device, or to a pipe that never ends. */
	if (fstat(f->fd, &st) != 0 || !S_ISREG(st.st_mode))
		return -EINVAL;
	elf_version(EV_CURRENT);
	f->elf = elf_begin(f->fd, ELF_C_READ, NULL);
	if (f->elf == NULL || elf_kind(f->elf) != ELF_K_ELF)
		return -EINVAL;
	n = sp_elf_file_build_id(f->elf, have, sizeof(have));
	return n == id_len && (n == 0 || memcmp(have, id, n) == 0) ? 0 : -ESTALE;
}

int sp_elf_file_open_fd(int fd, const uint8_t *id, size_t id_len, struct sp_elf_file *out)
{
	int err;

	*out = (struct sp_elf_file){.fd = fd};
	err = check(out, id, id_len);
	if (err != 0)
		sp_elf_file_close(out);
	return err;
}

int sp_elf_file_open(const char *path, const uint8_t *id, size_t id_len, struct sp_elf_file *out)
{
	struct stat st;
	int fd;

	*out = (struct sp_elf_file){.fd = -1};
	/* The path comes from an untrusted source, and opening a device may have an effect. */
	if (stat(path, &st) != 0)
		return -ENOENT;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	/*
	 * Non-blocking, because the path may have become a FIFO, which must not stop the exporter.
	 */
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	return fd < 0 ? -ENOENT : sp_elf_file_open_fd(fd, id, id_len, out);
}

void sp_elf_file_close(struct sp_elf_file *f)
{
	elf_end(f->elf);
	if (f->fd >= 0)
		close(f->fd);
	*f = (struct sp_elf_file){.fd = -1};
}
