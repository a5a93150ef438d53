/* SPDX-License-Identifier: Apache-2.0 */
/* Interned strings with dense ids in the order in which they were added; id 0 is always "". */
#ifndef SP_STRTAB_H
#define SP_STRTAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/util/hash_index.h"

struct sp_strtab {
	char *bytes; /* NUL-terminated texts, one after the other */
	size_t used;
	size_t cap;
	size_t *offset; /* of each text; n + 1 entries are valid */
	uint32_t n;
	size_t offset_cap;
	struct sp_hash_index by_text;
};

/* 0 or -ENOMEM; sp_strtab_fini() is right after either. */
int sp_strtab_init(struct sp_strtab *t);
void sp_strtab_fini(struct sp_strtab *t);

/* The id of a text, if it is there. */
bool sp_strtab_find(const struct sp_strtab *t, const char *s, size_t len, uint32_t *id);

/* The id of a text that must hold no NUL. 0 or -ENOMEM. */
int sp_strtab_put(struct sp_strtab *t, const char *s, size_t len, uint32_t *id);

/* Forgets every id >= n. Only allowed if nothing is added afterwards. */
void sp_strtab_cut(struct sp_strtab *t, uint32_t n);

/* Memory in use. */
static inline size_t sp_strtab_bytes(const struct sp_strtab *t)
{
	return t->cap + t->offset_cap * sizeof(*t->offset) + sp_hash_index_bytes(&t->by_text);
}

const char *sp_strtab_get(const struct sp_strtab *t, uint32_t id, size_t *len);

#endif
