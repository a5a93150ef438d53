/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes profile.proto (perftools.profiles) by hand; see profile.h. */
#include "test/pyroscope/profile.h"

#include <errno.h>
#include <stdlib.h>

#include "test/pyroscope/wire.h"

/* Field numbers of message Profile. */
enum {
	F_SAMPLE_TYPE = 1,
	F_SAMPLE,
	F_MAPPING,
	F_LOCATION,
	F_FUNCTION,
	F_STRING_TABLE,
	F_DROP_FRAMES,
	F_KEEP_FRAMES,
	F_TIME_NANOS,
	F_DURATION_NANOS,
	F_PERIOD_TYPE,
	F_PERIOD,
	F_COMMENT,
	F_DEFAULT_SAMPLE_TYPE,
};

/* A field of repeated messages, and how to decode an item. */
struct list {
	uint32_t field;
	size_t size;
	int (*decode)(struct pd_arena *a, struct pd_bytes in, void *item);
};

/* Decodes the items. NULL if the message is broken; no items give a valid empty block. */
static void *decode_list(struct pd_arena *a, struct pd_bytes in, const struct list *l,
			 size_t *count)
{
	int64_t n = pd_wire_count(in, l->field);
	struct pd_field f;
	char *items = NULL;

	if (n < 0)
		return NULL;
	*count = 0;
	items = pd_arena_calloc(a, (size_t)n, l->size);
	while (pd_wire_next(&in, &f) > 0) {
		if (f.number != l->field)
			continue;
		if (f.type != PD_WIRE_BYTES || l->decode(a, f.bytes, items + *count * l->size) != 0)
			return NULL;
		++*count;
	}
	return items;
}

static int decode_value_type(struct pd_arena *a, struct pd_bytes in, void *item)
{
	struct pd_value_type *t = item;
	uint64_t v[3] = {0};

	(void)a;
	if (pd_wire_message(in, v, 2, 0) != 0)
		return -EBADMSG;
	*t = (struct pd_value_type){(int64_t)v[1], (int64_t)v[2]};
	return 0;
}

static int decode_label(struct pd_arena *a, struct pd_bytes in, void *item)
{
	struct pd_label *l = item;
	uint64_t v[5] = {0};

	(void)a;
	if (pd_wire_message(in, v, 4, 0) != 0)
		return -EBADMSG;
	*l = (struct pd_label){(int64_t)v[1], (int64_t)v[2], (int64_t)v[3], (int64_t)v[4]};
	return 0;
}

static int decode_sample(struct pd_arena *a, struct pd_bytes in, void *item)
{
	static const struct list labels = {3, sizeof(struct pd_label), decode_label};
	struct pd_sample *s = item;
	uint64_t *location = NULL;
	uint64_t *value = NULL;

	if (pd_wire_numbers(a, in, 1, &location, &s->locations) != 0 ||
	    pd_wire_numbers(a, in, 2, &value, &s->values) != 0)
		return -EBADMSG;
	s->location_id = location;
	s->value = (const int64_t *)value;
	s->label = decode_list(a, in, &labels, &s->labels);
	return s->label != NULL ? 0 : -EBADMSG;
}

static int decode_mapping(struct pd_arena *a, struct pd_bytes in, void *item)
{
	struct pd_mapping *m = item;
	uint64_t v[11] = {0};

	(void)a;
	if (pd_wire_message(in, v, 10, 0) != 0)
		return -EBADMSG;
	m->id = v[1];
	m->filename = (int64_t)v[5];
	m->build_id = (int64_t)v[6];
	m->has_functions = v[7] != 0;
	return 0;
}

static int decode_line(struct pd_arena *a, struct pd_bytes in, void *item)
{
	struct pd_line *l = item;
	uint64_t v[4] = {0};

	(void)a;
	if (pd_wire_message(in, v, 3, 0) != 0)
		return -EBADMSG;
	*l = (struct pd_line){v[1], (int64_t)v[2]};
	return 0;
}

static int decode_location(struct pd_arena *a, struct pd_bytes in, void *item)
{
	static const struct list lines = {4, sizeof(struct pd_line), decode_line};
	struct pd_location *l = item;
	uint64_t v[6] = {0};

	if (pd_wire_message(in, v, 5, UINT64_C(1) << lines.field) != 0)
		return -EBADMSG;
	l->id = v[1];
	l->mapping_id = v[2];
	l->address = v[3];
	l->line = decode_list(a, in, &lines, &l->lines);
	return l->line != NULL ? 0 : -EBADMSG;
}

static int decode_function(struct pd_arena *a, struct pd_bytes in, void *item)
{
	struct pd_function *fn = item;
	uint64_t v[6] = {0};

	(void)a;
	if (pd_wire_message(in, v, 5, 0) != 0)
		return -EBADMSG;
	*fn = (struct pd_function){v[1], (int64_t)v[2], (int64_t)v[3], (int64_t)v[4]};
	return 0;
}

static int decode_string(struct pd_arena *a, struct pd_bytes in, void *item)
{
	struct pd_bytes *s = item;

	(void)a;
	*s = in;
	return 0;
}

