/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds a profile in OTLP. Its dictionary has seven tables. In each the first element is the zero value, which packs
 * to nothing, none is there twice, and none is there that nothing refers to. A table of interned texts is all of that,
 * so each element is packed at once and looked up by its bytes. A sample is known by all of it but its value; of two
 * with the same stack and labels the values are added.
 *
 * The packed size is kept up to date, so that a profile can be closed before it is too large for a server. Context: the
 * exporter.
 */
#include "export/profile/otlp.h"

#include <errno.h>
#include <limits.h>
#include <protobuf-c/protobuf-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/profile/packed.h"
#include "export/profile/stack_map.h"
#include "export/symbols/lines.h"
#include "export/util/containers.h"
#include "otlp.pb-c.h"
#include "sampler/base/compiler.h"
#include "sampler/base/text.h"

#define STRING_MAX 2048U
#define COMMENTS_MAX 64U
#define SAMPLE_FIELD 2U
#define VALUE_BYTES 12U /* of the field of a value: tag, length and the longest number */
#define LABELS SP_SAMPLE_LABELS_MAX
#define TRACE_ID 16U
#define SPAN_ID 8U

/* In the order of the dictionary's fields, which are numbered from 1. */
enum table { MAPPINGS, LOCATIONS, FUNCTIONS, LINKS, STRINGS, ATTRIBUTES, STACKS, TABLES };

_Static_assert((unsigned)TABLES == SP_PROFILE_TABLES, "a mark has room for them");

/*
 * Servers know CPU time as a number of samples with a period. CPU time between samples is no multiple of it, so it is
 * in a profile of its own, whose period is a nanosecond.
 */
enum kind { SAMPLED, BETWEEN, KINDS };

struct samples {
	struct sp_strtab known; /* all of a sample but the value */
	int64_t *value;
	size_t value_cap;
};

typedef Spanprof__Otlp__AnyValue pb_value;

struct sp_otlp {
	struct sp_pprof_limits limits;
	struct sp_pprof_times times;
	struct sp_strtab table[TABLES];
	struct samples of[KINDS];
	struct sp_strtab comment;
	bool has_attributes;
	int32_t attribute; /* of the profile: its comments */
	Spanprof__Otlp__ValueType type, period_type;
	struct sp_packed packed; /* the element that is being interned */
	int32_t *index;          /* of the locations of a stack */
	size_t index_cap;
	size_t bytes;
};

static int put(struct sp_otlp *p, enum table table, const void *bytes, size_t len, int32_t *index)
{
	uint32_t before = p->table[table].n;
	uint32_t at;

	if (sp_strtab_put(&p->table[table], bytes, len, &at) != 0)
		return -ENOMEM;
	if (p->table[table].n != before)
		p->bytes += sp_packed_framed(len);
	*index = (int32_t)at;
	return 0;
}

/* Packs a message where the last one was. */
static bool pack(struct sp_otlp *p, const ProtobufCMessage *message)
{
	p->packed.len = 0;
	if (!sp_packed_reserve(&p->packed, protobuf_c_message_get_packed_size(message) + 1))
		return false;
	p->packed.len = protobuf_c_message_pack(message, p->packed.data);
	return true;
}

static int put_message(struct sp_otlp *p, enum table table, const ProtobufCMessage *message,
		       int32_t *index)
{
	return pack(p, message) ? put(p, table, p->packed.data, p->packed.len, index) : -ENOMEM;
}

static int put_text(struct sp_otlp *p, const char *s, int32_t *index)
{
	char clean[STRING_MAX];

	return put(p, STRINGS, clean, sp_text_clean(clean, sizeof(clean), s, strlen(s)), index);
}

static int put_attribute(struct sp_otlp *p, const char *key, pb_value *value, int32_t *index)
{
	Spanprof__Otlp__KeyValueAndUnit pb = SPANPROF__OTLP__KEY_VALUE_AND_UNIT__INIT;

	pb.value = value;
	if (put_text(p, key, &pb.key_strindex) != 0)
		return -ENOMEM;
	return put_message(p, ATTRIBUTES, &pb.base, index);
}

