/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles in OTLP, from random samples and waits: the double accepts them by the rules of test/pyroscope/otlp.c, and
 * its figures for each span equal those from pprof. Then each rule is broken once in a good profile, which must be
 * noticed. With OTLP_FOLDER=PATH all of them become files there, for OpenTelemetry's own checker; OTLP_HOSTS=N makes
 * N hosts of random samples.
 */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/profile/packed.h"
#include "export/util/containers.h"
#include "otlp.pb-c.h"
#include "test/hostile/way.h"
#include "test/pyroscope/otlp.h"

static struct way w;

/* For a message with a fault: the fault removes parts and inserts others, so all are freed at once. */
static struct sp_pool pool;

TestSuite(otlp, .fini = way_fini);

typedef Spanprof__Otlp__ExportProfilesServiceRequest pb_request;
typedef Spanprof__Otlp__ProfilesDictionary pb_dictionary;
typedef Spanprof__Otlp__Profile pb_profile;

static void write_file(const char *kind, const char *name, unsigned n, const void *data, size_t len)
{
	const char *folder = getenv("OTLP_FOLDER");
	char path[512];
	FILE *f;

	if (folder == NULL)
		return;
	(void)snprintf(path, sizeof(path), "%s/%s-%05u-%s.otlp", folder, kind, n, name);
	f = fopen(path, "w");
	cr_assert_not_null(f, "%s", path);
	cr_assert_eq(fwrite(data, 1, len, f), len);
	cr_assert_eq(fclose(f), 0);
}

static const char *text_of(uint32_t id, size_t *len)
{
	static const char *const texts[] = {"GET /",  "cpu",      "samples", "span_id",    "",
					    "\xff\n", "trace_id", "native",  "thread.name"};

	*len = strlen(texts[id % SP_ARRAY_LEN(texts)]);
	return texts[id % SP_ARRAY_LEN(texts)];
}

static uint64_t some_pc(uint64_t *state)
{
	switch (way_random(state) % 3) {
	case 0:
		return way_random(state) % 64;
	case 1:
		return (uintptr_t)&malloc + way_random(state) % 256;
	default:
		return (uintptr_t)&way_start + way_random(state) % 4096;
	}
}

static void make_labels(struct sp_stack_labels *l, uint64_t *state)
{
	memset(l, 0, sizeof(*l));
	if (way_random(state) % 3 == 0)
		return;
	l->span_id = 1 + way_random(state) % 9;
	/* A span has one name and one trace. */
	l->name_id = (uint32_t)l->span_id;
	if (l->span_id % 4 != 0)
		memset(l->trace_id, 1 + (int)(l->span_id % 5), sizeof(l->trace_id));
}

static void put_sample(uint64_t *state)
{
	struct sp_stack_labels labels;
	struct sp_sample s = {.depth = (uint16_t)(way_random(state) % 6)};

	make_labels(&labels, state);
	s.span_id = labels.span_id;
	s.name_id = labels.name_id;
	memcpy(s.trace_id, labels.trace_id, sizeof(s.trace_id));
	for (unsigned i = 0; i < s.depth; i++)
		s.pc[i] = some_pc(state);
	s.flags = (uint16_t)(way_random(state) & (SP_SAMPLE_ROOTED | SP_SAMPLE_TRUNCATED));
	s.weight = 1 + (uint32_t)(way_random(state) % 3);
	memcpy(s.thread_name, "worker", sizeof("worker"));
	s.thread_name[6] = (char)('0' + way_random(state) % 3);
	way_put(&w, &s);
}

/* CPU time between samples, which may belong to a span as well. */
static void put_cpu_time(uint64_t *state)
{
	struct sp_stack_labels labels;
	struct sp_cpu_time t = {.start = (uintptr_t)&way_start + way_random(state) % 64,
				.ns = 1 + way_random(state) % 50000000};

	make_labels(&labels, state);
	t.span_id = labels.span_id;
	t.name_id = labels.name_id;
	memcpy(t.trace_id, labels.trace_id, sizeof(t.trace_id));
	(void)sp_stack_map_put_cpu_time(w.map, &t, 0, 0);
}

