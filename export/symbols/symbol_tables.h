/* SPDX-License-Identifier: Apache-2.0 */
/* What is known about each build, by build id: symbols, and where its debug information is. */
#ifndef SP_SYMBOL_TABLES_H
#define SP_SYMBOL_TABLES_H

#include "export/objects/modules.h"
#include "export/symbols/fde_file.h"
#include "export/symbols/symtab.h"

/* One build. Pointers to it live until the next sp_symbol_tables_get(). */
struct sp_symbol_table {
	uint8_t id[SP_BUILD_ID_MAX];
	uint8_t id_len;
	uint32_t serial;           /* tells objects without build id apart */
	uint64_t used;             /* for dropping the least recently used */
	struct sp_symtab *symbols; /* NULL = none to be had */
	char *dwarf_path;          /* file with debug information, NULL = none */
	bool dwarf_by_crc;         /* that file has no build id */
	bool dwarf_apart;          /* that file is not the object itself */
	uint64_t dwarf_need;       /* sp_lines_need() of it; 0 = not asked yet */
	uint64_t dwarf_read_ns;    /* when it was read last */
	uint64_t dwarf_cost_ns;    /* CPU time that this took, lookups included; 0 = never read */
	bool fetch_due;            /* there was no time to ask a server for its debug file */
	bool is_fileless;          /* the module that it was read for had no file */
	bool fde_tried;
	struct sp_fde_file *fde;
};

struct sp_symbol_sources {
	const char *debug_root; /* SP_DEBUG_ROOT, or a test's */
	bool symbols;           /* symbols are wanted, not only where functions begin */
	bool dwarf;             /* debug information is wanted, not only names */
	/* Asks servers for the debug file of a build: a descriptor and its path, or a negative
	 * errno; -EAGAIN: there is no time now, the table asks again when it is looked up next.
	 * NULL = nobody is asked. */
	int (*fetch)(void *arg, const uint8_t *id, size_t id_len, char *path, size_t cap);
	void *fetch_arg;
};

struct sp_symbol_tables;

/* NULL when out of memory. */
struct sp_symbol_tables *sp_symbol_tables_new(const struct sp_symbol_sources *sources,
					      size_t limit);
void sp_symbol_tables_free(struct sp_symbol_tables *t);

/* The table of the module's build, or NULL when it was not read yet. */
struct sp_symbol_table *sp_symbol_tables_peek(struct sp_symbol_tables *t,
					      const struct sp_module *mod);

/* The same, read now if need be; NULL when out of memory. */
struct sp_symbol_table *sp_symbol_tables_get(struct sp_symbol_tables *t,
					     const struct sp_module *mod);

/* Start of the function around vaddr by the call frame information of the module's file. */
bool sp_symbol_tables_function(struct sp_symbol_tables *t, const struct sp_module *mod,
			       uint64_t vaddr, uint64_t *start);

/* How often a table got its file, or symbols from a server, after it had been looked up without. */
unsigned sp_symbol_tables_late(const struct sp_symbol_tables *t);

/* Files read, and tables dropped to stay within the limit. */
unsigned sp_symbol_tables_loads(const struct sp_symbol_tables *t);
unsigned sp_symbol_tables_evictions(const struct sp_symbol_tables *t);

#endif
