/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The string table of a profile. The server looks label keys up by the first or the last equal
 * string depending on the code path, so each text must be there exactly once. Context: the exporter.
 * Callers: pprof.c, report/.
 */
#include "export/strtab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/grow.h"

#define SP_STRTAB_SLOTS 1024U

static uint64_t mix(uint64_t h, uint64_t word)
{
	h = (h ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return h ^ h >> 32;
}

static uint32_t hash(const char *s, size_t len)
{
	uint64_t h = len;
	uint64_t word = 0;

	for (; len >= sizeof(word); s += sizeof(word), len -= sizeof(word)) {
		memcpy(&word, s, sizeof(word));
		h = mix(h, word);
	}
	word = 0;
	memcpy(&word, s, len);
	return (uint32_t)mix(h, word);
}

const char *sp_strtab_get(const struct sp_strtab *t, uint32_t id, size_t *len)
{
	*len = t->offset[id + 1] - t->offset[id] - 1;
	return t->bytes + t->offset[id];
}

/* The slot that holds the text, or the free one where it belongs. */
static uint32_t *find(const struct sp_strtab *t, const char *s, size_t len)
{
	uint32_t i = hash(s, len) & (t->slots - 1);

	while (t->slot[i] != 0) {
		size_t have;
		const char *text = sp_strtab_get(t, t->slot[i] - 1, &have);

		if (have == len && memcmp(text, s, len) == 0)
			break;
		i = (i + 1) & (t->slots - 1);
	}
	return &t->slot[i];
}

static int grow_slots(struct sp_strtab *t)
{
	uint32_t *bigger = calloc((size_t)t->slots * 2, sizeof(*bigger));

	if (bigger == NULL)
		return -ENOMEM;
	free(t->slot);
	t->slot = bigger;
	t->slots *= 2;
	for (uint32_t id = 0; id < t->n; id++) {
		size_t len;
		const char *text = sp_strtab_get(t, id, &len);

		*find(t, text, len) = id + 1;
	}
	return 0;
}

static int reserve(struct sp_strtab *t, size_t len)
{
	if (!SP_GROW(t->offset, t->offset_cap, t->n + 2, SIZE_MAX) ||
	    !SP_GROW(t->bytes, t->cap, t->used + len + 1, SIZE_MAX))
		return -ENOMEM;
	if ((t->n + 1) * 2 > t->slots)
		return grow_slots(t);
	return 0;
}

int sp_strtab_put(struct sp_strtab *t, const char *s, size_t len, uint32_t *id)
{
	uint32_t *slot = find(t, s, len);

	if (*slot != 0) {
		*id = *slot - 1;
		return 0;
	}
	if (reserve(t, len) != 0)
		return -ENOMEM;
	slot = find(t, s, len);
	memcpy(t->bytes + t->used, s, len);
	t->bytes[t->used + len] = '\0';
	t->used += len + 1;
	*id = t->n++;
	t->offset[t->n] = t->used;
	*slot = t->n;
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
	t->slots = SP_STRTAB_SLOTS;
	t->slot = calloc(t->slots, sizeof(*t->slot));
	if (t->slot == NULL || reserve(t, 0) != 0)
		return -ENOMEM;
	t->offset[0] = 0;
	return sp_strtab_put(t, "", 0, &empty);
}

void sp_strtab_fini(struct sp_strtab *t)
{
	free(t->slot);
	free(t->offset);
	free(t->bytes);
	memset(t, 0, sizeof(*t));
}
