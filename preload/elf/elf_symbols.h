/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dynamic symbol table of one loaded object. To be used in a callback of dl_iterate_phdr(),
 * which keeps the object mapped. APP.
 */
#ifndef SP_ELF_SYMBOLS_H
#define SP_ELF_SYMBOLS_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

struct sp_elf_symbols {
	uintptr_t base;
	const ElfW(Sym) * sym;
	const char *str;
	const uint32_t *gnu_hash;
	const uint32_t *sysv_hash;
	const uint16_t *versym;
};

/* Where the object's dynamic section is, or NULL. */
const ElfW(Dyn) * sp_elf_dynamic(const struct dl_phdr_info *info);

/* Fills in what the object has. False if that is not enough for a search. */
bool sp_elf_symbols_read(uintptr_t base, const ElfW(Dyn) * d, struct sp_elf_symbols *o);

/* The definition of name, the default version first; NULL if there is none. */
void *sp_elf_symbols_find(const struct sp_elf_symbols *o, const char *name);

/* The same: its symbol. */
const ElfW(Sym) * sp_elf_symbols_find_symbol(const struct sp_elf_symbols *o, const char *name);

/* The same of a thread-local variable. */
const ElfW(Sym) * sp_elf_symbols_find_tls(const struct sp_elf_symbols *o, const char *name);

#endif
