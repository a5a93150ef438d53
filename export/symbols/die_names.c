/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gcc writes no linkage name for a function that only its own unit can call: members of unnamed namespaces, static
 * functions, lambdas. DW_AT_name alone would give Parser::step and Writer::step the one name "step". So the name is
 * made from the entries around the function's declaration, as gdb does. The name has the demangler's form, because
 * the demangler names the copy of the function that is not inlined.
 *
 * libdw does not say which entry contains another one. Entries of a unit stand in the file in the order of a walk,
 * parents first, so the entries in a scope are those between its offset and its end. The walk that lists the
 * functions of a unit also records the scopes. Everything is bounded, because any entry may refer to any other.
 * Context: the exporter.
 */
#include "export/symbols/die_names.h"

#include <dwarf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/symbols/demangle.h"
#include "export/util/containers.h"

#define SP_ENTRIES_MAX (4U << 20) /* of one unit */
#define SP_NESTING_MAX 64U
#define SP_ABBREVIATIONS_MAX (1U << 20)
#define SP_UNITS_MAX ((size_t)1 << 20)
#define SP_SCOPES_MAX ((size_t)1 << 20) /* of one unit */
#define SP_NAME_BYTES 4096U             /* of a name that is being made; a longer one is left out */
#define SP_REFERENCES_MAX 8U            /* from an instance of a function to its declaration */
#define SP_NAME_NESTING_MAX 16U         /* names within names */
#define SP_NAME_ENTRIES_MAX 65536U      /* examined for one name */
#define SP_TYPE_NESTING_MAX 16U         /* pointers to pointers */
#define SP_NO_SCOPE UINT32_MAX

/* An entry that contains others, and whose name is a part of theirs. */
struct scope {
	uint64_t start; /* address of its bytes in memory, as libdw has them */
	/* beginning of the next entry behind it; UINT64_MAX = as the scope around it */
	uint64_t end;
	uint32_t around;
};

/* The scopes of a unit, after a walk. */
struct unit_scopes {
	const Dwarf_CU *cu;
	struct scope *scope; /* ascending */
	size_t n, cap;
};

struct made {
	const void *die; /* its bytes in memory */
	const char *name;
};

struct sp_die_names {
	struct unit_scopes *unit;
	size_t units, unit_cap;
	struct sp_hash_index by_cu;
	struct made *made;
	size_t n, cap;
	struct sp_hash_index by_die;
	struct sp_pool texts;
	size_t bytes; /* of scopes */
	/* The name that is being made: */
	bool is_fortran; /* a procedure may contain others */
	unsigned nesting;
	unsigned left; /* entries that may still be examined */
	bool is_cut;
	size_t len;
	char text[SP_NAME_BYTES];
};

struct sp_die_names *sp_die_names_new(void)
{
	return calloc(1, sizeof(struct sp_die_names));
}

void sp_die_names_free(struct sp_die_names *n)
{
	if (n == NULL)
		return;
	for (size_t i = 0; i < n->units; i++)
		free(n->unit[i].scope);
	free(n->unit);
	free(n->made);
	sp_hash_index_fini(&n->by_cu);
	sp_hash_index_fini(&n->by_die);
	sp_pool_fini(&n->texts);
	free(n);
}

size_t sp_die_names_bytes(const struct sp_die_names *n)
{
	return n->bytes + n->unit_cap * sizeof(*n->unit) + n->cap * sizeof(*n->made) +
	       sp_hash_index_bytes(&n->by_cu) + sp_hash_index_bytes(&n->by_die) + n->texts.bytes;
}

static uint32_t hash_of(const void *p)
{
	return (uint32_t)sp_hash_add(0, (uintptr_t)p);
}

static struct unit_scopes *find_unit(const struct sp_die_names *n, const Dwarf_CU *cu)
{
	uint32_t i;

	for (uint32_t step = 0; sp_hash_index_next(&n->by_cu, hash_of(cu), &step, &i);)
		if (n->unit[i].cu == cu)
			return &n->unit[i];
	return NULL;
}

static bool is_class(int tag)
{
	return tag == DW_TAG_structure_type || tag == DW_TAG_class_type ||
	       tag == DW_TAG_union_type || tag == DW_TAG_enumeration_type ||
	       tag == DW_TAG_interface_type;
}