static void put_wait(uint64_t *state)
{
	struct sp_stack_labels labels;
	uint64_t pc[6];
	struct sp_stack_wait wait = {.labels = &labels, .ns = 1 + way_random(state) % 100000000};

	make_labels(&labels, state);
	labels.blocked_by_span_id = way_random(state) % 3;
	wait.stack = (struct sp_stack){.pc = pc, .depth = (uint16_t)(way_random(state) % 6)};
	for (unsigned i = 0; i < wait.stack.depth; i++)
		pc[i] = some_pc(state);
	(void)sp_stack_map_put_wait(w.waits, &wait);
}

/* Sends the host with that number, and returns the double's data about it. */
static json_t *send_host(unsigned number, enum sp_protocol protocol)
{
	uint64_t state = number * UINT64_C(0x9e3779b97f4a7c15) + 11;
	unsigned samples = 1 + (unsigned)(way_random(&state) % 60);
	unsigned waits = (unsigned)(way_random(&state) % 30);
	char what[32];
	json_t *spans;

	(void)snprintf(what, sizeof(what), "host %u", number);
	way_start(&w);
	w.name_text = text_of;
	w.config.protocol = protocol;
	w.config.thread_name = number % 2 != 0;
	w.config.labels = "team=a,k8s_pod_name=mine,span_id=no";
	w.config.resource_attributes =
		"service.name=other,k8s.pod.name=pod%2D1,a.b=%C3%A9,empty=,thread_name=x";
	for (unsigned i = 0; i < samples; i++)
		put_sample(&state);
	for (uint64_t i = way_random(&state) % 9; i != 0; i--)
		put_cpu_time(&state);
	if (waits != 0)
		w.waits = sp_stack_map_new(&sp_stack_limits_default);
	for (unsigned i = 0; i < waits; i++)
		put_wait(&state);
	way_send(&w, what);
	cr_expect_eq(pd_losses_total(&w.server.stats.losses), 0, "%s", what);
	cr_expect(protocol == SP_PROTOCOL_OTLP || w.server.stats.profiles == w.profiles, "%s",
		  what);
	if (protocol == SP_PROTOCOL_OTLP)
		write_file("good", "host", number, w.last.data, w.last.len);
	spans = pd_spans_json(&w.server);
	way_end(&w);
	return spans;
}

/* Compares the figures that both have: only pprof has numbers of samples, by which rows are merged. */
static void expect_same(json_t *a, json_t *b, const char *what, unsigned number)
{
	static const char *const texts[] = {"trace_id", "span_name", "service"};
	const char *key;
	json_t *value;

	cr_expect_eq(json_object_size(a), json_object_size(b), "host %u: %s", number, what);
	json_object_foreach(a, key, value)
	{
		json_t *other = json_object_get(b, key);

		cr_expect_eq(json_integer_value(json_object_get(value, "ns")),
			     json_integer_value(json_object_get(other, "ns")), "host %u: %s of %s",
			     number, what, key);
		for (unsigned i = 0; i < SP_ARRAY_LEN(texts); i++) {
			const char *one = json_string_value(json_object_get(value, texts[i]));
			const char *two = json_string_value(json_object_get(other, texts[i]));

			cr_expect(one == two ||
					  (one != NULL && two != NULL && strcmp(one, two) == 0),
				  "host %u: %s of %s", number, texts[i], key);
		}
	}
}

Test(otlp, says_of_each_span_what_pprof_says, .timeout = 600)
{
	const char *wanted = getenv("OTLP_HOSTS");
	unsigned hosts = wanted != NULL ? (unsigned)atoi(wanted) : 200;

	for (unsigned i = 0; i < hosts; i++) {
		json_t *pprof = send_host(i, SP_PROTOCOL_PUSH);
		json_t *otlp = send_host(i, SP_PROTOCOL_OTLP);

		cr_expect_gt(json_object_size(json_object_get(otlp, "services")), 0);
		expect_same(json_object_get(pprof, "spans"), json_object_get(otlp, "spans"), "time",
			    i);
		expect_same(json_object_get(pprof, "span_names"),
			    json_object_get(otlp, "span_names"), "time", i);
		expect_same(json_object_get(pprof, "services"), json_object_get(otlp, "services"),
			    "time", i);
		json_decref(pprof);
		json_decref(otlp);
	}
}

