/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding classes by their run-time type information. The tests write the object word by word: a page of names, a
 * page of typeinfos and vtables, one of code, and one of variables.
 */
#include "preload/sdk/sdk_typeinfo.h"

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sampler/base/compiler.h"

#define MARKER "N5maker2v"
#define NAME MARKER "14ToolE"
#define BASE MARKER "19InterfaceE"
#define INSIDE "St5outerI" NAME
#define SLOTS 4U

enum { NAMES, TYPES, CODE, DATA, PAGES };

static uintptr_t page_size;
static uintptr_t memory;
static struct sp_elf_image image;
static uintptr_t names_used;
static uintptr_t *next_word;

static uintptr_t page(unsigned n)
{
	return memory + n * page_size;
}

static void set_up(void)
{
	page_size = (uintptr_t)sysconf(_SC_PAGESIZE);
	memory = (uintptr_t)mmap(NULL, PAGES * page_size, PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (unsigned i = 0; i < PAGES; i++)
		image.segment[i] = (struct sp_elf_segment){
			.start = page(i),
			.size = page_size,
			.from_file = page_size,
			.executable = i == CODE,
			.writable = i == TYPES || i == DATA,
			.relro = i == TYPES,
		};
	image.n = PAGES;
	names_used = 1;
	next_word = (uintptr_t *)page(TYPES);
}

static uintptr_t name(const char *text)
{
	char *at = (char *)page(NAMES) + names_used;

	strcpy(at, text);
	names_used += strlen(text) + 1;
	return (uintptr_t)at;
}

static uintptr_t *word(uintptr_t value)
{
	*next_word = value;
	return next_word++;
}

/* Its own vtable is in another object. */
static uintptr_t info(const char *text, uintptr_t base)
{
	uintptr_t at = (uintptr_t)word((uintptr_t)&memory);

	word(name(text));
	if (base != 0)
		word(base);
	return at;
}

static uintptr_t *vtable(uintptr_t of, unsigned slots)
{
	uintptr_t *first;

	word(0);
	first = word(of) + 1;
	for (unsigned i = 0; i < slots; i++)
		word(page(CODE) + 16 * i);
	word(0);
	return first;
}

static struct sp_typeinfo_class tool = {
	.kind = SP_TYPEINFO_CLASS,
	.name = NAME,
	.base = BASE,
	.slots_min = SLOTS,
	.slots_max = SLOTS,
};

static struct sp_typeinfo_found find(const struct sp_typeinfo_class *class)
{
	struct sp_typeinfo_found found;

	cr_assert(sp_typeinfo_find(&image, MARKER, class, &found, 1));
	return found;
}

TestSuite(sdk_typeinfo, .init = set_up, .timeout = 20);

Test(sdk_typeinfo, a_class_is_found_by_its_name_and_its_base)
{
	uintptr_t base = info(BASE, 0);
	const uintptr_t *vptr = vtable(info(NAME, base), SLOTS);
	struct sp_typeinfo_found found = find(&tool);

	cr_assert(found.named);
	cr_assert_eq(found.n, 1);
	cr_assert_eq((const void *)found.vptr[0], vptr);
}

/* The class with its base and another base, in either order. */
static struct sp_typeinfo_found find_over_two(bool base_first)
{
	uintptr_t base;
	uintptr_t other;
	uintptr_t several;

	set_up();
	base = info(BASE, 0);
	other = info("5Other", 0);
	several = info(NAME, UINT64_C(2) << 32);
	word(base_first ? base : other);
	word(2);
	word(base_first ? other : base);
	word(0x1802);
	vtable(several, SLOTS);
	return find(&tool);
}

/* The vtable begins with the page behind the word that refers to it. */
Test(sdk_typeinfo, a_reference_may_be_the_last_word_of_a_segment)
{
	const struct sp_typeinfo_class outer = {
		.kind = SP_TYPEINFO_PREFIX, .name = INSIDE, .slots_min = 2, .slots_max = SLOTS};
	uintptr_t of = info(INSIDE "SaIvEE", info("5Other", 0));

	image.segment[CODE].executable = false;
	image.segment[DATA].executable = true;
	next_word = (uintptr_t *)page(CODE);
	for (unsigned i = 0; i < SLOTS; i++)
		word(page(DATA) + 16 * i);
	word(0);
	((uintptr_t *)page(CODE))[-1] = of;

	cr_assert_eq(find(&outer).n, 1);
	cr_assert_eq((uintptr_t)find(&outer).vptr[0], page(CODE));
}

Test(sdk_typeinfo, of_several_bases_the_first_counts)
{
	struct sp_typeinfo_found found = find_over_two(true);

	cr_assert_eq(found.n, 1);
	found = find_over_two(false);
	cr_assert_eq(found.n, 0);
	cr_assert_not(found.named);
}

Test(sdk_typeinfo, a_class_over_another_base_is_none)
{
	struct sp_typeinfo_found found;

	vtable(info(NAME, info("N5maker2v18StrangerE", 0)), SLOTS);
	found = find(&tool);
	cr_assert_not(found.named);
	cr_assert_eq(found.n, 0);
}

Test(sdk_typeinfo, more_or_fewer_functions_are_another_layout)
{
	for (unsigned slots = 0; slots <= 2 * SLOTS; slots++) {
		struct sp_typeinfo_found found;

		set_up();
		vtable(info(NAME, info(BASE, 0)), slots);
		found = find(&tool);
		cr_assert(found.named);
		cr_assert_eq(found.n, slots == SLOTS, "%u", slots);
	}
}

Test(sdk_typeinfo, functions_of_other_objects_are_not_its_own)
{
	uintptr_t *vptr = vtable(info(NAME, info(BASE, 0)), SLOTS);

	vptr[2] = (uintptr_t)&find;
	cr_assert_eq(find(&tool).n, 0);
	vptr[2] = page(DATA);
	cr_assert_eq(find(&tool).n, 0);
	vptr[2] = page(CODE);
	cr_assert_eq(find(&tool).n, 1);
}

Test(sdk_typeinfo, one_function_cannot_be_both_destructors)
{
	uintptr_t *vptr = vtable(info(NAME, info(BASE, 0)), SLOTS);

	vptr[1] = vptr[0];
	cr_assert_eq(find(&tool).n, 0);
}

Test(sdk_typeinfo, the_vtable_of_a_later_base_is_none)
{
	uintptr_t *vptr = vtable(info(NAME, info(BASE, 0)), SLOTS);

	vptr[-2] = (uintptr_t)-16;
	cr_assert_eq(find(&tool).n, 0);
}

Test(sdk_typeinfo, two_classes_of_one_name_are_both_told)
{
	uintptr_t base = info(BASE, 0);

	vtable(info(NAME, base), SLOTS);
	vtable(info(NAME, base), SLOTS);
	cr_assert_eq(find(&tool).n, 2);
}

Test(sdk_typeinfo, names_of_symbols_and_longer_names_do_not_count)
{
	struct sp_typeinfo_found found;

	(void)name("_ZTS" NAME);
	vtable(info("*" NAME, info(BASE, 0)), SLOTS);
	vtable(info(NAME "4Part", info(BASE, 0)), SLOTS);
	found = find(&tool);
	cr_assert_not(found.named);
	cr_assert_eq(found.n, 0);
}

Test(sdk_typeinfo, a_name_may_be_the_beginning_of_one)
{
	const struct sp_typeinfo_class outer = {
		.kind = SP_TYPEINFO_PREFIX, .name = INSIDE, .slots_min = 2, .slots_max = SLOTS};
	uintptr_t *vptr = vtable(info(INSIDE "SaIvEE", info("5Other", 0)), SLOTS);

	cr_assert_eq(find(&outer).n, 1);
	cr_assert_eq((const void *)find(&outer).vptr[0], vptr);
}

Test(sdk_typeinfo, classes_over_a_class_are_found_without_their_names)
{
	const struct sp_typeinfo_class over = {
		.kind = SP_TYPEINFO_DERIVED, .name = BASE, .slots_min = 2, .slots_max = SLOTS};
	uintptr_t base = info(BASE, 0);
	const uintptr_t *one = vtable(info("3One", base), 2);
	const uintptr_t *two = vtable(info("3Two", base), SLOTS);
	struct sp_typeinfo_found found;

	vtable(info("5Other", info("4Base", 0)), SLOTS);
	vtable(base, SLOTS);
	found = find(&over);
	cr_assert_eq(found.n, 2);
	cr_assert_eq((const void *)found.vptr[0], one);
	cr_assert_eq((const void *)found.vptr[1], two);
}

/* A program that can be loaded at one address only has them in read-only memory. */
Test(sdk_typeinfo, classes_may_lie_in_memory_that_is_only_read)
{
	image.segment[TYPES].relro = false;
	image.segment[TYPES].writable = false;
	vtable(info(NAME, info(BASE, 0)), SLOTS);
	cr_assert_eq(find(&tool).n, 1);
	image.segment[TYPES].executable = true;
	cr_assert_eq(find(&tool).n, 0, "what is only read is apart from the code");
	image.segment[NAMES].executable = true;
	cr_assert_eq(find(&tool).n, 1, "nothing is apart from it");
}

/* Such a program that is linked with an archive of the other kind. */
Test(sdk_typeinfo, classes_of_a_program_at_one_place_may_lie_in_both)
{
	const struct sp_typeinfo_class classes[] = {
		tool,
		{.kind = SP_TYPEINFO_DERIVED, .name = BASE, .slots_min = 2, .slots_max = SLOTS},
	};
	struct sp_typeinfo_found found[2];
	uintptr_t base = info(BASE, 0);
	const uintptr_t *protected = vtable(info(NAME, base), SLOTS);
	const uintptr_t *constant;

	image.segment[DATA].writable = false;
	next_word = (uintptr_t *)page(DATA);
	constant = vtable(info("3One", base), 2);
	image.fixed = true;
	cr_assert(sp_typeinfo_find(&image, MARKER, classes, found, 2));

	cr_assert_eq(found[0].n, 1);
	cr_assert_eq((const void *)found[0].vptr[0], protected);
	cr_assert_eq(found[1].n, 2);
	cr_assert_eq((const void *)found[1].vptr[1], constant);
	/* protected memory is searched twice if it is a part of a writable segment */
	image.segment[image.n++] = (struct sp_elf_segment){
		.start = page(TYPES), .size = page_size, .from_file = page_size, .writable = true};
	cr_assert(sp_typeinfo_find(&image, MARKER, classes, found, 2));
	cr_assert_eq(found[0].n, 1);
	cr_assert_eq(found[1].n, 2);
	/* more data than we search */
	image.segment[DATA].writable = true;
	image.segment[DATA].from_file = SP_ELF_IMAGE_SEARCH_MAX;
	image.segment[DATA].size = SP_ELF_IMAGE_SEARCH_MAX;
	cr_assert(sp_typeinfo_find(&image, MARKER, classes, found, 2));
	cr_assert_eq(found[0].n, 1);
	cr_assert_eq(found[1].n, 1);
}

Test(sdk_typeinfo, pages_that_are_gone_are_left_out)
{
	vtable(info(NAME, info(BASE, 0)), SLOTS);
	cr_assert_eq(munmap((void *)page(DATA), page_size), 0);
	cr_assert_eq(find(&tool).n, 1);
	cr_assert_eq(munmap((void *)page(CODE), page_size), 0);
	cr_assert_eq(find(&tool).n, 1);
	cr_assert_eq(munmap((void *)page(NAMES), page_size), 0);
	cr_assert_eq(find(&tool).n, 0);
}

Test(sdk_typeinfo, what_points_nowhere_is_left_out)
{
	uintptr_t nowhere = page(NAMES) - page_size;

	vtable(info(NAME, nowhere), SLOTS);
	cr_assert_eq(find(&tool).n, 0);
	word((uintptr_t)-1);
	word(name(NAME));
	word((uintptr_t)-2);
	cr_assert_eq(find(&tool).n, 0);
	/* a base whose name is at the end of the address space */
	nowhere = (uintptr_t)word(0);
	word((uintptr_t)-2);
	vtable(info(NAME, nowhere), SLOTS);
	cr_assert_eq(find(&tool).n, 0);
	*(uintptr_t *)(page(TYPES) + page_size - sizeof(uintptr_t)) = name(NAME);
	cr_assert_eq(find(&tool).n, 0);
}

Test(sdk_typeinfo, nothing_is_found_where_there_is_too_much_to_search)
{
	struct sp_typeinfo_found found;

	vtable(info(NAME, info(BASE, 0)), SLOTS);
	for (unsigned i = 0; i < 70; i++)
		(void)name(NAME);
	cr_assert_not(sp_typeinfo_find(&image, MARKER, &tool, &found, 1));
	cr_assert_eq(found.n, 0);
	cr_assert_not(found.named);
}
