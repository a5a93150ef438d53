/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes pprof of profiles in OTLP, by the exporter's writer, so that all else of the tool knows one format. Mappings and
 * locations get the numbers that they have in the dictionary, where the first element stands for none. Only what is
 * looked up here is checked here; load.c checks pprof from anybody. A stack and a text that many samples share are
 * written for each of them, so what a small file can become, and how long that takes, is bounded. Context: the report
 * tool.
 */
#include "export/report/otlp.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "export/util/containers.h"
#include "otlp.pb-c.h"
#include "sampler/base/text.h"

#define PPROF_MAX ((size_t)128 << 20)
#define TEXT_MAX                                                                                   \
	((uint64_t)4 << 30) /* bytes of texts that are read, each as often as it is referred to */
#define PPROF_STRINGS 6U    /* the field that every profile in pprof has */

typedef Spanprof__Otlp__ProfilesDictionary pb_dictionary;
typedef Spanprof__Otlp__Profile pb_otlp;
typedef Spanprof__Otlp__Sample pb_otlp_sample;

/* One profile that is being made. */
struct maker {
	const pb_dictionary *from;
	void *to;
	uint64_t *function; /* ids, as equal ones are one function there */
	struct sp_pprof_line *line;
	uint64_t *location;
	size_t line_cap, location_cap;
	uint64_t text_bytes;
	int64_t period;
	bool is_cpu; /* its values are numbers of periods */
	bool is_count;
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

/* NULL, with a reason, where there is none. */
static const char *text_at(struct maker *m, int32_t index)
{
	const char *text = NULL;

	if (index >= 0 && (size_t)index < m->from->n_string_table)
		text = m->from->string_table[index];
	if (text == NULL) {
		m->why = "it refers to a string that is not there";
		return NULL;
	}
	m->text_bytes += strlen(text);
	if (m->text_bytes <= TEXT_MAX)
		return text;
	m->why = "its strings are too long";
	return NULL;
}

static bool put_mappings(struct maker *m)
{
	uint64_t id;

	for (size_t i = 1; i < m->from->n_mapping_table; i++) {
		const Spanprof__Otlp__Mapping *from = m->from->mapping_table[i];
		const struct sp_pprof_mapping to = {
			.start = from->memory_start,
			.limit = from->memory_limit,
			.offset = from->file_offset,
			.file = text_at(m, from->filename_strindex),
			.build_id = "",
		};

		if (to.file == NULL || sp_pprof_mapping(m->to, &to, &id) != 0)
			return false;
	}
	return true;
}

static bool put_functions(struct maker *m)
{
	m->function = calloc(m->from->n_function_table + 1, sizeof(*m->function));
	for (size_t i = 1; m->function != NULL && i < m->from->n_function_table; i++) {
		const Spanprof__Otlp__Function *from = m->from->function_table[i];
		const char *name = text_at(m, from->name_strindex);
		const char *system_name = text_at(m, from->system_name_strindex);
		const char *file = text_at(m, from->filename_strindex);

		if (name == NULL || system_name == NULL || file == NULL ||
		    sp_pprof_function(m->to, name, system_name, file, &m->function[i]) != 0)
			return false;
	}
	return m->function != NULL;
}

/* What cannot be an id becomes one that is not there. */
static uint64_t id_of(int32_t index)
{
	return index >= 0 ? (uint64_t)index : UINT64_MAX;
}

static bool put_locations(struct maker *m)
{
	uint64_t id;

	for (size_t i = 1; i < m->from->n_location_table; i++) {
		const Spanprof__Otlp__Location *from = m->from->location_table[i];
		size_t n = 0;

		if (!SP_GROW(m->line, m->line_cap, from->n_lines, SIZE_MAX))
			return false;
		for (size_t k = 0; k < from->n_lines; k++) {
			uint64_t function = id_of(from->lines[k]->function_index);

			/* A line without a function says nothing. */
			if (function == 0)
				continue;
			m->line[n].function = function < m->from->n_function_table
						      ? m->function[function]
						      : UINT64_MAX;
			m->line[n++].line = from->lines[k]->line;
		}
		if (sp_pprof_location(m->to, id_of(from->mapping_index), from->address, m->line, n,
				      &id) != 0)
			return false;
	}
	return true;
}

/* The text of an attribute that has one. "" = it has none. */
static const char *value_text(const pb_dictionary *d, const Spanprof__Otlp__AnyValue *value)
{
	if (value == NULL)
		return "";
	if (value->value_case == SPANPROF__OTLP__ANY_VALUE__VALUE_STRING_VALUE)
		return value->string_value;
	if (value->value_case == SPANPROF__OTLP__ANY_VALUE__VALUE_STRING_VALUE_STRINDEX &&
	    value->string_value_strindex >= 0 &&
	    (size_t)value->string_value_strindex < d->n_string_table)
		return d->string_table[value->string_value_strindex];
	return "";
}

/* Begins the profile. Samples with a period of CPU time are shown as that time. */
static bool begin(struct maker *m, const pb_otlp *p)
{
	static const struct sp_pprof_limits limits = {UINT32_MAX, PPROF_MAX};
	struct sp_profile_type_names names = {.count = "samples", .period = "", .period_unit = ""};
	const struct sp_pprof_times times = {
		.period_ns = p->period,
		.time_ns = (int64_t)p->time_unix_nano,
		.duration_ns = (int64_t)p->duration_nano,
		.names = &names,
	};

	m->why = "it has no sample types";
	if (p->sample_type == NULL)
		return false;
	m->why = NULL;
	m->period = p->period;
	names.sample = text_at(m, p->sample_type->type_strindex);
	names.unit = text_at(m, p->sample_type->unit_strindex);
	if (p->period_type != NULL) {
		names.period = text_at(m, p->period_type->type_strindex);
		names.period_unit = text_at(m, p->period_type->unit_strindex);
	}
	if (m->why != NULL)
		return false;
	m->is_count = strcmp(names.unit, "count") == 0;
	m->is_cpu = m->is_count && p->period > 0 && strcmp(names.sample, "samples") == 0 &&
		    strcmp(names.period, "cpu") == 0 &&
		    strcmp(names.period_unit, "nanoseconds") == 0;
	if (m->is_cpu) {
		names.sample = names.period;
		names.unit = names.period_unit;
	}
	m->to = sp_pprof_new(&limits, &times);
	return m->to != NULL;
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

static void set_values(const struct maker *m, int64_t value, struct sp_pprof_sample *to)
{
	to->count = to->ns = value;
	/* What has a period of a nanosecond was no sample, but measured. */
	if (m->is_cpu && m->period == 1)
		to->count = 0;
	else if (m->is_cpu && __builtin_mul_overflow(value, m->period, &to->ns))
		to->ns = INT64_MAX;
	else if (!m->is_count)
		to->count = m->period > 0 ? value / m->period : 1;
}

/* An id that is all zeroes is none. */
static void add_id(struct sp_pprof_sample *to, struct sp_label *label, const char *name,
		   const ProtobufCBinaryData *id, size_t size, char *hex)
{
	static const uint8_t none[16];

	if (id->len != size || memcmp(id->data, none, size) == 0)
		return;
	sp_text_hex(hex, id->data, size);
	label[to->labels++] = (struct sp_label){name, hex};
}

/* False, with a reason, where it cannot be made. */
static bool put_sample(struct maker *m, const pb_otlp_sample *s)
{
	const pb_dictionary *d = m->from;
	struct sp_label label[SP_SAMPLE_LABELS_MAX];
	struct sp_pprof_sample to = {.label = label};
	char trace_id[33], span_id[17];
	const Spanprof__Otlp__Stack *stack;
	int err;

	m->why = "a sample refers to a stack that is not there";
	if (s->stack_index < 0 || (size_t)s->stack_index >= d->n_stack_table)
		return false;
	stack = d->stack_table[s->stack_index];
	m->why = "a sample refers to a label that is not there";
	if (s->link_index < 0 || (s->link_index != 0 && (size_t)s->link_index >= d->n_link_table))
		return false;
	if (s->link_index != 0) {
		add_id(&to, label, "trace_id", &d->link_table[s->link_index]->trace_id, 16,
		       trace_id);
		add_id(&to, label, "span_id", &d->link_table[s->link_index]->span_id, 8, span_id);
	}
	for (size_t i = 0; i < s->n_attribute_indices; i++) {
		int32_t at = s->attribute_indices[i];

		if (at < 0 || (size_t)at >= d->n_attribute_table)
			return false;
		if (to.labels == SP_SAMPLE_LABELS_MAX)
			break;
		label[to.labels].value = value_text(d, d->attribute_table[at]->value);
		label[to.labels].name = text_at(m, d->attribute_table[at]->key_strindex);
		m->text_bytes += strlen(label[to.labels].value);
		if (label[to.labels++].name == NULL)
			return false;
	}
	m->why = NULL;
	if (!SP_GROW(m->location, m->location_cap, stack->n_location_indices, SIZE_MAX))
		return false;
	for (size_t i = 0; i < stack->n_location_indices; i++)
		m->location[i] = id_of(stack->location_indices[i]);
	to.location = m->location;
	to.locations = stack->n_location_indices;
	set_values(m, sum_of(s), &to);
	err = sp_pprof_sample(m->to, &to);
	if (err == -E2BIG)
		m->why = "it has too many frames";
	return err == 0;
}

static int take(const pb_dictionary *d, const pb_otlp *p,
		int (*each)(void *arg, const struct sp_bytes *pprof), void *arg, const char **why)
{
	struct maker m = {.from = d};
	struct sp_bytes pprof = {NULL, 0};
	bool good = begin(&m, p) && put_mappings(&m) && put_functions(&m) && put_locations(&m);
	int err = -1;

	for (size_t i = 0; good && i < p->n_samples; i++)
		good = put_sample(&m, p->samples[i]);
	if (good && sp_pprof_pack(m.to, &pprof) == 0)
		err = each(arg, &pprof);
	else
		*why = m.why;
	free(pprof.data);
	free(m.function);
	free(m.line);
	free(m.location);
	sp_pprof_free(m.to);
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
