/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds a profile. Samples, which are nearly all of a profile, are packed immediately; the rest are protobuf-c
 * messages in one pool. The packed size is kept up to date, so that a profile can be closed before it is too large
 * for the server. Context: the exporter.
 */
#include "export/profile/pprof.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/profile/packed.h"
#include "export/util/containers.h"
#include "profile.pb-c.h"
#include "push.pb-c.h"
#include "sampler/base/compiler.h"
#include "sampler/base/text.h"

/* The server refuses label values longer than this; no other string needs more. */
#define SP_PPROF_STRING_MAX 2048U
#define SP_PPROF_COMMENTS_MAX 64U
#define SP_VARINT_MAX 10U /* bytes of the longest number */
#define SP_SAMPLE_FIELD 2U
/* Of a push: of the request, of a series, and of a sample in it. */
#define SERIES_FIELD 1U
#define SAMPLES_FIELD 2U
#define PROFILE_FIELD 1U
#define ID_FIELD 2U
#define HEADS 4U /* so many of these fields have a head in a request */

#define SP_PPROF_NUMBERS 2U
#define SP_PPROF_LABELS (SP_SAMPLE_LABELS_MAX + SP_PPROF_NUMBERS)

/*
 * The most that a profile grows when it is converted to OTLP. A text may become the text of an attribute or a link. A
 * sample has the indexes of its stack, link and attributes, may be in both profiles (otlp.h), and may be the only one
 * with its stack. The resource comes on top.
 */
#define OTLP_MORE_OF_STRING 16U
#define OTLP_MORE_OF_SAMPLE 96U
#define OTLP_FRAME 576U

/* We set these labels, or each sample has them: a fixed label of the same name would hide or replace them. */
static const char *const reserved[] = {
#define SP_NAME_(name) #name,
	SP_FOR_EACH_SAMPLE_LABEL(SP_NAME_)
#undef SP_NAME_
		"service_name",
	"pyroscope_spy",
	"profile_id",
};

size_t sp_attribute_name(char out[SP_LABEL_NAME_MAX], const char *name, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len && n < SP_LABEL_NAME_MAX - 1; i++) {
		char c = name[i];
		bool digit = c >= '0' && c <= '9';
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';

		if (n == 0 && digit)
			out[n++] = '_';
		out[n++] = letter || digit || c == '.' ? c : '_';
	}
	out[n] = '\0';
	return n;
}

size_t sp_label_name(char out[SP_LABEL_NAME_MAX], const char *name, size_t len)
{
	size_t n = sp_attribute_name(out, name, len);

	for (size_t i = 0; i < n; i++)
		if (out[i] == '.')
			out[i] = '_';
	return n;
}

bool sp_label_is(const char *a, const char *b)
{
	while (*a != '\0' && (*a == *b || (*a == '.' && *b == '_') || (*a == '_' && *b == '.'))) {
		a++;
		b++;
	}
	return *a == *b;
}

const char *sp_label_refusal(const char *name)
{
	if (strncmp(name, "__", 2) == 0)
		return "names that begin with __ belong to the server";
	for (size_t i = 0; i < sizeof(reserved) / sizeof(reserved[0]); i++)
		if (sp_label_is(name, reserved[i]))
			return "this name has a fixed meaning";
	return NULL;
}

/* The profiler's name for a label that OpenTelemetry calls by another name. */
static const char *own_name(const char *name)
{
	if (sp_label_is(name, "process.pid"))
		return "pid";
	return sp_label_is(name, "host.name") ? "hostname" : name;
}

bool sp_label_is_left_out(const char *list, const char *name)
{
	struct sp_text_pair pair;
	char key[SP_LABEL_NAME_MAX];

	while (list != NULL && sp_text_next_pair(&list, &pair)) {
		if (pair.value == NULL || pair.value_len != 0)
			continue;
		(void)sp_label_name(key, pair.key, pair.key_len);
		if (sp_label_is(own_name(key), own_name(name)))
			return true;
	}
	return false;
}

typedef Spanprof__Pprof__Profile pb_profile;
typedef Spanprof__Pprof__Sample pb_sample;
typedef Spanprof__Pprof__Label pb_label;
typedef Spanprof__Pprof__Mapping pb_mapping;
typedef Spanprof__Pprof__Location pb_location;
typedef Spanprof__Pprof__Line pb_line;
typedef Spanprof__Pprof__Function pb_function;
typedef Spanprof__Pprof__ValueType pb_value_type;

/* Pointers to messages in the pool, in the form that protobuf-c needs. */
struct list {
	void **item;
	uint32_t n;
	size_t cap;
};

