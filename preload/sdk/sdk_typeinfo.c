/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the vtables of classes by the names of the classes. APP context. */
#define _GNU_SOURCE
#include "preload/sdk/sdk_typeinfo.h"

#include <stddef.h>
#include <string.h>

#include "sampler/base/compiler.h"
#include "sampler/base/readable_sig.h"

#define WORD sizeof(uintptr_t)

/*
 * More words than classes match: names also occur in symbol tables, and a word may equal an address
 * by chance.
 */
#define KEYS_MAX 64U

/*
 * The words of a typeinfo: its own vtable, the name, and then the only base; or flags, the number
 * of bases, and the bases.
 */
#define INFO_NAME 1U
#define INFO_BASE 2U
#define INFO_FIRST_OF_BASES 3U
#define INFO_OFFSET_OF_FIRST 4U
#define OFFSET_SHIFT 8U

/* The addresses that the search looks for, and the class of each. */
struct keys {
	uintptr_t low;
	uintptr_t high;
	unsigned n;
	uintptr_t at[KEYS_MAX];
	unsigned class[KEYS_MAX];
};

struct search {
	const struct sp_elf_image *image;
	const struct sp_typeinfo_class *classes;
	struct sp_typeinfo_found *found;
	unsigned n;
	uintptr_t bytes_left;
	bool complete;
	bool apart; /* read-only data lie in a segment without code */
	struct keys names;
	struct keys infos;   /* typeinfos of those names */
	struct keys derived; /* typeinfos of classes that derive from those */
};

typedef void word_fn(struct search *s, uintptr_t place, unsigned class);

static void add_key(struct search *s, struct keys *k, uintptr_t at, unsigned class)
{
	/*
	 * The read-only part of a writable segment is listed twice, so an address may be found
	 * twice.
	 */
	for (unsigned i = 0; i < k->n; i++) {
		if (k->at[i] == at && k->class[i] == class)
			return;
	}
	if (k->n == KEYS_MAX) {
		s->complete = false;
		return;
	}
	if (k->n == 0 || at < k->low)
		k->low = at;
	if (k->n == 0 || at > k->high)
		k->high = at;
	k->at[k->n] = at;
	k->class[k->n] = class;
	k->n++;
}

/* Another object may define the base class, so the kernel is asked whether the name can be read. */
static bool is_name(uintptr_t address, const char *name)
{
	size_t size = strlen(name) + 1;

	return address != 0 && sp_elf_image_readable(address, size) &&
	       memcmp((const void *)address, name, size) == 0;
}

static bool is_named(uintptr_t info, const char *name)
{
	uintptr_t text;

	if (info == 0 || info % WORD != 0 || !sp_readable(info + INFO_NAME * WORD))
		return false;
	memcpy(&text, (const void *)(info + INFO_NAME * WORD), sizeof(text));
	return is_name(text, name);
}

/* In a typeinfo with several bases an offset follows each base. */
static bool has_base(const struct search *s, uintptr_t info, const char *base)
{
	uintptr_t first;
	uintptr_t offset;

	if (base[0] == '\0')
		return true;
	if (!sp_elf_image_word(s->image, info + INFO_BASE * WORD, &first))
		return false;
	if (is_named(first, base))
		return true;
	return sp_elf_image_word(s->image, info + INFO_FIRST_OF_BASES * WORD, &first) &&
	       sp_elf_image_word(s->image, info + INFO_OFFSET_OF_FIRST * WORD, &offset) &&
	       offset >> OFFSET_SHIFT == 0 && is_named(first, base);
}

/* The marker was found: is it part of one of the names? */
static void take_name(struct search *s, const struct sp_elf_segment *g, uintptr_t hit,
		      const char *marker)
{
	for (unsigned i = 0; i < s->n; i++) {
		const char *name = s->classes[i].name;
		uintptr_t before = (uintptr_t)(strstr(name, marker) - name);
		size_t size = strlen(name) + (s->classes[i].kind != SP_TYPEINFO_PREFIX);
		uintptr_t start = hit - before;

		if (hit - g->start >= before && g->from_file - (start - g->start) >= size &&
		    memcmp((const void *)start, name, size) == 0)
			add_key(s, &s->names, start, i);
	}
}

