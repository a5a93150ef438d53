/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds functions by the call frame information of a file. Reads .eh_frame_hdr and the rest of its
 * segment, with .eh_frame, and lets the handler's own reader (sampler/unwind/ehframe_sig.h) search the
 * copy. Linkers write these tables relative to themselves, so all addresses that are found are off
 * by the same distance. Context: the exporter.
 */
#include "export/symbols/fde_file.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/unwind/ehframe_sig.h"

#define SP_FDE_FILE_MAX ((uint64_t)64 << 20)

struct sp_fde_file {
	uint64_t vaddr; /* of data[0] */
	size_t size;
	uint8_t data[];
};

static bool phdr_of(Elf *elf, uint32_t type, uint64_t vaddr, GElf_Phdr *out)
{
	size_t n = 0;

	if (elf_getphdrnum(elf, &n) != 0)
		return false;
	for (size_t i = 0; i < n && gelf_getphdr(elf, (int)i, out) != NULL; i++)
		if (out->p_type == type &&
		    (type != PT_LOAD ||
		     (vaddr >= out->p_vaddr && vaddr - out->p_vaddr < out->p_filesz)))
			return true;
	return false;
}

struct sp_fde_file *sp_fde_file_read(Elf *elf)
{
	struct sp_fde_file *f;
	const Elf_Data *data;
	GElf_Phdr hdr, load;
	uint64_t skip, size;

	if (!phdr_of(elf, PT_GNU_EH_FRAME, 0, &hdr) || !phdr_of(elf, PT_LOAD, hdr.p_vaddr, &load))
		return NULL;
	skip = hdr.p_vaddr - load.p_vaddr;
	size = load.p_filesz - skip;
	if (size > SP_FDE_FILE_MAX || load.p_offset > INT64_MAX - skip)
		return NULL;
	data = elf_getdata_rawchunk(elf, (int64_t)(load.p_offset + skip), size, ELF_T_BYTE);
	f = data != NULL && data->d_buf != NULL ? malloc(sizeof(*f) + data->d_size) : NULL;
	if (f == NULL)
		return NULL;
	f->vaddr = hdr.p_vaddr;
	f->size = data->d_size;
	memcpy(f->data, data->d_buf, data->d_size);
	return f;
}

struct sp_fde_file *sp_fde_file_read_image(void *image, size_t size)
{
	struct sp_fde_file *f = NULL;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_memory(image, size);
	if (elf != NULL)
		f = sp_fde_file_read(elf);
	elf_end(elf);
	return f;
}

void sp_fde_file_free(struct sp_fde_file *f)
{
	free(f);
}

size_t sp_fde_file_bytes(const struct sp_fde_file *f)
{
	return sizeof(*f) + f->size;
}

bool sp_fde_file_find(const struct sp_fde_file *f, uint64_t vaddr, uint64_t *start)
{
	uintptr_t lo = (uintptr_t)f->data;
	const struct sp_object copy = {.start = lo, .end = lo + f->size, .eh_frame_hdr = lo};
	uint64_t off = lo - f->vaddr;
	struct sp_fde fde;

	if (sp_ehframe_find(&copy, vaddr + off, &fde) != 0)
		return false;
	*start = fde.pc_begin - off;
	/* In a damaged file the address may wrap around. */
	return *start <= vaddr;
}
