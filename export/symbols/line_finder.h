/* SPDX-License-Identifier: Apache-2.0 */
/* Reads symbol tables and looks up source lines ahead of encoding, a slice of time at a time. */
#ifndef SP_LINE_FINDER_H
#define SP_LINE_FINDER_H

#include "export/objects/modules.h"
#include "export/symbols/line_cache.h"
#include "export/symbols/symbol_tables.h"

struct sp_line_finder;

/*
 * With cache NULL tables are read and lines are not looked up. dwarf_max bounds the memory for the
 * debug information of one object. NULL when out of memory.
 */
struct sp_line_finder *sp_line_finder_new(struct sp_symbol_tables *tables,
					  struct sp_line_cache *cache, uint64_t dwarf_max);
void sp_line_finder_free(struct sp_line_finder *f);

/*
 * Requests the lines of an address, unless they are known. The module must live until
 * sp_line_finder_end().
 */
void sp_line_finder_want(struct sp_line_finder *f, const struct sp_module *mod, uint64_t vaddr);

/* Works on the requests for about ns. True if there is more to do. */
bool sp_line_finder_step(struct sp_line_finder *f, uint64_t ns);

/*
 * From now on separate debug files that take longer than that to read are left alone, unless they
 * are small. UINT64_MAX at first.
 */
void sp_line_finder_spend(struct sp_line_finder *f, uint64_t ns);

/* Closes what sp_line_finder_step() holds open, and forgets the remaining requests. */
void sp_line_finder_end(struct sp_line_finder *f);

/* Objects whose debug information was too large; addresses given up. */
unsigned sp_line_finder_over_limit(const struct sp_line_finder *f);
unsigned sp_line_finder_late(const struct sp_line_finder *f);

#endif