static bool spend(struct search *s, uintptr_t bytes)
{
	if (!s->complete || bytes > s->bytes_left) {
		s->complete = false;
		return false;
	}
	s->bytes_left -= bytes;
	return true;
}

/*
 * Whether read-only data have a separate segment. Old linkers and gold put them beside the code.
 */
static bool has_constants(const struct sp_elf_image *image)
{
	for (unsigned i = 0; i < image->n; i++) {
		if (!image->segment[i].writable && !image->segment[i].executable)
			return true;
	}
	return false;
}

static void find_names(struct search *s, const char *marker)
{
	const size_t len = strlen(marker);

	for (unsigned i = 0; i < s->image->n; i++) {
		const struct sp_elf_segment *g = &s->image->segment[i];
		uintptr_t at = g->start;
		uintptr_t end = g->start + g->from_file;

		if (g->writable || (s->apart && g->executable) || g->from_file == 0 ||
		    !spend(s, g->from_file) || !sp_elf_image_readable(g->start, g->from_file))
			continue;
		while (s->complete && at < end) {
			const void *hit = memmem((const void *)at, end - at, marker, len);

			if (hit == NULL)
				break;
			take_name(s, g, (uintptr_t)hit, marker);
			at = (uintptr_t)hit + len;
		}
	}
}

/* Calls fn for every word of a segment that equals one of the addresses. */
static void find_words(struct search *s, const struct sp_elf_segment *g, const struct keys *k,
		       word_fn *fn)
{
	uintptr_t at = (g->start + WORD - 1) & ~(WORD - 1);
	uintptr_t end = g->start + g->from_file;

	if (k->n == 0 || g->from_file == 0 || !spend(s, g->from_file) ||
	    !sp_elf_image_readable(g->start, g->from_file))
		return;
	for (; at + WORD <= end; at += WORD) {
		uintptr_t word = *(const uintptr_t *)at;

		if (word - k->low > k->high - k->low)
			continue;
		for (unsigned i = 0; i < k->n; i++) {
			if (k->at[i] == word)
				fn(s, at, k->class[i]);
		}
	}
}

static void take_info(struct search *s, uintptr_t place, unsigned class)
{
	uintptr_t info = place - INFO_NAME * WORD;
	uintptr_t vptr;

	if (!sp_elf_image_word(s->image, info, &vptr) || vptr == 0 || vptr % WORD != 0 ||
	    !has_base(s, info, s->classes[class].base))
		return;
	s->found[class].named = true;
	add_key(s, &s->infos, info, class);
}

static bool is_code(const struct search *s, uintptr_t address)
{
	const struct sp_elf_segment *g = sp_elf_image_segment(s->image, address, 1);

	return g != NULL && g->executable;
}

/*
 * In a vtable the word before the typeinfo is the offset to the object's top, and the functions
 * follow the typeinfo.
 */
static bool is_vtable(const struct search *s, uintptr_t place,
		      const struct sp_typeinfo_class *class)
{
	uintptr_t vptr = place + WORD;
	uintptr_t offset;
	uintptr_t word;
	uintptr_t destructor[2];
	unsigned slots = 0;

	if (!sp_elf_image_word(s->image, place - WORD, &offset) || offset != 0)
		return false;
	while (slots <= class->slots_max &&
	       sp_elf_image_word(s->image, vptr + slots * WORD, &word) && is_code(s, word))
		slots++;
	return slots >= class->slots_min && slots <= class->slots_max &&
	       sp_elf_image_word(s->image, vptr + class->destructors * WORD, &destructor[0]) &&
	       sp_elf_image_word(s->image, vptr + (class->destructors + 1) * WORD,
				 &destructor[1]) &&
	       destructor[0] != destructor[1];
}

