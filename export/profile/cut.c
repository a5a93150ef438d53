/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts a packed profile. The samples are nearly all of a profile, and as messages of protobuf-c they would take many times
 * the memory of their bytes. So each sample is unpacked alone: first to see what it refers to, then to pack it with the ids
 * that its locations and texts have in the part. All other fields of the profile are unpacked together.
 * Context: the exporter.
 */
#include "export/profile/cut.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "export/profile/packed.h"
#include "export/util/containers.h"
#include "profile.pb-c.h"

#define SAMPLE_FIELD 2U
/* Unpacked samples are freed when they take more than this. */
#define UNPACKED_BYTES ((size_t)128 << 10)

typedef Spanprof__Pprof__Profile pb_profile;
typedef Spanprof__Pprof__Sample pb_sample;

/* What the part has of a table: used[id] is the number in the part, 0 = it does not occur there. */
struct table {
	uint32_t *used;
	size_t n; /* elements of the whole */
};

struct cutter {
	struct sp_packed rest;    /* the whole without its samples */
	struct sp_packed samples; /* each sample of the part behind its head, as in the whole */
	struct sp_packed out;
	struct sp_pool pool;
	pb_profile *profile;
	struct table mapping, location, function, text; /* by id, of texts by index */
};

/* Reads a number; false: the bytes end before it does. */
static bool read_number(const struct sp_bytes *b, size_t *at, uint64_t *n)
{
	*n = 0;
	for (unsigned shift = 0; shift < 64 && *at < b->len; shift += 7) {
		uint8_t byte = b->data[(*at)++];

		*n |= (uint64_t)(byte & 127) << shift;
		if (byte < 128)
			return true;
	}
	return false;
}

/* A field, whose bytes lie from *at on; *at moves behind it. Profiles have numbers and fields with a length alone. */
static bool read_field(const struct sp_bytes *b, size_t *at, uint64_t *number, size_t *body)
{
	uint64_t tag, n;

	if (!read_number(b, at, &tag) || !read_number(b, at, &n))
		return false;
	*number = tag >> 3;
	*body = *at;
	if ((tag & 7) == 0)
		return true;
	if ((tag & 7) != 2 || n > b->len - *at)
		return false;
	*at += n;
	return true;
}

static bool append(struct sp_packed *out, const uint8_t *bytes, size_t n)
{
	if (!sp_packed_reserve(out, n))
		return false;
	if (n != 0)
		memcpy(out->data + out->len, bytes, n);
	out->len += n;
	return true;
}

/* Takes the bytes of the whole apart. */
static int divide(struct cutter *c, const struct sp_bytes *whole, uint32_t first, uint32_t end)
{
	uint32_t sample = 0;
	size_t at = 0;

	while (at < whole->len) {
		const size_t from = at;
		struct sp_packed *to = &c->rest;
		uint64_t number;
		size_t body;

		if (!read_field(whole, &at, &number, &body))
			return -EINVAL;
		if (number == SAMPLE_FIELD) {
			to = sample >= first && sample < end ? &c->samples : NULL;
			sample++;
		}
		if (to != NULL && !append(to, whole->data + from, at - from))
			return -ENOMEM;
	}
	return first < end && end <= sample ? 0 : -EINVAL;
}

static bool make_table(struct table *t, size_t n)
{
	t->n = n;
	t->used = calloc(n + 1, sizeof(*t->used));
	return t->used != NULL;
}

/* False: there is no such element. */
static bool use(struct table *t, uint64_t id)
{
	if (id == 0 || id > t->n)
		return false;
	t->used[id] = 1;
	return true;
}

static bool use_text(struct cutter *c, int64_t at)
{
	if (at < 0 || (uint64_t)at >= c->text.n)
		return false;
	c->text.used[at] = 1;
	return true;
}

/* Numbers what is used, in the order of the whole, from `from` on. */
static void number(struct table *t, uint32_t from)
{
	for (size_t i = 0; i <= t->n; i++)
		if (t->used[i] != 0)
			t->used[i] = from++;
}

static int64_t text_of(const struct cutter *c, int64_t at)
{
	return c->text.used[at];
}

