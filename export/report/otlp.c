/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes pprof of profiles in OTLP, so that all else of the tool knows one format. Ids are the indexes of the
 * dictionary. Only what is looked up here is checked here; load.c checks pprof from anybody. A stack that many samples
 * share becomes one for each of them, so what a small file can become is bounded. Context: the report tool.
 */
#include "export/report/otlp.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/profile/packed.h"
#include "export/util/containers.h"
#include "otlp.pb-c.h"
#include "profile.pb-c.h"
#include "sampler/base/text.h"

#define PPROF_MAX ((size_t)128 << 20)
#define PPROF_STRINGS 6U /* the field that every profile in pprof has */
#define PPROF_SAMPLE 2U

typedef Spanprof__Otlp__ProfilesDictionary pb_dictionary;
typedef Spanprof__Otlp__Profile pb_otlp;
typedef Spanprof__Otlp__Sample pb_otlp_sample;
typedef Spanprof__Pprof__Profile pb_pprof;
typedef Spanprof__Pprof__Sample pb_sample;
typedef Spanprof__Pprof__Label pb_label;

/* One profile that is being made. */
struct maker {
	const pb_dictionary *from;
	struct sp_pool pool;
	struct sp_packed out;
	pb_pprof head;
	/* Indexes of texts that are behind those of the dictionary. */
	int64_t span_id, trace_id;
	int64_t value_of; /* that of attribute 0 */
	int64_t ids_of;   /* that of the trace of link 0, then its span, then those of link 1 */
	pb_label *label;  /* of the sample that is being made */
	pb_label **labels;
	uint64_t *location;
	size_t label_cap, labels_cap, location_cap;
	bool is_cpu; /* its values are numbers of periods */
	const char *why;
};

bool sp_report_otlp_is(const struct sp_bytes *bytes)
{
	const uint8_t *at = bytes->data;
	const uint8_t *end = at + bytes->len;
	bool has_dictionary = false;

	while (at < end) {
		unsigned tag = *at++;
		uint64_t len = 0;

		if (tag == (PPROF_STRINGS << 3 | 2) || (tag & 7) != 2)
			return false;
		has_dictionary = has_dictionary || tag >> 3 == 2;
		for (unsigned shift = 0; at < end && shift < 63; shift += 7) {
			len |= (uint64_t)(*at & 127) << shift;
			if (*at++ < 128)
				break;
		}
		if (len > (uint64_t)(end - at))
			return false;
		at += len;
	}
	return has_dictionary;
}

/* Pointers to n messages of that size, in one piece of zeroes behind them. NULL without memory. */
static void *make_list(struct maker *m, size_t n, size_t size, void ***pointer)
{
	char *item = sp_pool_get(&m->pool, n * size + 1);

	*pointer = sp_pool_get(&m->pool, (n + 1) * sizeof(**pointer));
	for (size_t i = 0; item != NULL && *pointer != NULL && i < n; i++)
		(*pointer)[i] = item + i * size;
	return *pointer != NULL ? item : NULL;
}

/* Elements of a table behind the first one, which stands for none. */
static size_t rows(size_t n)
{
	return n != 0 ? n - 1 : 0;
}

static bool make_mappings(struct maker *m)
{
	size_t n = rows(m->from->n_mapping_table);
	void **all;
	Spanprof__Pprof__Mapping *mapping = make_list(m, n, sizeof(*mapping), &all);

	if (mapping == NULL)
		return false;
	for (size_t i = 0; i < n; i++) {
		const Spanprof__Otlp__Mapping *from = m->from->mapping_table[i + 1];

		spanprof__pprof__mapping__init(&mapping[i]);
		mapping[i].id = i + 1;
		mapping[i].memory_start = from->memory_start;
		mapping[i].memory_limit = from->memory_limit;
		mapping[i].file_offset = from->file_offset;
		mapping[i].filename = from->filename_strindex;
	}
	m->head.n_mapping = n;
	m->head.mapping = (Spanprof__Pprof__Mapping **)all;
	return true;
}

