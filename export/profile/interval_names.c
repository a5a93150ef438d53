/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names everything in an interval: waits, threads and spans by the tables of the process, while these exist, and
 * frames by the symbolizer. Texts are interned, because one name occurs in many frames. Context: the exporter.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/profile/interval.h"
#include "export/symbols/lines.h"
#include "export/util/containers.h"
#include "export/util/log.h"
#include "sampler/base/text.h"

static void want(struct sp_symbolizer *symbolizer, const struct sp_stack_map *map)
{
	for (uint32_t i = 0; map != NULL && i < sp_stack_map_entries(map); i++) {
		uint32_t stack = sp_stack_map_entry(map, i)->stack;
		struct sp_stack s;

		if (stack == SP_STACK_OTHER)
			continue;
		sp_stack_map_stack(map, stack, &s);
		for (unsigned k = 0; k < s.depth; k++)
			sp_symbolizer_want(symbolizer, s.pc[k], s.epoch);
	}
}

void sp_interval_want(const struct sp_interval *i, struct sp_symbolizer *symbolizer)
{
	for (unsigned k = 0; k < SP_MAPS; k++)
		want(symbolizer, i->map[k]);
	for (unsigned k = 0; k < i->deadlocked; k++)
		if (i->deadlock[k].pc != 0)
			sp_symbolizer_want(symbolizer, i->deadlock[k].pc, i->deadlock[k].epoch);
}

static int put_text(struct sp_interval *i, const char *text, size_t len, uint32_t *id)
{
	char clean[SP_INTERVAL_TEXT_MAX];

	return sp_strtab_put(&i->text, clean, sp_text_clean(clean, sizeof(clean), text, len), id);
}

static int put_place(struct sp_interval *i, const struct sp_place *place, uint32_t *at)
{
	struct sp_named_place *p;

	for (*at = (uint32_t)i->place_n; *at != 0;) {
		p = &i->place[--*at];
		if (p->place.key != place->key)
			continue;
		/* An object's lack of debug information may show at only one of its functions. */
		if (p->place.lack < place->lack)
			p->place.lack = place->lack;
		return 0;
	}
	if (!SP_GROW(i->place, i->place_cap, i->place_n + 1, UINT32_MAX))
		return -ENOMEM;
	*at = (uint32_t)i->place_n;
	p = &i->place[i->place_n++];
	p->place = *place;
	if (place->build_id_len != 0)
		memcpy(p->build_id, place->build_id, place->build_id_len);
	p->place.file = NULL;
	p->place.build_id = NULL;
	return put_text(i, place->file, strlen(place->file), &p->file);
}

static int put_line(struct sp_interval *i, const struct sp_line *line)
{
	struct sp_named_line *l;
	int err;

	if (!SP_GROW(i->line, i->line_cap, i->line_n + 1, UINT32_MAX))
		return -ENOMEM;
	l = &i->line[i->line_n++];
	l->line = line->line;
	err = put_text(i, line->name, strlen(line->name), &l->name);
	if (err == 0)
		err = put_text(i, line->system_name, strlen(line->system_name), &l->system_name);
	return err == 0 ? put_text(i, line->file, strlen(line->file), &l->file) : err;
}

/* The last item of its kind is new: its meaning follows. */
static int put_number(struct sp_interval *i, uint64_t number, uint32_t epoch)
{
	if (!SP_GROW(i->named, i->named_cap, i->named_n + 1, UINT32_MAX))
		return -ENOMEM;
	i->named[i->named_n] =
		(struct sp_named){.number = number, .epoch = epoch, .first = (uint32_t)i->line_n};
	return sp_interval_index(i, (uint32_t)i->named_n++) ? 0 : -ENOMEM;
}

static int name_frame(struct sp_interval *i, uint64_t number, uint32_t epoch,
		      const struct sp_frame *f)
{
	int err = put_number(i, number, epoch);
	struct sp_named *n;

	if (err != 0)
		return err;
	n = &i->named[i->named_n - 1];
	n->address = f->address;
	n->is_unnamed = f->is_unnamed;
	/* A frame that the server's symbolizer will name has its ELF address and no lines. */
	n->lines = f->place.raw ? 0 : f->lines;
	err = put_place(i, &f->place, &n->place);
	for (unsigned k = 0; err == 0 && k < n->lines; k++)
		err = put_line(i, &f->line[k]);
	return err;
}

static int name_label(struct sp_interval *i, uint32_t id, uint32_t kind, const char *text,
		      size_t len)
{
	int err = put_number(i, id, kind);

	return err == 0 ? put_text(i, text, len, &i->named[i->named_n - 1].place) : err;
}

