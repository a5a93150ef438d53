/* SPDX-License-Identifier: Apache-2.0 */
/* The span names of a process, in an array with an index by id (name_texts.h). Context: the exporter. */
#include "export/exporter/name_texts.h"

#include <stdlib.h>
#include <string.h>

#include "export/util/containers.h"
#include "sampler/base/text.h"
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
	struct sp_hash_index index; /* of name[], by id */
	struct name *name;
	uint32_t n;
	size_t cap;
	size_t texts;
};

struct sp_name_texts *sp_name_texts_new(void)
{
	return calloc(1, sizeof(struct sp_name_texts));
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

/* What is one too many, or finds no memory, stays unknown. */
static void add(struct sp_name_texts *n, uint32_t id, const char *text, size_t len)
{
	char *copy;

	if (n->n >= NAMES_MAX || n->texts + len > TEXTS_MAX ||
	    !SP_GROW(n->name, n->cap, n->n + 1, NAMES_MAX))
		return;
	copy = malloc(len + 1);
	if (copy == NULL || !sp_hash_index_put(&n->index, hash_of(id), n->n)) {
		free(copy);
		return;
	}
	memcpy(copy, text, len);
	copy[len] = '\0';
	n->texts += len;
	n->name[n->n++] = (struct name){id, (uint32_t)len, copy};
}

void sp_name_texts_drain(struct sp_name_texts *n, struct sp_ring *ring)
{
	struct sp_name_record r;
	char text[SP_NAME_MAX];
	uint32_t kind;
	uint64_t len;

	/* Bounded, because a host that means ill may be faster than we are. */
	for (uint64_t most = ring->size / sizeof(r.head);
	     most != 0 && (len = sp_ring_take(ring, &kind, &r, sizeof(r))) != 0; most--) {
		if (kind != SP_RECORD_NAME || len < sizeof(r.head) || r.head.id == 0 ||
		    r.head.len == 0 || r.head.len > SP_NAME_MAX ||
		    len != sizeof(r.head) + SP_NAME_WORDS(r.head.len))
			ring->damaged++;
		else if (find(n, r.head.id) == NULL)
			add(n, r.head.id, text,
			    sp_text_clean(text, sizeof(text), r.text, r.head.len));
	}
}

const char *sp_name_texts_get(const struct sp_name_texts *n, uint32_t id, size_t *len)
{
	const struct name *name = find(n, id);

	*len = name != NULL ? name->len : 0;
	return name != NULL ? name->text : NULL;
}
