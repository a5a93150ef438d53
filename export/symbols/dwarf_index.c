/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two sorted lists of address ranges: that of all units, made at once from one entry for each unit,
 * and that of the functions of a unit, made when an address in it is first looked up. libdw's own
 * search reads .debug_aranges, which not all compilers write, and walks all entries of a unit for
 * each address. The walks are bounded, so that damaged files that refer to themselves do not loop.
 * Context: the exporter.
 */
#include "export/symbols/dwarf_index.h"

#include <dwarf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/util/grow.h"
#include "export/util/sorted.h"

#define SP_UNITS_MAX ((size_t)1 << 20)
#define SP_RANGES_MAX ((size_t)4 << 20)
#define SP_ENTRIES_MAX (4U << 20) /* of one unit */
#define SP_NESTING_MAX 64U
#define SP_OVERLAP 32U /* overlapping ranges examined before the nearest one */

struct range {
	uint64_t lo;
	uint64_t hi;
	uint64_t item;
};

struct ranges {
	struct range *range;
	size_t n, cap;
};

struct sp_dwarf_unit {
	Dwarf_Die die;   /* with the line table */
	Dwarf_Die split; /* with the functions */
	bool listed;
	struct ranges functions;
	Dwarf_Die *function;
	size_t function_n, function_cap;
	unsigned entries;
};

struct sp_dwarf_index {
	struct sp_dwarf_unit *unit;
	size_t n, cap;
	struct ranges ranges;
};

static int add_range(struct ranges *r, uint64_t lo, uint64_t hi, uint64_t item)
{
	if (lo >= hi || r->n >= SP_RANGES_MAX)
		return 0;
	if (!SP_GROW(r->range, r->cap, r->n + 1, SP_RANGES_MAX))
		return -ENOMEM;
	r->range[r->n++] = (struct range){lo, hi, item};
	return 0;
}

static int add_ranges(struct ranges *r, Dwarf_Die *die, uint64_t item)
{
	Dwarf_Addr base, lo, hi;
	ptrdiff_t at = 0;
	int err = 0;

	/* The linker gives address 0 to functions that it discards. */
	while (err == 0 && (at = dwarf_ranges(die, at, &base, &lo, &hi)) > 0)
		if (lo != 0)
			err = add_range(r, lo, hi, item);
	return err;
}

static int by_start(const void *a, const void *b)
{
	const struct range *x = a;
	const struct range *y = b;

	if (x->lo != y->lo)
		return x->lo < y->lo ? -1 : 1;
	return (x->hi < y->hi) - (x->hi > y->hi);
}

/* The smallest range around addr, or NULL. */
static const struct range *find(const struct ranges *r, uint64_t addr)
{
	const struct range *best = NULL;
	size_t low = SP_SORTED_UPTO(r->range, r->n, lo, addr);

	for (size_t back = 0; back < SP_OVERLAP && back < low; back++) {
		const struct range *at = &r->range[low - 1 - back];

		if (addr < at->hi && (best == NULL || at->hi - at->lo < best->hi - best->lo))
			best = at;
	}
	return best;
}

static bool has_code(int tag)
{
	return tag == DW_TAG_compile_unit || tag == DW_TAG_skeleton_unit;
}

static int add_unit(struct sp_dwarf_index *x, const Dwarf_Die *die, const Dwarf_Die *sub)
{
	struct sp_dwarf_unit *u;

	if (!SP_GROW(x->unit, x->cap, x->n + 1, SP_UNITS_MAX))
		return -ENOMEM;
	u = &x->unit[x->n++];
	memset(u, 0, sizeof(*u));
	u->die = *die;
	u->split = sub->addr != NULL ? *sub : *die;
	return add_ranges(&x->ranges, &u->die, x->n - 1);
}

