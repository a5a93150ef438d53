/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds where functions start by the call frame information of a file, which works on stripped
 * code. Context: the exporter.
 */
#ifndef SP_FDE_FILE_H
#define SP_FDE_FILE_H

#include <libelf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_fde_file;

/* NULL when the file has none that can be searched, or out of memory. */
struct sp_fde_file *sp_fde_file_read(Elf *elf);
/* The same for a whole ELF file in memory, which may be freed afterwards. */
struct sp_fde_file *sp_fde_file_read_image(void *image, size_t size);
void sp_fde_file_free(struct sp_fde_file *f);
size_t sp_fde_file_bytes(const struct sp_fde_file *f);

/* Start of the function around vaddr. */
bool sp_fde_file_find(const struct sp_fde_file *f, uint64_t vaddr, uint64_t *start);

#endif