struct sp_pprof {
	struct sp_pprof_limits limits;
	struct sp_pprof_times times;
	struct sp_strtab strings;
	struct sp_pool pool;
	struct list mappings, locations, functions;
	struct sp_packed out; /* the types of the values, then samples */
	uint32_t samples;
	struct sp_hash_index by_function; /* by names and file */
	int64_t comment[SP_PPROF_COMMENTS_MAX];
	size_t comments;
	pb_value_type type[3]; /* of both values, and of the period */
	struct {
		const char *name;
		int64_t id;
	} key[SP_PPROF_LABELS]; /* keys of labels that have occurred */
	size_t bytes;
	size_t more_of_string, more_of_sample;
};

/* Appends the fields that are set. Packed messages of one type that follow each other are one message. */
static int put_part(struct sp_packed *out, const pb_profile *part)
{
	if (!sp_packed_reserve(out, spanprof__pprof__profile__get_packed_size(part)))
		return -ENOMEM;
	out->len += spanprof__pprof__profile__pack(part, out->data + out->len);
	return 0;
}

/*
 * The length comes before the sample and is known only after it. So two bytes are reserved for the length; lengths of
 * 128 bytes to 16 KiB take two bytes.
 */
static int put_sample(struct sp_packed *out, const pb_sample *sample)
{
	/*
	 * The longest size of every number: locations, values, three tags and lengths, and for each label its key and
	 * text with their tags, its own tag and its length.
	 */
	size_t most = sample->n_location_id + sample->n_value + 6 + sample->n_label * 6;
	size_t len, head;

	if (!sp_packed_reserve(out, most * SP_VARINT_MAX))
		return -ENOMEM;
	len = spanprof__pprof__sample__pack(sample, out->data + out->len + 3);
	head = sp_packed_framed(len) - len;
	if (head != 3)
		memmove(out->data + out->len + head, out->data + out->len + 3, len);
	sp_packed_head(out, SP_SAMPLE_FIELD, len);
	out->len += len;
	return 0;
}

static int append(struct list *l, void *item)
{
	if (!SP_GROW(l->item, l->cap, l->n + 1, SIZE_MAX))
		return -ENOMEM;
	l->item[l->n++] = item;
	return 0;
}

static int put_string(struct sp_pprof *p, const char *s, size_t len, int64_t *id)
{
	char clean[SP_PPROF_STRING_MAX];
	size_t n = sp_text_clean(clean, sizeof(clean), s, len);
	uint32_t before = p->strings.n;
	uint32_t at;

	if (sp_strtab_put(&p->strings, clean, n, &at) != 0)
		return -ENOMEM;
	if (p->strings.n != before)
		p->bytes += sp_packed_framed(n) + p->more_of_string;
	*id = at;
	return 0;
}

static int put_text(struct sp_pprof *p, const char *s, int64_t *id)
{
	return put_string(p, s, strlen(s), id);
}

static int put_type(struct sp_pprof *p, unsigned i, const char *type, const char *unit)
{
	spanprof__pprof__value_type__init(&p->type[i]);
	if (put_text(p, type, &p->type[i].type) != 0 || put_text(p, unit, &p->type[i].unit) != 0)
		return -ENOMEM;
	p->bytes += sp_packed_framed(spanprof__pprof__value_type__get_packed_size(&p->type[i]));
	return 0;
}

static int put_types(struct sp_pprof *p)
{
	pb_value_type *types[] = {&p->type[0], &p->type[1]};
	pb_profile part = SPANPROF__PPROF__PROFILE__INIT;
	const struct sp_profile_type_names *names =
		p->times.names != NULL ? p->times.names
				       : &sp_profile_type_row(p->times.type)->names;

	part.n_sample_type = 2;
	part.sample_type = types;
	if (put_type(p, 0, names->count, "count") != 0 ||
	    put_type(p, 1, names->sample, names->unit) != 0 ||
	    put_type(p, 2, names->period, names->period_unit) != 0)
		return -ENOMEM;
	return put_part(&p->out, &part);
}

/* Each kind of label has one name, which is looked up once for all samples. */
static int put_key(struct sp_pprof *p, const char *name, int64_t *id)
{
	char label[SP_LABEL_NAME_MAX];
	size_t i = 0;

	while (i < SP_PPROF_LABELS - 1 && p->key[i].name != NULL && p->key[i].name != name)
		i++;
	if (p->key[i].name != name) {
		size_t (*make)(char *, const char *, size_t) =
			p->times.resource != NULL ? sp_attribute_name : sp_label_name;

		if (put_string(p, label, make(label, name, strlen(name)), &p->key[i].id) != 0)
			return -ENOMEM;
		p->key[i].name = name;
	}
	*id = p->key[i].id;
	return 0;
}