/*
 * An inlined function may contain the class of a lambda, but its name is in the function of which it is an instance.
 */
static bool is_scope(int tag)
{
	return is_class(tag) || tag == DW_TAG_namespace || tag == DW_TAG_module ||
	       tag == DW_TAG_subprogram;
}

/*
 * Whether the entries of functions may be inside of such an entry: of a namespace, a type (Rust), a
 * function, or a block.
 */
static bool may_hold_functions(int tag)
{
	return is_scope(tag) || tag == DW_TAG_lexical_block;
}

static size_t attributes_of(Dwarf_Abbrev *abbreviation)
{
	size_t n;

	return dwarf_getattrcnt(abbreviation, &n) == 0 ? n : 0;
}

/* Whether an entry of that unit may have too many attributes. */
static bool may_be_wide(Dwarf_Die *root)
{
	Dwarf_Off at = 0;
	size_t length;

	for (unsigned i = 0; i < SP_ABBREVIATIONS_MAX; i++) {
		Dwarf_Abbrev *abbreviation = dwarf_getabbrev(root, at, &length);

		if (abbreviation == NULL || abbreviation == DWARF_END_ABBREV)
			return false;
		if (attributes_of(abbreviation) > SP_ATTRIBUTES_MAX)
			return true;
		at += length;
	}
	return true;
}

static int enter_scope(struct unit_scopes *u, Dwarf_Die *die, uint32_t around, uint32_t *scope)
{
	if (!SP_GROW(u->scope, u->cap, u->n + 1, SP_SCOPES_MAX))
		return u->n < SP_SCOPES_MAX ? -ENOMEM : -E2BIG;
	u->scope[u->n] = (struct scope){(uintptr_t)die->addr, UINT64_MAX, around};
	*scope = (uint32_t)u->n++;
	return 0;
}

/* Walks the entries of a unit, with an explicit stack instead of recursion. */
static int walk(struct unit_scopes *u, Dwarf_Die *root,
		int (*found)(void *arg, Dwarf_Die *function), void *arg)
{
	Dwarf_Die path[SP_NESTING_MAX];
	uint32_t around[SP_NESTING_MAX + 1] = {SP_NO_SCOPE}; /* the scope at that depth */
	unsigned entries = 0;
	unsigned depth = 0;
	int err = 0;
	int more = dwarf_child(root, &path[0]);

	while (err == 0 && entries++ < SP_ENTRIES_MAX) {
		int tag;

		if (more != 0) {
			uint32_t left = around[depth];

			if (depth == 0)
				break;
			depth--;
			more = dwarf_siblingof(&path[depth], &path[depth]);
			if (more == 0 && left != around[depth])
				u->scope[left].end = (uintptr_t)path[depth].addr;
			continue;
		}
		tag = dwarf_tag(&path[depth]);
		if (tag == DW_TAG_subprogram && found != NULL)
			err = found(arg, &path[depth]);
		if (err == 0 && may_hold_functions(tag) && depth + 1 < SP_NESTING_MAX &&
		    dwarf_child(&path[depth], &path[depth + 1]) == 0) {
			around[depth + 1] = around[depth];
			if (is_scope(tag))
				err = enter_scope(u, &path[depth], around[depth],
						  &around[depth + 1]);
			depth++;
			continue;
		}
		more = dwarf_siblingof(&path[depth], &path[depth]);
	}
	return err;
}

int sp_die_names_add_unit(struct sp_die_names *n, Dwarf_Die *root,
			  int (*found)(void *arg, Dwarf_Die *function), void *arg)
{
	struct unit_scopes *u = find_unit(n, root->cu);
	int err = -E2BIG;

	if (u == NULL) {
		if (!SP_GROW(n->unit, n->unit_cap, n->units + 1, SP_UNITS_MAX) ||
		    !sp_hash_index_put(&n->by_cu, hash_of(root->cu), (uint32_t)n->units))
			return -ENOMEM;
		u = &n->unit[n->units++];
		*u = (struct unit_scopes){.cu = root->cu};
	}
	/* If an entry of another unit referred to this unit, its scopes are known already: they are dropped. */
	n->bytes -= u->cap * sizeof(*u->scope);
	u->n = 0;
	if (!may_be_wide(root))
		err = walk(u, root, found, arg);
	n->bytes += u->cap * sizeof(*u->scope);
	return err;
}

