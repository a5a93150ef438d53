/* SPDX-License-Identifier: Apache-2.0 */
/* Interns the names of threads (thread_names.h). Context: the exporter. */
#include "export/profile/thread_names.h"

#include <stdlib.h>
#include <string.h>

#include "export/util/strtab.h"
#include "sampler/base/text.h"

/* Each byte may become U+FFFD, which takes three bytes. */
#define TEXT_MAX (3 * (SP_THREAD_NAME_BYTES - 1))

/* The first texts of the table; that of an unknown name is stored as an empty text. */
enum { UNKNOWN, OTHER, FIRST };

struct sp_thread_names {
	struct sp_strtab names;
};

struct sp_thread_names *sp_thread_names_new(void)
{
	struct sp_thread_names *n = calloc(1, sizeof(*n));
	uint32_t id;

	if (n == NULL)
		return NULL;
	if (sp_strtab_init(&n->names) == 0 &&
	    sp_strtab_put(&n->names, "(other)", strlen("(other)"), &id) == 0)
		return n;
	sp_thread_names_free(n);
	return NULL;
}

void sp_thread_names_free(struct sp_thread_names *n)
{
	if (n == NULL)
		return;
	sp_strtab_fini(&n->names);
	free(n);
}

uint32_t sp_thread_names_put(struct sp_thread_names *n, const char raw[SP_THREAD_NAME_BYTES],
			     bool *over)
{
	char text[TEXT_MAX];
	size_t len = sp_text_clean(text, sizeof(text), raw, strnlen(raw, SP_THREAD_NAME_BYTES - 1));
	uint32_t id;

	*over = false;
	if (sp_strtab_find(&n->names, text, len, &id))
		return id;
	*over = n->names.n == FIRST + SP_THREAD_NAMES_MAX ||
		sp_strtab_put(&n->names, text, len, &id) != 0;
	return *over ? OTHER : id;
}

const char *sp_thread_names_text(const struct sp_thread_names *n, uint32_t id, size_t *len)
{
	if (id != UNKNOWN && id < n->names.n)
		return sp_strtab_get(&n->names, id, len);
	*len = strlen("(unknown)");
	return "(unknown)";
}