/* protobuf-c's strings are not const, but packing only reads them. */
static void set_text(pb_value *value, const char *text)
{
	spanprof__otlp__any_value__init(value);
	value->value_case = SPANPROF__OTLP__ANY_VALUE__VALUE_STRING_VALUE;
	memcpy(&value->string_value, &text, sizeof(text));
}

/* Adds one more index to those of an element, unless the text is empty. */
static int put_label(struct sp_otlp *p, const char *key, const char *text, int32_t *indices,
		     size_t *n)
{
	char clean[STRING_MAX + 1];
	pb_value value;

	clean[sp_text_clean(clean, STRING_MAX, text, strlen(text))] = '\0';
	if (clean[0] == '\0')
		return 0;
	set_text(&value, clean);
	return put_attribute(p, key, &value, &indices[(*n)++]);
}

static int put_type(struct sp_otlp *p, const char *type, const char *unit,
		    Spanprof__Otlp__ValueType *out)
{
	spanprof__otlp__value_type__init(out);
	return put_text(p, type, &out->type_strindex) == 0 ? put_text(p, unit, &out->unit_strindex)
							   : -ENOMEM;
}

static void otlp_free(void *profile)
{
	struct sp_otlp *p = profile;

	if (p == NULL)
		return;
	for (unsigned i = 0; i < TABLES; i++)
		sp_strtab_fini(&p->table[i]);
	for (unsigned i = 0; i < KINDS; i++) {
		sp_strtab_fini(&p->of[i].known);
		free(p->of[i].value);
	}
	sp_strtab_fini(&p->comment);
	free(p->index);
	free(p->packed.data);
	free(p);
}

static void *otlp_begin(const struct sp_pprof_limits *limits, const struct sp_pprof_times *times)
{
	const struct sp_profile_type_names *names = sp_profile_type_names(times->type);
	bool is_cpu = times->type == SP_PROFILE_CPU;
	struct sp_otlp *p = calloc(1, sizeof(*p));
	int err = p != NULL ? 0 : -ENOMEM;

	if (err != 0)
		return NULL;
	p->limits = *limits;
	p->times = *times;
	/* What is around the tables and the samples, and their zero values. */
	p->bytes = times->resource->len + 256;
	for (unsigned i = 0; err == 0 && i < TABLES; i++)
		err = sp_strtab_init(&p->table[i]);
	for (unsigned i = 0; err == 0 && i < KINDS; i++)
		err = sp_strtab_init(&p->of[i].known);
	if (err == 0)
		err = sp_strtab_init(&p->comment);
	if (err == 0)
		err = put_type(p, is_cpu ? "samples" : names->sample,
			       is_cpu ? "count" : names->unit, &p->type);
	if (err == 0)
		err = put_type(p, names->period, names->period_unit, &p->period_type);
	if (err == 0)
		return p;
	otlp_free(p);
	return NULL;
}

static int otlp_comment(void *profile, const char *text)
{
	struct sp_otlp *p = profile;
	char clean[STRING_MAX];
	uint32_t at;

	if (p->comment.n > COMMENTS_MAX)
		return 0;
	return sp_strtab_put(&p->comment, clean,
			     sp_text_clean(clean, sizeof(clean), text, strlen(text)), &at);
}

static int put_comments(struct sp_otlp *p)
{
	pb_value text[COMMENTS_MAX + 1];
	pb_value *all[COMMENTS_MAX + 1];
	Spanprof__Otlp__ArrayValue list = SPANPROF__OTLP__ARRAY_VALUE__INIT;
	pb_value value = SPANPROF__OTLP__ANY_VALUE__INIT;

	for (uint32_t i = 1; i < p->comment.n; i++) {
		set_text(&text[i], p->comment.bytes + p->comment.offset[i]);
		all[list.n_values++] = &text[i];
	}
	list.values = all;
	value.value_case = SPANPROF__OTLP__ANY_VALUE__VALUE_ARRAY_VALUE;
	value.array_value = &list;
	p->has_attributes = true;
	return list.n_values == 0
		       ? 0
		       : put_attribute(p, "pprof.profile.comment", &value, &p->attribute);
}

