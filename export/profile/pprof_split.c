/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits a profile that is too large for the server. Works on the packed bytes, because a profile
 * that is parsed into messages takes twenty times its size. This takes the part itself and a few
 * bits for each id. What a part does not refer to is left out, and the rest is numbered anew.
 * Context: the exporter.
 */
#include "export/profile/pprof_split.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "export/profile/pprof_wire.h"

#define VARINT_MAX 10U

/* Which numbers a part refers to and, in the end, the new number of each, plus 1. */
struct used {
	uint32_t *id[SP_WIRE_ROLES]; /* by the roles from SP_WIRE_STRING_INDEX on */
	size_t n[SP_WIRE_ROLES];     /* numbers below that exist */
};

struct part {
	const struct sp_bytes *whole;
	size_t from, to;
	struct used used;
	uint8_t *out;
	size_t len;
};

static struct sp_wire_reader all_of(const struct sp_bytes *b)
{
	return (struct sp_wire_reader){b->data, b->data + b->len, false};
}

static uint64_t first_value(struct sp_wire_reader sample)
{
	struct sp_wire_field f;

	while (sp_wire_next(&sample, SP_WIRE_SAMPLE, &f))
		if (f.number == 2)
			return sp_wire_varint(&f.content);
	return 0;
}

int sp_pprof_count(const struct sp_bytes *whole, struct sp_pprof_count *out)
{
	struct sp_wire_reader r = all_of(whole);
	struct sp_wire_field f;

	*out = (struct sp_pprof_count){0, 0};
	while (sp_wire_next(&r, SP_WIRE_PROFILE, &f)) {
		if (f.role != SP_WIRE_SAMPLE)
			continue;
		out->records++;
		out->samples += first_value(f.content);
	}
	return r.bad ? -EINVAL : 0;
}

/* An entity's own id is its first field. */
static uint64_t own_id(struct sp_wire_reader entity)
{
	struct sp_wire_field f;

	while (sp_wire_next(&entity, SP_WIRE_AS_IS, &f))
		if (f.number == 1)
			return sp_wire_varint(&f.content);
	return 0;
}

/* The kind of number that identifies an entity. */
static enum sp_wire_role id_of(enum sp_wire_role entity)
{
	static const uint8_t ids[SP_WIRE_ROLES] = {[SP_WIRE_MAPPING] = SP_WIRE_MAPPING_ID,
						   [SP_WIRE_LOCATION] = SP_WIRE_LOCATION_ID,
						   [SP_WIRE_FUNCTION] = SP_WIRE_FUNCTION_ID,
						   [SP_WIRE_TEXT] = SP_WIRE_STRING_INDEX};

	return (enum sp_wire_role)ids[entity];
}

/* One more than there are entities, because ids begin with 1 and indexes with 0. */
static int make_room(struct part *p)
{
	struct sp_wire_reader r = all_of(p->whole);
	struct sp_wire_field f;

	while (sp_wire_next(&r, SP_WIRE_PROFILE, &f))
		p->used.n[id_of(f.role)]++;
	if (r.bad)
		return -EINVAL;
	for (unsigned i = SP_WIRE_STRING_INDEX; i < SP_WIRE_ROLES; i++) {
		p->used.n[i]++;
		p->used.id[i] = calloc(p->used.n[i], sizeof(*p->used.id[i]));
		if (p->used.id[i] == NULL)
			return -ENOMEM;
	}
	return 0;
}

static int mark_number(struct part *p, enum sp_wire_role role, uint64_t n)
{
	if (n >= p->used.n[role])
		return -EINVAL;
	p->used.id[role][n] = 1;
	return 0;
}

/* Marks what the message refers to. Messages are nested four deep at most. */
// NOLINTNEXTLINE(misc-no-recursion): by the table, which has no circle
static int mark(struct part *p, enum sp_wire_role message, struct sp_wire_reader r)
{
	struct sp_wire_field f;
	int err = 0;

	while (err == 0 && sp_wire_next(&r, message, &f)) {
		if (f.role != SP_WIRE_AS_IS && f.role < SP_WIRE_MESSAGES)
			err = mark(p, f.role, f.content);
		while (f.role > SP_WIRE_TEXT && err == 0 && f.content.at < f.content.end) {
			uint64_t n = sp_wire_varint(&f.content);

			err = f.content.bad ? -EINVAL : mark_number(p, f.role, n);
		}
	}
	return r.bad ? -EINVAL : err;
}

static bool is_used(const struct part *p, const struct sp_wire_field *f)
{
	enum sp_wire_role role = id_of(f->role);
	uint64_t id = own_id(f->content);

	/* Something without an id cannot be referred to, although 0 has a new number. */
	return id != 0 && id < p->used.n[role] && p->used.id[role][id] != 0;
}

/* One pass over the profile: marks what these two kinds of entities refer to. */
static int mark_all(struct part *p, enum sp_wire_role one, enum sp_wire_role other)
{
	struct sp_wire_reader r = all_of(p->whole);
	size_t record = 0;
	struct sp_wire_field f;
	int err = 0;

	while (err == 0 && sp_wire_next(&r, SP_WIRE_PROFILE, &f)) {
		bool wanted = f.role == one || f.role == other;

		if (f.role == SP_WIRE_SAMPLE) {
			wanted = wanted && record >= p->from && record < p->to;
			record++;
		} else if (id_of(f.role) != SP_WIRE_AS_IS) {
			wanted = wanted && is_used(p, &f);
		}
		if (wanted)
			err = mark(p, SP_WIRE_PROFILE,
				   (struct sp_wire_reader){f.begin, r.at, false});
	}
	return err;
}