static int name_span(struct sp_interval *i, uint32_t id)
{
	const char *text;
	size_t len;

	if (sp_interval_find(i, id, SP_NAMED_SPAN) != NULL)
		return 0;
	text = i->ops->span_name_text(i->ops->arg, id, &len);
	return name_label(i, id, SP_NAMED_SPAN, text, len);
}

static int name_labels(struct sp_interval *i, const struct sp_interval_parts *parts,
		       const struct sp_stack_labels *l)
{
	const char *text;
	size_t len;
	int err = l->name_id != 0 ? name_span(i, l->name_id) : 0;

	if (err == 0 && parts->threads != NULL &&
	    sp_interval_find(i, l->thread, SP_NAMED_THREAD) == NULL) {
		text = sp_thread_names_text(parts->threads, l->thread, &len);
		err = name_label(i, l->thread, SP_NAMED_THREAD, text, len);
	}
	return err;
}

static int name_wait(struct sp_interval *i, const struct sp_interval_parts *parts, uint32_t wait)
{
	struct sp_line line;
	struct sp_frame f;

	if (wait == 0 || sp_interval_find(i, wait, SP_NAMED_WAIT) != NULL)
		return 0;
	sp_symbolize_marker(sp_wait_names_text(parts->wait_names, wait), &line, &f);
	return name_frame(i, wait, SP_NAMED_WAIT, &f);
}

static int name_tables(struct sp_interval *i, const struct sp_interval_parts *parts,
		       const struct sp_stack_map *map)
{
	struct sp_stack s;
	int err = 0;

	for (uint32_t n = 0; err == 0 && map != NULL && n < sp_stack_map_entries(map); n++)
		err = name_labels(i, parts, &sp_stack_map_entry(map, n)->labels);
	for (uint32_t n = SP_STACK_OTHER + 1;
	     err == 0 && map != NULL && n < sp_stack_map_stacks(map); n++) {
		sp_stack_map_stack(map, n, &s);
		err = name_wait(i, parts, s.wait);
		if (err == 0 && s.owner != 0 && s.owner != SP_STACK_OWNER_UNNAMED)
			err = name_span(i, s.owner);
	}
	return err;
}

/* The text id of a value, unless the attribute has too many different values. */
static int put_value(struct sp_interval *i, unsigned attribute, const char *text, size_t len,
		     uint32_t *different, uint32_t *id)
{
	const uint32_t kind = SP_NAMED_VALUE + attribute;
	uint32_t at;
	int err = sp_strtab_find(&i->text, text, len, &at) ? 0 : -ENOENT;

	if (err == 0 && sp_interval_find(i, at, kind) != NULL) {
		*id = at;
		return 0;
	}
	if (*different == SP_INTERVAL_VALUES_MAX)
		return -E2BIG;
	++*different;
	err = sp_strtab_put(&i->text, text, len, id);
	return err == 0 ? put_number(i, *id, kind) : err;
}

/*
 * Values of attributes, by the root of each record. Entries of the maps differ by their roots, so many records may
 * have the same labels.
 */
static int name_values(struct sp_interval *i, const struct sp_root_values *values)
{
	uint32_t different[SP_ROOT_LABELS_MAX] = {0};
	const struct sp_stack_map *map;
	int err = 0;

	i->attributes = sp_root_values_attributes(values);
	i->value = calloc((size_t)i->records * i->attributes + 1, sizeof(*i->value));
	if (i->value == NULL)
		return -ENOMEM;
	for (unsigned k = 0; err == 0 && k < i->attributes; k++)
		err = sp_strtab_put(&i->text, sp_root_values_name(values, k),
				    strlen(sp_root_values_name(values, k)), &i->attribute[k]);
	for (uint32_t n = 0; err == 0 && n < i->records; n++) {
		const struct sp_stack_entry *e = sp_interval_record(i, n, &map);

		for (unsigned k = 0; err == 0 && k < i->attributes; k++) {
			uint32_t *id = &i->value[n * i->attributes + k];
			size_t len;
			const char *text = sp_root_values_get(values, e->labels.root_id, k, &len);

			if (text != NULL)
				err = put_value(i, k, text, len, &different[k], id);
			if (err != -E2BIG)
				continue;
			i->ops->counter_add(i->ops->arg, SP_COUNT_SPAN_VALUES_OTHER, e->count);
			err = sp_strtab_put(&i->text, "(other)", strlen("(other)"), id);
		}
	}
	return err;
}