/* The innermost scope around an entry. The entry's unit may be one without code, which was not walked yet. */
static bool scope_around(struct sp_die_names *n, const Dwarf_Die *die, Dwarf_Die *out)
{
	uint64_t at = (uintptr_t)die->addr;
	const struct unit_scopes *u = find_unit(n, die->cu);
	uint32_t found, i;
	Dwarf_Die root;

	if (u == NULL) {
		if (dwarf_cu_die(die->cu, &root, NULL, NULL, NULL, NULL, NULL, NULL) == NULL)
			return false;
		(void)sp_die_names_add_unit(n, &root, NULL, NULL);
		u = find_unit(n, die->cu);
	}
	if (u == NULL)
		return false;
	i = (uint32_t)SP_SORTED_UPTO(u->scope, u->n, start, at - 1) - 1;
	/* If the last scope before the entry has ended, the scope around that one is the next candidate. */
	found = i;
	for (; i < u->n; i = u->scope[i].around)
		if (u->scope[i].end <= at)
			found = u->scope[i].around;
	if (found >= u->n)
		return false;
	/* NOLINTNEXTLINE(performance-no-int-to-ptr) */
	*out = (Dwarf_Die){.addr = (void *)(uintptr_t)u->scope[found].start, .cu = die->cu};
	return true;
}

static __attribute__((format(printf, 2, 3))) void put(struct sp_die_names *t, const char *format,
						      ...)
{
	size_t room = sizeof(t->text) - t->len;
	va_list args;
	int n;

	va_start(args, format);
	n = vsnprintf(t->text + t->len, room, format, args);
	va_end(args);
	if (n < 0 || (size_t)n >= room)
		t->is_cut = true;
	else
		t->len += (size_t)n;
}

/* Counts an examined entry. False if too many were examined for one name. */
static bool may_look(struct sp_die_names *t)
{
	if (t->left == 0)
		return false;
	t->left--;
	return true;
}

static const char *string_of(Dwarf_Die *die, unsigned at)
{
	Dwarf_Attribute attr;

	return dwarf_formstring(dwarf_attr_integrate(die, at, &attr));
}

static const char *linkage_name(Dwarf_Die *die)
{
	const char *name = string_of(die, DW_AT_linkage_name);

	return name != NULL ? name : string_of(die, DW_AT_MIPS_linkage_name);
}

static bool follow(Dwarf_Die *die, unsigned at, Dwarf_Die *out)
{
	Dwarf_Attribute attr;

	return dwarf_attr(die, at, &attr) != NULL && dwarf_formref_die(&attr, out) != NULL;
}

/* The entry of which *die is an instance, or which *die completes. *out is inside the scopes. */
static bool origin_of(Dwarf_Die *die, Dwarf_Die *out)
{
	return follow(die, DW_AT_abstract_origin, out) || follow(die, DW_AT_specification, out) ||
	       follow(die, DW_AT_signature, out);
}

static uint64_t number_of(Dwarf_Die *die, unsigned at)
{
	Dwarf_Attribute attr;
	Dwarf_Word v = 0;

	return dwarf_formudata(dwarf_attr_integrate(die, at, &attr), &v) == 0 ? v : 0;
}

/* The recursion is for names within names; SP_NAME_NESTING_MAX bounds it. */
/* NOLINTBEGIN(misc-no-recursion) */

static void put_scopes(struct sp_die_names *t, Dwarf_Die *die);
static void put_own_name(struct sp_die_names *t, Dwarf_Die *die);

/* Writes the name of a class or namespace, after the names of everything around it. */
static void put_full_name(struct sp_die_names *t, Dwarf_Die *die)
{
	Dwarf_Die at = *die;
	Dwarf_Die whole;

	/* With -fdebug-types-section the reference to a class may have only the signature of the class's unit. */
	if (string_of(die, DW_AT_name) == NULL && follow(die, DW_AT_signature, &whole))
		die = &whole;

	if (++t->nesting > SP_NAME_NESTING_MAX)
		t->is_cut = true;
	for (unsigned i = 0; i < SP_REFERENCES_MAX && origin_of(&at, &at); i++)
		;
	if (!t->is_cut) {
		put_scopes(t, &at);
		put_own_name(t, die);
	}
	t->nesting--;
}

