/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of span names, in an array with an index by id. */
#include "export/exporter/name_texts.h"

#include <stdlib.h>
#include <string.h>

#include "export/util/grow.h"
#include "export/util/hash_index.h"
#include "sampler/region/names.h"

/* What an honest host can have: SP_NAMES_MAX, and its 16 MiB of texts. */
#define NAMES_MAX (SP_NAMES_MAX + 2U)
#define TEXTS_MAX ((size_t)17 << 20)

struct name {
	uint32_t id;
	uint32_t len;
	char *text;
};

struct sp_name_texts {
	const void *memory;
	uint64_t bytes;
	struct sp_hash_index index; /* of name[], by id */
	struct name *name;
	uint32_t n;
	size_t cap;
	size_t texts;
};

struct sp_name_texts *sp_name_texts_new(const void *memory, uint64_t bytes)
{
	struct sp_name_texts *n = calloc(1, sizeof(*n));

	if (n != NULL) {
		n->memory = memory;
		n->bytes = bytes;
	}
	return n;
}

void sp_name_texts_free(struct sp_name_texts *n)
{
	if (n == NULL)
		return;
	for (uint32_t i = 0; i < n->n; i++)
		free(n->name[i].text);
	free(n->name);
	sp_hash_index_fini(&n->index);
	free(n);
}

static uint32_t hash_of(uint32_t id)
{
	return (uint32_t)sp_hash_add(0, id);
}

static const struct name *find(const struct sp_name_texts *n, uint32_t id)
{
	uint32_t i;

	for (uint32_t step = 0; sp_hash_index_next(&n->index, hash_of(id), &step, &i);)
		if (n->name[i].id == id)
			return &n->name[i];
	return NULL;
}

/* NULL = one too many, or out of memory. */
static const struct name *add(struct sp_name_texts *n, uint32_t id, const char *text, size_t len)
{
	char *copy;

	if (n->n >= NAMES_MAX || n->texts + len > TEXTS_MAX ||
	    !SP_GROW(n->name, n->cap, n->n + 1, NAMES_MAX))
		return NULL;
	copy = malloc(len + 1);
	if (copy == NULL || !sp_hash_index_put(&n->index, hash_of(id), n->n)) {
		free(copy);
		return NULL;
	}
	memcpy(copy, text, len);
	copy[len] = '\0';
	n->texts += len;
	n->name[n->n] = (struct name){id, (uint32_t)len, copy};
	return &n->name[n->n++];
}

const char *sp_name_texts_get(struct sp_name_texts *n, uint32_t id, size_t *len)
{
	const struct name *name = find(n, id);
	char text[SP_NAMES_MAX_BYTES];

	*len = name != NULL ? name->len : 0;
	if (name != NULL)
		return name->text;
	if (id != 0)
		*len = sp_names_read(n->memory, n->bytes, id, text, sizeof(text));
	if (*len == 0)
		return "";
	name = add(n, id, text, *len);
	if (name != NULL)
		return name->text;
	*len = strlen("(other)");
	return "(other)";
}
