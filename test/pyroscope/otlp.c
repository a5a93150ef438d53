/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes OTLP by hand and checks it; see otlp.h. */
#include "test/pyroscope/otlp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "test/pyroscope/codec.h"
#include "test/pyroscope/wire.h"

/* Decodes the items of a repeated message one by one. NULL if the message is broken. */
static void *decode_each(struct pd_arena *a, struct pd_bytes in, uint32_t number, size_t size,
			 int (*decode)(struct pd_arena *a, struct pd_bytes in, void *item),
			 size_t *count)
{
	int64_t n = pd_wire_count(in, number);
	char *items = n >= 0 ? pd_arena_calloc(a, (size_t)n, size) : NULL;
	struct pd_field f;

	*count = 0;
	while (items != NULL && pd_wire_next(&in, &f) > 0) {
		if (f.number != number)
			continue;
		if (f.type != PD_WIRE_BYTES || decode(a, f.bytes, items + *count * size) != 0)
			return NULL;
		++*count;
	}
	return items;
}

static int decode_line(struct pd_arena *a, struct pd_bytes in, void *item)
{
	struct pd_otlp_line *l = item;
	uint64_t v[4] = {0};

	(void)a;
	if (pd_wire_message(in, v, 3, 0) != 0)
		return -EBADMSG;
	*l = (struct pd_otlp_line){v[1], (int64_t)v[2], (int64_t)v[3]};
	return 0;
}

static int decode_mapping(struct pd_arena *a, struct pd_bytes in, void *item)
{
	struct pd_otlp_element *m = item;

	m->raw = in;
	return pd_wire_message(in, m->v, 4, 0) == 0 &&
			       pd_wire_numbers(a, in, 5, &m->index, &m->indexes) == 0
		       ? 0
		       : -EBADMSG;
}

static int decode_location(struct pd_arena *a, struct pd_bytes in, void *item)
{
	struct pd_otlp_element *l = item;

	l->raw = in;
	if (pd_wire_message(in, l->v, 2, 0) != 0 ||
	    pd_wire_numbers(a, in, 4, &l->index, &l->indexes) != 0)
		return -EBADMSG;
	l->line = decode_each(a, in, 3, sizeof(*l->line), decode_line, &l->lines);
	return l->line != NULL ? 0 : -EBADMSG;
}

static int decode_function(struct pd_arena *a, struct pd_bytes in, void *item)
{
	struct pd_otlp_element *fn = item;

	(void)a;
	fn->raw = in;
	return pd_wire_message(in, fn->v, 4, 0);
}

static int decode_link(struct pd_arena *a, struct pd_bytes in, void *item)
{
	struct pd_otlp_element *l = item;
	struct pd_field f;
	int rc;

	(void)a;
	l->raw = in;
	while ((rc = pd_wire_next(&in, &f)) > 0) {
		if (f.number > 2)
			continue;
		if (f.type != PD_WIRE_BYTES)
			return -EBADMSG;
		l->id[f.number - 1] = f.bytes;
	}
	return rc;
}

static int decode_string(struct pd_arena *a, struct pd_bytes in, void *item)
{
	struct pd_otlp_element *s = item;

	(void)a;
	s->raw = in;
	return 0;
}

/* Decodes an AnyValue, and whether it is a text that is not a reference. */
static int decode_value(struct pd_bytes in, struct pd_bytes *text, bool *is_text)
{
	struct pd_field f;
	int rc;

	while ((rc = pd_wire_next(&in, &f)) > 0) {
		*is_text = f.number == 1 && f.type == PD_WIRE_BYTES;
		if (*is_text)
			*text = f.bytes;
	}
	return rc;
}

static int decode_attribute(struct pd_arena *a, struct pd_bytes in, void *item)
{
	struct pd_otlp_element *at = item;
	struct pd_field f;
	int rc;

	(void)a;
	at->raw = in;
	if (pd_wire_message(in, at->v, 3, 1U << 2) != 0)
		return -EBADMSG;
	while ((rc = pd_wire_next(&in, &f)) > 0) {
		if (f.number != 2)
			continue;
		at->has_value = true;
		if (f.type != PD_WIRE_BYTES || decode_value(f.bytes, &at->text, &at->is_text) != 0)
			return -EBADMSG;
	}
	return rc;
}

static int decode_stack(struct pd_arena *a, struct pd_bytes in, void *item)
{
	struct pd_otlp_element *s = item;

	s->raw = in;
	return pd_wire_numbers(a, in, 1, &s->index, &s->indexes);
}

