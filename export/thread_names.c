/* SPDX-License-Identifier: Apache-2.0 */
/* Interning the names of threads. Context: the exporter. Callers: main.c puts, encode.c reads. */
#include "export/thread_names.h"

#include <stdlib.h>
#include <string.h>

#include "sampler/text.h"

/* Each byte may become U+FFFD, which has three. */
#define TEXT_MAX (3 * (SP_THREAD_NAME_BYTES - 1))

enum { UNKNOWN, OTHER, FIRST };

/* A power of two, and never more than a quarter full. */
#define SLOTS 2048U

struct name {
	char text[TEXT_MAX];
	uint8_t len;
};

struct sp_thread_names {
	uint32_t n; /* of name[] */
	struct name name[FIRST + SP_THREAD_NAMES_MAX];
	uint16_t slot[SLOTS]; /* id, 0 = free */
};

_Static_assert(SLOTS >= 4 * (FIRST + SP_THREAD_NAMES_MAX), "probing ends soon");

static void set(struct sp_thread_names *n, uint32_t id, const char *text, size_t len)
{
	memcpy(n->name[id].text, text, len);
	n->name[id].len = (uint8_t)len;
}

struct sp_thread_names *sp_thread_names_new(void)
{
	struct sp_thread_names *n = calloc(1, sizeof(*n));

	if (n == NULL)
		return NULL;
	set(n, UNKNOWN, "(unknown)", strlen("(unknown)"));
	set(n, OTHER, "(other)", strlen("(other)"));
	n->n = FIRST;
	return n;
}

void sp_thread_names_free(struct sp_thread_names *n)
{
	free(n);
}

static uint32_t hash(const char *text, size_t len)
{
	uint64_t h = len;

	for (size_t i = 0; i < len; i++)
		h = (h ^ (uint8_t)text[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(h >> 40);
}

/* Where the text is, or would go. */
static uint16_t *slot_of(struct sp_thread_names *n, const char *text, size_t len)
{
	uint32_t at = hash(text, len) % SLOTS;

	for (; n->slot[at] != 0; at = (at + 1) % SLOTS) {
		const struct name *have = &n->name[n->slot[at]];

		if (have->len == len && memcmp(have->text, text, len) == 0)
			break;
	}
	return &n->slot[at];
}

uint32_t sp_thread_names_put(struct sp_thread_names *n, const char raw[SP_THREAD_NAME_BYTES],
			     bool *over)
{
	char text[TEXT_MAX];
	size_t len = sp_text_clean(text, sizeof(text), raw, strnlen(raw, SP_THREAD_NAME_BYTES - 1));
	uint16_t *slot;

	*over = false;
	if (len == 0)
		return UNKNOWN;
	slot = slot_of(n, text, len);
	if (*slot != 0)
		return *slot;
	if (n->n == FIRST + SP_THREAD_NAMES_MAX) {
		*over = true;
		return OTHER;
	}
	set(n, n->n, text, len);
	*slot = (uint16_t)n->n;
	return n->n++;
}

const char *sp_thread_names_text(const struct sp_thread_names *n, uint32_t id, size_t *len)
{
	const struct name *have = &n->name[id < n->n ? id : UNKNOWN];

	*len = have->len;
	return have->text;
}
