/* SPDX-License-Identifier: Apache-2.0 */
/* ELF files on disk, trusted only when they are the build that is mapped. */
#ifndef SP_ELF_FILE_H
#define SP_ELF_FILE_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/objects/modules.h"

#define SP_DEBUG_LINK_MAX 256U

struct sp_elf_file {
	int fd;
	Elf *elf;
};

/* What .gnu_debuglink says: the name of the debug file, without folder, and its checksum. */
struct sp_debug_link {
	char name[SP_DEBUG_LINK_MAX]; /* "" = none */
	uint32_t crc;
};

/*
 * Opens a regular file whose build id is the given one (id_len 0: that has none). 0, -ENOENT no
 * such file, -ESTALE another build id, -EINVAL no readable ELF. Nothing stays open after a failure.
 */
int sp_elf_file_open(const char *path, const uint8_t *id, size_t id_len, struct sp_elf_file *out);

/* The same for a descriptor, which it owns from then on. */
int sp_elf_file_open_fd(int fd, const uint8_t *id, size_t id_len, struct sp_elf_file *out);

/*
 * True if the file's executable segments are where the module's are; for a file without a build id
 * there is no better proof.
 */
bool sp_elf_file_laid_out_as(Elf *elf, const struct sp_module *mod);

void sp_elf_file_close(struct sp_elf_file *f);

size_t sp_elf_file_build_id(Elf *elf, uint8_t *id, size_t cap);

/* The section of that name, or NULL. */
Elf_Scn *sp_elf_file_section(Elf *elf, const char *name);

/* Name of a section, "" when it has none. */
const char *sp_elf_file_section_name(Elf *elf, Elf_Scn *scn);

/* True if the file itself has DWARF debug information. */
bool sp_elf_file_has_dwarf(Elf *elf);

void sp_elf_file_debug_link(Elf *elf, struct sp_debug_link *out);

#endif