static int otlp_mapping(void *profile, const struct sp_pprof_mapping *m, uint64_t *id)
{
	struct sp_otlp *p = profile;
	Spanprof__Otlp__Mapping pb = SPANPROF__OTLP__MAPPING__INIT;
	int32_t attribute, index;

	/* All of them are known by now, and before the first sample nothing is taken back. */
	if (!p->has_attributes && put_comments(p) != 0)
		return -ENOMEM;
	pb.attribute_indices = &attribute;
	/* What has no place in memory, such as a marker, has neither begin nor end. */
	if (m->start < m->limit) {
		pb.memory_start = m->start;
		pb.memory_limit = m->limit;
	}
	pb.file_offset = m->offset;
	if (put_text(p, m->file, &pb.filename_strindex) != 0 ||
	    put_label(p, "process.executable.build_id.gnu", m->build_id, &attribute,
		      &pb.n_attribute_indices) != 0 ||
	    put_message(p, MAPPINGS, &pb.base, &index) != 0)
		return -ENOMEM;
	*id = (uint64_t)index;
	return 0;
}

static int otlp_function(void *profile, const char *name, const char *system_name, const char *file,
			 uint64_t *id)
{
	struct sp_otlp *p = profile;
	Spanprof__Otlp__Function pb = SPANPROF__OTLP__FUNCTION__INIT;
	int32_t index;

	if (put_text(p, name, &pb.name_strindex) != 0 ||
	    put_text(p, system_name, &pb.system_name_strindex) != 0 ||
	    put_text(p, file, &pb.filename_strindex) != 0 ||
	    put_message(p, FUNCTIONS, &pb.base, &index) != 0)
		return -ENOMEM;
	*id = (uint64_t)index;
	return 0;
}

static int otlp_location(void *profile, uint64_t mapping, uint64_t address,
			 const struct sp_pprof_line *line, size_t lines, uint64_t *id)
{
	struct sp_otlp *p = profile;
	Spanprof__Otlp__Location pb = SPANPROF__OTLP__LOCATION__INIT;
	Spanprof__Otlp__Line body[SP_LINES_DEPTH];
	Spanprof__Otlp__Line *all[SP_LINES_DEPTH];
	int32_t attribute, index;

	for (; pb.n_lines < lines && pb.n_lines < SP_LINES_DEPTH; pb.n_lines++) {
		size_t i = pb.n_lines;

		spanprof__otlp__line__init(&body[i]);
		body[i].function_index = (int32_t)line[i].function;
		body[i].line = line[i].line;
		all[i] = &body[i];
	}
	pb.mapping_index = (int32_t)mapping;
	pb.address = address;
	pb.lines = all;
	pb.attribute_indices = &attribute;
	/* A marker is no frame of anything. */
	if ((address != 0 && put_label(p, "profile.frame.type", "native", &attribute,
				       &pb.n_attribute_indices) != 0) ||
	    put_message(p, LOCATIONS, &pb.base, &index) != 0)
		return -ENOMEM;
	*id = (uint64_t)index;
	return 0;
}

static int put_stack(struct sp_otlp *p, const struct sp_pprof_sample *s, int32_t *index)
{
	Spanprof__Otlp__Stack pb = SPANPROF__OTLP__STACK__INIT;

	if (!SP_GROW(p->index, p->index_cap, s->locations + 1, SIZE_MAX))
		return -ENOMEM;
	for (size_t i = 0; i < s->locations; i++)
		p->index[i] = (int32_t)s->location[i];
	pb.n_location_indices = s->locations;
	pb.location_indices = p->index;
	return put_message(p, STACKS, &pb.base, index);
}