static int decode_dictionary(struct pd_arena *a, struct pd_bytes in, struct pd_otlp *o)
{
	static int (*const decode[PD_TABLES])(struct pd_arena * a, struct pd_bytes in,
					      void *item) = {
		decode_mapping, decode_location,  decode_function, decode_link,
		decode_string,  decode_attribute, decode_stack,
	};

	for (uint32_t i = 0; i < PD_TABLES; i++) {
		o->table[i] = decode_each(a, in, i + 1, sizeof(*o->table[i]), decode[i], &o->n[i]);
		if (o->table[i] == NULL)
			return -EBADMSG;
	}
	o->has_dictionary = true;
	return 0;
}

static int decode_sample(struct pd_arena *a, struct pd_bytes in, void *item)
{
	struct pd_otlp_sample *s = item;
	uint64_t v[4] = {0};
	uint64_t *value = NULL;
	struct pd_bytes rest = in;
	struct pd_field f;

	s->raw = in;
	if (pd_wire_message(in, v, 3, 1U << 2) != 0 ||
	    pd_wire_numbers(a, in, 2, &s->attribute, &s->attributes) != 0 ||
	    pd_wire_numbers(a, in, 4, &value, &s->values) != 0)
		return -EBADMSG;
	s->stack = v[1];
	s->link = v[3];
	s->value = (int64_t *)value;
	while (pd_wire_next(&rest, &f) > 0)
		if (f.number == 5)
			s->times += f.type == PD_WIRE_BYTES ? f.bytes.len / 8 : 1;
	return 0;
}

static int decode_profile(struct pd_arena *a, struct pd_bytes in, void *item)
{
	struct pd_otlp_profile *p = item;
	struct pd_bytes rest = in;
	struct pd_field f;
	int rc;

	p->sample = decode_each(a, in, 2, sizeof(*p->sample), decode_sample, &p->samples);
	if (p->sample == NULL || pd_wire_numbers(a, in, 11, &p->attribute, &p->attributes) != 0)
		return -EBADMSG;
	while ((rc = pd_wire_next(&rest, &f)) > 0) {
		bool is_type = f.number == 1 || f.number == 5;

		if (is_type &&
		    (f.type != PD_WIRE_BYTES ||
		     pd_wire_message(f.bytes, f.number == 1 ? p->type : p->period_type, 2, 0) != 0))
			return -EBADMSG;
		p->has_type = p->has_type || f.number == 1;
		p->has_period_type = p->has_period_type || f.number == 5;
		if (f.number == 3)
			p->time_ns = f.type == PD_WIRE_FIXED64 ? f.value : 0;
		if (f.number == 4)
			p->duration_ns = f.value;
		if (f.number == 6)
			p->period = (int64_t)f.value;
	}
	return rc;
}

static int decode_pair(struct pd_arena *a, struct pd_bytes in, void *item)
{
	struct pd_otlp_pair *p = item;
	bool is_plain = true;
	struct pd_field f;
	int rc;

	(void)a;
	while ((rc = pd_wire_next(&in, &f)) > 0) {
		if (f.number == 1 && f.type == PD_WIRE_BYTES)
			p->key = f.bytes;
		else if (f.number != 2 || f.type != PD_WIRE_BYTES ||
			 decode_value(f.bytes, &p->value, &p->is_plain) != 0)
			is_plain = false;
	}
	p->is_plain = p->is_plain && is_plain;
	return rc;
}

/* Decodes ResourceProfiles, and adds its profiles to the others. */
static int decode_resource(struct pd_arena *a, struct pd_bytes in, struct pd_otlp *o)
{
	struct pd_otlp_resource *r = &o->resource[o->resources];
	struct pd_field f;
	int rc;

	while ((rc = pd_wire_next(&in, &f)) > 0) {
		struct pd_otlp_profile *more;
		size_t n;

		if (f.type != PD_WIRE_BYTES)
			return -EBADMSG;
		if (f.number == 1)
			r->pair = decode_each(a, f.bytes, 1, sizeof(*r->pair), decode_pair,
					      &r->pairs);
		if (f.number == 1 && r->pair == NULL)
			return -EBADMSG;
		if (f.number != 2)
			continue;
		r->scopes++;
		more = decode_each(a, f.bytes, 2, sizeof(*more), decode_profile, &n);
		if (more == NULL)
			return -EBADMSG;
		for (size_t i = 0; i < n && o->profile != NULL; i++) {
			more[i].resource = o->resources;
			o->profile[o->profiles + i] = more[i];
		}
		o->profiles += n;
	}
	o->resources++;
	return rc;
}

