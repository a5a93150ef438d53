/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads memory of a host's objects out of their files. Segments that are writable are left out: the
 * loader has relocated them, so the file does not say what they contain. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/objects/mapped.h"

#include <elf.h>
#include <stdlib.h>
#include <string.h>

#define SP_PAGE UINT64_C(4096)
/* Unwinding one stack touches two or three pages of each object. A power of two. */
#define SP_PAGES 256U

struct page {
	uint64_t at; /* 0 = empty */
	uint8_t byte[SP_PAGE];
};

struct sp_mapped {
	const struct sp_host_objects *host;
	uint64_t generation; /* generation of the objects when the pages were read */
	struct page page[SP_PAGES];
};

struct sp_mapped *sp_mapped_new(const struct sp_host_objects *host)
{
	struct sp_mapped *m = calloc(1, sizeof(*m));

	if (m != NULL)
		m->host = host;
	return m;
}

void sp_mapped_free(struct sp_mapped *m)
{
	free(m);
}

bool sp_mapped_find(const struct sp_mapped *m, uint64_t addr, struct sp_mapped_object *object)
{
	const struct sp_host_object *o = sp_host_objects_find(m->host, addr);

	if (o == NULL)
		return false;
	object->lo = o->lo;
	object->hi = o->hi;
	object->eh_frame_hdr = o->file->eh_frame_hdr != 0 ? o->bias + o->file->eh_frame_hdr : 0;
	return true;
}

/*
 * Whole pages, because the loader maps segments in pages, and fills the last page of a file with
 * zeros.
 */
static bool holds_page(const struct sp_host_object *o, const struct sp_object_load *l, uint64_t at)
{
	uint64_t start = (o->bias + l->vaddr) & ~(SP_PAGE - 1);

	return at >= start && at < o->bias + l->vaddr + l->filesz;
}

static bool read_page(const struct sp_host_object *o, uint64_t at, struct page *page)
{
	for (unsigned i = 0; o != NULL && i < o->file->loads; i++) {
		const struct sp_object_load *l = &o->file->load[i];

		if ((l->flags & PF_R) == 0 || (l->flags & PF_W) != 0 || !holds_page(o, l, at))
			continue;
		return sp_object_file_read(o->file, at - o->bias - l->vaddr + l->offset, page->byte,
					   sizeof(page->byte));
	}
	return false;
}

static const struct page *page_of(struct sp_mapped *m, uint64_t at)
{
	struct page *page = &m->page[at / SP_PAGE % SP_PAGES];

	if (m->generation != sp_host_objects_generation(m->host))
		for (unsigned i = 0; i < SP_PAGES; i++)
			m->page[i].at = 0;
	m->generation = sp_host_objects_generation(m->host);
	if (at == 0)
		return NULL;
	if (page->at == at)
		return page;
	page->at = 0;
	/* The object may begin inside of its first page, or end inside of its last one. */
	if (!read_page(sp_host_objects_find(m->host, at + SP_PAGE - 1), at, page) &&
	    !read_page(sp_host_objects_find(m->host, at), at, page))
		return NULL;
	page->at = at;
	return page;
}

bool sp_mapped_read(struct sp_mapped *m, uint64_t addr, void *out, unsigned bytes)
{
	uint8_t *to = out;

	while (bytes > 0) {
		uint64_t skip = addr % SP_PAGE;
		const struct page *page = page_of(m, addr - skip);
		unsigned n = bytes < SP_PAGE - skip ? bytes : (unsigned)(SP_PAGE - skip);

		if (page == NULL)
			return false;
		memcpy(to, page->byte + skip, n);
		to += n;
		addr += n;
		bytes -= n;
	}
	return true;
}

bool sp_mapped_is_data(const struct sp_mapped *m, uint64_t addr)
{
	const struct sp_host_object *o = sp_host_objects_find(m->host, addr);

	for (unsigned i = 0; o != NULL && i < o->file->loads; i++) {
		const struct sp_object_load *l = &o->file->load[i];

		if ((l->flags & PF_W) != 0 && addr - o->bias >= l->vaddr &&
		    addr - o->bias - l->vaddr < l->memsz)
			return true;
	}
	return false;
}
