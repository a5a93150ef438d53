/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts a profile from pprof to OTLP. The pprof profile is complete and within the limits (pprof.c), so only one
 * format needs code to build a profile and to undo a part of it. The dictionary of OTLP has seven tables. In each
 * table the first element is the zero value, which packs to nothing; no element occurs twice, and each is referred
 * to. A table of interned texts has these three properties, so each element is packed and looked up by its bytes. A
 * sample is identified by everything but its value; of two with the same stack and labels the values are added.
 * Context: the exporter.
 */
#include "export/profile/otlp.h"

#include <errno.h>
#include <protobuf-c/protobuf-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/profile/packed.h"
#include "export/util/containers.h"
#include "otlp.pb-c.h"
#include "profile.pb-c.h"
#include "sampler/base/text.h"

#define TRACE_ID 16U
#define SPAN_ID 8U

/* The tables in the order of the dictionary's fields. */
enum table { MAPPINGS, LOCATIONS, FUNCTIONS, LINKS, STRINGS, ATTRIBUTES, STACKS, TABLES };

/*
 * A profile of OTLP has one value per sample. So there are two profiles: first the number of samples or of blocks of
 * memory, then the CPU time or the bytes. Values that are not sampled, such as CPU time between samples, are only in
 * the second one. Waits are not counted.
 */
enum kind { COUNTED, MEASURED, KINDS };

struct samples {
	struct sp_strtab known; /* all of a sample except its value */
	int64_t *value;
	size_t value_cap;
};

typedef Spanprof__Otlp__AnyValue pb_value;

struct maker {
	const Spanprof__Pprof__Profile *from;
	Spanprof__Otlp__Resource *resource;
	struct sp_pool pool; /* of both messages */
	struct sp_strtab table[TABLES];
	struct samples of[KINDS];
	struct sp_packed packed; /* the last element that was looked up */
	int32_t *location;       /* index of each location of the pprof profile */
	bool failed;             /* memory was short */
};

static void *get(struct maker *m, size_t n, size_t size)
{
	void *got = sp_pool_get(&m->pool, (n + 1) * size);

	m->failed = m->failed || got == NULL;
	return got;
}

static size_t messages(struct maker *m, const ProtobufCMessageDescriptor *of, size_t n, void *list)
{
	if (sp_pool_messages(&m->pool, of, n, list))
		return n;
	m->failed = true;
	return 0;
}

static const char *text(const struct maker *m, int64_t id)
{
	return m->from->string_table[id];
}

static int32_t put_text(struct maker *m, const char *s)
{
	uint32_t at = 0;

	m->failed = sp_strtab_put(&m->table[STRINGS], s, strlen(s), &at) != 0 || m->failed;
	return (int32_t)at;
}

static uint32_t put(struct maker *m, struct sp_strtab *table, const void *message)
{
	uint32_t at = 0;

	m->packed.len = 0;
	if (!sp_packed_reserve(&m->packed, protobuf_c_message_get_packed_size(message) + 1) ||
	    sp_strtab_put(table, (char *)m->packed.data,
			  protobuf_c_message_pack(message, m->packed.data), &at) != 0)
		m->failed = true;
	return at;
}

static int32_t put_row(struct maker *m, enum table table, const void *message)
{
	return (int32_t)put(m, &m->table[table], message);
}

static int32_t put_attribute(struct maker *m, const char *key, pb_value *value)
{
	Spanprof__Otlp__KeyValueAndUnit pb = SPANPROF__OTLP__KEY_VALUE_AND_UNIT__INIT;

	pb.key_strindex = put_text(m, key);
	pb.value = value;
	return put_row(m, ATTRIBUTES, &pb);
}

/* protobuf-c's strings are not const, but packing only reads them. */
static void set_text(pb_value *value, const char *text)
{
	spanprof__otlp__any_value__init(value);
	value->value_case = SPANPROF__OTLP__ANY_VALUE__VALUE_STRING_VALUE;
	memcpy(&value->string_value, &text, sizeof(text));
}

static int32_t put_label(struct maker *m, const char *key, const char *text)
{
	pb_value value;

	set_text(&value, text);
	return put_attribute(m, key, &value);
}