struct sp_pprof *sp_pprof_new(const struct sp_pprof_limits *limits,
			      const struct sp_pprof_times *times)
{
	struct sp_pprof *p = calloc(1, sizeof(*p));
	pb_profile head = SPANPROF__PPROF__PROFILE__INIT;

	if (p == NULL)
		return NULL;
	p->limits = *limits;
	p->times = *times;
	if (times->resource != NULL) {
		p->more_of_string = OTLP_MORE_OF_STRING;
		p->more_of_sample = OTLP_MORE_OF_SAMPLE;
		p->bytes = 2 * times->resource->len + OTLP_FRAME;
	}
	head.time_nanos = times->time_ns;
	head.duration_nanos = times->duration_ns;
	head.period = times->period_ns;
	/* 2 for the empty string, 2 for the frame of the comments. */
	p->bytes += spanprof__pprof__profile__get_packed_size(&head) + 2 + 2;
	if (sp_strtab_init(&p->strings) != 0 || put_types(p) != 0) {
		sp_pprof_free(p);
		return NULL;
	}
	return p;
}

void sp_pprof_free(struct sp_pprof *p)
{
	if (p == NULL)
		return;
	free(p->out.data);
	free(p->mappings.item);
	free(p->locations.item);
	free(p->functions.item);
	sp_hash_index_fini(&p->by_function);
	sp_strtab_fini(&p->strings);
	sp_pool_fini(&p->pool);
	free(p);
}

int sp_pprof_comment(struct sp_pprof *p, const char *text)
{
	if (p->comments == SP_PPROF_COMMENTS_MAX)
		return 0;
	if (put_text(p, text, &p->comment[p->comments]) != 0)
		return -ENOMEM;
	p->comments++;
	p->bytes += 2; /* an index below 16384 */
	return 0;
}

int sp_pprof_mapping(struct sp_pprof *p, const struct sp_pprof_mapping *m, uint64_t *id)
{
	pb_mapping *pb = sp_pool_get(&p->pool, sizeof(*pb));

	if (pb == NULL)
		return -ENOMEM;
	spanprof__pprof__mapping__init(pb);
	pb->id = p->mappings.n + 1;
	pb->memory_start = m->start;
	pb->memory_limit = m->limit;
	pb->file_offset = m->offset;
	/*
	 * If this is false, the server marks the block as not symbolized, and looks up the addresses of the mapping
	 * when somebody queries it.
	 */
	pb->has_functions = m->functions;
	pb->has_filenames = m->lines;
	pb->has_line_numbers = m->lines;
	pb->has_inline_frames = m->lines;
	if (put_text(p, m->file, &pb->filename) != 0 ||
	    put_text(p, m->build_id, &pb->build_id) != 0 || append(&p->mappings, pb) != 0)
		return -ENOMEM;
	p->bytes += sp_packed_framed(spanprof__pprof__mapping__get_packed_size(pb));
	*id = pb->id;
	return 0;
}

static bool find_function(const struct sp_pprof *p, uint32_t hash, const pb_function *key,
			  uint64_t *id)
{
	uint32_t i;

	for (uint32_t step = 0; sp_hash_index_next(&p->by_function, hash, &step, &i);) {
		const pb_function *f = p->functions.item[i];

		*id = f->id;
		if (f->name == key->name && f->system_name == key->system_name &&
		    f->filename == key->filename)
			return true;
	}
	return false;
}

int sp_pprof_function(struct sp_pprof *p, const char *name, const char *system_name,
		      const char *file, uint64_t *id)
{
	pb_function key = SPANPROF__PPROF__FUNCTION__INIT;
	pb_function *pb;
	uint32_t hash;

	if (put_text(p, name, &key.name) != 0 || put_text(p, system_name, &key.system_name) != 0 ||
	    put_text(p, file, &key.filename) != 0)
		return -ENOMEM;
	hash = (uint32_t)sp_hash_add(
		sp_hash_add((uint64_t)key.name << 32, (uint64_t)key.system_name),
		(uint64_t)key.filename);
	if (find_function(p, hash, &key, id))
		return 0;
	pb = sp_pool_get(&p->pool, sizeof(*pb));
	if (pb == NULL)
		return -ENOMEM;
	*pb = key;
	pb->id = p->functions.n + 1;
	if (append(&p->functions, pb) != 0 ||
	    !sp_hash_index_put(&p->by_function, hash, p->functions.n - 1))
		return -ENOMEM;
	p->bytes += sp_packed_framed(spanprof__pprof__function__get_packed_size(pb));
	*id = pb->id;
	return 0;
}

