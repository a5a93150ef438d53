/* SPDX-License-Identifier: Apache-2.0 */
/* The function symbols of one ELF file, sorted by address. */
#ifndef SP_SYMTAB_H
#define SP_SYMTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/symbols/elf_file.h"

struct sp_symbol {
	uint64_t start;   /* ELF virtual address */
	uint64_t size;    /* 0 = unknown */
	const char *name; /* as in the file; lives as long as the table */
};

struct sp_symtab;

/*
 * Reads .symtab, .dynsym, the symbols inside .gnu_debugdata, and the PLT stubs of a file that is open and
 * checked (elf_file.h). 0 or -ENOMEM. A file without symbols gives an empty table.
 */
int sp_symtab_read(Elf *elf, struct sp_symtab **out);

/* The same for a whole file in memory, which may be freed afterwards; -EINVAL if it is no readable ELF. */
int sp_symtab_read_image(void *image, size_t size, struct sp_symtab **out);

/* An empty one. NULL when out of memory. */
struct sp_symtab *sp_symtab_new(void);

/* Adds the symbols of another, checked file of the same build (separate debug information). */
int sp_symtab_add(struct sp_symtab *t, Elf *elf);

void sp_symtab_free(struct sp_symtab *t);

/* The symbol that covers vaddr; a symbol without size covers everything up to the next one. */
bool sp_symtab_find(const struct sp_symtab *t, uint64_t vaddr, struct sp_symbol *out);

/* True when there was a full symbol table, not only the dynamic one. */
bool sp_symtab_full(const struct sp_symtab *t);

/* What else the file held that was read first. */
bool sp_symtab_has_dwarf(const struct sp_symtab *t);
const struct sp_debug_link *sp_symtab_debug_link(const struct sp_symtab *t);

/* Memory it takes. */
size_t sp_symtab_bytes(const struct sp_symtab *t);

#endif
