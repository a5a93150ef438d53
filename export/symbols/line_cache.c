/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps (module, address) to the lines there. Texts are interned, because one file name occurs in
 * thousands of lines. Context: the exporter.
 */
#include "export/symbols/line_cache.h"

#include <stdlib.h>
#include <string.h>

#include "export/util/grow.h"

struct sp_line_run {
	uint64_t vaddr;
	uint32_t serial;
	uint32_t first;
	uint32_t n;
};

static uint32_t hash(uint32_t serial, uint64_t vaddr)
{
	return (uint32_t)sp_hash_add(sp_hash_add(0, serial), vaddr);
}

bool sp_line_cache_get(const struct sp_line_cache *c, uint32_t serial, uint64_t vaddr,
		       const struct sp_cached_line **line, unsigned *n)
{
	uint32_t i;

	for (uint32_t step = 0;
	     sp_hash_index_next(&c->by_address, hash(serial, vaddr), &step, &i);) {
		const struct sp_line_run *r = &c->run[i];

		if (r->vaddr != vaddr || r->serial != serial)
			continue;
		*line = c->line + r->first;
		*n = r->n;
		return true;
	}
	return false;
}

uint32_t sp_line_cache_text(struct sp_line_cache *c, const char *text)
{
	uint32_t id = 0;

	if (text == NULL)
		return 0;
	if (!c->ready && sp_strtab_init(&c->texts) != 0) {
		sp_strtab_fini(&c->texts);
		return 0;
	}
	c->ready = true;
	return sp_strtab_put(&c->texts, text, strlen(text), &id) == 0 ? id : 0;
}

void sp_line_cache_put(struct sp_line_cache *c, uint32_t serial, uint64_t vaddr,
		       const struct sp_cached_line *line, unsigned n)
{
	const struct sp_cached_line *old;
	unsigned old_n;

	if (sp_line_cache_get(c, serial, vaddr, &old, &old_n) ||
	    !SP_GROW(c->run, c->run_cap, c->runs + 1, UINT32_MAX) ||
	    !SP_GROW(c->line, c->line_cap, (size_t)c->lines + n, UINT32_MAX) ||
	    !sp_hash_index_put(&c->by_address, hash(serial, vaddr), (uint32_t)c->runs))
		return;
	c->run[c->runs++] = (struct sp_line_run){vaddr, serial, c->lines, n};
	if (n != 0)
		memcpy(c->line + c->lines, line, n * sizeof(*line));
	c->lines += n;
}

bool sp_line_cache_full(const struct sp_line_cache *c)
{
	return sp_hash_index_bytes(&c->by_address) + c->run_cap * sizeof(*c->run) +
		       c->line_cap * sizeof(*c->line) + sp_strtab_bytes(&c->texts) >
	       c->limit;
}

void sp_line_cache_clear(struct sp_line_cache *c)
{
	size_t limit = c->limit;

	if (c->ready)
		sp_strtab_fini(&c->texts);
	sp_hash_index_fini(&c->by_address);
	free(c->run);
	free(c->line);
	*c = (struct sp_line_cache){.limit = limit};
}
