/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open-addressing table from (module, function start) to names. Context: the exporter. Caller: symbolize.c.
 */
#include "export/name_cache.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static struct sp_name *find(const struct sp_name_cache *c, uint32_t serial, uint64_t start)
{
	uint64_t h = (start ^ (uint64_t)serial << 40) * UINT64_C(0x9e3779b97f4a7c15);
	uint32_t at = (uint32_t)(h >> 32) & (c->slots - 1);

	while (c->slot[at].name != NULL &&
	       (c->slot[at].start != start || c->slot[at].serial != serial))
		at = (at + 1) & (c->slots - 1);
	return &c->slot[at];
}

const struct sp_name *sp_name_cache_get(const struct sp_name_cache *c, uint32_t serial,
					uint64_t start)
{
	const struct sp_name *e = c->slots != 0 ? find(c, serial, start) : NULL;

	return e != NULL && e->name != NULL ? e : NULL;
}

static bool grow(struct sp_name_cache *c)
{
	struct sp_name_cache bigger = *c;

	if ((c->n + 1) * 2 <= c->slots)
		return true;
	bigger.slots = c->slots != 0 ? c->slots * 2 : 512;
	bigger.slot = calloc(bigger.slots, sizeof(*bigger.slot));
	if (bigger.slot == NULL)
		return false;
	for (uint32_t i = 0; i < c->slots; i++)
		if (c->slot[i].name != NULL)
			*find(&bigger, c->slot[i].serial, c->slot[i].start) = c->slot[i];
	free(c->slot);
	*c = bigger;
	return true;
}

void sp_name_cache_put(struct sp_name_cache *c, uint32_t serial, uint64_t start, const char *name,
		       const char *system_name)
{
	const char *kept, *kept_system;

	if (c->pool.bytes > c->limit)
		sp_name_cache_clear(c);
	if (!grow(c))
		return;
	kept = sp_pool_text(&c->pool, name, strlen(name));
	kept_system = strcmp(name, system_name) == 0
			      ? kept
			      : sp_pool_text(&c->pool, system_name, strlen(system_name));
	if (kept == NULL || kept_system == NULL)
		return;
	*find(c, serial, start) = (struct sp_name){start, serial, kept, kept_system};
	c->n++;
}

void sp_name_cache_clear(struct sp_name_cache *c)
{
	size_t limit = c->limit;

	sp_pool_fini(&c->pool);
	free(c->slot);
	memset(c, 0, sizeof(*c));
	c->limit = limit;
}