static bool make_functions(struct maker *m)
{
	size_t n = rows(m->from->n_function_table);
	void **all;
	Spanprof__Pprof__Function *function = make_list(m, n, sizeof(*function), &all);

	if (function == NULL)
		return false;
	for (size_t i = 0; i < n; i++) {
		const Spanprof__Otlp__Function *from = m->from->function_table[i + 1];

		spanprof__pprof__function__init(&function[i]);
		function[i].id = i + 1;
		function[i].name = from->name_strindex;
		function[i].system_name = from->system_name_strindex;
		function[i].filename = from->filename_strindex;
	}
	m->head.n_function = n;
	m->head.function = (Spanprof__Pprof__Function **)all;
	return true;
}

/* What cannot be an id becomes one that is not there. */
static uint64_t id_of(int32_t index)
{
	return index >= 0 ? (uint64_t)index : UINT64_MAX;
}

static bool make_locations(struct maker *m)
{
	size_t n = rows(m->from->n_location_table);
	void **all;
	Spanprof__Pprof__Location *location = make_list(m, n, sizeof(*location), &all);

	for (size_t i = 0; location != NULL && i < n; i++) {
		const Spanprof__Otlp__Location *from = m->from->location_table[i + 1];
		void **lines;
		Spanprof__Pprof__Line *line = make_list(m, from->n_lines, sizeof(*line), &lines);

		if (line == NULL)
			return false;
		spanprof__pprof__location__init(&location[i]);
		location[i].id = i + 1;
		location[i].mapping_id = id_of(from->mapping_index);
		location[i].address = from->address;
		location[i].line = (Spanprof__Pprof__Line **)lines;
		for (size_t k = 0; k < from->n_lines; k++) {
			Spanprof__Pprof__Line *to = &line[location[i].n_line];

			/* A line without a function says nothing. */
			if (from->lines[k]->function_index == 0)
				continue;
			spanprof__pprof__line__init(to);
			to->function_id = id_of(from->lines[k]->function_index);
			to->line = from->lines[k]->line;
			location[i].n_line++;
		}
	}
	m->head.n_location = n;
	m->head.location = (Spanprof__Pprof__Location **)all;
	return location != NULL;
}

/* The text of an attribute that has one. "" = it has none. */
static char *value_text(const pb_dictionary *d, const Spanprof__Otlp__AnyValue *value)
{
	static char none[] = "";

	if (value == NULL)
		return none;
	if (value->value_case == SPANPROF__OTLP__ANY_VALUE__VALUE_STRING_VALUE)
		return value->string_value;
	if (value->value_case == SPANPROF__OTLP__ANY_VALUE__VALUE_STRING_VALUE_STRINDEX &&
	    value->string_value_strindex >= 0 &&
	    (size_t)value->string_value_strindex < d->n_string_table)
		return d->string_table[value->string_value_strindex];
	return none;
}

/* An id that is all zeroes is none. */
static char *id_text(struct maker *m, const ProtobufCBinaryData *id, size_t size)
{
	char *hex = sp_pool_get(&m->pool, 2 * size + 1);
	bool is_one = false;

	for (size_t i = 0; i < id->len; i++)
		is_one = is_one || id->data[i] != 0;
	if (hex != NULL && is_one && id->len == size)
		sp_text_hex(hex, id->data, size);
	return hex;
}

/* The texts of the dictionary, and behind them all others that a label may have. */
static bool make_strings(struct maker *m)
{
	static char span_id[] = "span_id", trace_id[] = "trace_id";
	const pb_dictionary *d = m->from;
	size_t most = d->n_string_table + 2 + d->n_attribute_table + 2 * d->n_link_table;
	char **text = sp_pool_get(&m->pool, (most + 1) * sizeof(*text));
	size_t n = d->n_string_table;

	if (text == NULL)
		return false;
	if (n != 0)
		memcpy(text, d->string_table, n * sizeof(*text));
	m->span_id = (int64_t)n;
	text[n++] = span_id;
	m->trace_id = (int64_t)n;
	text[n++] = trace_id;
	m->value_of = (int64_t)n;
	for (size_t i = 0; i < d->n_attribute_table; i++)
		text[n++] = value_text(d, d->attribute_table[i]->value);
	m->ids_of = (int64_t)n;
	for (size_t i = 0; i < d->n_link_table; i++) {
		text[n++] = id_text(m, &d->link_table[i]->trace_id, 16);
		text[n++] = id_text(m, &d->link_table[i]->span_id, 8);
		if (text[n - 2] == NULL || text[n - 1] == NULL)
			return false;
	}
	m->head.n_string_table = n;
	m->head.string_table = text;
	return true;
}