/* Base types, in the form that the demangler writes. */
static const char *const base_type[][3] = {
	/* the name, the demangler's name, the suffix of a constant of that type */
	{"int", "int", ""},
	{"unsigned int", "unsigned int", "u"},
	{"long int", "long", "l"},
	{"long", "long", "l"},
	{"long unsigned int", "unsigned long", "ul"},
	{"unsigned long", "unsigned long", "ul"},
	{"long long int", "long long", "ll"},
	{"long long", "long long", "ll"},
	{"long long unsigned int", "unsigned long long", "ull"},
	{"unsigned long long", "unsigned long long", "ull"},
	{"short int", "short", NULL},
	{"short unsigned int", "unsigned short", NULL},
};

static const char *const *find_base_type(const char *name)
{
	for (size_t i = 0; i < sizeof(base_type) / sizeof(base_type[0]); i++)
		if (strcmp(name, base_type[i][0]) == 0)
			return base_type[i];
	return NULL;
}

/*
 * The text that the demangler writes behind the base of a type of this kind; NULL = a type without a base, or
 * unknown.
 */
static const char *behind_type(int tag)
{
	switch (tag) {
	case DW_TAG_pointer_type:
		return "*";
	case DW_TAG_reference_type:
		return "&";
	case DW_TAG_rvalue_reference_type:
		return "&&";
	case DW_TAG_const_type:
		return " const";
	case DW_TAG_volatile_type:
		return " volatile";
	case DW_TAG_typedef:
		return "";
	default:
		return NULL;
	}
}

/* Writes a type. False if it is unknown how the demangler writes it. */
static bool put_type(struct sp_die_names *t, const Dwarf_Die *type)
{
	const char *tail[SP_TYPE_NESTING_MAX];
	const char *const *base;
	bool is_void = false;
	unsigned tails = 0;
	const char *name;
	Dwarf_Die at = *type;

	while (!is_void && (name = behind_type(dwarf_tag(&at))) != NULL) {
		if (tails == SP_TYPE_NESTING_MAX || !may_look(t))
			return false;
		tail[tails++] = name;
		is_void = !follow(&at, DW_AT_type, &at);
	}
	name = dwarf_diename(&at);
	if (is_void) {
		put(t, "void");
	} else if (is_class(dwarf_tag(&at))) {
		put_full_name(t, &at);
	} else if (name != NULL && (dwarf_tag(&at) == DW_TAG_base_type ||
				    dwarf_tag(&at) == DW_TAG_unspecified_type)) {
		base = find_base_type(name);
		put(t, "%s", base != NULL ? base[1] : name);
	} else {
		return false;
	}
	while (tails != 0)
		put(t, "%s", tail[--tails]);
	return !t->is_cut && t->left != 0;
}

static bool put_constant(struct sp_die_names *t, Dwarf_Die *parameter)
{
	const char *const *base;
	Dwarf_Attribute attr;
	Dwarf_Sword v = 0;
	Dwarf_Word bits = 0;
	const char *name;
	Dwarf_Die type;

	if (!follow(parameter, DW_AT_type, &type) ||
	    dwarf_attr(parameter, DW_AT_const_value, &attr) == NULL)
		return false;
	for (unsigned i = 0; i < SP_REFERENCES_MAX && (dwarf_tag(&type) == DW_TAG_const_type ||
						       dwarf_tag(&type) == DW_TAG_typedef);
	     i++)
		if (!follow(&type, DW_AT_type, &type))
			return false;
	/*
	 * The shorter forms do not say whether there is a sign: compilers write a negative number in a form with a
	 * sign.
	 */
	if (dwarf_whatform(&attr) == DW_FORM_sdata ||
	    dwarf_whatform(&attr) == DW_FORM_implicit_const) {
		if (dwarf_formsdata(&attr, &v) != 0)
			return false;
	} else if (dwarf_formudata(&attr, &bits) == 0) {
		v = (Dwarf_Sword)bits;
	} else {
		return false;
	}
	name = dwarf_diename(&type);
	if (name == NULL ||
	    (dwarf_tag(&type) != DW_TAG_base_type && dwarf_tag(&type) != DW_TAG_enumeration_type))
		return false;
	base = find_base_type(name);
	if (strcmp(name, "bool") == 0)
		put(t, "%s", v != 0 ? "true" : "false");
	else if (base != NULL && base[2] != NULL)
		put(t, "%" PRId64 "%s", (int64_t)v, base[2]);
	else {
		put(t, "(");
		if (!put_type(t, &type))
			return false;
		put(t, ")%" PRId64, (int64_t)v);
	}
	return !t->is_cut;
}

