/* SPDX-License-Identifier: Apache-2.0 */
/* Interns names up to a limit (bounded_names.h). Context: the exporter. */
#include "export/profile/bounded_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/util/containers.h"
#include "sampler/base/text.h"

/* Names of waits without an object, "CALL", have separate room. There are some 400 system calls. */
#define SP_CALL_NAMES_MAX 512U
#define SP_CALL_NAME_BYTES 48U

/* The first texts of the table; an empty name is stored as an empty text. */
enum { EMPTY, OTHER, FIRST };

struct sp_bounded_names {
	struct sp_strtab names;
	const struct sp_core_ops *ops;
	enum sp_counter others;
	uint32_t max;
};

static struct sp_bounded_names *make(const struct sp_core_ops *ops, enum sp_counter others,
				     uint32_t max)
{
	struct sp_bounded_names *n = calloc(1, sizeof(*n));
	uint32_t id;

	if (n == NULL)
		return NULL;
	n->ops = ops;
	n->others = others;
	n->max = max;
	if (sp_strtab_init(&n->names) == 0 &&
	    sp_strtab_put(&n->names, "(other)", strlen("(other)"), &id) == 0)
		return n;
	sp_bounded_names_free(n);
	return NULL;
}

struct sp_bounded_names *sp_thread_names_new(const struct sp_core_ops *ops)
{
	return make(ops, SP_COUNT_THREAD_NAMES_OTHER, SP_THREAD_NAMES_MAX);
}

struct sp_bounded_names *sp_wait_names_new(const struct sp_core_ops *ops)
{
	return make(ops, SP_COUNT_WAIT_NAMES_OTHER, SP_WAIT_NAMES_MAX);
}

void sp_wait_names_clear(struct sp_bounded_names *n)
{
	struct sp_bounded_names *empty = sp_wait_names_new(n->ops);
	struct sp_strtab names = n->names;

	if (empty == NULL)
		return;
	n->names = empty->names;
	empty->names = names;
	sp_bounded_names_free(empty);
}

void sp_bounded_names_free(struct sp_bounded_names *n)
{
	if (n == NULL)
		return;
	sp_strtab_fini(&n->names);
	free(n);
}

/* The id of a name; OTHER if there are too many names already. */
static uint32_t intern(struct sp_bounded_names *n, const char *raw, size_t bytes, uint32_t max)
{
	char text[SP_WAIT_NAME_BYTES]; /* of the longer of the two kinds of names */
	size_t len = sp_text_clean(text, sizeof(text), raw, bytes);
	uint32_t id;

	if (sp_strtab_find(&n->names, text, len, &id))
		return id;
	if (n->names.n < FIRST + max && sp_strtab_put(&n->names, text, len, &id) == 0)
		return id;
	return OTHER;
}

static uint32_t put(struct sp_bounded_names *n, const char *raw, size_t bytes)
{
	uint32_t id = intern(n, raw, strnlen(raw, bytes), n->max);

	if (id == OTHER)
		n->ops->counter_add(n->ops->arg, n->others, 1);
	return id;
}

uint32_t sp_thread_names_put(struct sp_bounded_names *n, const char raw[SP_THREAD_NAME_BYTES])
{
	return n != NULL ? put(n, raw, SP_THREAD_NAME_BYTES - 1) : EMPTY;
}

/* The name of a wait without its object, as "CALL (other)"; a name in brackets is no system call and stays. */
static uint32_t put_call(struct sp_bounded_names *n, const char *raw)
{
	char text[SP_CALL_NAME_BYTES];
	bool is_call = raw[0] != '[';
	int len = snprintf(text, sizeof(text), "%.*s%s", (int)strcspn(raw, is_call ? " " : ""), raw,
			   is_call ? " (other)" : "");

	return len < (int)sizeof(text) ? intern(n, text, (size_t)len, n->max + SP_CALL_NAMES_MAX)
				       : OTHER;
}

uint32_t sp_wait_names_put(struct sp_bounded_names *n, const char *raw)
{
	uint32_t id = put(n, raw, SP_WAIT_NAME_BYTES);

	if (id == OTHER)
		id = put_call(n, raw);
	return id != EMPTY ? id : OTHER;
}

static bool is_name(const struct sp_bounded_names *n, uint32_t id)
{
	return id != EMPTY && id < n->names.n;
}

const char *sp_thread_names_text(const struct sp_bounded_names *n, uint32_t id, size_t *len)
{
	if (is_name(n, id))
		return sp_strtab_get(&n->names, id, len);
	*len = strlen("(unknown)");
	return "(unknown)";
}

const char *sp_wait_names_text(const struct sp_bounded_names *n, uint32_t id)
{
	size_t len;

	return sp_strtab_get(&n->names, is_name(n, id) ? id : OTHER, &len);
}
