/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Works on the packed bytes, because a profile that is taken apart into messages is twenty times its
 * size, and that in the host: what it costs here is the part itself and a few bits for each id. A
 * table says which numbers of which message stand for what; what a part does not refer to is left
 * out, and what is left is numbered anew. Context: the exporter. Caller: request.c.
 */
#include "export/pprof_split.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define WIRE_VARINT 0U
#define WIRE_64 1U
#define WIRE_BYTES 2U
#define WIRE_32 5U
#define VARINT_MAX 10U
#define FIELDS 16U

/* What a field holds: a message, or a number of a meaning. */
enum role {
	AS_IS,
	PROFILE,
	VALUE_TYPE,
	SAMPLE,
	LABEL,
	MAPPING,
	LOCATION,
	LINE,
	FUNCTION,
	MESSAGES, /* those above are messages */
	TEXT,     /* an entry of the string table */
	STRING_INDEX,
	LOCATION_ID,
	MAPPING_ID,
	FUNCTION_ID,
	ROLES
};

/* profile.proto; fields that are not here hold nothing that could change. */
static const uint8_t roles[MESSAGES][FIELDS] = {
	[PROFILE] = {[1] = VALUE_TYPE,
		     [2] = SAMPLE,
		     [3] = MAPPING,
		     [4] = LOCATION,
		     [5] = FUNCTION,
		     [6] = TEXT,
		     [7] = STRING_INDEX,
		     [8] = STRING_INDEX,
		     [11] = VALUE_TYPE,
		     [13] = STRING_INDEX,
		     [14] = STRING_INDEX},
	[VALUE_TYPE] = {[1] = STRING_INDEX, [2] = STRING_INDEX},
	[SAMPLE] = {[1] = LOCATION_ID, [3] = LABEL},
	[LABEL] = {[1] = STRING_INDEX, [2] = STRING_INDEX, [4] = STRING_INDEX},
	[MAPPING] = {[1] = MAPPING_ID, [5] = STRING_INDEX, [6] = STRING_INDEX},
	[LOCATION] = {[1] = LOCATION_ID, [2] = MAPPING_ID, [4] = LINE},
	[LINE] = {[1] = FUNCTION_ID},
	[FUNCTION] =
		{[1] = FUNCTION_ID, [2] = STRING_INDEX, [3] = STRING_INDEX, [4] = STRING_INDEX},
};

struct reader {
	const uint8_t *at;
	const uint8_t *end;
	bool bad;
};

struct field {
	const uint8_t *begin;  /* the tag */
	const uint8_t *behind; /* the tag: a length, or the content */
	enum role role;
	uint32_t number;
	bool bytes;            /* behind a length */
	struct reader content; /* the bytes, or the number */
};

/* Which numbers a part refers to, and in the end the new number of each, plus 1. */
struct used {
	uint32_t *id[ROLES]; /* by STRING_INDEX, LOCATION_ID, MAPPING_ID and FUNCTION_ID */
	size_t n[ROLES];     /* numbers below that exist */
};

struct part {
	const struct sp_bytes *whole;
	size_t from, to;
	struct used used;
	uint8_t *out;
	size_t len;
};

static uint64_t read_varint(struct reader *r)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
		uint8_t byte = *r->at++;

		v |= (uint64_t)(byte & 127) << shift;
		if ((byte & 128) == 0)
			return v;
	}
	r->bad = true;
	return 0;
}

static void skip(struct reader *r, uint64_t n)
{
	r->bad = r->bad || n > (uint64_t)(r->end - r->at);
	r->at += r->bad ? 0 : n;
}

/* False at the end, and where it makes no sense (then r->bad). */
static bool next(struct reader *r, enum role message, struct field *f)
{
	uint64_t tag, len = 0;

	if (r->bad || r->at == r->end)
		return false;
	*f = (struct field){.begin = r->at};
	tag = read_varint(r);
	f->behind = r->at;
	f->number = tag >> 3 < FIELDS ? (uint32_t)(tag >> 3) : 0;
	f->role = (enum role)roles[message][f->number];
	f->bytes = (tag & 7) == WIRE_BYTES;
	if (f->bytes)
		len = read_varint(r);
	f->content.at = r->at;
	if ((tag & 7) == WIRE_VARINT)
		(void)read_varint(r);
	else if (f->bytes || (tag & 7) == WIRE_64 || (tag & 7) == WIRE_32)
		skip(r, f->bytes ? len : (tag & 7) == WIRE_64 ? 8 : 4);
	else
		r->bad = true;
	f->content.end = r->at;
	/* Only numbers of a meaning may stand alone, and not in a fixed width. */
	if (f->role != AS_IS && !f->bytes && (f->role <= TEXT || (tag & 7) != WIRE_VARINT))
		r->bad = true;
	return !r->bad;
}

static struct reader all_of(const struct sp_bytes *b)
{
	return (struct reader){b->data, b->data + b->len, false};
}

static uint64_t first_value(struct reader sample)
{
	struct field f;

	while (next(&sample, SAMPLE, &f))
		if (f.number == 2)
			return read_varint(&f.content);
	return 0;
}

int sp_pprof_count(const struct sp_bytes *whole, struct sp_pprof_count *out)
{
	struct reader r = all_of(whole);
	struct field f;

	*out = (struct sp_pprof_count){0, 0};
	while (next(&r, PROFILE, &f)) {
		if (f.role != SAMPLE)
			continue;
		out->records++;
		out->samples += first_value(f.content);
	}
	return r.bad ? -EINVAL : 0;
}