static int32_t put_comments(struct maker *m)
{
	Spanprof__Otlp__ArrayValue list = SPANPROF__OTLP__ARRAY_VALUE__INIT;
	pb_value value = SPANPROF__OTLP__ANY_VALUE__INIT;

	list.n_values = messages(m, &spanprof__otlp__any_value__descriptor, m->from->n_comment,
				 &list.values);
	for (size_t i = 0; i < list.n_values; i++)
		set_text(list.values[i], text(m, m->from->comment[i]));
	value.value_case = SPANPROF__OTLP__ANY_VALUE__VALUE_ARRAY_VALUE;
	value.array_value = &list;
	return list.n_values != 0 ? put_attribute(m, "pprof.profile.comment", &value) : 0;
}

static int32_t put_mapping(struct maker *m, const Spanprof__Pprof__Mapping *from)
{
	Spanprof__Otlp__Mapping pb = SPANPROF__OTLP__MAPPING__INIT;
	int32_t attribute;

	/* A location without memory, such as a marker, has neither begin nor end. */
	if (from->memory_start < from->memory_limit) {
		pb.memory_start = from->memory_start;
		pb.memory_limit = from->memory_limit;
	}
	pb.file_offset = from->file_offset;
	pb.filename_strindex = put_text(m, text(m, from->filename));
	pb.attribute_indices = &attribute;
	if (from->build_id != 0)
		attribute =
			put_label(m, "process.executable.build_id.gnu", text(m, from->build_id));
	pb.n_attribute_indices = from->build_id != 0;
	return put_row(m, MAPPINGS, &pb);
}

static int32_t put_function(struct maker *m, const Spanprof__Pprof__Function *from)
{
	Spanprof__Otlp__Function pb = SPANPROF__OTLP__FUNCTION__INIT;

	pb.name_strindex = put_text(m, text(m, from->name));
	pb.system_name_strindex = put_text(m, text(m, from->system_name));
	pb.filename_strindex = put_text(m, text(m, from->filename));
	return put_row(m, FUNCTIONS, &pb);
}

/* The ids of pprof.c are 1, 2, 3 ... */
static int32_t put_location(struct maker *m, const Spanprof__Pprof__Location *from)
{
	Spanprof__Otlp__Location pb = SPANPROF__OTLP__LOCATION__INIT;
	int32_t attribute;

	pb.n_lines = messages(m, &spanprof__otlp__line__descriptor, from->n_line, &pb.lines);
	for (size_t i = 0; i < pb.n_lines; i++) {
		uint64_t function = from->line[i]->function_id;

		pb.lines[i]->function_index = put_function(m, m->from->function[function - 1]);
		pb.lines[i]->line = from->line[i]->line;
	}
	if (from->mapping_id != 0)
		pb.mapping_index = put_mapping(m, m->from->mapping[from->mapping_id - 1]);
	pb.address = from->address;
	/* A marker is no frame of anything. */
	if (from->address != 0)
		attribute = put_label(m, "profile.frame.type", "native");
	pb.attribute_indices = &attribute;
	pb.n_attribute_indices = from->address != 0;
	return put_row(m, LOCATIONS, &pb);
}

static bool read_id(const char *hex, uint8_t *id, size_t n)
{
	if (hex == NULL || strlen(hex) != 2 * n)
		return false;
	for (size_t i = 0; i < n; i++)
		id[i] = (uint8_t)(sp_text_digit(hex[2 * i]) << 4 | sp_text_digit(hex[2 * i + 1]));
	return true;
}

/* A link needs both ids. A single id becomes an attribute. */
static int32_t put_link(struct maker *m, const char *trace, const char *span)
{
	Spanprof__Otlp__Link pb = SPANPROF__OTLP__LINK__INIT;
	uint8_t trace_id[TRACE_ID], span_id[SPAN_ID];

	if (!read_id(trace, trace_id, TRACE_ID) || !read_id(span, span_id, SPAN_ID))
		return 0;
	pb.trace_id = (ProtobufCBinaryData){TRACE_ID, trace_id};
	pb.span_id = (ProtobufCBinaryData){SPAN_ID, span_id};
	return put_row(m, LINKS, &pb);
}

static const char *label_of(const struct maker *m, const Spanprof__Pprof__Sample *s,
			    const char *key)
{
	for (size_t i = 0; i < s->n_label; i++)
		if (strcmp(text(m, s->label[i]->key), key) == 0)
			return text(m, s->label[i]->str);
	return NULL;
}

