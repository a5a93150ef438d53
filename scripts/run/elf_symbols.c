/* SPDX-License-Identifier: Apache-2.0 */
/* Symbol tables, relocations and sections. Runs in spanprof-run only. Caller: sdk.c, target.c. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "scripts/run/elf_file.h"

#define STRINGS_MAX ((uint64_t)1 << 30)
#define NAMES_MAX ((uint64_t)1 << 20)
/* Entries per read: tables of large programs have a million. */
#define CHUNK 4096U
/* Enough to find a name in any real program; the rest of a larger file is not looked at. */
#define CONTENT_MAX ((uint64_t)2 << 30)
#define WINDOW ((size_t)256 << 10)

static const Elf64_Shdr *section_of_type(const struct sp_elf *f, uint32_t type)
{
	for (unsigned i = 0; i < f->shdrs; i++)
		if (f->shdr[i].sh_type == type)
			return &f->shdr[i];
	return NULL;
}

bool sp_elf_symbols(const struct sp_elf *f, uint32_t table, sp_elf_symbol fn, void *arg)
{
	const Elf64_Shdr *s = section_of_type(f, table);
	const Elf64_Shdr *names = s != NULL && s->sh_link < f->shdrs ? &f->shdr[s->sh_link] : NULL;
	char *strings;
	Elf64_Sym *chunk;
	uint64_t n;

	if (names == NULL || s->sh_entsize != sizeof(Elf64_Sym))
		return false;
	strings = sp_elf_copy(f, names->sh_offset, names->sh_size, STRINGS_MAX);
	chunk = malloc(CHUNK * sizeof(*chunk));
	n = strings != NULL && chunk != NULL ? s->sh_size / sizeof(*chunk) : 0;
	for (uint64_t i = 0; i < n; i += CHUNK) {
		size_t some = n - i < CHUNK ? (size_t)(n - i) : CHUNK;

		if (!sp_elf_read(f, s->sh_offset + i * sizeof(*chunk), chunk,
				 some * sizeof(*chunk)))
			break;
		for (size_t k = 0; k < some; k++)
			if (chunk[k].st_name != 0 && chunk[k].st_name < names->sh_size)
				fn(arg, strings + chunk[k].st_name, &chunk[k]);
	}
	free(strings);
	free(chunk);
	return n != 0;
}

/* Whether a name can go on with that byte. */
static bool in_name(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       c == '_' || c == '.' || c == '$';
}

/* Of len bytes those that are the needle, apart: not behind a part of a name. */
static bool has_in(const char *bytes, size_t len, const char *needle, size_t n, bool apart)
{
	const char *end = bytes + len;
	const char *hit = memmem(bytes, len, needle, n);

	while (hit != NULL && apart && (hit == bytes || in_name(hit[-1]))) {
		hit++;
		hit = memmem(hit, (size_t)(end - hit), needle, n);
	}
	return hit != NULL;
}

/* Windows overlap by one byte more than the needle has. */
static bool has_bytes(const struct sp_elf *f, const char *needle, size_t len, bool apart)
{
	uint64_t end = f->size < CONTENT_MAX ? f->size : CONTENT_MAX;
	char *window = malloc(WINDOW + len + 1);
	bool found = false;

	if (window == NULL)
		return false;
	for (uint64_t at = 0; at < end && !found; at += WINDOW) {
		uint64_t left = end - at;
		size_t some = left < WINDOW + len + 1 ? (size_t)left : WINDOW + len + 1;

		if (!sp_elf_read(f, at, window, some))
			break;
		found = has_in(window, some, needle, len, apart);
	}
	free(window);
	return found;
}

bool sp_elf_has_string(const struct sp_elf *f, const char *text)
{
	return has_bytes(f, text, strlen(text) + 1, true);
}

bool sp_elf_has_text(const struct sp_elf *f, const char *text)
{
	return has_bytes(f, text, strlen(text), false);
}

bool sp_elf_constants_in_code(const struct sp_elf *f)
{
	for (unsigned i = 0; i < f->phdrs; i++)
		if (f->phdr[i].p_type == PT_LOAD && (f->phdr[i].p_flags & (PF_W | PF_X)) == 0)
			return false;
	return f->type == ET_EXEC;
}

bool sp_elf_has_section(const struct sp_elf *f, const char *name)
{
	Elf64_Ehdr h;
	const Elf64_Shdr *s;
	char *names;
	bool found = false;

	if (f->shdrs == 0 || !sp_elf_read(f, 0, &h, sizeof(h)) || h.e_shstrndx >= f->shdrs)
		return false;
	s = &f->shdr[h.e_shstrndx];
	names = sp_elf_copy(f, s->sh_offset, s->sh_size, NAMES_MAX);
	for (unsigned i = 0; names != NULL && i < f->shdrs && !found; i++)
		found = f->shdr[i].sh_name < s->sh_size &&
			strcmp(names + f->shdr[i].sh_name, name) == 0;
	free(names);
	return found;
}