/* The template arguments that were written so far. */
struct arguments {
	bool any; /* there is a list, possibly empty */
	unsigned n;
};

/* gcc 12 writes the type of a lambda's "auto" twice. */
static bool is_repeated(Dwarf_Die *parameter, const char *before)
{
	const char *name = dwarf_diename(parameter);

	return name != NULL && before != NULL && strncmp(name, "auto:", 5) == 0 &&
	       strcmp(name, before) == 0;
}

/* False if the argument cannot be written. */
static bool put_argument(struct sp_die_names *t, Dwarf_Die *parameter)
{
	Dwarf_Die type;

	if (dwarf_tag(parameter) == DW_TAG_template_value_parameter)
		return put_constant(t, parameter);
	if (follow(parameter, DW_AT_type, &type))
		return put_type(t, &type);
	put(t, "void");
	return true;
}

static bool is_parameter(int tag)
{
	return tag == DW_TAG_template_type_parameter || tag == DW_TAG_template_value_parameter ||
	       tag == DW_TAG_GNU_template_parameter_pack ||
	       tag == DW_TAG_GNU_template_template_param;
}

/* Writes the arguments among the children of an entry. False if one cannot be written. */
static bool put_arguments(struct sp_die_names *t, Dwarf_Die *die, struct arguments *a, bool is_pack)
{
	const char *before = NULL;
	Dwarf_Die child;
	int more = dwarf_child(die, &child);

	for (; more == 0 && may_look(t); more = dwarf_siblingof(&child, &child)) {
		const int tag = dwarf_tag(&child);
		bool is_written;

		if (!is_parameter(tag) || is_repeated(&child, before))
			continue;
		before = dwarf_diename(&child);
		if (!a->any)
			put(t, "<");
		a->any = true;
		if (tag == DW_TAG_GNU_template_parameter_pack) {
			is_written = !is_pack && put_arguments(t, &child, a, true);
		} else {
			put(t, "%s", a->n++ == 0 ? "" : ", ");
			is_written = tag != DW_TAG_GNU_template_template_param &&
				     put_argument(t, &child);
		}
		if (!is_written)
			return false;
	}
	return more >= 0;
}

/*
 * The offset of the arguments in the name of a template: "operator< <int>", "Box<int, 3>"; its end if there are none.
 */
static size_t arguments_at(const char *name)
{
	size_t len = strlen(name);
	size_t at = len;
	unsigned depth = 0;

	if (len == 0 || name[len - 1] != '>')
		return len;
	do {
		at--;
		depth += name[at] == '>';
		depth -= name[at] == '<';
	} while (at != 0 && depth != 0);
	if (depth != 0)
		return len;
	return at != 0 && name[at - 1] == ' ' ? at - 1 : at;
}

/* Whether the class has a function of that name, as the class of a lambda has. */
static bool find_member(struct sp_die_names *t, Dwarf_Die *class, const char *name, Dwarf_Die *out)
{
	int more = dwarf_child(class, out);

	for (; more == 0 && may_look(t); more = dwarf_siblingof(out, out)) {
		const char *own = dwarf_diename(out);

		if (dwarf_tag(out) == DW_TAG_subprogram && own != NULL &&
		    strncmp(own, name, strlen(name)) == 0)
			return true;
	}
	return false;
}