/* OTLP needs more bytes than pprof for many short stacks without labels. */
Test(otlp, is_within_the_limits, .timeout = 60)
{
	way_start(&w);
	w.limits.bytes = 20000;
	w.config.protocol = SP_PROTOCOL_OTLP;
	for (unsigned i = 0; i < 3000; i++) {
		struct sp_sample s = {.depth = 3, .flags = SP_SAMPLE_ROOTED, .weight = 1};

		for (unsigned k = 0, rest = i; k < s.depth; k++, rest /= 16)
			s.pc[k] = (uintptr_t)&way_start + 16 + rest % 16;
		way_put(&w, &s);
	}
	way_send(&w, "small");
	cr_expect_gt(w.profiles, 2);
	cr_expect_eq(w.sent, w.put);
	way_end(&w);
}

/* A profile with everything that the rules are about. */
static void make_good(void)
{
	uint64_t state = 5;

	way_start(&w);
	w.name_text = text_of;
	w.config.protocol = SP_PROTOCOL_OTLP;
	w.config.thread_name = true;
	for (unsigned i = 0; i < 40; i++)
		put_sample(&state);
	way_send(&w, "good");
	cr_assert_eq(w.server.stats.profiles, 2, "samples, and CPU time");
}

static pb_request *message;
static pb_dictionary *tables;
static pb_profile *profile;

static void seed_refer_to_resource_text(void)
{
	Spanprof__Otlp__AnyValue *value =
		message->resource_profiles[0]->resource->attributes[1]->value;

	value->value_case = SPANPROF__OTLP__ANY_VALUE__VALUE_STRING_VALUE_STRINDEX;
	value->string_value_strindex = 1;
}

static uint8_t zeros[16];

static int32_t twice[2];

static void seed_repeat_attribute(void)
{
	Spanprof__Otlp__Sample *s = profile->samples[0];

	twice[0] = twice[1] = s->attribute_indices[0];
	s->attribute_indices = twice;
	s->n_attribute_indices = 2;
}

static int64_t values[2] = {1, 1};

static uint64_t times[1];

static Spanprof__Otlp__Mapping *a_mapping(void)
{
	for (size_t i = 1; i < tables->n_mapping_table; i++)
		if (tables->mapping_table[i]->memory_start != 0)
			return tables->mapping_table[i];
	cr_assert(false, "no mapping");
	return NULL;
}

static void seed_break_location_attribute(void)
{
	static int32_t index[1] = {10000};

	tables->location_table[1]->n_attribute_indices = 1;
	tables->location_table[1]->attribute_indices = index;
}

/* Adds unreferenced elements behind the referenced ones. */
#define ADD(table, type, make)                                                                     \
	static void seed_add_##table(void)                                                         \
	{                                                                                          \
		static type row;                                                                   \
		size_t n = tables->n_##table;                                                      \
		void *more = sp_pool_get(&pool, (n + 1) * sizeof(tables->table[0]));               \
                                                                                                   \
		make(&row);                                                                        \
		memcpy(more, tables->table, n * sizeof(tables->table[0]));                         \
		tables->table = more;                                                              \
		tables->table[n] = (void *)&row;                                                   \
		tables->n_##table = n + 1;                                                         \
	}

static void make_mapping(Spanprof__Otlp__Mapping *m)
{
	spanprof__otlp__mapping__init(m);
	m->file_offset = 12345;
}

static void make_location(Spanprof__Otlp__Location *l)
{
	spanprof__otlp__location__init(l);
	l->address = 12345;
}

static void make_function(Spanprof__Otlp__Function *f)
{
	spanprof__otlp__function__init(f);
	f->name_strindex = 1;
	f->system_name_strindex = 2;
	f->filename_strindex = 3;
}

static void make_link(Spanprof__Otlp__Link *l)
{
	static uint8_t id[16] = {1, 2, 3};

	spanprof__otlp__link__init(l);
	l->trace_id = (ProtobufCBinaryData){16, id};
	l->span_id = (ProtobufCBinaryData){8, id};
}