static void take_vtable(struct search *s, uintptr_t place, unsigned class)
{
	struct sp_typeinfo_found *f = &s->found[class];

	if (!is_vtable(s, place, &s->classes[class]))
		return;
	for (unsigned i = 0; i < f->n && i < SP_TYPEINFO_VTABLES_MAX; i++) {
		if (f->vptr[i] == (const void *const *)(place + WORD))
			return;
	}
	if (f->n < SP_TYPEINFO_VTABLES_MAX)
		f->vptr[f->n] = (const void *const *)(place + WORD);
	f->n++;
}

/* A word that refers to a typeinfo is part of a vtable, or of the typeinfo of a derived class. */
static void take_reference(struct search *s, uintptr_t place, unsigned class)
{
	uintptr_t info = place - INFO_BASE * WORD;
	const struct sp_elf_segment *g;
	uintptr_t name;

	if (s->classes[class].kind != SP_TYPEINFO_DERIVED) {
		take_vtable(s, place, class);
		return;
	}
	if (!sp_elf_image_word(s->image, info + INFO_NAME * WORD, &name))
		return;
	g = sp_elf_image_segment(s->image, name, 1);
	if (g != NULL && !g->writable)
		add_key(s, &s->derived, info, class);
}

static void find_words_where(struct search *s, bool relro_only, const struct keys *k, word_fn *fn)
{
	for (unsigned i = 0; i < s->image->n; i++) {
		const struct sp_elf_segment *g = &s->image->segment[i];

		if (relro_only ? g->relro : !(s->apart && g->executable))
			find_words(s, g, k, fn);
	}
}

/* A typeinfo may lie in another segment than its vtable or the typeinfo of a derived class. */
static void find_where(struct search *s, bool relro_only)
{
	find_words_where(s, relro_only, &s->names, take_info);
	find_words_where(s, relro_only, &s->infos, take_reference);
	find_words_where(s, relro_only, &s->derived, take_vtable);
}

static bool found_any(const struct search *s)
{
	for (unsigned i = 0; i < s->n; i++) {
		if (s->found[i].n != 0)
			return true;
	}
	return false;
}

/*
 * In position-independent code typeinfos and vtables lie in the part that the loader relocates and
 * then protects. A program with a fixed address has them among its constants, but in the protected
 * part if they come from an archive that was compiled as position-independent code. So in such a
 * program both are searched. A class that was found counts even if the rest is more than we search.
 */
static void find_classes(struct search *s)
{
	unsigned found[SP_TYPEINFO_CLASSES_MAX] = {0};

	find_where(s, true);
	if (!s->complete || (found_any(s) && !s->image->fixed))
		return;
	for (unsigned i = 0; i < s->n; i++)
		found[i] = s->found[i].n;
	find_where(s, false);
	if (s->complete)
		return;
	for (unsigned i = 0; i < s->n; i++) {
		s->found[i].n = found[i];
		s->complete = s->complete || found[i] != 0;
	}
}

bool sp_typeinfo_find(const struct sp_elf_image *image, const char *marker,
		      const struct sp_typeinfo_class *classes, struct sp_typeinfo_found *found,
		      unsigned n)
{
	struct search s = {
		.image = image,
		.classes = classes,
		.found = found,
		.n = n,
		.bytes_left = SP_ELF_IMAGE_SEARCH_MAX,
		.complete = true,
		.apart = has_constants(image),
	};

	memset(found, 0, n * sizeof(*found));
	if (n > SP_TYPEINFO_CLASSES_MAX)
		return false;
	find_names(&s, marker);
	if (s.names.n != 0)
		find_classes(&s);
	if (!s.complete)
		memset(found, 0, n * sizeof(*found));
	return s.complete;
}