static int decode_numbers(struct pd_bytes in, struct pd_profile *p)
{
	static const uint64_t messages =
		1U << F_SAMPLE_TYPE | 1U << F_SAMPLE | 1U << F_MAPPING | 1U << F_LOCATION |
		1U << F_FUNCTION | 1U << F_STRING_TABLE | 1U << F_PERIOD_TYPE | 1U << F_COMMENT;
	uint64_t v[F_DEFAULT_SAMPLE_TYPE + 1] = {0};

	if (pd_wire_message(in, v, F_DEFAULT_SAMPLE_TYPE, messages) != 0)
		return -EBADMSG;
	p->drop_frames = (int64_t)v[F_DROP_FRAMES];
	p->keep_frames = (int64_t)v[F_KEEP_FRAMES];
	p->time_nanos = (int64_t)v[F_TIME_NANOS];
	p->duration_nanos = (int64_t)v[F_DURATION_NANOS];
	p->period = (int64_t)v[F_PERIOD];
	p->default_sample_type = (int64_t)v[F_DEFAULT_SAMPLE_TYPE];
	return 0;
}

static int decode_lists(struct pd_arena *a, struct pd_bytes in, struct pd_profile *p)
{
	static const struct list sample_type = {F_SAMPLE_TYPE, sizeof(struct pd_value_type),
						decode_value_type};
	static const struct list sample = {F_SAMPLE, sizeof(struct pd_sample), decode_sample};
	static const struct list mapping = {F_MAPPING, sizeof(struct pd_mapping), decode_mapping};
	static const struct list location = {F_LOCATION, sizeof(struct pd_location),
					     decode_location};
	static const struct list function = {F_FUNCTION, sizeof(struct pd_function),
					     decode_function};
	static const struct list string = {F_STRING_TABLE, sizeof(struct pd_bytes), decode_string};
	static const struct list period = {F_PERIOD_TYPE, sizeof(struct pd_value_type),
					   decode_value_type};
	struct pd_value_type *period_type = decode_list(a, in, &period, &(size_t){0});
	uint64_t *comment = NULL;

	p->sample_type = decode_list(a, in, &sample_type, &p->sample_types);
	p->sample = decode_list(a, in, &sample, &p->samples);
	p->mapping = decode_list(a, in, &mapping, &p->mappings);
	p->location = decode_list(a, in, &location, &p->locations);
	p->function = decode_list(a, in, &function, &p->functions);
	p->string = decode_list(a, in, &string, &p->strings);
	if (period_type == NULL || p->sample_type == NULL || p->sample == NULL ||
	    p->mapping == NULL || p->location == NULL || p->function == NULL || p->string == NULL)
		return -EBADMSG;
	p->has_period_type = pd_wire_count(in, F_PERIOD_TYPE) > 0;
	if (p->has_period_type)
		p->period_type = period_type[pd_wire_count(in, F_PERIOD_TYPE) - 1];
	if (pd_wire_numbers(a, in, F_COMMENT, &comment, &p->comments) != 0)
		return -EBADMSG;
	p->comment = (const int64_t *)comment;
	return 0;
}

static int compare_index(const void *a, const void *b)
{
	const struct pd_index *x = a;
	const struct pd_index *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

/* items begin with their id, as mapping, location and function do. */
static struct pd_index *make_index(struct pd_arena *a, const void *items, size_t size, size_t count)
{
	struct pd_index *index = pd_arena_calloc(a, count, sizeof(*index));
	const char *item = items;

	for (size_t i = 0; i < count; i++) {
		index[i].id = *(const uint64_t *)(const void *)(item + i * size);
		index[i].at = i;
	}
	qsort(index, count, sizeof(*index), compare_index);
	return index;
}

void pd_profile_index(struct pd_arena *a, struct pd_profile *p)
{
	p->mapping_index = make_index(a, p->mapping, sizeof(*p->mapping), p->mappings);
	p->location_index = make_index(a, p->location, sizeof(*p->location), p->locations);
	p->function_index = make_index(a, p->function, sizeof(*p->function), p->functions);
}

int pd_profile_decode(struct pd_arena *a, struct pd_bytes in, struct pd_profile *p)
{
	*p = (struct pd_profile){0};
	if (decode_numbers(in, p) != 0 || decode_lists(a, in, p) != 0)
		return -EBADMSG;
	pd_profile_index(a, p);
	return 0;
}

static const struct pd_index *find(const struct pd_index *index, size_t count, uint64_t id)
{
	const struct pd_index key = {.id = id};

	return bsearch(&key, index, count, sizeof(*index), compare_index);
}

const struct pd_mapping *pd_profile_mapping(const struct pd_profile *p, uint64_t id)
{
	const struct pd_index *i = find(p->mapping_index, p->mappings, id);

	return i != NULL ? &p->mapping[i->at] : NULL;
}

const struct pd_location *pd_profile_location(const struct pd_profile *p, uint64_t id)
{
	const struct pd_index *i = find(p->location_index, p->locations, id);

	return i != NULL ? &p->location[i->at] : NULL;
}

const struct pd_function *pd_profile_function(const struct pd_profile *p, uint64_t id)
{
	const struct pd_index *i = find(p->function_index, p->functions, id);

	return i != NULL ? &p->function[i->at] : NULL;
}

bool pd_profile_has_string(const struct pd_profile *p, int64_t index)
{
	return index >= 0 && (uint64_t)index < p->strings;
}

struct pd_bytes pd_profile_string(const struct pd_profile *p, int64_t index)
{
	if (!pd_profile_has_string(p, index))
		return (struct pd_bytes){NULL, 0};
	return p->string[index];
}