/* Tools take the first mapping for the program. */
static void mark_first_mapping(struct part *p)
{
	struct sp_wire_reader r = all_of(p->whole);
	struct sp_wire_field f;

	while (sp_wire_next(&r, SP_WIRE_PROFILE, &f))
		if (f.role == SP_WIRE_MAPPING) {
			(void)mark_number(p, SP_WIRE_MAPPING_ID, own_id(f.content));
			return;
		}
}

/* Number 0 is the empty string; the other kinds have no number 0. */
static void number_anew(uint32_t *id, size_t n)
{
	uint32_t next_id = 0;

	for (size_t i = 0; i < n; i++)
		if (i == 0 || id[i] != 0)
			id[i] = ++next_id;
}

static int mark_part(struct part *p)
{
	int err = mark_all(p, SP_WIRE_VALUE_TYPE, SP_WIRE_STRING_INDEX);

	mark_first_mapping(p);
	if (err == 0)
		err = mark_all(p, SP_WIRE_SAMPLE, SP_WIRE_SAMPLE);
	if (err == 0)
		err = mark_all(p, SP_WIRE_LOCATION, SP_WIRE_LOCATION);
	if (err == 0)
		err = mark_all(p, SP_WIRE_MAPPING, SP_WIRE_FUNCTION);
	for (unsigned i = SP_WIRE_STRING_INDEX; i < SP_WIRE_ROLES; i++)
		number_anew(p->used.id[i], p->used.n[i]);
	return err;
}

static void put_varint(struct part *p, uint64_t v)
{
	for (; v > 127; v >>= 7)
		p->out[p->len++] = (uint8_t)(v | 128);
	p->out[p->len++] = (uint8_t)v;
}

static void put_bytes(struct part *p, const uint8_t *from, const uint8_t *to)
{
	memcpy(p->out + p->len, from, (size_t)(to - from));
	p->len += (size_t)(to - from);
}

/* Writes the new numbers of one number or of several in a row. */
static void put_numbers(struct part *p, enum sp_wire_role role, struct sp_wire_reader old)
{
	while (old.at < old.end)
		put_varint(p, p->used.id[role][sp_wire_varint(&old)] - 1);
}

/*
 * Writes the message with its new numbers. No number becomes larger, so no message grows, and there
 * is room for its length where the old one was.
 */
// NOLINTNEXTLINE(misc-no-recursion): see mark()
static void put_message(struct part *p, enum sp_wire_role message, struct sp_wire_reader r)
{
	struct sp_wire_field f;

	while (sp_wire_next(&r, message, &f)) {
		bool nested = f.role != SP_WIRE_AS_IS && f.role < SP_WIRE_MESSAGES;
		size_t length_at = p->len + (size_t)(f.behind - f.begin);
		size_t body_at, len;

		if (!nested && f.role <= SP_WIRE_TEXT) {
			put_bytes(p, f.begin, r.at);
			continue;
		}
		put_bytes(p, f.begin, f.content.at);
		body_at = p->len;
		if (nested)
			put_message(p, f.role, f.content);
		else
			put_numbers(p, f.role, f.content);
		if (!f.bytes)
			continue;
		len = p->len - body_at;
		p->len = length_at;
		put_varint(p, len);
		memmove(p->out + p->len, p->out + body_at, len);
		p->len += len;
	}
}

static void put_part(struct part *p)
{
	struct sp_wire_reader r = all_of(p->whole);
	size_t record = 0, text = 0;
	struct sp_wire_field f;

	while (sp_wire_next(&r, SP_WIRE_PROFILE, &f)) {
		bool wanted = true;

		if (f.role == SP_WIRE_SAMPLE) {
			wanted = record >= p->from && record < p->to;
			record++;
		} else if (f.role == SP_WIRE_TEXT) {
			wanted = p->used.id[SP_WIRE_STRING_INDEX][text++] != 0;
		} else if (id_of(f.role) != SP_WIRE_AS_IS) {
			wanted = is_used(p, &f);
		}
		if (wanted)
			put_message(p, SP_WIRE_PROFILE,
				    (struct sp_wire_reader){f.begin, r.at, false});
	}
}

int sp_pprof_part(const struct sp_bytes *whole, size_t from, size_t to, struct sp_bytes *out)
{
	struct part p = {.whole = whole, .from = from, .to = to};
	int err = make_room(&p);

	*out = (struct sp_bytes){NULL, 0};
	if (err == 0)
		err = mark_part(&p);
	if (err == 0) {
		p.out = malloc(whole->len + VARINT_MAX);
		err = p.out != NULL ? 0 : -ENOMEM;
	}
	if (err == 0) {
		put_part(&p);
		*out = (struct sp_bytes){p.out, p.len};
	}
	for (unsigned i = 0; i < SP_WIRE_ROLES; i++)
		free(p.used.id[i]);
	return err;
}
