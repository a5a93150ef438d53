/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts profiles from OTLP to pprof, so that the rest of the program knows only one format.
 * Strings, mappings, functions and locations have the ids that they have in the dictionary, where
 * element 0 stands for none. They are converted once for all profiles, as are stacks and labels,
 * which samples share. This file checks only the indices that it uses itself; load.c checks the
 * result like any pprof. The size of the result, and the time that it takes, are bounded even for a
 * hostile file. Context: the report tool.
 */
#include "export/report/otlp.h"

#include <stdint.h>
#include <string.h>

#include "export/profile/packed.h"
#include "export/util/containers.h"
#include "otlp.pb-c.h"
#include "sampler/base/text.h"

/*
 * Limits: FRAMES_MAX for the frames of all samples, each with its whole stack; ROWS_MAX for the
 * rows of the dictionary, once for each profile.
 */
#define FRAMES_MAX ((size_t)1 << 25)
#define ROWS_MAX ((size_t)1 << 27)
#define PPROF_STRINGS 6U /* number of the field string_table in a profile of pprof */

typedef Spanprof__Otlp__ProfilesDictionary pb_dictionary;
typedef Spanprof__Pprof__Label pb_label;

struct maker {
	pb_dictionary *from;
	ProtobufCAllocator *memory; /* for strings, because load.c may replace them */
	struct sp_pool pool;        /* for everything else */
	Spanprof__Pprof__Profile to;
	pb_label **attribute;
	pb_label **id; /* two labels for each link; string 0 = the link has no such id */
	uint64_t **stack;
	size_t strings; /* strings of the dictionary, without those that were added */
	int32_t samples, count;
	size_t frames, rows;
	bool failed;
	const char *why; /* NULL = out of memory */
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

static bool fail(struct maker *m, const char *why)
{
	if (!m->failed)
		m->why = why;
	m->failed = true;
	return false;
}

static void *get(struct maker *m, size_t n, size_t size)
{
	void *got = sp_pool_get(&m->pool, (n + 1) * size);

	return got != NULL || fail(m, NULL) ? got : NULL;
}

/* Allocates n messages of pprof. Returns n, or 0 when out of memory. */
#define MESSAGES(m, name, n, list)                                                                 \
	(sp_pool_messages(&(m)->pool, &spanprof__pprof__##name##__descriptor, (n), (list)) ||      \
			 fail((m), NULL)                                                           \
		 ? (n)                                                                             \
		 : 0)

/*
 * Adds a string, for which put_strings() has made room. Returns its number; 0 for an empty string.
 */
static int32_t add_string(struct maker *m, const char *s)
{
	char *copy;

	if (s[0] == '\0')
		return 0;
	copy = m->memory->alloc(m->memory->allocator_data, strlen(s) + 1);
	if (copy == NULL)
		return fail(m, NULL);
	m->from->string_table[m->from->n_string_table] = memcpy(copy, s, strlen(s) + 1);
	return (int32_t)m->from->n_string_table++;
}

/*
 * Adds an id as hexadecimal digits. Returns 0 if all its bytes are zero, because that means no id.
 */
static int32_t add_id(struct maker *m, const ProtobufCBinaryData *id, size_t size)
{
	static const uint8_t none[16];
	char hex[sizeof(none) * 2 + 1];

	if (id->len != size || memcmp(id->data, none, size) == 0)
		return 0;
	sp_text_hex(hex, id->data, size);
	return add_string(m, hex);
}

/* Makes room for more strings behind those of the dictionary. */
static bool put_strings(struct maker *m)
{
	pb_dictionary *d = m->from;
	size_t most = d->n_string_table + 4 + 2 * d->n_link_table + d->n_attribute_table;
	char **all;

	if (d->n_string_table == 0)
		return fail(m, "the string table does not begin with an empty string");
	all = m->memory->alloc(m->memory->allocator_data, most * sizeof(*all));
	if (all == NULL)
		return fail(m, NULL);
	memcpy(all, d->string_table, d->n_string_table * sizeof(*all));
	m->memory->free(m->memory->allocator_data, d->string_table);
	d->string_table = all;
	m->strings = d->n_string_table;
	m->samples = add_string(m, "samples");
	m->count = add_string(m, "count");
	return true;
}

/*
 * The id for an index of the dictionary. A negative index becomes an id that no message has, so
 * load.c refuses it.
 */
static uint64_t id_of(int32_t index)
{
	return index >= 0 ? (uint64_t)index : UINT64_MAX;
}

/* As id_of(), for strings. An index of a string that was added is not valid either. */
static int64_t string_of(const struct maker *m, int32_t index)
{
	return id_of(index) < m->strings ? index : -1;
}

/*
 * Makes a label from each attribute, and two from each link, for its ids. A value without a text
 * becomes an empty one.
 */
static void put_labels(struct maker *m)
{
	const pb_dictionary *d = m->from;
	int32_t trace_id = add_string(m, "trace_id"), span_id = add_string(m, "span_id");
	size_t attributes = MESSAGES(m, label, d->n_attribute_table, &m->attribute);
	size_t links = MESSAGES(m, label, 2 * d->n_link_table, &m->id) / 2;

	for (size_t i = 0; i < attributes; i++) {
		const Spanprof__Otlp__AnyValue *value = d->attribute_table[i]->value;

		m->attribute[i]->key = string_of(m, d->attribute_table[i]->key_strindex);
		if (value != NULL &&
		    value->value_case == SPANPROF__OTLP__ANY_VALUE__VALUE_STRING_VALUE)
			m->attribute[i]->str = add_string(m, value->string_value);
		else if (value != NULL &&
			 value->value_case ==
				 SPANPROF__OTLP__ANY_VALUE__VALUE_STRING_VALUE_STRINDEX)
			m->attribute[i]->str = string_of(m, value->string_value_strindex);
	}
	for (size_t i = 0; i < links; i++) {
		m->id[2 * i]->key = trace_id;
		m->id[2 * i]->str = add_id(m, &d->link_table[i]->trace_id, 16);
		m->id[2 * i + 1]->key = span_id;
		m->id[2 * i + 1]->str = add_id(m, &d->link_table[i]->span_id, 8);
	}
}

static void put_location(struct maker *m, const Spanprof__Otlp__Location *from,
			 Spanprof__Pprof__Location *to)
{
	size_t n = MESSAGES(m, line, from->n_lines, &to->line);

	to->mapping_id = id_of(from->mapping_index);
	to->address = from->address;
	for (size_t i = 0; i < n; i++) {
		/* A line without a function is left out. */
		if (from->lines[i]->function_index == 0)
			continue;
		to->line[to->n_line]->function_id = id_of(from->lines[i]->function_index);
		to->line[to->n_line++]->line = from->lines[i]->line;
	}
}

/*
 * Converts mappings, functions and locations. The id of each is its index in the dictionary;
 * element 0 stands for none.
 */
static void put_tables(struct maker *m)
{
	const pb_dictionary *d = m->from;
	Spanprof__Pprof__Profile *to = &m->to;
	size_t n = MESSAGES(m, mapping, d->n_mapping_table, &to->mapping);

	for (size_t i = 1; i < n; i = ++to->n_mapping + 1) {
		to->mapping[i - 1]->id = i;
		to->mapping[i - 1]->filename = string_of(m, d->mapping_table[i]->filename_strindex);
	}
	n = MESSAGES(m, function, d->n_function_table, &to->function);
	for (size_t i = 1; i < n; i = ++to->n_function + 1) {
		to->function[i - 1]->id = i;
		to->function[i - 1]->name = string_of(m, d->function_table[i]->name_strindex);
		to->function[i - 1]->system_name =
			string_of(m, d->function_table[i]->system_name_strindex);
		to->function[i - 1]->filename =
			string_of(m, d->function_table[i]->filename_strindex);
	}
	n = MESSAGES(m, location, d->n_location_table, &to->location);
	for (size_t i = 1; i < n; i = ++to->n_location + 1) {
		to->location[i - 1]->id = i;
		put_location(m, d->location_table[i], to->location[i - 1]);
	}
	m->stack = get(m, d->n_stack_table, sizeof(*m->stack));
	for (size_t i = 0; m->stack != NULL && i < d->n_stack_table; i++) {
		const Spanprof__Otlp__Stack *stack = d->stack_table[i];

		m->stack[i] = get(m, stack->n_location_indices, sizeof(**m->stack));
		for (size_t k = 0; m->stack[i] != NULL && k < stack->n_location_indices; k++)
			m->stack[i][k] = id_of(stack->location_indices[k]);
	}
}

/* The sum of a sample's values; it may have one for each time at which it was seen. */
static int64_t sum_of(const Spanprof__Otlp__Sample *s)
{
	int64_t sum = 0;

	for (size_t i = 0; i < s->n_values; i++)
		if (__builtin_add_overflow(sum, s->values[i], &sum))
			return INT64_MAX;
	return s->n_values != 0 ? sum : (int64_t)s->n_timestamps_unix_nano;
}

static bool put_sample(struct maker *m, const Spanprof__Otlp__Sample *from,
		       Spanprof__Pprof__Sample *to)
{
	const pb_dictionary *d = m->from;

	if (id_of(from->stack_index) >= d->n_stack_table)
		return fail(m, "a sample refers to a stack that is not there");
	if (from->link_index != 0 && id_of(from->link_index) >= d->n_link_table)
		return fail(m, "a sample refers to a label that is not there");
	to->location_id = m->stack[from->stack_index];
	to->n_location_id = d->stack_table[from->stack_index]->n_location_indices;
	m->frames += to->n_location_id;
	if (m->frames > FRAMES_MAX)
		return fail(m, "it has too many frames");
	to->value = get(m, 2, sizeof(*to->value));
	to->label = get(m, from->n_attribute_indices + 2, sizeof(*to->label));
	if (m->failed)
		return false;
	to->n_value = 2;
	to->value[0] = to->value[1] = sum_of(from);
	for (size_t i = 0; from->link_index != 0 && i < 2; i++)
		if (m->id[2 * (size_t)from->link_index + i]->str != 0)
			to->label[to->n_label++] = m->id[2 * (size_t)from->link_index + i];
	for (size_t i = 0; i < from->n_attribute_indices; i++) {
		if (id_of(from->attribute_indices[i]) >= d->n_attribute_table)
			return fail(m, "a sample refers to a label that is not there");
		to->label[to->n_label++] = m->attribute[from->attribute_indices[i]];
	}
	return true;
}

static const char *string_at(struct maker *m, int32_t index)
{
	if (string_of(m, index) >= 0)
		return m->from->string_table[index];
	(void)fail(m, "a sample type refers to a string that is not there");
	return "";
}

static bool is_in(struct maker *m, const Spanprof__Otlp__Profile *p, const char *unit)
{
	return p->sample_type != NULL &&
	       strcmp(string_at(m, p->sample_type->unit_strindex), unit) == 0;
}

static bool is_of(struct maker *m, const Spanprof__Otlp__Profile *p, const char *type)
{
	return p->sample_type != NULL &&
	       strcmp(string_at(m, p->sample_type->type_strindex), type) == 0;
}

static bool is_same_sample(const Spanprof__Otlp__Sample *a, const Spanprof__Otlp__Sample *b)
{
	return a->stack_index == b->stack_index && a->link_index == b->link_index &&
	       a->n_attribute_indices == b->n_attribute_indices &&
	       (a->n_attribute_indices == 0 ||
		memcmp(a->attribute_indices, b->attribute_indices,
		       a->n_attribute_indices * sizeof(*a->attribute_indices)) == 0);
}

/*
 * Whether profile p has the numbers of samples or blocks for the CPU time or bytes of `next`. The
 * samples of both are in the same order. CPU time that was not sampled is only in `next`.
 */
static bool counts(struct maker *m, const Spanprof__Otlp__Profile *p,
		   const Spanprof__Otlp__Profile *next)
{
	size_t counted = 0;

	if (!is_in(m, p, "count") ||
	    !(is_in(m, next, "bytes") || (is_in(m, next, "nanoseconds") && is_of(m, next, "cpu"))))
		return false;
	for (size_t i = 0; counted < p->n_samples && i < next->n_samples; i++)
		counted += is_same_sample(p->samples[counted], next->samples[i]);
	return counted == p->n_samples;
}

/*
 * Converts a profile except for the tables. Samples with a period of CPU time are shown as CPU
 * time. counted: the profile with the numbers of samples or blocks, or NULL.
 */
static bool put_profile(struct maker *m, const Spanprof__Otlp__Profile *p,
			const Spanprof__Otlp__Profile *counted)
{
	Spanprof__Otlp__ValueType none = SPANPROF__OTLP__VALUE_TYPE__INIT;
	const Spanprof__Otlp__ValueType *type = p->sample_type, *period = p->period_type;
	Spanprof__Pprof__Profile *to = &m->to;
	bool is_cpu, is_count;
	size_t k = 0; /* index in counted->samples */

	if (type == NULL)
		return fail(m, "it has no sample types");
	if (period == NULL)
		period = &none;
	is_count = is_in(m, p, "count");
	is_cpu = is_of(m, p, "samples") && is_count;
	is_cpu = strcmp(string_at(m, period->type_strindex), "cpu") == 0 && is_cpu;
	is_cpu = strcmp(string_at(m, period->unit_strindex), "nanoseconds") == 0 && is_cpu &&
		 p->period > 0;
	to->n_sample_type = MESSAGES(m, value_type, 2, &to->sample_type);
	to->n_sample = MESSAGES(m, sample, p->n_samples, &to->sample);
	if (m->failed)
		return false;
	to->sample_type[0]->type = m->samples;
	to->sample_type[0]->unit = m->count;
	to->sample_type[1]->type = is_cpu ? period->type_strindex : type->type_strindex;
	to->sample_type[1]->unit = is_cpu ? period->unit_strindex : type->unit_strindex;
	to->period = p->period;
	to->time_nanos = (int64_t)p->time_unix_nano;
	to->duration_nanos = (int64_t)p->duration_nano;
	for (size_t i = 0; i < p->n_samples; i++) {
		int64_t *value;

		if (!put_sample(m, p->samples[i], to->sample[i]))
			return false;
		value = to->sample[i]->value;
		/* A period of one nanosecond means that the time was measured and not sampled. */
		if (counted != NULL)
			value[0] = k < counted->n_samples && is_same_sample(counted->samples[k],
									    p->samples[i])
					   ? sum_of(counted->samples[k++])
					   : 0;
		else if (is_cpu && p->period == 1)
			value[0] = 0;
		else if (is_cpu && __builtin_mul_overflow(value[1], p->period, &value[1]))
			value[1] = INT64_MAX;
		else if (!is_count)
			value[0] = p->period > 0 ? value[1] / p->period : 1;
	}
	return true;
}

static int take(struct maker *m, const Spanprof__Otlp__Profile *p,
		const Spanprof__Otlp__Profile *counted, sp_report_take *each, void *arg)
{
	m->rows += m->from->n_string_table + m->to.n_mapping + m->to.n_function + m->to.n_location;
	if (m->rows > ROWS_MAX)
		(void)fail(m, "it has too many profiles");
	else
		(void)put_profile(m, p, counted);
	if (m->failed)
		return -1;
	m->to.n_string_table = m->from->n_string_table;
	m->to.string_table = m->from->string_table;
	return each(arg, &m->to);
}

/*
 * The exporter writes no profile of the numbers of samples where all numbers are 0: all CPU time of
 * the interval was measured between samples.
 */
static bool has_no_sample(struct maker *m, const Spanprof__Otlp__ScopeProfiles *scope,
			  const Spanprof__Otlp__Profile *p)
{
	return scope->scope != NULL && strcmp(scope->scope->name, "spanprof") == 0 &&
	       is_of(m, p, "cpu") && is_in(m, p, "nanoseconds");
}

static int take_scope(struct maker *m, const Spanprof__Otlp__ScopeProfiles *scope,
		      sp_report_take *each, void *arg)
{
	static const Spanprof__Otlp__Profile none = SPANPROF__OTLP__PROFILE__INIT;
	const Spanprof__Otlp__Profile *counted = NULL;
	int err = 0;

	for (size_t i = 0; err == 0 && !m->failed && i < scope->n_profiles; i++) {
		const Spanprof__Otlp__Profile *p = scope->profiles[i];
		bool is_counted = i + 1 < scope->n_profiles && counts(m, p, scope->profiles[i + 1]);

		if (counted == NULL && has_no_sample(m, scope, p))
			counted = &none;
		if (!is_counted)
			err = take(m, p, counted, each, arg);
		counted = is_counted ? p : NULL;
	}
	return err;
}

int sp_report_otlp(const struct sp_bytes *bytes, ProtobufCAllocator *memory, sp_report_take *each,
		   void *arg, const char **why)
{
	Spanprof__Otlp__ExportProfilesServiceRequest *all =
		spanprof__otlp__export_profiles_service_request__unpack(memory, bytes->len,
									bytes->data);
	struct maker m = {.memory = memory, .to = SPANPROF__PPROF__PROFILE__INIT};
	int err = 0;

	*why = NULL;
	if (all == NULL)
		return -1;
	m.from = all->dictionary;
	if (m.from == NULL)
		(void)fail(&m, "not a profile in OTLP");
	else if (put_strings(&m)) {
		put_labels(&m);
		put_tables(&m);
	}
	for (size_t i = 0; i < all->n_resource_profiles; i++) {
		const Spanprof__Otlp__ResourceProfiles *r = all->resource_profiles[i];

		for (size_t k = 0; err == 0 && k < r->n_scope_profiles; k++)
			err = take_scope(&m, r->scope_profiles[k], each, arg);
	}
	*why = m.why;
	spanprof__otlp__export_profiles_service_request__free_unpacked(all, memory);
	sp_pool_fini(&m.pool);
	return m.failed ? -1 : err;
}