static void fill_line(pb_line *pb, const struct sp_pprof_line *line)
{
	spanprof__pprof__line__init(pb);
	pb->function_id = line->function;
	pb->line = line->line;
}

int sp_pprof_location(struct sp_pprof *p, uint64_t mapping, uint64_t address,
		      const struct sp_pprof_line *line, size_t lines, uint64_t *id)
{
	pb_location *pb = sp_pool_get(&p->pool, sizeof(*pb));
	pb_line **pointer = lines != 0 ? sp_pool_get(&p->pool, lines * sizeof(pb_line *)) : NULL;
	pb_line *body = lines != 0 ? sp_pool_get(&p->pool, lines * sizeof(*body)) : NULL;

	if (pb == NULL || (lines != 0 && (pointer == NULL || body == NULL)))
		return -ENOMEM;
	spanprof__pprof__location__init(pb);
	for (size_t i = 0; i < lines; i++) {
		fill_line(&body[i], &line[i]);
		pointer[i] = &body[i];
	}
	pb->id = p->locations.n + 1;
	pb->mapping_id = mapping;
	pb->address = address;
	pb->n_line = lines;
	pb->line = pointer;
	if (append(&p->locations, pb) != 0)
		return -ENOMEM;
	p->bytes += sp_packed_framed(spanprof__pprof__location__get_packed_size(pb));
	*id = pb->id;
	return 0;
}

/* Adds a label to the sample, unless its text is empty: then it would be a label with the number 0. */
static int put_label(struct sp_pprof *p, pb_sample *pb, const struct sp_label *label)
{
	pb_label *l = pb->label[pb->n_label];

	spanprof__pprof__label__init(l);
	if (put_key(p, label->name, &l->key) != 0 || put_text(p, label->value, &l->str) != 0)
		return -ENOMEM;
	pb->n_label += l->str != 0;
	return 0;
}

static int put_number(struct sp_pprof *p, pb_sample *pb, const char *name, int64_t number,
		      const char *unit)
{
	pb_label *l = pb->label[pb->n_label];

	spanprof__pprof__label__init(l);
	if (put_key(p, name, &l->key) != 0 || put_text(p, unit, &l->num_unit) != 0)
		return -ENOMEM;
	l->num = number;
	pb->n_label++;
	return 0;
}

static int put_labels(struct sp_pprof *p, pb_sample *pb, const struct sp_pprof_sample *s)
{
	int err = 0;

	for (size_t i = 0; err == 0 && i < s->labels && i < SP_SAMPLE_LABELS_MAX; i++)
		if (s->label[i].value != NULL)
			err = put_label(p, pb, &s->label[i]);
	if (err == 0 && s->end_ns != 0) {
		err = put_number(p, pb, SP_LABEL_END, s->end_ns, "nanoseconds");
		if (err == 0)
			err = put_number(p, pb, SP_LABEL_THREAD_ID, s->thread_id, "");
	}
	return err;
}

int sp_pprof_sample(struct sp_pprof *p, const struct sp_pprof_sample *s)
{
	int64_t value[] = {s->count, s->ns};
	pb_label label[SP_PPROF_LABELS];
	pb_label *labels[SP_PPROF_LABELS];
	pb_sample pb = SPANPROF__PPROF__SAMPLE__INIT;
	size_t before = p->out.len;

	for (size_t i = 0; i < SP_PPROF_LABELS; i++)
		labels[i] = &label[i];
	pb.n_location_id = s->locations;
	pb.location_id = s->location;
	pb.n_value = 2;
	pb.value = value;
	pb.label = labels;
	if (put_labels(p, &pb, s) != 0 || put_sample(&p->out, &pb) != 0)
		return -ENOMEM;
	p->bytes += p->out.len - before + p->more_of_sample;
	p->samples++;
	return p->samples > p->limits.samples || p->bytes > p->limits.bytes ? -E2BIG : 0;
}

void sp_pprof_mark(const struct sp_pprof *p, struct sp_pprof_mark *mark)
{
	*mark = (struct sp_pprof_mark){
		.samples = p->samples,
		.mappings = p->mappings.n,
		.functions = p->functions.n,
		.locations = p->locations.n,
		.strings = p->strings.n,
		.packed = p->out.len,
		.bytes = p->bytes,
	};
}