int pd_otlp_decode(struct pd_arena *a, struct pd_bytes in, struct pd_otlp *o)
{
	int64_t n = pd_wire_count(in, 1);

	*o = (struct pd_otlp){0};
	if (n < 0)
		return -EBADMSG;
	/* The first pass counts the profiles, the second one stores them. */
	for (unsigned pass = 0; pass < 2; pass++) {
		struct pd_bytes rest = in;
		struct pd_field f;

		o->profile =
			pass != 0 ? pd_arena_calloc(a, o->profiles, sizeof(*o->profile)) : NULL;
		o->resource = pd_arena_calloc(a, (size_t)n, sizeof(*o->resource));
		o->resources = o->profiles = 0;
		while (pd_wire_next(&rest, &f) > 0) {
			if (f.number > 2)
				continue;
			if (f.type != PD_WIRE_BYTES ||
			    (f.number == 1 ? decode_resource(a, f.bytes, o)
					   : decode_dictionary(a, f.bytes, o)) != 0)
				return -EBADMSG;
		}
	}
	return 0;
}

static const char *const table_name[PD_TABLES] = {
	"mapping_table", "location_table",  "function_table", "link_table",
	"string_table",  "attribute_table", "stack_table",
};

static int broken(struct pd_error *e, const char *where, const char *what)
{
	return pd_error_set(e, PD_INVALID_ARGUMENT, "otlp", "otlp: %s: %s", where, what);
}

/*
 * References between tables: each index must be in its table, and marks the element as referred to.
 */
struct judge {
	const struct pd_otlp *o;
	struct pd_arena arena;
	bool *referred[PD_TABLES];
	bool is_lenient;
	struct pd_error *e;
};

static int refer(struct judge *j, const char *where, enum pd_otlp_table table, uint64_t index)
{
	if (index >= j->o->n[table])
		return broken(j->e, where, "an index is out of range");
	j->referred[table][index] = true;
	return 0;
}

static int refer_attributes(struct judge *j, const char *where, const uint64_t *index, size_t n)
{
	const struct pd_otlp_element *attribute = j->o->table[PD_ATTRIBUTES];

	for (size_t i = 0; i < n; i++) {
		if (refer(j, where, PD_ATTRIBUTES, index[i]) != 0)
			return -1;
		for (size_t k = 0; k < i; k++)
			if (attribute[index[k]].v[1] == attribute[index[i]].v[1])
				return broken(j->e, where, "two attributes have the same key");
	}
	return 0;
}

/*
 * Whether the first link stands for none: its ids may be empty, and should be zeroes of full length
 * (profiles.proto, since 2026-05).
 */
static bool is_zero_link(const struct judge *j, const struct pd_otlp_element *l)
{
	static const uint8_t zero[16];

	if (l->raw.len == 0)
		return j->is_lenient;
	return l->id[0].len == 16 && l->id[1].len == 8 && memcmp(l->id[0].at, zero, 16) == 0 &&
	       memcmp(l->id[1].at, zero, 8) == 0;
}

static int judge_zero(struct judge *j)
{
	for (unsigned t = 0; t < PD_TABLES; t++) {
		if (j->o->n[t] == 0)
			return broken(j->e, table_name[t], "it is empty");
		if (t == PD_LINKS ? !is_zero_link(j, &j->o->table[t][0])
				  : j->o->table[t][0].raw.len != 0)
			return broken(j->e, table_name[t], "the first element is no zero value");
	}
	return 0;
}

static int compare_raw(const void *a, const void *b)
{
	return pd_bytes_compare(((const struct pd_otlp_element *)a)->raw,
				((const struct pd_otlp_element *)b)->raw);
}

static int judge_duplicates(struct judge *j)
{
	for (unsigned t = 0; t < PD_TABLES; t++) {
		struct pd_otlp_element *sorted =
			pd_arena_calloc(&j->arena, j->o->n[t], sizeof(*sorted));

		memcpy(sorted, j->o->table[t], j->o->n[t] * sizeof(*sorted));
		qsort(sorted, j->o->n[t], sizeof(*sorted), compare_raw);
		for (size_t i = 1; i < j->o->n[t]; i++)
			if (compare_raw(&sorted[i - 1], &sorted[i]) == 0)
				return broken(j->e, table_name[t], "an element is there twice");
	}
	return 0;
}

