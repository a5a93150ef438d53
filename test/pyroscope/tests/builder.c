/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles for tests; see builder.h.
 */
#define ZLIB_CONST
#include "test/pyroscope/tests/builder.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define PERIOD_NS 10000000

void pb_varint(struct pd_text *t, uint64_t value)
{
	do {
		uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));

		pd_text_add(t, &byte, 1);
		value >>= 7;
	} while (value > 0);
}

void pb_number(struct pd_text *t, uint32_t field, uint64_t value)
{
	pb_varint(t, (uint64_t)field << 3);
	pb_varint(t, value);
}

void pb_bytes(struct pd_text *t, uint32_t field, const void *data, size_t len)
{
	pb_varint(t, (uint64_t)field << 3 | 2);
	pb_varint(t, len);
	pd_text_add(t, data, len);
}

void pb_text(struct pd_text *t, uint32_t field, const char *text)
{
	pb_bytes(t, field, text, strlen(text));
}

void pb_message(struct pd_text *t, uint32_t field, struct pd_text *m)
{
	pb_bytes(t, field, m->at, m->len);
	pd_text_fini(m);
}

int64_t pb_new_string(struct pb_profile *p, const void *data, size_t len)
{
	pb_bytes(&p->strings, 6, data, len);
	return p->string_count++;
}

int64_t pb_string(struct pb_profile *p, const char *text)
{
	int64_t index;

	for (size_t i = 0; i < p->knowns; i++)
		if (strcmp(p->known[i], text) == 0)
			return p->known_index[i];
	index = pb_new_string(p, text, strlen(text));
	if (p->knowns < sizeof(p->known) / sizeof(p->known[0])) {
		p->known_index[p->knowns] = index;
		p->known[p->knowns++] = strdup(text);
	}
	return index;
}

void pb_value_type(struct pb_profile *p, uint32_t field, const char *type, const char *unit)
{
	struct pd_text m = {0};

	pb_number(&m, 1, (uint64_t)pb_string(p, type));
	pb_number(&m, 2, (uint64_t)pb_string(p, unit));
	pb_message(&p->body, field, &m);
}

void pb_mapping(struct pb_profile *p, uint64_t id, int64_t filename, bool has_functions)
{
	struct pd_text m = {0};

	pb_number(&m, 1, id);
	pb_number(&m, 5, (uint64_t)filename);
	pb_number(&m, 7, has_functions);
	pb_message(&p->body, 3, &m);
}

void pb_function(struct pb_profile *p, uint64_t id, int64_t name)
{
	struct pd_text m = {0};

	pb_number(&m, 1, id);
	pb_number(&m, 2, (uint64_t)name);
	pb_message(&p->body, 5, &m);
}

void pb_location(struct pb_profile *p, uint64_t id, uint64_t mapping, uint64_t function)
{
	struct pd_text m = {0};
	struct pd_text line = {0};

	pb_number(&m, 1, id);
	pb_number(&m, 2, mapping);
	if (function != 0) {
		pb_number(&line, 1, function);
		pb_message(&m, 4, &line);
	} else {
		pb_number(&m, 3, 0x1000 + id);
	}
	pb_message(&p->body, 4, &m);
}

void pb_label(struct pd_text *labels, int64_t key, int64_t str, int64_t num)
{
	struct pd_text m = {0};

	pb_number(&m, 1, (uint64_t)key);
	pb_number(&m, 2, (uint64_t)str);
	pb_number(&m, 3, (uint64_t)num);
	pb_message(labels, 3, &m);
}

void pb_sample(struct pb_profile *p, const uint64_t *location, size_t locations,
	       const int64_t *value, size_t values, struct pd_text *labels)
{
	struct pd_text m = {0};
	struct pd_text packed = {0};

	for (size_t i = 0; i < locations; i++)
		pb_varint(&packed, location[i]);
	pb_message(&m, 1, &packed);
	for (size_t i = 0; i < values; i++)
		pb_varint(&packed, (uint64_t)value[i]);
	pb_message(&m, 2, &packed);
	if (labels != NULL) {
		pd_text_add(&m, labels->at, labels->len);
		pd_text_fini(labels);
	}
	pb_message(&p->body, 2, &m);
}

void pb_start_type(struct pb_profile *p, int64_t time_nanos, const char *type, const char *unit)
{
	static const char *const names[] = {"main", "work", "leaf"};

	*p = (struct pb_profile){0};
	pb_string(p, "");
	pb_value_type(p, 1, type, unit);
	pb_value_type(p, 11, "cpu", "nanoseconds");
	pb_number(&p->body, 12, PERIOD_NS);
	pb_number(&p->body, 9, (uint64_t)time_nanos);
	pb_number(&p->body, 10, UINT64_C(10000000000));
	pb_mapping(p, 1, pb_string(p, "/bin/host"), true);
	for (uint64_t i = 1; i <= 3; i++) {
		pb_function(p, i, pb_string(p, names[i - 1]));
		pb_location(p, i, 1, i);
	}
}

void pb_start(struct pb_profile *p, int64_t time_nanos)
{
	pb_start_type(p, time_nanos, "samples", "count");
	pb_value_type(p, 1, "cpu", "nanoseconds");
}

void pb_span(struct pb_profile *p, int64_t count, const char *span_id, const char *span_name,
	     const char *trace_id)
{
	static const uint64_t stack[] = {3, 2, 1};
	const int64_t value[] = {count, count * PERIOD_NS};
	const char *const labels[][2] = {
		{"span_id", span_id}, {"span_name", span_name}, {"trace_id", trace_id}};
	struct pd_text list = {0};

	for (size_t i = 0; i < 3; i++)
		if (labels[i][1] != NULL)
			pb_label(&list, pb_string(p, labels[i][0]), pb_string(p, labels[i][1]), 0);
	pb_sample(p, stack, 3, value, 2, &list);
}

struct pd_text pb_finish(struct pb_profile *p)
{
	struct pd_text done = p->body;

	pd_text_add(&done, p->strings.at, p->strings.len);
	pd_text_fini(&p->strings);
	for (size_t i = 0; i < p->knowns; i++)
		free(p->known[i]);
	*p = (struct pb_profile){0};
	return done;
}

struct pd_text pb_gzip(const struct pd_text *plain)
{
	uint8_t buffer[16384];
	struct pd_text out = {0};
	z_stream z = {0};
	int rc = Z_OK;

	if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) !=
	    Z_OK)
		abort();
	z.next_in = (const uint8_t *)plain->at;
	z.avail_in = (unsigned)plain->len;
	while (rc == Z_OK) {
		z.next_out = buffer;
		z.avail_out = sizeof(buffer);
		rc = deflate(&z, Z_FINISH);
		pd_text_add(&out, buffer, sizeof(buffer) - z.avail_out);
	}
	deflateEnd(&z);
	return out;
}

struct pd_text pb_request(const char *const *labels, struct pd_bytes raw)
{
	struct pd_text request = {0};
	struct pd_text series = {0};
	struct pd_text sample = {0};

	for (; labels[0] != NULL; labels += 2) {
		struct pd_text pair = {0};

		pb_text(&pair, 1, labels[0]);
		pb_text(&pair, 2, labels[1]);
		pb_message(&series, 1, &pair);
	}
	pb_bytes(&sample, 1, raw.at, raw.len);
	pb_text(&sample, 2, "734FD599-6865-419E-9475-932762D8F469");
	pb_message(&series, 2, &sample);
	pb_message(&request, 1, &series);
	return request;
}