/* A link needs both ids. Without one of them the other one is an attribute. */
static int put_link(struct sp_otlp *p, const struct sp_pprof_sample *s, int32_t *index)
{
	Spanprof__Otlp__Link pb = SPANPROF__OTLP__LINK__INIT;
	uint8_t id[TRACE_ID + SPAN_ID];

	if (s->link == NULL)
		return 0;
	memcpy(id, s->link->trace_id, TRACE_ID);
	memcpy(id + TRACE_ID, &s->link->span_id, SPAN_ID);
	pb.trace_id = (ProtobufCBinaryData){TRACE_ID, id};
	pb.span_id = (ProtobufCBinaryData){SPAN_ID, id + TRACE_ID};
	return put_message(p, LINKS, &pb.base, index);
}

/* What a label is called that OpenTelemetry has a name for. */
static const char *attribute_key(const char *label)
{
	return strcmp(label, "thread_name") == 0 ? "thread.name" : label;
}

static int put_labels(struct sp_otlp *p, const struct sp_pprof_sample *s,
		      Spanprof__Otlp__Sample *pb)
{
	int err = put_link(p, s, &pb->link_index);

	/*
	 * Collectors write the resource's attributes as references into the dictionary, which Pyroscope does not follow; a
	 * service of the sample it takes for the profile's.
	 */
	if (err == 0 && p->times.service != NULL)
		err = put_label(p, "service.name", p->times.service, pb->attribute_indices,
				&pb->n_attribute_indices);

	for (size_t i = 0; err == 0 && i < s->labels && i < LABELS; i++) {
		const struct sp_label *label = &s->label[i];
		bool is_linked = pb->link_index != 0 && (strcmp(label->name, "span_id") == 0 ||
							 strcmp(label->name, "trace_id") == 0);

		if (label->value != NULL && !is_linked)
			err = put_label(p, attribute_key(label->name), label->value,
					pb->attribute_indices, &pb->n_attribute_indices);
	}
	return err;
}

static int add_value(struct sp_otlp *p, enum kind kind, const struct sp_pprof_sample *s,
		     int64_t value)
{
	struct samples *of = &p->of[kind];
	uint32_t before = of->known.n;
	uint32_t at;

	if (sp_strtab_put(&of->known, (char *)p->packed.data, p->packed.len, &at) != 0 ||
	    !SP_GROW(of->value, of->value_cap, of->known.n, SIZE_MAX))
		return -ENOMEM;
	if (at >= before) {
		of->value[at] = value;
		/*
		 * A server may make pprof of it, where each sample has all of its stack, and judge the size of
		 * that: so the stack counts for each of them.
		 */
		p->bytes += sp_packed_framed(p->packed.len + VALUE_BYTES) + 2 * s->locations;
	} else if (__builtin_add_overflow(of->value[at], value, &of->value[at])) {
		of->value[at] = INT64_MAX;
	}
	return 0;
}

static uint32_t otlp_samples(const void *profile)
{
	const struct sp_otlp *p = profile;

	return p->of[SAMPLED].known.n + p->of[BETWEEN].known.n - 2;
}

static int otlp_sample(void *profile, const struct sp_pprof_sample *s)
{
	struct sp_otlp *p = profile;
	Spanprof__Otlp__Sample pb = SPANPROF__OTLP__SAMPLE__INIT;
	int64_t unit = p->times.type == SP_PROFILE_CPU ? p->times.period_ns : 1;
	int32_t attribute[LABELS + 1];
	int err = 0;

	pb.attribute_indices = attribute;
	if (put_stack(p, s, &pb.stack_index) != 0 || put_labels(p, s, &pb) != 0 ||
	    !pack(p, &pb.base))
		return -ENOMEM;
	if (unit == 1 || s->count != 0)
		err = add_value(p, SAMPLED, s, s->ns / unit);
	if (err == 0 && unit != 1 && (s->count == 0 || s->ns % unit != 0))
		err = add_value(p, BETWEEN, s, s->count == 0 ? s->ns : s->ns % unit);
	if (err == 0 && (otlp_samples(p) > p->limits.samples || p->bytes > p->limits.bytes))
		err = -E2BIG;
	return err;
}