static int judge_mappings(struct judge *j)
{
	for (size_t i = 1; i < j->o->n[PD_MAPPINGS]; i++) {
		const struct pd_otlp_element *m = &j->o->table[PD_MAPPINGS][i];

		if (!(m->v[1] == 0 && m->v[2] == 0) && m->v[1] >= m->v[2])
			return broken(j->e, "mapping_table", "it ends before it begins");
		if (refer(j, "mapping_table", PD_STRINGS, m->v[4]) != 0 ||
		    refer_attributes(j, "mapping_table", m->index, m->indexes) != 0)
			return -1;
	}
	return 0;
}

static int judge_locations(struct judge *j)
{
	for (size_t i = 1; i < j->o->n[PD_LOCATIONS]; i++) {
		const struct pd_otlp_element *l = &j->o->table[PD_LOCATIONS][i];

		if (refer(j, "location_table", PD_MAPPINGS, l->v[1]) != 0 ||
		    refer_attributes(j, "location_table", l->index, l->indexes) != 0)
			return -1;
		for (size_t k = 0; k < l->lines; k++) {
			if (refer(j, "location_table", PD_FUNCTIONS, l->line[k].function) != 0)
				return -1;
			if (l->line[k].line < 0 || l->line[k].column < 0)
				return broken(j->e, "location_table", "a line is below 0");
		}
	}
	return 0;
}

static int judge_functions(struct judge *j)
{
	for (size_t i = 1; i < j->o->n[PD_FUNCTIONS]; i++) {
		const struct pd_otlp_element *fn = &j->o->table[PD_FUNCTIONS][i];

		for (unsigned k = 1; k <= 3; k++)
			if (refer(j, "function_table", PD_STRINGS, fn->v[k]) != 0)
				return -1;
		if ((int64_t)fn->v[4] < 0)
			return broken(j->e, "function_table", "a line is below 0");
	}
	return 0;
}

static int judge_links(struct judge *j)
{
	static const uint8_t zero[16];

	for (size_t i = 1; i < j->o->n[PD_LINKS]; i++) {
		const struct pd_otlp_element *l = &j->o->table[PD_LINKS][i];

		if (l->id[0].len != 16 || l->id[1].len != 8)
			return broken(j->e, "link_table", "an id has a wrong length");
		if (memcmp(l->id[0].at, zero, 16) == 0 || memcmp(l->id[1].at, zero, 8) == 0)
			return broken(j->e, "link_table", "an id is zero");
	}
	return 0;
}

static int judge_texts(struct judge *j)
{
	for (size_t i = 0; i < j->o->n[PD_STRINGS]; i++)
		if (!pd_utf8_valid(j->o->table[PD_STRINGS][i].raw))
			return broken(j->e, "string_table", "it is not UTF-8");
	for (size_t i = 1; i < j->o->n[PD_ATTRIBUTES]; i++) {
		const struct pd_otlp_element *a = &j->o->table[PD_ATTRIBUTES][i];

		if (refer(j, "attribute_table", PD_STRINGS, a->v[1]) != 0 ||
		    refer(j, "attribute_table", PD_STRINGS, a->v[3]) != 0)
			return -1;
		if (a->v[1] == 0 || !a->has_value)
			return broken(j->e, "attribute_table", "it has no key or no value");
		if (!pd_utf8_valid(a->text))
			return broken(j->e, "attribute_table", "it is not UTF-8");
	}
	for (size_t i = 1; i < j->o->n[PD_STACKS]; i++)
		for (size_t k = 0; k < j->o->table[PD_STACKS][i].indexes; k++)
			if (refer(j, "stack_table", PD_LOCATIONS,
				  j->o->table[PD_STACKS][i].index[k]) != 0)
				return -1;
	return 0;
}

/* Compares samples without their values, which are the only field behind the others. */
static int compare_samples(const void *a, const void *b)
{
	const struct pd_otlp_sample *x = a;
	const struct pd_otlp_sample *y = b;
	size_t least = x->attributes < y->attributes ? x->attributes : y->attributes;

	if (x->stack != y->stack)
		return x->stack < y->stack ? -1 : 1;
	if (x->link != y->link)
		return x->link < y->link ? -1 : 1;
	for (size_t i = 0; i < least; i++)
		if (x->attribute[i] != y->attribute[i])
			return x->attribute[i] < y->attribute[i] ? -1 : 1;
	return (x->attributes > y->attributes) - (x->attributes < y->attributes);
}

