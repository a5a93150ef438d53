/* SPDX-License-Identifier: Apache-2.0 */
/* Names of functions from debug information, with the namespaces, classes and functions around them. */
#ifndef SP_DIE_NAMES_H
#define SP_DIE_NAMES_H

#include <elfutils/libdw.h>
#include <stdbool.h>
#include <stddef.h>

/* Attributes of one entry; compilers write some twenty. libdw has to read all of them to reach the next entry. */
#define SP_ATTRIBUTES_MAX 256U

/* Zero it at first use. */
struct sp_die_names;

/* NULL when out of memory. */
struct sp_die_names *sp_die_names_new(void);
void sp_die_names_free(struct sp_die_names *n);

/* Memory in use. */
size_t sp_die_names_bytes(const struct sp_die_names *n);

/*
 * Walks the entries of a unit, records the scope of each entry, and calls `found` for each function
 * (NULL = no call). 0; -E2BIG if an entry has too many attributes, and then nothing was walked;
 * -ENOMEM; or the first result of `found` that is not 0.
 */
int sp_die_names_add_unit(struct sp_die_names *n, Dwarf_Die *root,
			  int (*found)(void *arg, Dwarf_Die *function), void *arg);

/*
 * The linkage name of a function. If the compiler wrote none, its name behind those of the namespaces and classes
 * around it, in the form that the demangler writes. NULL = unknown. Valid as long as n. *by_source becomes true if
 * the name is the one in the source, and the demangler cannot make it from the symbol (Fortran, Ada).
 */
const char *sp_die_names_get(struct sp_die_names *n, Dwarf_Die *function, bool *by_source);

#endif
