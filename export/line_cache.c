/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open-addressing table from (module, address) to a run of lines; texts are interned, because one
 * file name stands in thousands of lines. Context: the exporter. Callers: symbolize.c, symbolize_lines.c.
 */
#include "export/line_cache.h"

#include <stdlib.h>
#include <string.h>

#include "export/grow.h"

struct sp_line_slot {
	uint64_t vaddr;
	uint32_t serial; /* 0 = free */
	uint32_t first;
	uint32_t n;
};

static struct sp_line_slot *find(const struct sp_line_cache *c, uint32_t serial, uint64_t vaddr)
{
	uint64_t h = (vaddr ^ (uint64_t)serial << 40) * UINT64_C(0x9e3779b97f4a7c15);
	uint32_t at = (uint32_t)(h >> 32) & (c->slots - 1);

	while (c->slot[at].serial != 0 &&
	       (c->slot[at].vaddr != vaddr || c->slot[at].serial != serial))
		at = (at + 1) & (c->slots - 1);
	return &c->slot[at];
}

bool sp_line_cache_get(const struct sp_line_cache *c, uint32_t serial, uint64_t vaddr,
		       const struct sp_cached_line **line, unsigned *n)
{
	const struct sp_line_slot *s = c->slots != 0 ? find(c, serial, vaddr) : NULL;

	if (s == NULL || s->serial == 0)
		return false;
	*line = c->line + s->first;
	*n = s->n;
	return true;
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

static bool grow_slots(struct sp_line_cache *c)
{
	uint32_t slots = c->slots != 0 ? c->slots * 2 : 512;
	uint32_t old_slots = c->slots;
	struct sp_line_slot *old = c->slot;
	struct sp_line_slot *bigger;

	if ((c->n + 1) * 2 <= c->slots)
		return true;
	bigger = calloc(slots, sizeof(*bigger));
	if (bigger == NULL)
		return false;
	c->slot = bigger;
	c->slots = slots;
	for (uint32_t i = 0; i < old_slots; i++)
		if (old[i].serial != 0)
			*find(c, old[i].serial, old[i].vaddr) = old[i];
	free(old);
	return true;
}

void sp_line_cache_put(struct sp_line_cache *c, uint32_t serial, uint64_t vaddr,
		       const struct sp_cached_line *line, unsigned n)
{
	struct sp_line_slot *s;

	if (!grow_slots(c) || !SP_GROW(c->line, c->line_cap, c->lines + n, UINT32_MAX))
		return;
	s = find(c, serial, vaddr);
	if (s->serial != 0)
		return;
	*s = (struct sp_line_slot){vaddr, serial, c->lines, n};
	if (n != 0)
		memcpy(c->line + c->lines, line, n * sizeof(*line));
	c->lines += n;
	c->n++;
}

bool sp_line_cache_full(const struct sp_line_cache *c)
{
	return c->slots * sizeof(*c->slot) + c->line_cap * sizeof(*c->line) +
		       (c->ready ? c->texts.cap + (size_t)c->texts.n * 16 : 0) >
	       c->limit;
}

void sp_line_cache_clear(struct sp_line_cache *c)
{
	size_t limit = c->limit;

	if (c->ready)
		sp_strtab_fini(&c->texts);
	free(c->slot);
	free(c->line);
	memset(c, 0, sizeof(*c));
	c->limit = limit;
}