static void otlp_mark(const void *profile, struct sp_pprof_mark *mark)
{
	const struct sp_otlp *p = profile;

	mark->samples = otlp_samples(p);
	for (unsigned i = 0; i < TABLES; i++)
		mark->rows[i] = p->table[i].n;
	mark->packed = p->of[BETWEEN].known.n;
	mark->bytes = p->bytes;
}

static void otlp_rewind(void *profile, const struct sp_pprof_mark *mark)
{
	struct sp_otlp *p = profile;

	sp_strtab_cut(&p->of[BETWEEN].known, (uint32_t)mark->packed);
	sp_strtab_cut(&p->of[SAMPLED].known, mark->samples + 2 - (uint32_t)mark->packed);
	for (unsigned i = 0; i < TABLES; i++)
		sp_strtab_cut(&p->table[i], mark->rows[i]);
	p->bytes = mark->bytes;
}

/* The profile, with its samples one by one. */
static int pack_profile(struct sp_otlp *p, enum kind kind, struct sp_packed *out)
{
	const struct sp_strtab *known = &p->of[kind].known;
	Spanprof__Otlp__Profile head = SPANPROF__OTLP__PROFILE__INIT;

	head.sample_type = &p->type;
	head.time_unix_nano = (uint64_t)p->times.time_ns;
	head.duration_nano = (uint64_t)p->times.duration_ns;
	/* Where nothing is sampled by a period it is empty; Pyroscope needs the message all the same. */
	head.period_type = &p->period_type;
	head.period = kind == BETWEEN ? 1 : p->times.period_ns;
	head.n_attribute_indices = p->attribute != 0;
	head.attribute_indices = &p->attribute;
	if (!sp_packed_reserve(out, spanprof__otlp__profile__get_packed_size(&head)))
		return -ENOMEM;
	out->len += spanprof__otlp__profile__pack(&head, out->data);
	for (uint32_t i = 1; i < known->n; i++) {
		Spanprof__Otlp__Sample rest = SPANPROF__OTLP__SAMPLE__INIT;
		uint8_t value[VALUE_BYTES];
		size_t len, n;
		const char *bytes = sp_strtab_get(known, i, &len);

		rest.n_values = 1;
		rest.values = &p->of[kind].value[i];
		n = spanprof__otlp__sample__pack(&rest, value);
		if (!sp_packed_reserve(out, sp_packed_framed(len + n)))
			return -ENOMEM;
		sp_packed_head(out, SAMPLE_FIELD, len + n);
		memcpy(out->data + out->len, bytes, len);
		memcpy(out->data + out->len + len, value, n);
		out->len += len + n;
	}
	return 0;
}

static int pack_dictionary(const struct sp_otlp *p, struct sp_packed *out)
{
	for (unsigned table = 0; table < TABLES; table++)
		for (uint32_t i = 0; i < p->table[table].n; i++) {
			size_t len;
			const char *bytes = sp_strtab_get(&p->table[table], i, &len);

			if (!sp_packed_reserve(out, sp_packed_framed(len)))
				return -ENOMEM;
			sp_packed_field(out, table + 1, bytes, len);
		}
	return 0;
}

