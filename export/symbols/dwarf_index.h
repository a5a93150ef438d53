/* SPDX-License-Identifier: Apache-2.0 */
/* Which unit and which function of the debug information covers an address. */
#ifndef SP_DWARF_INDEX_H
#define SP_DWARF_INDEX_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stdint.h>

struct sp_dwarf_unit;
struct sp_dwarf_index;

/*
 * Makes the list of all units' ranges. .debug_aranges is not used, because clang does not write it.
 * 0, -ENOENT if no unit covers anything, -ENOMEM.
 */
int sp_dwarf_index_new(Dwarf *dwarf, struct sp_dwarf_index **out);
void sp_dwarf_index_free(struct sp_dwarf_index *x);

/* The unit around vaddr, or NULL. */
struct sp_dwarf_unit *sp_dwarf_index_unit(const struct sp_dwarf_index *x, uint64_t vaddr);

/*
 * The root entry of the unit; for a split unit the part in the object itself, which has the line
 * table.
 */
Dwarf_Die *sp_dwarf_unit_die(struct sp_dwarf_unit *u);

/* The innermost function of the unit around vaddr that is not inlined. The unit's functions are
 * listed at the first call. */
bool sp_dwarf_unit_function(struct sp_dwarf_unit *u, uint64_t vaddr, Dwarf_Die *out);

#endif