static void put_labels(struct maker *m, const Spanprof__Pprof__Sample *from,
		       Spanprof__Otlp__Sample *pb)
{
	int32_t *index = pb->attribute_indices;

	pb->link_index = put_link(m, label_of(m, from, "trace_id"), label_of(m, from, "span_id"));
	/*
	 * Collectors write the attributes of the resource as references into the dictionary, which Pyroscope does not
	 * follow. The first attribute is the service, so each sample has it too: Pyroscope takes a service of the
	 * sample for the profile's.
	 */
	if (m->resource->n_attributes != 0)
		*index++ = put_label(m, m->resource->attributes[0]->key,
				     m->resource->attributes[0]->value->string_value);
	for (size_t i = 0; i < from->n_label; i++) {
		const char *key = text(m, from->label[i]->key);

		if (pb->link_index != 0 &&
		    (strcmp(key, "trace_id") == 0 || strcmp(key, "span_id") == 0))
			continue;
		/* OpenTelemetry has its own name for this label. */
		if (strcmp(key, "thread_name") == 0)
			key = "thread.name";
		*index++ = put_label(m, key, text(m, from->label[i]->str));
	}
	pb->n_attribute_indices = (size_t)(index - pb->attribute_indices);
}

static void add_value(struct maker *m, enum kind kind, const void *message, int64_t value)
{
	struct samples *of = &m->of[kind];
	uint32_t before = of->known.n;
	uint32_t at = put(m, &of->known, message);

	if (m->failed || !SP_GROW(of->value, of->value_cap, of->known.n, SIZE_MAX))
		m->failed = true;
	else if (at >= before)
		of->value[at] = value;
	else if (__builtin_add_overflow(of->value[at], value, &of->value[at]))
		of->value[at] = INT64_MAX;
}

static bool is_counted(enum sp_profile_type type)
{
	return type == SP_PROFILE_CPU || sp_profile_type_row(type)->is_of_memory;
}

static void put_sample(struct maker *m, const Spanprof__Pprof__Sample *from,
		       enum sp_profile_type type)
{
	Spanprof__Otlp__Stack stack = SPANPROF__OTLP__STACK__INIT;
	Spanprof__Otlp__Sample pb = SPANPROF__OTLP__SAMPLE__INIT;

	stack.location_indices = get(m, from->n_location_id, sizeof(*stack.location_indices));
	pb.attribute_indices = get(m, from->n_label + 1, sizeof(*pb.attribute_indices));
	if (m->failed)
		return;
	for (; stack.n_location_indices < from->n_location_id; stack.n_location_indices++)
		stack.location_indices[stack.n_location_indices] =
			m->location[from->location_id[stack.n_location_indices]];
	pb.stack_index = put_row(m, STACKS, &stack);
	put_labels(m, from, &pb);
	if (is_counted(type) && from->value[0] != 0)
		add_value(m, COUNTED, &pb, from->value[0]);
	add_value(m, MEASURED, &pb, from->value[1]);
}

static Spanprof__Otlp__ValueType type_of(struct maker *m, const char *type, const char *unit)
{
	Spanprof__Otlp__ValueType pb = SPANPROF__OTLP__VALUE_TYPE__INIT;

	pb.type_strindex = put_text(m, type);
	pb.unit_strindex = put_text(m, unit);
	return pb;
}

/* A whole table as a list of messages, or of texts if there is no descriptor. */
static size_t list(struct maker *m, const ProtobufCMessageDescriptor *of,
		   const struct sp_strtab *table, uint32_t first, void *out)
{
	ProtobufCAllocator memory = sp_pool_allocator(&m->pool);
	void **row = get(m, table->n, sizeof(*row));
	size_t n = 0;

	for (uint32_t i = first; !m->failed && i < table->n; i++) {
		size_t len;
		const char *bytes = sp_strtab_get(table, i, &len);

		if (of != NULL)
			row[n] =
				protobuf_c_message_unpack(of, &memory, len, (const uint8_t *)bytes);
		else
			memcpy(&row[n], &bytes, sizeof(bytes));
		m->failed = row[n++] == NULL;
	}
	memcpy(out, &row, sizeof(row));
	return n;
}