static int add_units(struct sp_dwarf_index *x, Dwarf *dwarf)
{
	Dwarf_CU *cu = NULL;
	uint8_t type = 0;
	Dwarf_Die die, sub;
	int err = 0;

	while (err == 0 && x->n < SP_UNITS_MAX &&
	       dwarf_get_units(dwarf, cu, &cu, NULL, &type, &die, &sub) == 0) {
		if (type != DW_UT_skeleton)
			memset(&sub, 0, sizeof(sub));
		if (die.addr != NULL && has_code(dwarf_tag(&die)))
			err = add_unit(x, &die, &sub);
	}
	return err == 0 && x->ranges.n == 0 ? -ENOENT : err;
}

int sp_dwarf_index_new(Dwarf *dwarf, struct sp_dwarf_index **out)
{
	struct sp_dwarf_index *x = calloc(1, sizeof(*x));
	int err = x != NULL ? add_units(x, dwarf) : -ENOMEM;

	*out = x;
	if (err == 0) {
		qsort(x->ranges.range, x->ranges.n, sizeof(*x->ranges.range), by_start);
	} else {
		sp_dwarf_index_free(x);
		*out = NULL;
	}
	return err;
}

void sp_dwarf_index_free(struct sp_dwarf_index *x)
{
	if (x == NULL)
		return;
	for (size_t i = 0; i < x->n; i++) {
		free(x->unit[i].functions.range);
		free(x->unit[i].function);
	}
	free(x->unit);
	free(x->ranges.range);
	free(x);
}

struct sp_dwarf_unit *sp_dwarf_index_unit(const struct sp_dwarf_index *x, uint64_t vaddr)
{
	const struct range *r = find(&x->ranges, vaddr);

	return r != NULL ? &x->unit[r->item] : NULL;
}

Dwarf_Die *sp_dwarf_unit_die(struct sp_dwarf_unit *u)
{
	return &u->die;
}

static int add_function(struct sp_dwarf_unit *u, Dwarf_Die *die)
{
	size_t before = u->functions.n;

	if (!SP_GROW(u->function, u->function_cap, u->function_n + 1, SP_ENTRIES_MAX) ||
	    add_ranges(&u->functions, die, u->function_n) != 0)
		return -ENOMEM;
	if (u->functions.n != before)
		u->function[u->function_n++] = *die;
	return 0;
}

/* Functions are found in namespaces, in types (Rust), and in functions and their blocks. */
static bool may_hold_functions(int tag)
{
	return tag == DW_TAG_namespace || tag == DW_TAG_module || tag == DW_TAG_structure_type ||
	       tag == DW_TAG_class_type || tag == DW_TAG_union_type ||
	       tag == DW_TAG_enumeration_type || tag == DW_TAG_subprogram ||
	       tag == DW_TAG_lexical_block;
}

/* Lists every function below the root, by a walk with a stack of its own. */
static int list_functions(struct sp_dwarf_unit *u)
{
	Dwarf_Die path[SP_NESTING_MAX];
	unsigned depth = 0;
	int more = dwarf_child(&u->split, &path[0]);

	while (u->entries++ < SP_ENTRIES_MAX) {
		int tag;

		if (more != 0) {
			if (depth == 0)
				break;
			depth--;
			more = dwarf_siblingof(&path[depth], &path[depth]);
			continue;
		}
		tag = dwarf_tag(&path[depth]);
		if (tag == DW_TAG_subprogram && add_function(u, &path[depth]) != 0)
			return -ENOMEM;
		if (may_hold_functions(tag) && depth + 1 < SP_NESTING_MAX &&
		    dwarf_child(&path[depth], &path[depth + 1]) == 0) {
			depth++;
			continue;
		}
		more = dwarf_siblingof(&path[depth], &path[depth]);
	}
	if (u->functions.n != 0)
		qsort(u->functions.range, u->functions.n, sizeof(*u->functions.range), by_start);
	return 0;
}

bool sp_dwarf_unit_function(struct sp_dwarf_unit *u, uint64_t vaddr, Dwarf_Die *out)
{
	const struct range *r;

	if (!u->listed) {
		u->listed = true;
		(void)list_functions(u);
	}
	r = find(&u->functions, vaddr);
	if (r != NULL)
		*out = u->function[r->item];
	return r != NULL;
}
