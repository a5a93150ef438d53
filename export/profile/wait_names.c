/* SPDX-License-Identifier: Apache-2.0 */
/* Interns what threads wait for (wait_names.h). Context: the exporter. */
#include "export/profile/wait_names.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "export/util/strtab.h"
#include "sampler/base/text.h"

/* The first texts of the table; the empty one is never a name. */
enum { NONE, OTHER, FIRST };

struct sp_wait_names {
	struct sp_strtab names;
};

struct sp_wait_names *sp_wait_names_new(void)
{
	struct sp_wait_names *n = calloc(1, sizeof(*n));
	uint32_t id;

	if (n == NULL)
		return NULL;
	if (sp_strtab_init(&n->names) == 0 &&
	    sp_strtab_put(&n->names, "(other)", strlen("(other)"), &id) == 0)
		return n;
	sp_wait_names_free(n);
	return NULL;
}

void sp_wait_names_free(struct sp_wait_names *n)
{
	if (n == NULL)
		return;
	sp_strtab_fini(&n->names);
	free(n);
}

uint32_t sp_wait_names_put(struct sp_wait_names *n, const char *raw)
{
	char text[SP_WAIT_NAME_BYTES];
	size_t len = sp_text_clean(text, sizeof(text), raw, strnlen(raw, SP_WAIT_NAME_BYTES));
	uint32_t id;

	if (len == 0)
		return OTHER;
	if (sp_strtab_find(&n->names, text, len, &id))
		return id;
	if (n->names.n == FIRST + SP_WAIT_NAMES_MAX ||
	    sp_strtab_put(&n->names, text, len, &id) != 0)
		return OTHER;
	return id;
}

const char *sp_wait_names_text(const struct sp_wait_names *n, uint32_t id)
{
	size_t len;

	return sp_strtab_get(&n->names, id != NONE && id < n->names.n ? id : OTHER, &len);
}
