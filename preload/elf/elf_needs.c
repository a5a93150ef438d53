/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out whether an object needs another one (DT_NEEDED), directly or through others. Context:
 * APP.
 */
#define _GNU_SOURCE
#include <elf.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "preload/elf/elf_symbols.h"
#include "preload/elf/elf_walk.h"
#include "preload/elf/fork_barrier.h"
#include "sampler/base/compiler.h"

/* The bound of the search; objects beyond it are not followed. */
#define OBJECTS_MAX 1024U

struct search {
	uint8_t reached[OBJECTS_MAX / CHAR_BIT];
	uint8_t done[OBJECTS_MAX / CHAR_BIT];
	uintptr_t from;
	const struct sp_elf_range *wanted;
	unsigned index; /* of the object that is looked at */
	bool grown;
	bool found;
};

/* One name in an object's list; the object with that name is reached. */
struct edge {
	struct search *search;
	const char *needed;
	unsigned index;
};

static bool get(const uint8_t *set, unsigned i)
{
	return (set[i / CHAR_BIT] >> (i % CHAR_BIT)) & 1;
}

static void put(uint8_t *set, unsigned i)
{
	set[i / CHAR_BIT] |= (uint8_t)(1U << (i % CHAR_BIT));
}

static const char *strings_of(const struct dl_phdr_info *info, const ElfW(Dyn) * d)
{
	for (; d != NULL && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_STRTAB)
			return (const char *)(d->d_un.d_ptr < info->dlpi_addr
						      ? info->dlpi_addr + d->d_un.d_ptr
						      : d->d_un.d_ptr);
	}
	return NULL;
}

/* By SONAME, by the path it was loaded from, or by the last part of that. */
static bool is_named(const struct dl_phdr_info *info, const char *name)
{
	const ElfW(Dyn) *d = sp_elf_dynamic(info);
	const char *strings = strings_of(info, d);
	const char *path = info->dlpi_name != NULL ? info->dlpi_name : "";
	const char *slash = strrchr(path, '/');

	if (strcmp(path, name) == 0 || (slash != NULL && strcmp(slash + 1, name) == 0))
		return true;
	for (; strings != NULL && d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SONAME)
			return strcmp(strings + d->d_un.d_val, name) == 0;
	}
	return false;
}

static bool lies_at(const struct dl_phdr_info *info, uintptr_t address)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];

		if (p->p_type == PT_LOAD && address - (info->dlpi_addr + p->p_vaddr) < p->p_memsz)
			return true;
	}
	return false;
}

static void reach(struct search *s, const struct dl_phdr_info *info, unsigned index)
{
	if (get(s->reached, index))
		return;
	put(s->reached, index);
	s->grown = true;
	if (lies_at(info, s->wanted->start))
		s->found = true;
}

static int visit_edge(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct edge *e = arg;
	unsigned index = e->index++;

	if (index >= OBJECTS_MAX || e->search->found)
		return 1;
	if (!is_named(info, e->needed))
		return 0;
	reach(e->search, info, index);
	return 1;
}

static void follow(struct search *s, const struct dl_phdr_info *info)
{
	const ElfW(Dyn) *d = sp_elf_dynamic(info);
	const char *strings = strings_of(info, d);

	for (; strings != NULL && d->d_tag != DT_NULL && !s->found; d++) {
		struct edge e = {.search = s, .needed = strings + d->d_un.d_val};

		if (d->d_tag == DT_NEEDED)
			(void)sp_fork_barrier_walk(visit_edge, &e);
	}
}

static int visit(struct dl_phdr_info *info, size_t size SP_UNUSED, void *arg)
{
	struct search *s = arg;
	unsigned index = s->index++;

	if (index >= OBJECTS_MAX || s->found)
		return 1;
	if (lies_at(info, s->from))
		reach(s, info, index);
	if (get(s->reached, index) && !get(s->done, index)) {
		put(s->done, index);
		follow(s, info);
	}
	return 0;
}

bool sp_elf_needs(const void *address, const struct sp_elf_range *other)
{
	struct search s = {.from = (uintptr_t)address, .wanted = other};

	/* each round except the last reaches another object */
	do {
		s.grown = false;
		s.index = 0;
		(void)sp_fork_barrier_walk(visit, &s);
	} while (s.grown && !s.found);
	return s.found;
}