static int take_deadlock(struct sp_interval *i, const struct sp_interval_parts *parts)
{
	int err = 0;

	if (parts->deadlocked == 0)
		return 0;
	i->deadlock = calloc(parts->deadlocked, sizeof(*i->deadlock));
	if (i->deadlock == NULL)
		return -ENOMEM;
	i->deadlocked = parts->deadlocked;
	memcpy(i->deadlock, parts->deadlock, i->deadlocked * sizeof(*i->deadlock));
	for (unsigned k = 0; err == 0 && k < i->deadlocked; k++)
		if (i->deadlock[k].name_id != 0)
			err = name_span(i, i->deadlock[k].name_id);
	return err;
}

/*
 * Removes the ids of samples whose root was not slow. An unsampled time may be of a root without samples, whose end nobody
 * has told, and memory in use may be of a root that ended long ago: they have no ids unless their root is known to be slow.
 */
static void leave_usual(void *arg, bool is_unsampled, struct sp_stack_labels *l)
{
	const struct sp_root_values *values = arg;
	uint64_t alike;
	bool is_usual = sp_root_values_is_usual(values, l->root_id, &alike);

	if (!is_usual && l->root_id != 0 && (!is_unsampled || alike != l->root_id))
		return;
	l->span_id = 0;
	memset(l->trace_id, 0, sizeof(l->trace_id));
	l->blocked_by_span_id = 0;
	l->root_id = alike;
}

/* Where nothing else tells roots apart, those with the same labels are one. */
static void join_alike(void *arg, bool is_unsampled, struct sp_stack_labels *l)
{
	(void)is_unsampled;
	(void)sp_root_values_is_usual(arg, l->root_id, &l->root_id);
}

