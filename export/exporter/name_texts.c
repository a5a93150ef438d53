/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of span names, in a table of open addressing. */
#include "export/exporter/name_texts.h"

#include <stdlib.h>
#include <string.h>

#include "sampler/names.h"

#define SLOTS_MIN 1024U
/* What an honest host can have: SP_NAMES_MAX, and its 16 MiB of texts. */
#define NAMES_MAX (SP_NAMES_MAX + 2U)
#define TEXTS_MAX ((size_t)17 << 20)

struct name {
	uint32_t id; /* 0 = free */
	uint32_t len;
	char *text;
};

struct sp_name_texts {
	const void *memory;
	uint64_t bytes;
	struct name *slot;
	uint32_t slots; /* a power of two, at most half used */
	uint32_t used;
	size_t texts;
};

struct sp_name_texts *sp_name_texts_new(const void *memory, uint64_t bytes)
{
	struct sp_name_texts *n = calloc(1, sizeof(*n));

	if (n == NULL)
		return NULL;
	n->memory = memory;
	n->bytes = bytes;
	n->slots = SLOTS_MIN;
	n->slot = calloc(n->slots, sizeof(*n->slot));
	if (n->slot != NULL)
		return n;
	free(n);
	return NULL;
}

void sp_name_texts_free(struct sp_name_texts *n)
{
	if (n == NULL)
		return;
	for (uint32_t i = 0; i < n->slots; i++)
		free(n->slot[i].text);
	free(n->slot);
	free(n);
}

/* Where the id is, or would go. */
static struct name *find(struct name *slot, uint32_t slots, uint32_t id)
{
	uint32_t at = (id * UINT32_C(2654435761)) & (slots - 1);

	while (slot[at].id != 0 && slot[at].id != id)
		at = (at + 1) & (slots - 1);
	return &slot[at];
}

static int make_room(struct sp_name_texts *n)
{
	struct name *more;

	if ((n->used + 1) * 2 <= n->slots)
		return 0;
	more = calloc((size_t)n->slots * 2, sizeof(*more));
	if (more == NULL)
		return -1;
	for (uint32_t i = 0; i < n->slots; i++)
		if (n->slot[i].id != 0)
			*find(more, n->slots * 2, n->slot[i].id) = n->slot[i];
	free(n->slot);
	n->slot = more;
	n->slots *= 2;
	return 0;
}

static const char *other(size_t *len)
{
	*len = strlen("(other)");
	return "(other)";
}

const char *sp_name_texts_get(struct sp_name_texts *n, uint32_t id, size_t *len)
{
	struct name *at = find(n->slot, n->slots, id);
	char text[SP_NAMES_MAX_BYTES];
	char *copy;

	*len = 0;
	if (id == 0)
		return "";
	if (at->id == id) {
		*len = at->len;
		return at->text;
	}
	*len = sp_names_read(n->memory, n->bytes, id, text, sizeof(text));
	if (*len == 0)
		return "";
	if (n->used >= NAMES_MAX || n->texts + *len > TEXTS_MAX || make_room(n) != 0)
		return other(len);
	copy = malloc(*len + 1);
	if (copy == NULL)
		return other(len);
	memcpy(copy, text, *len);
	copy[*len] = '\0';
	*find(n->slot, n->slots, id) = (struct name){id, (uint32_t)*len, copy};
	n->used++;
	n->texts += *len;
	return copy;
}