/* The parameters of a lambda, in parentheses. */
static void put_parameters(struct sp_die_names *t, Dwarf_Die *function)
{
	const size_t before = t->len;
	unsigned n = 0;
	Dwarf_Die child, type;
	int more = dwarf_child(function, &child);

	put(t, "(");
	for (; more == 0 && may_look(t); more = dwarf_siblingof(&child, &child)) {
		if (dwarf_tag(&child) != DW_TAG_formal_parameter ||
		    dwarf_hasattr(&child, DW_AT_artificial) != 0)
			continue;
		put(t, "%s", n++ != 0 ? ", " : "");
		if (!follow(&child, DW_AT_type, &type) || !put_type(t, &type)) {
			t->len = before;
			return;
		}
	}
	put(t, ")");
}

enum others { NO_OTHERS, OTHERS, OTHERS_ON_ITS_LINE };

/* Finds out whether the function has other lambdas, and whether one is in the same line. */
static enum others find_others(struct sp_die_names *t, Dwarf_Die *function, Dwarf_Die *class)
{
	const uint64_t line = number_of(class, DW_AT_decl_line);
	enum others found = NO_OTHERS;
	Dwarf_Die path[SP_NESTING_MAX];
	unsigned depth = 0;
	int more = dwarf_child(function, &path[0]);

	while (may_look(t)) {
		Dwarf_Die *at = &path[depth];
		int tag;

		if (more != 0) {
			if (depth == 0)
				break;
			depth--;
			more = dwarf_siblingof(&path[depth], &path[depth]);
			continue;
		}
		tag = dwarf_tag(at);
		if (is_class(tag) && at->addr != class->addr && dwarf_diename(at) == NULL) {
			if (number_of(at, DW_AT_decl_line) == line)
				return OTHERS_ON_ITS_LINE;
			found = OTHERS;
		}
		if (tag == DW_TAG_lexical_block && depth + 1 < SP_NESTING_MAX &&
		    dwarf_child(at, &path[depth + 1]) == 0)
			depth++;
		else
			more = dwarf_siblingof(at, at);
	}
	return found;
}

/*
 * The demangler numbers lambdas, but each compiler counts differently. So lines distinguish two lambdas of one
 * function.
 */
static void put_lambda(struct sp_die_names *t, Dwarf_Die *class, Dwarf_Die *call)
{
	enum others others = OTHERS;
	Dwarf_Die around;

	put(t, "{lambda");
	/* A generic lambda has an instance of operator() for each type with which it was called. */
	if (strcmp(dwarf_diename(call), "operator()") == 0)
		put_parameters(t, call);
	if (scope_around(t, class, &around) && dwarf_tag(&around) == DW_TAG_subprogram)
		others = find_others(t, &around, class);
	if (others != NO_OTHERS)
		put(t, ":%" PRIu64, number_of(class, DW_AT_decl_line));
	if (others == OTHERS_ON_ITS_LINE)
		put(t, ":%" PRIu64, number_of(class, DW_AT_decl_column));
	put(t, "}");
}

static void put_own_name(struct sp_die_names *t, Dwarf_Die *die)
{
	const char *name = string_of(die, DW_AT_name);
	const size_t before = t->len;
	struct arguments arguments = {false, 0};
	Dwarf_Die at = *die;
	size_t plain;

	if (dwarf_tag(die) == DW_TAG_namespace && (name == NULL || name[0] == '\0')) {
		put(t, "(anonymous namespace)");
		return;
	}
	if (name == NULL) {
		if (is_class(dwarf_tag(die)) && find_member(t, die, "operator()", &at))
			put_lambda(t, die, &at);
		else
			put(t, "{unnamed}");
		return;
	}
	plain = arguments_at(name);
	put(t, "%.*s", (int)(plain < SP_NAME_BYTES ? plain : SP_NAME_BYTES), name);
	for (unsigned i = 0; i < SP_REFERENCES_MAX; i++) {
		bool is_written = put_arguments(t, &at, &arguments, false);

		if (is_written && arguments.any) {
			put(t, "%s", t->text[t->len - 1] == '>' ? " >" : ">");
			return;
		}
		if (!is_written || !origin_of(&at, &at))
			break;
	}
	if (t->is_cut)
		return;
	t->len = before;
	put(t, "%s", name);
}

