/* SPDX-License-Identifier: Apache-2.0 */
/* Maps (module, start of a function) to names. Context: the exporter. */
#include "export/symbols/name_cache.h"

#include <stdlib.h>
#include <string.h>

#include "export/util/grow.h"

static uint32_t hash(uint32_t serial, uint64_t start)
{
	return (uint32_t)sp_hash_add(sp_hash_add(0, serial), start);
}

const struct sp_name *sp_name_cache_get(const struct sp_name_cache *c, uint32_t serial,
					uint64_t start)
{
	uint32_t i;

	for (uint32_t step = 0; sp_hash_index_next(&c->by_start, hash(serial, start), &step, &i);)
		if (c->name[i].start == start && c->name[i].serial == serial)
			return &c->name[i];
	return NULL;
}

void sp_name_cache_put(struct sp_name_cache *c, uint32_t serial, uint64_t start, const char *name,
		       const char *system_name)
{
	struct sp_name entry = {.start = start, .serial = serial};

	if (c->pool.bytes > c->limit)
		sp_name_cache_clear(c);
	entry.name = sp_pool_text(&c->pool, name, strlen(name));
	entry.system_name = strcmp(name, system_name) == 0
				    ? entry.name
				    : sp_pool_text(&c->pool, system_name, strlen(system_name));
	if (entry.name == NULL || entry.system_name == NULL ||
	    !SP_GROW(c->name, c->cap, c->n + 1, UINT32_MAX) ||
	    !sp_hash_index_put(&c->by_start, hash(serial, start), (uint32_t)c->n))
		return;
	c->name[c->n++] = entry;
}

void sp_name_cache_clear(struct sp_name_cache *c)
{
	size_t limit = c->limit;

	sp_pool_fini(&c->pool);
	sp_hash_index_fini(&c->by_start);
	free(c->name);
	*c = (struct sp_name_cache){.limit = limit};
}