static bool is_text(const struct maker *m, int32_t index, const char *text)
{
	return index >= 0 && (size_t)index < m->from->n_string_table &&
	       strcmp(m->from->string_table[index], text) == 0;
}

/* Samples with a period of CPU time are shown as that time. */
static bool make_types(struct maker *m, const pb_otlp *p)
{
	const Spanprof__Otlp__ValueType *type = p->sample_type;
	const Spanprof__Otlp__ValueType *period = p->period_type;
	void **all;
	Spanprof__Pprof__ValueType *to = make_list(m, 2, sizeof(*to), &all);

	if (to == NULL)
		return false;
	spanprof__pprof__value_type__init(&to[0]);
	spanprof__pprof__value_type__init(&to[1]);
	if (type != NULL) {
		to[0].type = type->type_strindex;
		to[0].unit = type->unit_strindex;
	}
	m->is_cpu = type != NULL && period != NULL && p->period > 0 &&
		    is_text(m, type->type_strindex, "samples") &&
		    is_text(m, type->unit_strindex, "count") &&
		    is_text(m, period->type_strindex, "cpu") &&
		    is_text(m, period->unit_strindex, "nanoseconds");
	if (m->is_cpu) {
		to[1].type = period->type_strindex;
		to[1].unit = period->unit_strindex;
	}
	m->head.n_sample_type = type == NULL ? 0 : m->is_cpu ? 2 : 1;
	m->head.sample_type = (Spanprof__Pprof__ValueType **)all;
	m->head.time_nanos = (int64_t)p->time_unix_nano;
	m->head.duration_nanos = (int64_t)p->duration_nano;
	m->head.period = p->period;
	return true;
}

static bool put_head(struct maker *m)
{
	size_t size = spanprof__pprof__profile__get_packed_size(&m->head);

	if (size > PPROF_MAX || !sp_packed_reserve(&m->out, size + 1))
		return false;
	m->out.len = spanprof__pprof__profile__pack(&m->head, m->out.data);
	return true;
}

/* A value for each time that a sample was seen makes one sum. */
static int64_t sum_of(const pb_otlp_sample *s)
{
	int64_t sum = 0;

	for (size_t i = 0; i < s->n_values; i++)
		if (__builtin_add_overflow(sum, s->values[i], &sum))
			return INT64_MAX;
	return s->n_values != 0 ? sum : (int64_t)s->n_timestamps_unix_nano;
}

static void add_label(pb_sample *to, int64_t key, int64_t text)
{
	pb_label *l = to->label[to->n_label++];

	spanprof__pprof__label__init(l);
	l->key = key;
	l->str = text;
}

static bool make_labels(struct maker *m, const pb_otlp_sample *s, pb_sample *to)
{
	for (size_t i = 0; i < s->n_attribute_indices; i++) {
		int32_t at = s->attribute_indices[i];

		if (at < 0 || (size_t)at >= m->from->n_attribute_table)
			return false;
		add_label(to, m->from->attribute_table[at]->key_strindex, m->value_of + at);
	}
	if (s->link_index < 0 ||
	    ((size_t)s->link_index >= m->from->n_link_table && s->link_index != 0))
		return false;
	if (s->link_index != 0) {
		add_label(to, m->trace_id, m->ids_of + 2 * (int64_t)s->link_index);
		add_label(to, m->span_id, m->ids_of + 2 * (int64_t)s->link_index + 1);
	}
	return true;
}

/* Room for the labels and the locations of a sample. */
static bool reserve(struct maker *m, size_t labels, size_t locations)
{
	if (!SP_GROW(m->label, m->label_cap, labels, SIZE_MAX) ||
	    !SP_GROW(m->labels, m->labels_cap, labels, SIZE_MAX) ||
	    !SP_GROW(m->location, m->location_cap, locations, SIZE_MAX))
		return false;
	for (size_t i = 0; i < labels; i++)
		m->labels[i] = &m->label[i];
	return true;
}

