/* SPDX-License-Identifier: Apache-2.0 */
/* The order of a symbol table. */
#ifndef SP_SYMBOL_SORT_H
#define SP_SYMBOL_SORT_H

#include <stddef.h>
#include <stdint.h>

struct sp_symbol_entry {
	uint64_t start;
	uint32_t size;
	uint32_t name; /* where its name is; later in the file means farther */
};

/* Sorts by start. Entries with the same start are put in the order of names, and stay in it. */
void sp_symbol_sort(struct sp_symbol_entry *entry, size_t n);

#endif