/* The name of a class that is inside of a function. */
static void put_function(struct sp_die_names *t, Dwarf_Die *function)
{
	const char *linkage = linkage_name(function);
	char readable[SP_FUNCTION_NAME_MAX + 1];

	if (linkage == NULL) {
		put_full_name(t, function);
		return;
	}
	(void)sp_demangle(linkage, readable);
	put(t, "%s", readable);
}

static void put_scopes(struct sp_die_names *t, Dwarf_Die *die)
{
	Dwarf_Die around;

	if (!scope_around(t, die, &around))
		return;
	if (dwarf_tag(&around) == DW_TAG_subprogram && is_class(dwarf_tag(die)))
		put_function(t, &around);
	else if (dwarf_tag(&around) != DW_TAG_subprogram || t->is_fortran)
		put_full_name(t, &around);
	else
		return;
	put(t, "::");
}

/* NOLINTEND(misc-no-recursion) */

enum language { PLAIN, FORTRAN, ADA, WITH_SCOPES };

static enum language language_of(Dwarf_Die *die)
{
	Dwarf_Die root;

	if (dwarf_diecu(die, &root, NULL, NULL) == NULL)
		return PLAIN;
	switch (dwarf_srclang(&root)) {
	case DW_LANG_C89:
	case DW_LANG_C:
	case DW_LANG_C99:
	case DW_LANG_C11:
	case DW_LANG_Mips_Assembler:
	case -1:
		return PLAIN;
	case DW_LANG_Fortran77:
	case DW_LANG_Fortran90:
	case DW_LANG_Fortran95:
	case DW_LANG_Fortran03:
	case DW_LANG_Fortran08:
		return FORTRAN;
	case DW_LANG_Ada83:
	case DW_LANG_Ada95:
		return ADA;
	default:
		return WITH_SCOPES;
	}
}

/*
 * gnat writes "shop__total", and "_ada_" before a function that is in no package. Names with "___" are gnat's
 * internal ones.
 */
static void put_ada(struct sp_die_names *t, const char *name)
{
	if (strncmp(name, "_ada_", 5) == 0)
		name += 5;
	if (strstr(name, "___") != NULL) {
		put(t, "%s", name);
		return;
	}
	for (const char *end; (end = strstr(name, "__")) != NULL; name = end + 2)
		put(t, "%.*s.", (int)(end - name), name);
	put(t, "%s", name);
}

static const char *find_made(const struct sp_die_names *n, const void *die)
{
	uint32_t i;

	for (uint32_t step = 0; sp_hash_index_next(&n->by_die, hash_of(die), &step, &i);)
		if (n->made[i].die == die)
			return n->made[i].name;
	return NULL;
}

/* NULL when out of memory. */
static const char *keep(struct sp_die_names *n, const void *die, const char *name)
{
	char *copy = sp_pool_get(&n->texts, strlen(name) + 1);

	if (copy == NULL || !SP_GROW(n->made, n->cap, n->n + 1, UINT32_MAX) ||
	    !sp_hash_index_put(&n->by_die, hash_of(die), (uint32_t)n->n))
		return NULL;
	memcpy(copy, name, strlen(name) + 1);
	n->made[n->n++] = (struct made){die, copy};
	return copy;
}

const char *sp_die_names_get(struct sp_die_names *n, Dwarf_Die *function, bool *by_source)
{
	const enum language language = language_of(function);
	const char *name = string_of(function, DW_AT_name);
	const char *linkage = linkage_name(function);
	Dwarf_Die at = *function;
	const char *made;

	*by_source = name != NULL && (language == FORTRAN || language == ADA);
	if (linkage != NULL && !*by_source)
		return linkage;
	if (name == NULL || language == PLAIN)
		return name;
	for (unsigned i = 0; i < SP_REFERENCES_MAX && origin_of(&at, &at); i++)
		;
	made = find_made(n, at.addr);
	if (made != NULL)
		return made;
	n->nesting = 0;
	n->left = SP_NAME_ENTRIES_MAX;
	n->len = 0;
	n->is_cut = false;
	n->is_fortran = language == FORTRAN;
	if (language == ADA)
		put_ada(n, linkage != NULL ? linkage : name);
	else
		put_full_name(n, function);
	made = keep(n, at.addr, n->is_cut || n->left == 0 ? name : n->text);
	return made != NULL ? made : name;
}
