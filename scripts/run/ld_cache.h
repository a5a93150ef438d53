/* SPDX-License-Identifier: Apache-2.0 */
/* The loader's cache of libraries, /etc/ld.so.cache. */
#ifndef SP_LD_CACHE_H
#define SP_LD_CACHE_H

#include <stdbool.h>
#include <stddef.h>

struct sp_ld_cache {
	char *data; /* NULL = none, or of a format we do not know */
	size_t size;
};

void sp_ld_cache_open(struct sp_ld_cache *c, const char *path);
void sp_ld_cache_close(struct sp_ld_cache *c);

/*
 * The n-th path listed for that name, NULL when there are no more. Libraries of several machines
 * may share a name.
 */
const char *sp_ld_cache_find(const struct sp_ld_cache *c, const char *name, unsigned n);

#endif