/* False, with a reason, where it cannot be made. */
static bool put_sample(struct maker *m, const pb_otlp_sample *s)
{
	pb_sample to = SPANPROF__PPROF__SAMPLE__INIT;
	const Spanprof__Otlp__Stack *stack;
	int64_t value[2] = {sum_of(s)};
	size_t size;

	if (s->stack_index < 0 || (size_t)s->stack_index >= m->from->n_stack_table) {
		m->why = "a sample refers to a stack that is not there";
		return false;
	}
	stack = m->from->stack_table[s->stack_index];
	if (!reserve(m, s->n_attribute_indices + 2, stack->n_location_indices + 1))
		return false;
	to.label = m->labels;
	to.location_id = m->location;
	to.n_location_id = stack->n_location_indices;
	for (size_t i = 0; i < stack->n_location_indices; i++)
		to.location_id[i] = id_of(stack->location_indices[i]);
	to.n_value = m->head.n_sample_type;
	to.value = value;
	/* What has a period of a nanosecond was no sample, but measured. */
	if (m->is_cpu && m->head.period == 1) {
		value[1] = value[0];
		value[0] = 0;
	} else if (m->is_cpu && __builtin_mul_overflow(value[0], m->head.period, &value[1])) {
		value[1] = INT64_MAX;
	}
	if (!make_labels(m, s, &to)) {
		m->why = "a sample refers to a label that is not there";
		return false;
	}
	size = spanprof__pprof__sample__get_packed_size(&to);
	if (sp_packed_framed(size) > PPROF_MAX - m->out.len) {
		m->why = "it has too many frames";
		return false;
	}
	if (!sp_packed_reserve(&m->out, sp_packed_framed(size)))
		return false;
	sp_packed_head(&m->out, PPROF_SAMPLE, size);
	m->out.len += spanprof__pprof__sample__pack(&to, m->out.data + m->out.len);
	return true;
}

static bool make(struct maker *m, const pb_otlp *p)
{
	spanprof__pprof__profile__init(&m->head);
	if (!make_strings(m) || !make_mappings(m) || !make_functions(m) || !make_locations(m) ||
	    !make_types(m, p) || !put_head(m))
		return false;
	for (size_t i = 0; i < p->n_samples; i++)
		if (!put_sample(m, p->samples[i]))
			return false;
	return true;
}

static int take(const pb_dictionary *d, const pb_otlp *p,
		int (*each)(void *arg, const struct sp_bytes *pprof), void *arg, const char **why)
{
	struct maker m = {.from = d};
	int err = -1;

	if (make(&m, p))
		err = each(arg, &(struct sp_bytes){m.out.data, m.out.len});
	else
		*why = m.why;
	free(m.label);
	free(m.labels);
	free(m.location);
	free(m.out.data);
	sp_pool_fini(&m.pool);
	return err;
}

int sp_report_otlp(const struct sp_bytes *bytes, ProtobufCAllocator *memory,
		   int (*each)(void *arg, const struct sp_bytes *pprof), void *arg,
		   const char **why)
{
	Spanprof__Otlp__ExportProfilesServiceRequest *all =
		spanprof__otlp__export_profiles_service_request__unpack(memory, bytes->len,
									bytes->data);
	int err = all != NULL && all->dictionary != NULL ? 0 : -1;

	*why = all != NULL && err != 0 ? "not a profile in OTLP" : NULL;
	for (size_t i = 0; err == 0 && i < all->n_resource_profiles; i++) {
		const Spanprof__Otlp__ResourceProfiles *r = all->resource_profiles[i];

		for (size_t k = 0; err == 0 && k < r->n_scope_profiles; k++)
			for (size_t n = 0; err == 0 && n < r->scope_profiles[k]->n_profiles; n++)
				err = take(all->dictionary, r->scope_profiles[k]->profiles[n], each,
					   arg, why);
	}
	if (all != NULL)
		spanprof__otlp__export_profiles_service_request__free_unpacked(all, memory);
	return err;
}