/* An entity's own id is its first field. */
static uint64_t own_id(struct reader entity)
{
	struct field f;

	while (next(&entity, AS_IS, &f))
		if (f.number == 1)
			return read_varint(&f.content);
	return 0;
}

/* What numbers the entities of the profile. */
static enum role id_of(enum role entity)
{
	static const uint8_t ids[ROLES] = {[MAPPING] = MAPPING_ID,
					   [LOCATION] = LOCATION_ID,
					   [FUNCTION] = FUNCTION_ID,
					   [TEXT] = STRING_INDEX};

	return (enum role)ids[entity];
}

/* One number more than there are entities: ids begin with 1, and indexes with 0. */
static int make_room(struct part *p)
{
	struct reader r = all_of(p->whole);
	struct field f;

	while (next(&r, PROFILE, &f))
		p->used.n[id_of(f.role)]++;
	if (r.bad)
		return -EINVAL;
	for (unsigned i = STRING_INDEX; i < ROLES; i++) {
		p->used.n[i]++;
		p->used.id[i] = calloc(p->used.n[i], sizeof(*p->used.id[i]));
		if (p->used.id[i] == NULL)
			return -ENOMEM;
	}
	return 0;
}

static int mark_number(struct part *p, enum role role, uint64_t n)
{
	if (n >= p->used.n[role])
		return -EINVAL;
	p->used.id[role][n] = 1;
	return 0;
}

/* What the message refers to. Messages are four deep at most. */
// NOLINTNEXTLINE(misc-no-recursion): by the table, which has no circle
static int mark(struct part *p, enum role message, struct reader r)
{
	struct field f;
	int err = 0;

	while (err == 0 && next(&r, message, &f)) {
		if (f.role != AS_IS && f.role < MESSAGES)
			err = mark(p, f.role, f.content);
		while (f.role > TEXT && err == 0 && f.content.at < f.content.end) {
			uint64_t n = read_varint(&f.content);

			err = f.content.bad ? -EINVAL : mark_number(p, f.role, n);
		}
	}
	return r.bad ? -EINVAL : err;
}

static bool is_used(const struct part *p, const struct field *f)
{
	enum role role = id_of(f->role);
	uint64_t id = own_id(f->content);

	/* What has no id cannot be meant, though 0 has a new number. */
	return id != 0 && id < p->used.n[role] && p->used.id[role][id] != 0;
}

/* One round over the profile: what the fields of these two kinds refer to. */
static int mark_all(struct part *p, enum role one, enum role other)
{
	struct reader r = all_of(p->whole);
	size_t record = 0;
	struct field f;
	int err = 0;

	while (err == 0 && next(&r, PROFILE, &f)) {
		bool wanted = f.role == one || f.role == other;

		if (f.role == SAMPLE) {
			wanted = wanted && record >= p->from && record < p->to;
			record++;
		} else if (id_of(f.role) != AS_IS) {
			wanted = wanted && is_used(p, &f);
		}
		if (wanted)
			err = mark(p, PROFILE, (struct reader){f.begin, r.at, false});
	}
	return err;
}

/* Tools take the first mapping for the program. */
static void mark_first_mapping(struct part *p)
{
	struct reader r = all_of(p->whole);
	struct field f;

	while (next(&r, PROFILE, &f))
		if (f.role == MAPPING) {
			(void)mark_number(p, MAPPING_ID, own_id(f.content));
			return;
		}
}

/* Number 0 is the empty string, and nothing of the others. */
static void number_anew(uint32_t *id, size_t n)
{
	uint32_t next_id = 0;

	for (size_t i = 0; i < n; i++)
		if (i == 0 || id[i] != 0)
			id[i] = ++next_id;
}

static int mark_part(struct part *p)
{
	int err = mark_all(p, VALUE_TYPE, STRING_INDEX);

	mark_first_mapping(p);
	if (err == 0)
		err = mark_all(p, SAMPLE, SAMPLE);
	if (err == 0)
		err = mark_all(p, LOCATION, LOCATION);
	if (err == 0)
		err = mark_all(p, MAPPING, FUNCTION);
	for (unsigned i = STRING_INDEX; i < ROLES; i++)
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

/* The new ones of a number or of several in a row. */
static void put_numbers(struct part *p, enum role role, struct reader old)
{
	while (old.at < old.end)
		put_varint(p, p->used.id[role][read_varint(&old)] - 1);
}

/*
 * Writes the message with its new numbers. None is larger than the old one, so no message grows, and
 * as its length stood before it there is room to write it there.
 */
// NOLINTNEXTLINE(misc-no-recursion): see mark()
static void put_message(struct part *p, enum role message, struct reader r)
{
	struct field f;

	while (next(&r, message, &f)) {
		bool nested = f.role != AS_IS && f.role < MESSAGES;
		size_t length_at = p->len + (size_t)(f.behind - f.begin);
		size_t body_at, len;

		if (!nested && f.role <= TEXT) {
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
	struct reader r = all_of(p->whole);
	size_t record = 0, text = 0;
	struct field f;

	while (next(&r, PROFILE, &f)) {
		bool wanted = true;

		if (f.role == SAMPLE) {
			wanted = record >= p->from && record < p->to;
			record++;
		} else if (f.role == TEXT) {
			wanted = p->used.id[STRING_INDEX][text++] != 0;
		} else if (id_of(f.role) != AS_IS) {
			wanted = is_used(p, &f);
		}
		if (wanted)
			put_message(p, PROFILE, (struct reader){f.begin, r.at, false});
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
	for (unsigned i = 0; i < ROLES; i++)
		free(p.used.id[i]);
	return err;
}
