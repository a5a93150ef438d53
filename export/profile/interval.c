/* SPDX-License-Identifier: Apache-2.0 */
/* The records and names of an upload interval (interval.h). Context: the exporter. */
#include "export/profile/interval.h"

#include <stdlib.h>
#include <string.h>

#include "sampler/base/text.h"

size_t sp_interval_seal(struct sp_interval *i)
{
	size_t bytes = 0;

	for (unsigned k = 0; k < SP_MAPS; k++)
		bytes += sp_stack_map_seal(i->map[k]);
	return bytes;
}

void sp_interval_free(struct sp_interval *i)
{
	if (i == NULL)
		return;
	for (unsigned k = 0; k < SP_MAPS; k++)
		sp_stack_map_free(i->map[k]);
	sp_hash_index_fini(&i->by_number);
	sp_strtab_fini(&i->text);
	free(i->named);
	free(i->line);
	free(i->place);
	free(i->value);
	free(i->deadlock);
	free(i);
}

static uint32_t hash(uint64_t number, uint32_t epoch)
{
	return (uint32_t)sp_hash_add(sp_hash_add(0, epoch), number);
}

const struct sp_named *sp_interval_find(const struct sp_interval *i, uint64_t number,
					uint32_t epoch)
{
	uint32_t at;

	for (uint32_t step = 0; sp_hash_index_next(&i->by_number, hash(number, epoch), &step, &at);)
		if (i->named[at].number == number && i->named[at].epoch == epoch)
			return &i->named[at];
	return NULL;
}

bool sp_interval_index(struct sp_interval *i, uint32_t at)
{
	return sp_hash_index_put(&i->by_number, hash(i->named[at].number, i->named[at].epoch), at);
}

const char *sp_interval_text(const struct sp_interval *i, uint32_t id)
{
	size_t len;

	return id != 0 ? sp_strtab_get(&i->text, id, &len) : "";
}

uint64_t sp_interval_owner(const struct sp_stack *s)
{
	return (uint64_t)s->owner << 32 | (s->has_owner_pc ? s->pc[0] : UINT32_MAX);
}

static void add_label(struct sp_record_labels *out, const char *name, const char *value)
{
	if (value != NULL && value[0] != '\0')
		out->label[out->n++] = (struct sp_label){name, value};
}

static void add_id(struct sp_record_labels *out, const char *name, uint64_t id, char text[17])
{
	uint8_t bytes[sizeof(id)];

	memcpy(bytes, &id, sizeof(id));
	sp_text_hex(text, bytes, sizeof(bytes));
	if (id != 0)
		add_label(out, name, text);
}

/* NULL = the label is not known. */
static const char *label_of(const struct sp_interval *i, uint64_t id, uint32_t kind)
{
	const struct sp_named *n = sp_interval_find(i, id, kind);

	return n != NULL ? sp_interval_text(i, n->place) : NULL;
}

void sp_interval_labels(const struct sp_interval *i, uint32_t n, struct sp_record_labels *out)
{
	static const uint8_t no_trace[16];
	const struct sp_stack_map *map;
	const struct sp_stack_labels *l = &sp_interval_record(i, n, &map)->labels;

	out->n = 0;
	add_id(out, "span_id", l->span_id, out->span_id);
	if (l->name_id != 0)
		add_label(out, "span_name", label_of(i, l->name_id, SP_NAMED_SPAN));
	sp_text_hex(out->trace_id, l->trace_id, sizeof(l->trace_id));
	if (memcmp(l->trace_id, no_trace, sizeof(no_trace)) != 0)
		add_label(out, "trace_id", out->trace_id);
	if (i->names_threads)
		add_label(out, "thread_name", label_of(i, l->thread, SP_NAMED_THREAD));
	add_id(out, "blocked_by_span_id", l->blocked_by_span_id, out->blocked_by);
	for (unsigned k = 0; k < i->attributes; k++)
		add_label(out, sp_interval_text(i, i->attribute[k]),
			  sp_interval_text(i, i->value[n * i->attributes + k]));
}

const struct sp_stack_entry *sp_interval_record(const struct sp_interval *i, uint32_t n,
						const struct sp_stack_map **map)
{
	unsigned k = 0;

	while (n >= i->end[k])
		k++;
	*map = i->map[k];
	return sp_stack_map_entry(*map, k != 0 ? n - i->end[k - 1] : n);
}
