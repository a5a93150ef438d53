/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of pages of loaded objects. The callbacks allocate nothing, because a host's allocator may
 * call the loader with its own lock held. Context: BG. Caller: unwind_snapshot.c.
 */
#define _GNU_SOURCE
#include "export/mapped.h"

#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/compiler.h"

#define SP_PAGE UINT64_C(4096)
#define SP_PAGE_WORDS (SP_PAGE / sizeof(uint64_t))
/* Unwinding one stack touches two or three pages of each object. Powers of two. */
#define SP_PAGES 256U
#define SP_OBJECTS 64U

struct page {
	uint64_t at; /* 0 = empty */
	uint64_t word[SP_PAGE_WORDS];
};

struct sp_mapped {
	sp_phdr_iterate iterate;
	struct sp_mapped_object object[SP_OBJECTS];
	unsigned objects; /* ever put into object[] */
	struct page page[SP_PAGES];
};

struct sp_mapped *sp_mapped_new(sp_phdr_iterate iterate)
{
	struct sp_mapped *m = calloc(1, sizeof(*m));

	if (m != NULL)
		m->iterate = iterate;
	return m;
}

void sp_mapped_free(struct sp_mapped *m)
{
	free(m);
}

void sp_mapped_forget(struct sp_mapped *m)
{
	m->objects = 0;
	for (unsigned i = 0; i < SP_PAGES; i++)
		m->page[i].at = 0;
}

struct object_query {
	uint64_t addr;
	struct sp_mapped_object object;
	bool found;
};

static int ask_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct object_query *q = arg;
	struct sp_mapped_object o = {.lo = UINT64_MAX};

	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uint64_t start = info->dlpi_addr + ph->p_vaddr;

		if (ph->p_type == PT_GNU_EH_FRAME)
			o.eh_frame_hdr = start;
		if (ph->p_type != PT_LOAD)
			continue;
		o.lo = start < o.lo ? start : o.lo;
		o.hi = start + ph->p_memsz > o.hi ? start + ph->p_memsz : o.hi;
	}
	if (q->addr < o.lo || q->addr >= o.hi)
		return 0;
	q->object = o;
	q->found = true;
	return 1;
}

bool sp_mapped_find(struct sp_mapped *m, uint64_t addr, struct sp_mapped_object *object)
{
	struct object_query q = {.addr = addr};

	for (unsigned i = 0; i < m->objects && i < SP_OBJECTS; i++) {
		*object = m->object[i];
		if (object->lo <= addr && addr < object->hi)
			return true;
	}
	m->iterate(ask_object, &q);
	if (!q.found)
		return false;
	*object = q.object;
	m->object[m->objects++ % SP_OBJECTS] = q.object;
	return true;
}

struct page_query {
	uint64_t at;
	struct page *page;
	bool found;
};

/* Whole pages: the loader maps segments in pages, and fills the last one of a file up with zeros. */
static bool holds_page(const struct dl_phdr_info *info, const ElfW(Phdr) * ph, uint64_t at)
{
	uint64_t start = info->dlpi_addr + ph->p_vaddr;

	return ph->p_type == PT_LOAD && (ph->p_flags & PF_R) != 0 && ph->p_filesz != 0 &&
	       at >= (start & ~(SP_PAGE - 1)) && at < start + ph->p_filesz;
}

/* Word by word, as the address sanitizer would not have it: there are its redzones of globals. */
SP_RAW static void copy_page(struct page *page, uint64_t at)
{
	const volatile uint64_t *from = (const volatile uint64_t *)(uintptr_t)at;

	for (unsigned i = 0; i < SP_PAGE_WORDS; i++)
		page->word[i] = from[i];
}

static int ask_page(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct page_query *q = arg;

	(void)size;
	for (unsigned i = 0; i < info->dlpi_phnum; i++) {
		if (!holds_page(info, &info->dlpi_phdr[i], q->at))
			continue;
		copy_page(q->page, q->at);
		q->found = true;
		return 1;
	}
	return 0;
}

static const struct page *page_of(struct sp_mapped *m, uint64_t at)
{
	struct page *page = &m->page[at / SP_PAGE % SP_PAGES];
	struct page_query q = {.at = at, .page = page};

	if (at == 0)
		return NULL;
	if (page->at == at)
		return page;
	page->at = 0;
	m->iterate(ask_page, &q);
	if (!q.found)
		return NULL;
	page->at = at;
	return page;
}

bool sp_mapped_read(struct sp_mapped *m, uint64_t addr, void *out, unsigned bytes)
{
	char *to = out;

	while (bytes > 0) {
		uint64_t skip = addr % SP_PAGE;
		const struct page *page = page_of(m, addr - skip);
		unsigned n = bytes < SP_PAGE - skip ? bytes : (unsigned)(SP_PAGE - skip);

		if (page == NULL)
			return false;
		memcpy(to, (const char *)page->word + skip, n);
		to += n;
		addr += n;
		bytes -= n;
	}
	return true;
}