/* The zero link stands for no link. Its ids have full length, because some readers expect that. */
static void fill_zero_link(Spanprof__Otlp__ProfilesDictionary *to)
{
	static uint8_t zero[TRACE_ID];

	to->link_table[0]->trace_id = (ProtobufCBinaryData){TRACE_ID, zero};
	to->link_table[0]->span_id = (ProtobufCBinaryData){SPAN_ID, zero};
}

static void put_tables(struct maker *m, Spanprof__Otlp__ProfilesDictionary *to)
{
	for (unsigned i = 0; i < TABLES; i++) {
		const ProtobufCFieldDescriptor *f =
			&spanprof__otlp__profiles_dictionary__descriptor.fields[i];
		size_t n = list(m, f->descriptor, &m->table[i], 0, (char *)to + f->offset);

		memcpy((char *)to + f->quantifier_offset, &n, sizeof(n));
	}
	if (!m->failed)
		fill_zero_link(to);
}

/* Fills one of the two profiles, except the dictionary. */
static void put_samples(struct maker *m, enum kind kind, Spanprof__Otlp__Profile *pb)
{
	spanprof__otlp__profile__init(pb);
	pb->time_unix_nano = (uint64_t)m->from->time_nanos;
	pb->duration_nano = (uint64_t)m->from->duration_nanos;
	pb->period = m->from->period;
	pb->n_samples =
		list(m, &spanprof__otlp__sample__descriptor, &m->of[kind].known, 1, &pb->samples);
	for (size_t i = 0; !m->failed && i < pb->n_samples; i++) {
		pb->samples[i]->n_values = 1;
		pb->samples[i]->values = &m->of[kind].value[i + 1];
	}
}

static void pack(struct maker *m, enum sp_profile_type of, struct sp_bytes *out)
{
	const struct sp_profile_type_names *names = &sp_profile_type_row(of)->names;
	Spanprof__Otlp__ExportProfilesServiceRequest all =
		SPANPROF__OTLP__EXPORT_PROFILES_SERVICE_REQUEST__INIT;
	Spanprof__Otlp__ProfilesDictionary dictionary = SPANPROF__OTLP__PROFILES_DICTIONARY__INIT;
	Spanprof__Otlp__ResourceProfiles resource = SPANPROF__OTLP__RESOURCE_PROFILES__INIT;
	Spanprof__Otlp__ResourceProfiles *resources[] = {&resource};
	Spanprof__Otlp__ScopeProfiles scope = SPANPROF__OTLP__SCOPE_PROFILES__INIT;
	Spanprof__Otlp__ScopeProfiles *scopes[] = {&scope};
	Spanprof__Otlp__InstrumentationScope us;
	Spanprof__Otlp__Profile profile[KINDS], *profiles[KINDS];
	char name[] = "spanprof";
	int32_t comments = put_comments(m);
	/*
	 * The period is empty if samples have no period. Pyroscope needs the message all the same. It names the
	 * profile by the type of its period, so this is "memory" there. It calls samples with a period of CPU time
	 * "process_cpu", and multiplies them.
	 */
	bool is_memory = sp_profile_type_row(of)->is_of_memory;
	Spanprof__Otlp__ValueType period =
		type_of(m, is_memory ? names->series : names->period, names->period_unit);
	Spanprof__Otlp__ValueType type[KINDS];

	spanprof__otlp__instrumentation_scope__init(&us);
	us.name = name;
	scope.scope = &us;
	scope.profiles = profiles;
	for (unsigned i = 0; i < KINDS; i++) {
		Spanprof__Otlp__Profile *pb = &profile[i];

		put_samples(m, i, pb);
		/* A profile without samples means that nothing was sampled or allocated; one of the two suffices. */
		if (pb->n_samples == 0 && i == COUNTED)
			continue;
		type[i] = type_of(m, i == COUNTED ? names->count : names->sample,
				  i == COUNTED ? "count" : names->unit);
		pb->sample_type = &type[i];
		pb->period_type = &period;
		pb->n_attribute_indices = comments != 0;
		pb->attribute_indices = &comments;
		profiles[scope.n_profiles++] = pb;
	}
	put_tables(m, &dictionary);
	resource.resource = m->resource;
	resource.n_scope_profiles = 1;
	resource.scope_profiles = scopes;
	all.n_resource_profiles = 1;
	all.resource_profiles = resources;
	all.dictionary = &dictionary;
	if (m->failed)
		return;
	out->data = malloc(spanprof__otlp__export_profiles_service_request__get_packed_size(&all));
	if (out->data != NULL)
		out->len = spanprof__otlp__export_profiles_service_request__pack(&all, out->data);
}