static void make_attribute(Spanprof__Otlp__KeyValueAndUnit *a)
{
	static Spanprof__Otlp__AnyValue value;

	spanprof__otlp__any_value__init(&value);
	value.value_case = SPANPROF__OTLP__ANY_VALUE__VALUE_INT_VALUE;
	value.int_value = 7;
	spanprof__otlp__key_value_and_unit__init(a);
	a->key_strindex = 1;
	a->value = &value;
}

static void make_stack(Spanprof__Otlp__Stack *s)
{
	static int32_t index[3] = {1, 2, 1};

	spanprof__otlp__stack__init(s);
	s->n_location_indices = 3;
	s->location_indices = index;
}

struct text {
	char at[8];
};

static void make_text(struct text *t)
{
	strcpy(t->at, "orphan");
}

ADD(mapping_table, Spanprof__Otlp__Mapping, make_mapping)
ADD(location_table, Spanprof__Otlp__Location, make_location)
ADD(function_table, Spanprof__Otlp__Function, make_function)
ADD(link_table, Spanprof__Otlp__Link, make_link)
ADD(attribute_table, Spanprof__Otlp__KeyValueAndUnit, make_attribute)
ADD(stack_table, Spanprof__Otlp__Stack, make_stack)
ADD(string_table, struct text, make_text)

/*
 * Each fault: the owner of the rule (OpenTelemetry's checker does not know ours), the words of its message, and the
 * change to a good message.
 */