static void relabel(struct sp_stack_map *map, const struct sp_interval_parts *parts)
{
	/* The callbacks only read it. */
	void *values = (void *)(uintptr_t)parts->values;
	uint32_t lost = 0;

	if (map == NULL || values == NULL)
		return;
	if (parts->ops->config->slow_ids)
		lost = sp_stack_map_relabel(map, leave_usual, values);
	else if (parts->ops->config->span_id_scope == SP_SCOPE_NONE)
		lost = sp_stack_map_relabel(map, join_alike, values);
	if (lost != 0)
		parts->ops->counter_add(parts->ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
}

struct sp_interval *sp_interval_new(const struct sp_interval_parts *parts)
{
	struct sp_interval *i = calloc(1, sizeof(*i));
	int err = 0;

	if (i == NULL) {
		for (unsigned k = 0; k < SP_MAPS; k++)
			sp_stack_map_free(parts->map[k]);
		return NULL;
	}
	*i = (struct sp_interval){
		.ops = parts->ops,
		.begun_ns = parts->begun_ns,
		.time_ns = parts->time_ns,
		.duration_ns = parts->duration_ns,
		.names_threads = parts->threads != NULL,
	};
	for (unsigned k = 0; k < SP_MAPS; k++) {
		i->map[k] = parts->map[k];
		relabel(i->map[k], parts);
		i->records += i->map[k] != NULL ? sp_stack_map_entries(i->map[k]) : 0;
		i->end[k] = i->records;
	}
	err = sp_strtab_init(&i->text);
	for (unsigned k = 0; err == 0 && k < SP_MAPS; k++)
		err = name_tables(i, parts, i->map[k]);
	if (err == 0 && take_deadlock(i, parts) == 0 &&
	    (parts->values == NULL || name_values(i, parts->values) == 0))
		return i;
	sp_interval_free(i);
	return NULL;
}

/* *at: its index in named[]. */
static int name_address(struct sp_interval *i, struct sp_symbolizer *symbolizer, uint64_t pc,
			uint32_t epoch, size_t *at)
{
	const struct sp_named *named = sp_interval_find(i, pc, epoch);
	struct sp_frame f;

	*at = named != NULL ? (size_t)(named - i->named) : i->named_n;
	if (named != NULL)
		return 0;
	sp_symbolize(symbolizer, pc, epoch, &f);
	return name_frame(i, pc, epoch, &f);
}

/* Replaces the addresses of stacks by indexes in named[]. */
static int name_frames(struct sp_interval *i, struct sp_stack_map *map,
		       struct sp_symbolizer *symbolizer)
{
	struct sp_stack s;
	int err = 0;

	for (uint32_t n = SP_STACK_OTHER + 1; map != NULL && n < sp_stack_map_stacks(map); n++) {
		uint64_t *pc = sp_stack_map_pcs(map, n);

		sp_stack_map_stack(map, n, &s);
		for (unsigned k = 0; k < s.depth; k++) {
			size_t at;

			err = name_address(i, symbolizer, pc[k], s.epoch, &at);
			if (err != 0)
				return err;
			pc[k] = at;
		}
	}
	return 0;
}

/*
 * The outermost function of that address, which is the program's: it says more than functions of the C++ library that
 * are inlined into it. "" = unknown.
 */
static const char *function_at(const struct sp_interval *i, const struct sp_named *at)
{
	const char *name = "";

	for (uint32_t k = 0; k < at->lines; k++) {
		name = sp_interval_text(i, i->line[at->first + k].name);
		if (strncmp(name, "std::", strlen("std::")) != 0)
			break;
	}
	return name;
}

/* "held by GET /checkout in bank_charge" */
static int name_owner(struct sp_interval *i, const struct sp_stack *s)
{
	const struct sp_named *span = sp_interval_find(i, s->owner, SP_NAMED_SPAN);
	const struct sp_named *at = s->has_owner_pc ? &i->named[s->pc[0]] : NULL;
	const char *function = at != NULL ? function_at(i, at) : "";
	char text[2 * SP_INTERVAL_TEXT_MAX];
	struct sp_line line;
	struct sp_frame f;

	(void)snprintf(text, sizeof(text), "held by %s%s%s",
		       span != NULL ? sp_interval_text(i, span->place) : "a span",
		       function[0] != '\0' ? " in " : "", function);
	sp_symbolize_marker(text, &line, &f);
	return name_frame(i, sp_interval_owner(s), SP_NAMED_OWNER, &f);
}

static int name_owners(struct sp_interval *i)
{
	const struct sp_stack_map *waits = i->map[SP_MAP_WAITS];
	struct sp_stack s;
	int err = 0;

	for (uint32_t n = SP_STACK_OTHER + 1;
	     err == 0 && waits != NULL && n < sp_stack_map_stacks(waits); n++) {
		sp_stack_map_stack(waits, n, &s);
		if (s.owner != 0 &&
		    sp_interval_find(i, sp_interval_owner(&s), SP_NAMED_OWNER) == NULL)
			err = name_owner(i, &s);
	}
	return err;
}

static int name_deadlock(struct sp_interval *i, struct sp_symbolizer *symbolizer)
{
	size_t at;
	int err = 0;

	for (unsigned k = 0; err == 0 && k < i->deadlocked; k++)
		if (i->deadlock[k].pc != 0)
			err = name_address(i, symbolizer, i->deadlock[k].pc, i->deadlock[k].epoch,
					   &at);
	return err;
}

/* "thread 12 (worker) in GET /a in bank_charge"; if the server has the symbols, "at shop+0x1a2b". */
static void put_thread(const struct sp_interval *i, const struct sp_interval_thread *thread,
		       struct sp_text_out *t)
{
	const struct sp_named *span = sp_interval_find(i, thread->name_id, SP_NAMED_SPAN);
	const struct sp_named *at =
		thread->pc != 0 ? sp_interval_find(i, thread->pc, thread->epoch) : NULL;

	sp_text_out_put(t, "thread %" PRIu32 " (%.*s) in %.63s", thread->tid,
			(int)sizeof(thread->name), thread->name,
			span != NULL ? sp_interval_text(i, span->place) : "a span");
	if (at != NULL && at->lines != 0)
		sp_text_out_put(t, " in %.127s", function_at(i, at));
	else if (at != NULL)
		sp_text_out_put(t, " at %.63s+0x%" PRIx64,
				sp_text_file_name(sp_interval_text(i, i->place[at->place].file)),
				at->address);
}

void sp_interval_deadlock(const struct sp_interval *i, char *text, size_t cap)
{
	char raw[SP_INTERVAL_TEXT_MAX];
	struct sp_text_out t = {raw, sizeof(raw), 0};

	for (unsigned k = 0; k < i->deadlocked; k++) {
		put_thread(i, &i->deadlock[k], &t);
		sp_text_out_put(&t, "%s waits for %s", k != 0 ? ", which" : "",
				k + 1 < i->deadlocked ? "a lock of " : "one of the first");
	}
	sp_export_log_clean(text, cap, raw, t.len);
}

bool sp_interval_name(struct sp_interval *i, struct sp_symbolizer *symbolizer)
{
	struct sp_place program;
	int err = 0;

	i->has_program = sp_symbolize_main(symbolizer, &program);
	if (i->has_program)
		err = put_place(i, &program, &i->program);
	for (unsigned k = 0; err == 0 && k < SP_MAPS; k++)
		err = name_frames(i, i->map[k], symbolizer);
	if (err == 0)
		err = name_deadlock(i, symbolizer);
	return err == 0 && name_owners(i) == 0;
}