/* Calls `each` for each sample of the part. */
static int for_each_sample(struct cutter *c, int (*each)(struct cutter *c, pb_sample *sample))
{
	const struct sp_bytes all = {c->samples.data, c->samples.len};
	struct sp_pool pool = {NULL, 0};
	ProtobufCAllocator memory = sp_pool_allocator(&pool);
	size_t at = 0;
	int err = 0;

	while (err == 0 && at < all.len) {
		pb_sample *sample = NULL;
		uint64_t field;
		size_t body;

		if (read_field(&all, &at, &field, &body))
			sample = spanprof__pprof__sample__unpack(&memory, at - body,
								 all.data + body);
		err = sample != NULL ? each(c, sample) : -EINVAL;
		if (pool.bytes > UNPACKED_BYTES)
			sp_pool_fini(&pool);
	}
	sp_pool_fini(&pool);
	return err;
}

static int use_sample(struct cutter *c, pb_sample *sample)
{
	bool is_good = true;

	for (size_t i = 0; i < sample->n_location_id; i++)
		is_good = is_good && use(&c->location, sample->location_id[i]);
	for (size_t i = 0; i < sample->n_label; i++)
		is_good = is_good && use_text(c, sample->label[i]->key) &&
			  use_text(c, sample->label[i]->str);
	return is_good ? 0 : -EINVAL;
}

static int pack_sample(struct cutter *c, pb_sample *sample)
{
	size_t n;

	for (size_t i = 0; i < sample->n_location_id; i++)
		sample->location_id[i] = c->location.used[sample->location_id[i]];
	for (size_t i = 0; i < sample->n_label; i++) {
		sample->label[i]->key = text_of(c, sample->label[i]->key);
		sample->label[i]->str = text_of(c, sample->label[i]->str);
	}
	n = spanprof__pprof__sample__get_packed_size(sample);
	if (!sp_packed_reserve(&c->out, sp_packed_framed(n)))
		return -ENOMEM;
	sp_packed_head(&c->out, SAMPLE_FIELD, n);
	c->out.len += spanprof__pprof__sample__pack(sample, c->out.data + c->out.len);
	return 0;
}

/* The texts of the types and the comments. */
static bool use_head_texts(struct cutter *c)
{
	const pb_profile *p = c->profile;
	bool is_good = p->period_type == NULL ||
		       (use_text(c, p->period_type->type) && use_text(c, p->period_type->unit));

	for (size_t i = 0; is_good && i < p->n_sample_type; i++)
		is_good = use_text(c, p->sample_type[i]->type) &&
			  use_text(c, p->sample_type[i]->unit);
	for (size_t i = 0; is_good && i < p->n_comment; i++)
		is_good = use_text(c, p->comment[i]);
	return is_good;
}

/* What the samples refer to refers to more. Ids are the numbers of elements: so pprof.c gives them. */
static bool use_tables(struct cutter *c)
{
	pb_profile *p = c->profile;
	bool is_good = use_text(c, 0);

	/* Readers take the first mapping for the program. */
	if (p->n_mapping != 0)
		c->mapping.used[1] = 1;
	for (size_t i = 0; is_good && i < p->n_location; i++) {
		const Spanprof__Pprof__Location *l = p->location[i];

		if (l->id != i + 1)
			return false;
		if (c->location.used[l->id] == 0)
			continue;
		is_good = use(&c->mapping, l->mapping_id);
		for (size_t k = 0; k < l->n_line; k++)
			is_good = is_good && use(&c->function, l->line[k]->function_id);
	}
	for (size_t i = 0; is_good && i < p->n_mapping; i++)
		is_good = p->mapping[i]->id == i + 1 &&
			  (c->mapping.used[i + 1] == 0 || (use_text(c, p->mapping[i]->filename) &&
							   use_text(c, p->mapping[i]->build_id)));
	for (size_t i = 0; is_good && i < p->n_function; i++) {
		const Spanprof__Pprof__Function *f = p->function[i];

		is_good = f->id == i + 1 && (c->function.used[i + 1] == 0 ||
					     (use_text(c, f->name) && use_text(c, f->system_name) &&
					      use_text(c, f->filename)));
	}
	return is_good && use_head_texts(c);
}