// clang-format off
#define FOR_EACH_FAULT(X) \
	X(THEIRS, lose_resources, "resource_profiles: there are none", \
	  message->n_resource_profiles = 0) \
	X(THEIRS, lose_scopes, "scope_profiles: there are none", \
	  message->resource_profiles[0]->n_scope_profiles = 0) \
	X(THEIRS, lose_profiles, "profiles: there are none", \
	  message->resource_profiles[0]->scope_profiles[0]->n_profiles = 0) \
	X(OURS, lose_dictionary, "dictionary: there is none", message->dictionary = NULL) \
	X(OURS, lose_service, "no service.name", \
	  message->resource_profiles[0]->resource->n_attributes--; \
	  message->resource_profiles[0]->resource->attributes++) \
	X(OURS, repeat_resource_key, "resource: two attributes have the same key", \
	  message->resource_profiles[0]->resource->attributes[1]->key = \
		  message->resource_profiles[0]->resource->attributes[0]->key) \
	X(OURS, refer_to_resource_text, "resource: an attribute is no plain text", \
	  seed_refer_to_resource_text()) \
	X(THEIRS, lose_tables, "stack_table: it is empty", tables->n_stack_table = 0) \
	X(THEIRS, fill_zero_mapping, "mapping_table: the first element", \
	  tables->mapping_table[0]->file_offset = 1) \
	X(THEIRS, fill_zero_location, "location_table: the first element", \
	  tables->location_table[0]->address = 1) \
	X(THEIRS, fill_zero_function, "function_table: the first element", \
	  tables->function_table[0]->name_strindex = 1) \
	X(OURS, fill_zero_link, "link_table: the first element", \
	  tables->link_table[0]->trace_id = tables->link_table[1]->trace_id) \
	X(OURS, empty_zero_link, "link_table: the first element", \
	  tables->link_table[0]->trace_id.len = tables->link_table[0]->span_id.len = 0) \
	X(THEIRS, fill_zero_text, "string_table: the first element", \
	  tables->string_table[0] = tables->string_table[1]) \
	X(THEIRS, fill_zero_attribute, "attribute_table: the first element", \
	  tables->attribute_table[0]->key_strindex = 1) \
	X(THEIRS, fill_zero_stack, "stack_table: the first element", \
	  tables->stack_table[0] = tables->stack_table[1]) \
	X(THEIRS, lose_type, "profile: it has no sample type", profile->sample_type = NULL) \
	X(OURS, lose_period_type, "profile: period and its type", profile->period_type = NULL) \
	X(THEIRS, break_type, "profile: an index is out of range", \
	  profile->sample_type->unit_strindex = 100000) \
	X(OURS, lose_time, "profile: it has no time", profile->time_unix_nano = 0) \
	X(THEIRS, break_stack_index, "sample: an index is out of range", \
	  profile->samples[0]->stack_index = (int32_t)tables->n_stack_table) \
	X(THEIRS, break_link_index, "sample: an index is out of range", \
	  profile->samples[0]->link_index = -1) \
	X(THEIRS, break_attribute_index, "profile: an index is out of range", \
	  profile->attribute_indices[0] = 100000) \
	X(THEIRS, repeat_attribute, "sample: two attributes have the same key", \
	  seed_repeat_attribute()) \
	X(THEIRS, add_value, "sample: it has not exactly one value", \
	  profile->samples[0]->n_values = 2; profile->samples[0]->values = values) \
	X(THEIRS, lose_value, "sample: it has not exactly one value", \
	  profile->samples[0]->n_values = 0) \
	X(THEIRS, add_time, "sample: it has a time of its own", \
	  times[0] = profile->time_unix_nano + profile->duration_nano; \
	  profile->samples[0]->n_timestamps_unix_nano = 1; \
	  profile->samples[0]->timestamps_unix_nano = times) \
	X(OURS, repeat_sample, "sample: two have the same stack and labels", \
	  profile->samples[1] = profile->samples[0]) \
	X(THEIRS, turn_mapping, "mapping_table: it ends before it begins", \
	  a_mapping()->memory_limit = a_mapping()->memory_start) \
	X(THEIRS, break_mapping_text, "mapping_table: an index is out of range", \
	  a_mapping()->filename_strindex = (int32_t)tables->n_string_table) \
	X(THEIRS, break_mapping_attribute, "mapping_table: an index is out of range", \
	  a_mapping()->n_attribute_indices = 1; \
	  twice[0] = -7; \
	  a_mapping()->attribute_indices = twice) \
	X(THEIRS, repeat_mapping, "mapping_table: an element is there twice", \
	  tables->mapping_table[2] = tables->mapping_table[1]) \
	X(THEIRS, break_location_mapping, "location_table: an index is out of range", \
	  tables->location_table[1]->mapping_index = 10000) \
	X(THEIRS, break_location_attribute, "location_table: an index is out of range", \
	  seed_break_location_attribute()) \
	X(THEIRS, break_line_function, "location_table: an index is out of range", \
	  tables->location_table[1]->lines[0]->function_index = 10000) \
	X(THEIRS, turn_line, "location_table: a line is below 0", \
	  tables->location_table[1]->lines[0]->line = -1) \
	X(OURS, repeat_location, "location_table: an element is there twice", \
	  tables->location_table[2] = tables->location_table[1]) \
	X(THEIRS, break_function_name, "function_table: an index is out of range", \
	  tables->function_table[1]->name_strindex = 10000) \
	X(THEIRS, break_function_system_name, "function_table: an index is out of range", \
	  tables->function_table[1]->system_name_strindex = 10000) \
	X(THEIRS, break_function_file, "function_table: an index is out of range", \
	  tables->function_table[1]->filename_strindex = 10000) \
	X(OURS, repeat_function, "function_table: an element is there twice", \
	  tables->function_table[2] = tables->function_table[1]) \
	X(THEIRS, cut_trace, "link_table: an id has a wrong length", \
	  tables->link_table[1]->trace_id.len = 15) \
	X(THEIRS, cut_span, "link_table: an id has a wrong length", \
	  tables->link_table[1]->span_id.len = 7) \
	X(OURS, clear_trace, "link_table: an id is zero", \
	  tables->link_table[1]->trace_id.data = zeros) \
	X(OURS, repeat_link, "link_table: an element is there twice", \
	  tables->link_table[2] = tables->link_table[1]) \
	X(THEIRS, repeat_text, "string_table: an element is there twice", \
	  tables->string_table[2] = tables->string_table[1]) \
	X(THEIRS, break_text, "string_table: it is not UTF-8", \
	  tables->string_table[1][0] = '\xff') \
	X(THEIRS, break_attribute_key, "attribute_table: an index is out of range", \
	  tables->attribute_table[1]->key_strindex = 10000) \
	X(THEIRS, break_attribute_unit, "attribute_table: an index is out of range", \
	  tables->attribute_table[1]->unit_strindex = 10000) \
	X(OURS, lose_attribute_value, "attribute_table: it has no key or no value", \
	  tables->attribute_table[1]->value = NULL) \
	X(OURS, repeat_attribute_row, "attribute_table: an element is there twice", \
	  tables->attribute_table[3] = tables->attribute_table[2]) \
	X(THEIRS, break_stack, "stack_table: an index is out of range", \
	  tables->stack_table[1]->location_indices[0] = 10000) \
	X(OURS, repeat_stack, "stack_table: an element is there twice", \
	  tables->stack_table[2] = tables->stack_table[1]) \
	X(THEIRS, add_mapping_table, "mapping_table: nothing refers to an element", \
	  seed_add_mapping_table()) \
	X(THEIRS, add_location_table, "location_table: nothing refers to an element", \
	  seed_add_location_table()) \
	X(THEIRS, add_function_table, "function_table: nothing refers to an element", \
	  seed_add_function_table()) \
	X(THEIRS, add_link_table, "link_table: nothing refers to an element", \
	  seed_add_link_table()) \
	X(THEIRS, add_attribute_table, "attribute_table: nothing refers to an element", \
	  seed_add_attribute_table()) \
	X(THEIRS, add_stack_table, "stack_table: nothing refers to an element", \
	  seed_add_stack_table()) \
	X(THEIRS, add_string_table, "string_table: nothing refers to an element", \
	  seed_add_string_table())