/* From the inside to the outside, as each length comes before what it is of. */
static int otlp_pack(void *profile, struct sp_bytes *out)
{
	static const uint8_t scope[] = "\x0a\x08spanprof";
	struct sp_otlp *p = profile;
	const struct sp_bytes *resource = p->times.resource;
	struct sp_packed body[KINDS] = {{0}}, dictionary = {0}, all = {0};
	size_t scope_profiles = sp_packed_framed(sizeof(scope) - 1);
	size_t resource_profiles;
	int err = pack_dictionary(p, &dictionary);

	for (unsigned i = 0; err == 0 && i < KINDS; i++) {
		/* A profile without samples says that there are none. */
		if (p->of[i].known.n > 1 || (i == SAMPLED && otlp_samples(p) == 0))
			err = pack_profile(p, (enum kind)i, &body[i]);
		if (body[i].len != 0)
			scope_profiles += sp_packed_framed(body[i].len);
	}
	resource_profiles = sp_packed_framed(resource->len) + sp_packed_framed(scope_profiles);
	if (err == 0 && sp_packed_reserve(&all, sp_packed_framed(resource_profiles) +
							sp_packed_framed(dictionary.len))) {
		sp_packed_head(&all, 1, resource_profiles);
		sp_packed_field(&all, 1, resource->data, resource->len);
		sp_packed_head(&all, 2, scope_profiles);
		sp_packed_field(&all, 1, scope, sizeof(scope) - 1);
		for (unsigned i = 0; i < KINDS; i++)
			if (body[i].len != 0)
				sp_packed_field(&all, 2, body[i].data, body[i].len);
		sp_packed_field(&all, 2, dictionary.data, dictionary.len);
	}
	for (unsigned i = 0; i < KINDS; i++)
		free(body[i].data);
	free(dictionary.data);
	*out = (struct sp_bytes){all.data, all.len};
	return all.data != NULL ? 0 : -ENOMEM;
}

const struct sp_profile_writer sp_otlp_writer = {
	.begin = otlp_begin,
	.free = otlp_free,
	.comment = otlp_comment,
	.mapping = otlp_mapping,
	.function = otlp_function,
	.location = otlp_location,
	.sample = otlp_sample,
	.mark = otlp_mark,
	.rewind = otlp_rewind,
	.samples = otlp_samples,
	.pack = otlp_pack,
};

int sp_otlp_resource(const struct sp_label *attributes, size_t n, struct sp_bytes *out)
{
	struct sp_packed all = {0};

	out->data = NULL;
	for (size_t i = 0; i < n; i++) {
		Spanprof__Otlp__KeyValue pair;
		pb_value value;
		size_t size;

		spanprof__otlp__key_value__init(&pair);
		memcpy(&pair.key, &attributes[i].name, sizeof(char *));
		set_text(&value, attributes[i].value);
		pair.value = &value;
		size = spanprof__otlp__key_value__get_packed_size(&pair);
		if (!sp_packed_reserve(&all, sp_packed_framed(size))) {
			free(all.data);
			return -ENOMEM;
		}
		sp_packed_head(&all, 1, size);
		all.len += spanprof__otlp__key_value__pack(&pair, all.data + all.len);
	}
	*out = (struct sp_bytes){all.data, all.len};
	return 0;
}

bool sp_otlp_answer(const void *body, size_t len, bool is_good, int64_t *rejected, char *text,
		    size_t cap)
{
	Spanprof__Otlp__ExportProfilesServiceResponse *good = NULL;
	Spanprof__Otlp__Status *bad = NULL;

	*rejected = 0;
	text[0] = '\0';
	if (is_good)
		good = spanprof__otlp__export_profiles_service_response__unpack(NULL, len, body);
	else
		bad = spanprof__otlp__status__unpack(NULL, len, body);
	if (good != NULL && good->partial_success != NULL) {
		*rejected = good->partial_success->rejected_profiles;
		(void)snprintf(text, cap, "%s", good->partial_success->error_message);
	} else if (bad != NULL) {
		(void)snprintf(text, cap, "%s", bad->message);
	}
	if (good != NULL)
		spanprof__otlp__export_profiles_service_response__free_unpacked(good, NULL);
	if (bad != NULL)
		spanprof__otlp__status__free_unpacked(bad, NULL);
	return good != NULL || bad != NULL;
}