int sp_otlp_make(const struct sp_bytes *pprof, enum sp_profile_type type,
		 const struct sp_bytes *resource, struct sp_bytes *out)
{
	struct maker m = {.failed = false};
	ProtobufCAllocator memory = sp_pool_allocator(&m.pool);
	const Spanprof__Pprof__Profile *from =
		spanprof__pprof__profile__unpack(&memory, pprof->len, pprof->data);

	*out = (struct sp_bytes){NULL, 0};
	m.from = from;
	m.resource = spanprof__otlp__resource__unpack(&memory, resource->len, resource->data);
	m.failed = from == NULL || m.resource == NULL;
	for (unsigned i = 0; i < TABLES; i++)
		m.failed = sp_strtab_init(&m.table[i]) != 0 || m.failed;
	for (unsigned i = 0; i < KINDS; i++)
		m.failed = sp_strtab_init(&m.of[i].known) != 0 || m.failed;
	if (!m.failed)
		m.location = get(&m, from->n_location, sizeof(*m.location));
	for (size_t i = 0; !m.failed && i < from->n_location; i++)
		m.location[i + 1] = put_location(&m, from->location[i]);
	for (size_t i = 0; !m.failed && i < from->n_sample; i++)
		put_sample(&m, from->sample[i], type);
	if (!m.failed)
		pack(&m, type, out);
	for (unsigned i = 0; i < TABLES; i++)
		sp_strtab_fini(&m.table[i]);
	for (unsigned i = 0; i < KINDS; i++) {
		sp_strtab_fini(&m.of[i].known);
		free(m.of[i].value);
	}
	free(m.packed.data);
	sp_pool_fini(&m.pool);
	return out->data != NULL ? 0 : -ENOMEM;
}

int sp_otlp_resource(const struct sp_label *attributes, size_t n, struct sp_bytes *out)
{
	Spanprof__Otlp__Resource resource = SPANPROF__OTLP__RESOURCE__INIT;
	struct sp_pool pool = {NULL, 0};
	pb_value *value = sp_pool_get(&pool, (n + 1) * sizeof(*value));

	*out = (struct sp_bytes){NULL, 0};
	if (value != NULL && sp_pool_messages(&pool, &spanprof__otlp__key_value__descriptor, n,
					      &resource.attributes)) {
		for (; resource.n_attributes < n; resource.n_attributes++) {
			size_t i = resource.n_attributes;

			memcpy(&resource.attributes[i]->key, &attributes[i].name, sizeof(char *));
			set_text(&value[i], attributes[i].value);
			resource.attributes[i]->value = &value[i];
		}
		out->data = malloc(spanprof__otlp__resource__get_packed_size(&resource) + 1);
	}
	if (out->data != NULL)
		out->len = spanprof__otlp__resource__pack(&resource, out->data);
	sp_pool_fini(&pool);
	return out->data != NULL ? 0 : -ENOMEM;
}

bool sp_otlp_answer(const void *body, size_t len, bool is_good, int64_t *rejected, char *text,
		    size_t cap)
{
	struct sp_pool pool = {NULL, 0};
	ProtobufCAllocator memory = sp_pool_allocator(&pool);
	const Spanprof__Otlp__ExportProfilesServiceResponse *good = NULL;
	const Spanprof__Otlp__ExportProfilesPartialSuccess *said;

	if (is_good) {
		good = spanprof__otlp__export_profiles_service_response__unpack(&memory, len, body);
		said = good != NULL ? good->partial_success : NULL;
	} else {
		said = spanprof__otlp__export_profiles_partial_success__unpack(&memory, len, body);
	}
	*rejected = is_good && said != NULL ? said->rejected_profiles : 0;
	(void)snprintf(text, cap, "%s", said != NULL ? said->error_message : "");
	sp_pool_fini(&pool);
	return good != NULL || said != NULL;
}
