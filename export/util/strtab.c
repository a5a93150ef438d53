/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The string table of a profile. The server looks label keys up by the first or the last equal
 * string, depending on the code path, so each text must be there exactly once. Context: the
 * exporter, and the report tool.
 */
#include "export/util/strtab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/util/grow.h"

static uint32_t hash(const char *s, size_t len)
{
	return (uint32_t)sp_hash_add_bytes(0, s, len);
}

const char *sp_strtab_get(const struct sp_strtab *t, uint32_t id, size_t *len)
{
	*len = t->offset[id + 1] - t->offset[id] - 1;
	return t->bytes + t->offset[id];
}

static bool find(const struct sp_strtab *t, uint32_t h, const char *s, size_t len, uint32_t *id)
{
	for (uint32_t step = 0; sp_hash_index_next(&t->by_text, h, &step, id);) {
		size_t have;
		const char *text = sp_strtab_get(t, *id, &have);

		if (have == len && memcmp(text, s, len) == 0)
			return true;
	}
	return false;
}

bool sp_strtab_find(const struct sp_strtab *t, const char *s, size_t len, uint32_t *id)
{
	return find(t, hash(s, len), s, len, id);
}

int sp_strtab_put(struct sp_strtab *t, const char *s, size_t len, uint32_t *id)
{
	uint32_t h = hash(s, len);

	if (find(t, h, s, len, id))
		return 0;
	if (!SP_GROW(t->offset, t->offset_cap, (size_t)t->n + 2, SIZE_MAX) ||
	    !SP_GROW(t->bytes, t->cap, t->used + len + 1, SIZE_MAX) ||
	    !sp_hash_index_put(&t->by_text, h, t->n))
		return -ENOMEM;
	t->offset[t->n] = t->used;
	memcpy(t->bytes + t->used, s, len);
	t->bytes[t->used + len] = '\0';
	t->used += len + 1;
	*id = t->n++;
	t->offset[t->n] = t->used;
	return 0;
}

void sp_strtab_cut(struct sp_strtab *t, uint32_t n)
{
	t->n = n;
	t->used = t->offset[n];
}

int sp_strtab_init(struct sp_strtab *t)
{
	uint32_t empty;

	memset(t, 0, sizeof(*t));
	return sp_strtab_put(t, "", 0, &empty);
}

void sp_strtab_fini(struct sp_strtab *t)
{
	sp_hash_index_fini(&t->by_text);
	free(t->offset);
	free(t->bytes);
	memset(t, 0, sizeof(*t));
}
