/* SPDX-License-Identifier: Apache-2.0 */
/* Demangled names by function, so that a hot function is demangled once and not for each push. */
#ifndef SP_NAME_CACHE_H
#define SP_NAME_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "export/util/hash_index.h"
#include "export/util/pool.h"

struct sp_name {
	uint64_t start;
	uint32_t serial;
	const char *name;
	const char *system_name;
};

/* Zero it at first use and set limit. */
struct sp_name_cache {
	size_t limit; /* bytes of names */
	struct sp_name *name;
	size_t n, cap;
	struct sp_hash_index by_start;
	struct sp_pool pool;
};

/* The entry of the function at `start` of the module, or NULL. Lives until the next put. */
const struct sp_name *sp_name_cache_get(const struct sp_name_cache *c, uint32_t serial,
					uint64_t start);

/* Remembers copies of the names; forgets everything first when the limit is reached, and does
 * nothing when out of memory. */
void sp_name_cache_put(struct sp_name_cache *c, uint32_t serial, uint64_t start, const char *name,
		       const char *system_name);

void sp_name_cache_clear(struct sp_name_cache *c);

#endif