void sp_pprof_rewind(struct sp_pprof *p, const struct sp_pprof_mark *mark)
{
	p->mappings.n = mark->mappings;
	p->functions.n = mark->functions;
	p->locations.n = mark->locations;
	p->samples = mark->samples;
	p->out.len = mark->packed;
	sp_strtab_cut(&p->strings, mark->strings);
	p->bytes = mark->bytes;
}

uint32_t sp_pprof_samples(const struct sp_pprof *p)
{
	return p->samples;
}

int sp_pprof_pack(struct sp_pprof *p, struct sp_bytes *out)
{
	pb_profile pb = SPANPROF__PPROF__PROFILE__INIT;
	char **strings = calloc(p->strings.n, sizeof(*strings));
	int err;

	out->data = NULL;
	if (strings == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->strings.n; i++)
		strings[i] = p->strings.bytes + p->strings.offset[i];
	pb.n_mapping = p->mappings.n;
	pb.mapping = (pb_mapping **)p->mappings.item;
	pb.n_location = p->locations.n;
	pb.location = (pb_location **)p->locations.item;
	pb.n_function = p->functions.n;
	pb.function = (pb_function **)p->functions.item;
	pb.n_string_table = p->strings.n;
	pb.string_table = strings;
	pb.time_nanos = p->times.time_ns;
	pb.duration_nanos = p->times.duration_ns;
	pb.period_type = &p->type[2];
	pb.period = p->times.period_ns;
	pb.n_comment = p->comments;
	pb.comment = p->comment;
	err = put_part(&p->out, &pb);
	free(strings);
	if (err != 0)
		return err;
	*out = (struct sp_bytes){p->out.data, p->out.len};
	p->out = (struct sp_packed){NULL, 0, 0};
	return 0;
}

int sp_pprof_request_head(const struct sp_label *labels, size_t n, const char *id,
			  size_t profile_len, struct sp_bytes *out)
{
	Spanprof__Push__RawProfileSeries series = SPANPROF__PUSH__RAW_PROFILE_SERIES__INIT;
	Spanprof__Push__LabelPair *pairs = calloc(n + 1, sizeof(*pairs));
	Spanprof__Push__LabelPair **pair = calloc(n + 1, sizeof(*pair));
	const size_t id_len = strlen(id);
	const size_t sample = sp_packed_framed(id_len) + sp_packed_framed(profile_len);
	struct sp_packed head = {NULL, 0, 0};
	size_t labels_len;
	int err = -ENOMEM;

	*out = (struct sp_bytes){NULL, 0};
	if (pairs == NULL || pair == NULL)
		goto out;
	for (size_t i = 0; i < n; i++) {
		spanprof__push__label_pair__init(&pairs[i]);
		/* protobuf-c's strings are not const, but packing only reads them. */
		memcpy(&pairs[i].name, &labels[i].name, sizeof(char *));
		memcpy(&pairs[i].value, &labels[i].value, sizeof(char *));
		pair[i] = &pairs[i];
	}
	series.n_labels = n;
	series.labels = pair;
	labels_len = spanprof__push__raw_profile_series__get_packed_size(&series);
	if (!sp_packed_reserve(&head, labels_len + id_len + (size_t)HEADS * SP_PACKED_HEAD_MAX))
		goto out;
	sp_packed_head(&head, SERIES_FIELD, labels_len + sp_packed_framed(sample));
	head.len += spanprof__push__raw_profile_series__pack(&series, head.data + head.len);
	sp_packed_head(&head, SAMPLES_FIELD, sample);
	sp_packed_field(&head, ID_FIELD, id, id_len);
	sp_packed_head(&head, PROFILE_FIELD, profile_len);
	*out = (struct sp_bytes){head.data, head.len};
	err = 0;
out:
	free(pairs);
	free(pair);
	return err;
}

int sp_pprof_of_request(const struct sp_bytes *request, struct sp_bytes *profile)
{
	struct sp_pool pool = {NULL, 0};
	ProtobufCAllocator memory = sp_pool_allocator(&pool);
	const Spanprof__Push__PushRequest *push =
		spanprof__push__push_request__unpack(&memory, request->len, request->data);
	const ProtobufCBinaryData *raw;
	int err = -EINVAL;

	*profile = (struct sp_bytes){NULL, 0};
	if (push != NULL && push->n_series == 1 && push->series[0]->n_samples == 1) {
		raw = &push->series[0]->samples[0]->raw_profile;
		profile->data = malloc(raw->len + 1);
		err = profile->data != NULL ? 0 : -ENOMEM;
		if (err == 0 && raw->len != 0)
			memcpy(profile->data, raw->data, raw->len);
		profile->len = raw->len;
	}
	sp_pool_fini(&pool);
	return err;
}
