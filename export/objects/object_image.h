/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what a mapped object says of itself: its name, and an ELF file made from its dynamic symbols and call frame
 * information. The object may contain wrong data anywhere: only its readable segments are read, with bounds of bytes
 * and entries. Context: the exporter.
 */
#ifndef SP_OBJECT_IMAGE_H
#define SP_OBJECT_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_OBJECT_LOADS 16U
#ifdef __aarch64__
#define SP_OBJECT_MACHINE EM_AARCH64
#else
#define SP_OBJECT_MACHINE EM_X86_64
#endif

/* A PT_LOAD, as in the file. */
struct sp_object_load {
	uint64_t vaddr;
	uint64_t memsz;
	uint64_t filesz;
	uint64_t offset;
	uint32_t flags; /* PF_R, PF_W, PF_X */
};

/* The place of an object and of its tables, as ELF addresses. */
struct sp_object_layout {
	const struct sp_object_load *load;
	unsigned loads;
	uint64_t lo; /* the range of all loads: [lo, hi) */
	uint64_t hi;
	uint64_t eh_frame_hdr; /* 0 = none */
	uint64_t dynamic;      /* the dynamic section, and its bytes; 0 = none */
	uint64_t dynamic_bytes;
};

/* Reads bytes of the object by their ELF address. False unless all bytes could be read. */
struct sp_object_reader {
	bool (*read)(void *arg, uint64_t vaddr, void *out, size_t bytes);
	void *arg;
	/* what the loader has added to the addresses in the dynamic section; 0 in a file */
	uint64_t bias;
};

#define SP_OBJECT_SONAME_MAX 128U

/* The last part of DT_SONAME; "" = none. */
void sp_object_soname(const struct sp_object_layout *f, const struct sp_object_reader *reader,
		      char name[SP_OBJECT_SONAME_MAX]);

/*
 * An ELF file with .dynsym, .dynstr and .gnu.version, the code as sections without contents, and .eh_frame_hdr with
 * the rest of its segment. At most `most` bytes, from malloc(); NULL when out of memory, or if there is neither a
 * symbol nor a frame.
 */
uint8_t *sp_object_image(const struct sp_object_layout *f, const struct sp_object_reader *reader,
			 size_t most, size_t *bytes);

#endif