/* Moves what is used to the front of its list, under its new number. */
static void number_tables(struct cutter *c)
{
	pb_profile *p = c->profile;
	size_t n = 0;

	number(&c->mapping, 1);
	number(&c->location, 1);
	number(&c->function, 1);
	number(&c->text, 0);
	for (size_t i = 0; i < p->n_mapping; i++) {
		Spanprof__Pprof__Mapping *m = p->mapping[i];

		if (c->mapping.used[m->id] == 0)
			continue;
		m->id = c->mapping.used[m->id];
		m->filename = text_of(c, m->filename);
		m->build_id = text_of(c, m->build_id);
		p->mapping[n++] = m;
	}
	p->n_mapping = n;
	n = 0;
	for (size_t i = 0; i < p->n_location; i++) {
		Spanprof__Pprof__Location *l = p->location[i];

		if (c->location.used[l->id] == 0)
			continue;
		l->id = c->location.used[l->id];
		l->mapping_id = c->mapping.used[l->mapping_id];
		for (size_t k = 0; k < l->n_line; k++)
			l->line[k]->function_id = c->function.used[l->line[k]->function_id];
		p->location[n++] = l;
	}
	p->n_location = n;
	n = 0;
	for (size_t i = 0; i < p->n_function; i++) {
		Spanprof__Pprof__Function *f = p->function[i];

		if (c->function.used[f->id] == 0)
			continue;
		f->id = c->function.used[f->id];
		f->name = text_of(c, f->name);
		f->system_name = text_of(c, f->system_name);
		f->filename = text_of(c, f->filename);
		p->function[n++] = f;
	}
	p->n_function = n;
}

/* The first text is the empty one and stays the first, which is why its number 0 does not mean that it is not used. */
static void number_texts(struct cutter *c)
{
	pb_profile *p = c->profile;
	size_t n = 1;

	for (size_t i = 1; i < p->n_string_table; i++)
		if (c->text.used[i] != 0)
			p->string_table[n++] = p->string_table[i];
	p->n_string_table = n;
	for (size_t i = 0; i < p->n_sample_type; i++) {
		p->sample_type[i]->type = text_of(c, p->sample_type[i]->type);
		p->sample_type[i]->unit = text_of(c, p->sample_type[i]->unit);
	}
	for (size_t i = 0; i < p->n_comment; i++)
		p->comment[i] = text_of(c, p->comment[i]);
	if (p->period_type != NULL) {
		p->period_type->type = text_of(c, p->period_type->type);
		p->period_type->unit = text_of(c, p->period_type->unit);
	}
}

static int cut(struct cutter *c)
{
	ProtobufCAllocator memory = sp_pool_allocator(&c->pool);
	pb_profile *p = spanprof__pprof__profile__unpack(&memory, c->rest.len, c->rest.data);
	int err;

	c->profile = p;
	if (p == NULL || p->n_string_table == 0)
		return -EINVAL;
	if (!make_table(&c->mapping, p->n_mapping) || !make_table(&c->location, p->n_location) ||
	    !make_table(&c->function, p->n_function) || !make_table(&c->text, p->n_string_table))
		return -ENOMEM;
	err = for_each_sample(c, use_sample);
	if (err != 0)
		return err;
	if (!use_tables(c))
		return -EINVAL;
	number_tables(c);
	number_texts(c);
	err = for_each_sample(c, pack_sample);
	if (err != 0)
		return err;
	if (!sp_packed_reserve(&c->out, spanprof__pprof__profile__get_packed_size(p)))
		return -ENOMEM;
	c->out.len += spanprof__pprof__profile__pack(p, c->out.data + c->out.len);
	return 0;
}

int sp_cut(const struct sp_bytes *whole, uint32_t first, uint32_t end, struct sp_bytes *out)
{
	struct cutter c = {.profile = NULL};
	int err = divide(&c, whole, first, end);

	*out = (struct sp_bytes){NULL, 0};
	if (err == 0)
		err = cut(&c);
	if (err == 0)
		*out = (struct sp_bytes){c.out.data, c.out.len};
	else
		free(c.out.data);
	free(c.rest.data);
	free(c.samples.data);
	free(c.mapping.used);
	free(c.location.used);
	free(c.function.used);
	free(c.text.used);
	sp_pool_fini(&c.pool);
	return err;
}