static int judge_samples(struct judge *j, const struct pd_otlp_profile *p)
{
	struct pd_otlp_sample *sorted = pd_arena_calloc(&j->arena, p->samples, sizeof(*sorted));

	for (size_t i = 0; i < p->samples; i++) {
		const struct pd_otlp_sample *s = &p->sample[i];

		if (refer(j, "sample", PD_STACKS, s->stack) != 0 ||
		    refer(j, "sample", PD_LINKS, s->link) != 0 ||
		    refer_attributes(j, "sample", s->attribute, s->attributes) != 0)
			return -1;
		/* Samples have no times, because the exporter sums equal ones. */
		if (s->times != 0)
			return broken(j->e, "sample", "it has a time of its own");
		if (s->values != 1)
			return broken(j->e, "sample", "it has not exactly one value");
		sorted[i] = *s;
	}
	qsort(sorted, p->samples, sizeof(*sorted), compare_samples);
	for (size_t i = 1; i < p->samples; i++)
		if (compare_samples(&sorted[i - 1], &sorted[i]) == 0)
			return broken(j->e, "sample", "two have the same stack and labels");
	return 0;
}

static int judge_profiles(struct judge *j)
{
	for (size_t i = 0; i < j->o->profiles; i++) {
		const struct pd_otlp_profile *p = &j->o->profile[i];

		if (!p->has_type || p->type[1] == 0 || p->type[2] == 0)
			return broken(j->e, "profile", "it has no sample type");
		if (!p->has_period_type || (p->period_type[1] != 0) != (p->period != 0))
			return broken(j->e, "profile", "period and its type do not go together");
		for (unsigned k = 1; k <= 2; k++)
			if (refer(j, "profile", PD_STRINGS, p->type[k]) != 0 ||
			    refer(j, "profile", PD_STRINGS, p->period_type[k]) != 0)
				return -1;
		if (p->time_ns == 0 || p->duration_ns == 0)
			return broken(j->e, "profile", "it has no time");
		if (refer_attributes(j, "profile", p->attribute, p->attributes) != 0 ||
		    judge_samples(j, p) != 0)
			return -1;
	}
	return 0;
}

/* Today's receivers know attributes of resources neither by index nor with other types. */
static int judge_resources(struct judge *j)
{
	if (j->o->resources == 0)
		return broken(j->e, "resource_profiles", "there are none");
	for (size_t i = 0; i < j->o->resources; i++) {
		const struct pd_otlp_resource *r = &j->o->resource[i];
		bool has_service = false;

		if (r->scopes == 0)
			return broken(j->e, "scope_profiles", "there are none");
		for (size_t k = 0; k < r->pairs; k++) {
			if (!r->pair[k].is_plain || r->pair[k].key.len == 0 ||
			    !pd_utf8_valid(r->pair[k].key) || !pd_utf8_valid(r->pair[k].value))
				return broken(j->e, "resource", "an attribute is no plain text");
			for (size_t m = 0; m < k; m++)
				if (pd_bytes_equal(r->pair[m].key, r->pair[k].key))
					return broken(j->e, "resource",
						      "two attributes have the same key");
			has_service = has_service || (pd_bytes_is(r->pair[k].key, "service.name") &&
						      r->pair[k].value.len != 0);
		}
		if (!has_service)
			return broken(j->e, "resource", "it has no service.name");
	}
	if (j->o->profiles == 0)
		return broken(j->e, "profiles", "there are none");
	return 0;
}

static int judge_orphans(struct judge *j)
{
	for (unsigned t = 0; t < PD_TABLES; t++)
		for (size_t i = 1; i < j->o->n[t]; i++)
			if (!j->referred[t][i])
				return broken(j->e, table_name[t], "nothing refers to an element");
	return 0;
}

int pd_otlp_judge(const struct pd_otlp *o, bool lenient, struct pd_error *e)
{
	/* Collectors write resources in other ways, and elements to which nothing refers. */
	static int (*const rule[])(struct judge * j) = {
		judge_zero,  judge_profiles, judge_mappings,  judge_locations,  judge_functions,
		judge_links, judge_texts,    judge_resources, judge_duplicates, judge_orphans,
	};
	const size_t rules = lenient ? 7 : sizeof(rule) / sizeof(rule[0]);
	struct judge j = {.o = o, .is_lenient = lenient, .e = e};
	int rc = o->has_dictionary ? 0 : broken(e, "dictionary", "there is none");

	for (unsigned t = 0; t < PD_TABLES; t++)
		j.referred[t] = pd_arena_calloc(&j.arena, o->n[t] + 1, sizeof(bool));
	for (size_t i = 0; rc == 0 && i < rules; i++)
		rc = rule[i](&j);
	pd_arena_fini(&j.arena);
	return rc;
}