// clang-format on

#define FAULT_FUNCTION(whose, name, words, ...)                                                    \
	static void name(void)                                                                     \
	{                                                                                          \
		__VA_ARGS__;                                                                       \
	}
FOR_EACH_FAULT(FAULT_FUNCTION)

enum whose { THEIRS, OURS };

#define FAULT_ROW(whose, name, words, ...) {whose, #name, name, words},
static const struct {
	enum whose whose;
	const char *name;
	void (*seed)(void);
	const char *words;
} faults[] = {FOR_EACH_FAULT(FAULT_ROW)};

static bool is_good(const void *data, size_t len, bool lenient, struct pd_error *e)
{
	const struct pd_bytes body = {data, len};
	struct pd_arena arena = {0};
	struct pd_otlp o;
	bool good = pd_otlp_decode(&arena, body, &o) == 0 && pd_otlp_judge(&o, lenient, e) == 0;

	pd_arena_fini(&arena);
	return good;
}

Test(otlp, each_rule_is_judged, .timeout = 60)
{
	ProtobufCAllocator memory = sp_pool_allocator(&pool);

	make_good();
	for (unsigned i = 0; i < SP_ARRAY_LEN(faults); i++) {
		struct pd_error e = {0};
		uint8_t *bytes;
		size_t len;

		cr_assert(is_good(w.last.data, w.last.len, false, &e), "%s", e.message.at);
		message = spanprof__otlp__export_profiles_service_request__unpack(
			&memory, w.last.len, w.last.data);
		cr_assert_not_null(message);
		tables = message->dictionary;
		profile = message->resource_profiles[0]->scope_profiles[0]->profiles[0];
		faults[i].seed();
		bytes = malloc(
			spanprof__otlp__export_profiles_service_request__get_packed_size(message));
		len = spanprof__otlp__export_profiles_service_request__pack(message, bytes);
		cr_expect_not(is_good(bytes, len, false, &e), "%s is not noticed", faults[i].name);
		cr_expect(e.message.at != NULL && strstr(e.message.at, faults[i].words) != NULL,
			  "%s: %s", faults[i].name, e.message.at);
		/* An unreadable profile is refused in any case. */
		if (strstr(faults[i].words, "out of range") != NULL)
			cr_expect_not(is_good(bytes, len, true, &e), "%s is read", faults[i].name);
		write_file(faults[i].whose == OURS ? "ours" : "fault", faults[i].name, i, bytes,
			   len);
		free(bytes);
		pd_error_fini(&e);
		sp_pool_fini(&pool);
	}
	way_end(&w);
}
