/* SPDX-License-Identifier: Apache-2.0 */
/* The profile builder: its output is read by protobuf-c and checked by the server's rules. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/profile/pprof.h"
#include "profile_reader.h"
#include "push.pb-c.h"

static const struct sp_pprof_limits roomy = {1000, 1 << 20};
static const struct sp_pprof_times times = {
	.period_ns = 10000000, .time_ns = 1700000000123456789, .duration_ns = 15000000000};

static uint64_t location(struct sp_pprof *p, const char *function)
{
	static const struct sp_pprof_mapping m = {0x1000, 0x2000, 0x500, "/bin/x",
						  "abcd", true,   false};
	uint64_t mapping = 1, f, id;

	if (sp_pprof_samples(p) == 0)
		cr_assert_eq(sp_pprof_mapping(p, &m, &mapping), 0);
	cr_assert_eq(sp_pprof_function(p, function, function, "", &f), 0);
	cr_assert_eq(sp_pprof_location(p, mapping, 0x1234, &(struct sp_pprof_line){f, 0}, 1, &id),
		     0);
	return id;
}

static int sample(struct sp_pprof *p, const char *function, const char *span_name)
{
	uint64_t id = location(p, function);
	const struct sp_label label[] = {{"span_id", "00000000000000ff"}, {"span_name", span_name}};
	const struct sp_pprof_sample s = {
		.location = &id,
		.locations = 1,
		.count = 2,
		.ns = 20000000,
		.label = label,
		.labels = 2,
	};

	return sp_pprof_sample(p, &s);
}

static struct sp_bytes pack(struct sp_pprof *p)
{
	struct sp_bytes b;

	cr_assert_eq(sp_pprof_pack(p, &b), 0);
	sp_pprof_free(p);
	return b;
}

static profile *finish(struct sp_pprof *p)
{
	struct sp_bytes b = pack(p);
	profile *read = profile_read(b.data, b.len);

	free(b.data);
	return read;
}

Test(pprof, carries_all_it_was_given, .timeout = 20)
{
	struct sp_pprof *p = sp_pprof_new(&roomy, &times);
	profile *r;

	cr_assert_eq(sp_pprof_comment(p, "spanprof 1"), 0);
	cr_assert_eq(sample(p, "work", "GET /"), 0);
	r = finish(p);

	cr_expect_eq(r->period, 10000000);
	cr_expect_eq(r->time_nanos, 1700000000123456789);
	cr_expect_eq(r->duration_nanos, 15000000000);
	cr_assert_eq(r->n_comment, 1);
	cr_expect_str_eq(profile_string(r, r->comment[0]), "spanprof 1");
	cr_assert_eq(r->n_mapping, 1);
	cr_expect_eq(r->mapping[0]->memory_start, 0x1000);
	cr_expect_eq(r->mapping[0]->memory_limit, 0x2000);
	cr_expect_eq(r->mapping[0]->file_offset, 0x500);
	cr_expect_str_eq(profile_string(r, r->mapping[0]->filename), "/bin/x");
	cr_expect_str_eq(profile_string(r, r->mapping[0]->build_id), "abcd");
	cr_expect_eq(r->location[0]->address, 0x1234);
	cr_assert_eq(r->n_sample, 1);
	cr_expect_eq(r->sample[0]->value[0], 2);
	cr_expect_eq(r->sample[0]->value[1], 20000000);
	cr_expect_str_eq(profile_frame(r, r->sample[0], 0), "work");
	cr_expect_str_eq(profile_label(r, r->sample[0], "span_id"), "00000000000000ff");
	cr_expect_str_eq(profile_label(r, r->sample[0], "span_name"), "GET /");
	cr_expect_null(profile_label(r, r->sample[0], "trace_id"));
	profile_done(r);
}

Test(pprof, has_each_string_once_even_when_a_function_is_called_span_id, .timeout = 20)
{
	struct sp_pprof *p = sp_pprof_new(&roomy, &times);
	profile *r;

	cr_assert_eq(sample(p, "span_id", "cpu"), 0);
	cr_assert_eq(sample(p, "trace_id", "span_name"), 0);
	cr_assert_eq(sample(p, "span_id", "cpu"), 0);
	r = finish(p);

	cr_expect_eq(profile_count_string(r, "span_id"), 1);
	cr_expect_eq(profile_count_string(r, "trace_id"), 1);
	cr_expect_eq(profile_count_string(r, "cpu"), 1);
	cr_expect_eq(r->n_function, 2, "equal functions are one");
	profile_done(r);
}

Test(pprof, leaves_out_an_empty_label, .timeout = 20)
{
	struct sp_pprof *p = sp_pprof_new(&roomy, &times);
	profile *r;

	cr_assert_eq(sample(p, "work", ""), 0);
	r = finish(p);

	cr_expect_null(profile_label(r, r->sample[0], "span_name"));
	cr_expect_eq(r->sample[0]->n_label, 1);
	profile_done(r);
}

Test(pprof, cleans_and_cuts_strings, .timeout = 20)
{
	struct sp_pprof *p = sp_pprof_new(&roomy, &times);
	char name[3001];
	profile *r;

	memset(name, '\xff', 3000);
	name[3000] = '\0';
	cr_assert_eq(sample(p, "bad\xff", name), 0);
	r = finish(p);

	cr_expect_str_eq(profile_frame(r, r->sample[0], 0), "bad\xef\xbf\xbd");
	/* 682 replacement characters of 3 bytes. */
	cr_expect_eq(strlen(profile_label(r, r->sample[0], "span_name")), 2046);
	profile_done(r);
}

Test(pprof, refuses_the_first_sample_over_the_count_limit, .timeout = 20)
{
	static const struct sp_pprof_limits limits = {3, 1 << 20};
	struct sp_pprof *p = sp_pprof_new(&limits, &times);
	struct sp_pprof_mark mark;
	profile *r;

	cr_expect_eq(sample(p, "a", "x"), 0, "limit - 1 and below");
	cr_expect_eq(sample(p, "b", "x"), 0);
	cr_expect_eq(sample(p, "c", "x"), 0, "the limit");
	sp_pprof_mark(p, &mark);
	cr_expect_eq(sample(p, "d", "new"), -E2BIG, "limit + 1");
	sp_pprof_rewind(p, &mark);
	r = finish(p);

	cr_expect_eq(r->n_sample, 3);
	cr_expect_eq(r->n_function, 3);
	cr_expect_eq(profile_count_string(r, "d"), 0);
	cr_expect_eq(profile_count_string(r, "new"), 0);
	profile_done(r);
}

/* Packed size of a profile with n samples. */
static size_t size_of(unsigned n, const struct sp_pprof_limits *limits, int *last)
{
	struct sp_pprof *p = sp_pprof_new(limits, &times);
	struct sp_bytes b;
	char name[32];

	cr_assert_eq(sp_pprof_comment(p, "spanprof 1"), 0);
	for (unsigned i = 0; i < n; i++) {
		(void)snprintf(name, sizeof(name), "function_%u", i);
		*last = sample(p, name, "GET /");
	}
	b = pack(p);
	free(b.data);
	return b.len;
}

/* The length before a sample takes one byte up to 127, two up to 16383, then three. */
Test(pprof, writes_samples_of_every_length, .timeout = 20)
{
	static const size_t depths[] = {1, 100, 112, 113, 114, 127, 128, 129, 16300, 16400, 20000};
	static const struct sp_pprof_limits limits = {1000, 1 << 20};
	const size_t n = sizeof(depths) / sizeof(depths[0]);
	struct sp_pprof *p = sp_pprof_new(&limits, &times);
	uint64_t *ids = calloc(20000, sizeof(*ids));
	profile *r;

	cr_assert_not_null(ids);
	for (size_t i = 0; i < 20000; i++)
		ids[i] = 1;
	cr_assert_eq(location(p, "work"), 1);
	for (size_t i = 0; i < n; i++) {
		const struct sp_pprof_sample s = {
			.location = ids,
			.locations = depths[i],
			.count = (int64_t)i + 1,
		};

		cr_assert_eq(sp_pprof_sample(p, &s), 0);
	}
	r = finish(p);

	cr_assert_eq(r->n_sample, n);
	for (size_t i = 0; i < n; i++) {
		cr_expect_eq(r->sample[i]->n_location_id, depths[i]);
		cr_expect_eq(r->sample[i]->value[0], (int64_t)i + 1);
	}
	profile_done(r);
	free(ids);
}

Test(pprof, keeps_to_the_byte_limit_exactly, .timeout = 20)
{
	struct sp_pprof_limits limits = {1000, SIZE_MAX};
	size_t size;
	int last;

	size = size_of(300, &limits, &last);
	cr_assert_eq(last, 0);

	limits.bytes = size - 1;
	(void)size_of(300, &limits, &last);
	cr_expect_eq(last, -E2BIG, "one byte too many was let through");
	/* The estimated size may be a few bytes too large (frames of empty lists), but never too small. */
	limits.bytes = size + 4;
	(void)size_of(300, &limits, &last);
	cr_expect_eq(last, 0);
}

Test(pprof, request_holds_labels_and_profile, .timeout = 20)
{
	const struct sp_label labels[] = {{"__name__", "process_cpu"}, {"service_name", "shop"}};
	uint8_t raw[70000];
	struct sp_bytes out, inner;
	Spanprof__Push__PushRequest *r;

	for (size_t i = 0; i < sizeof(raw); i++)
		raw[i] = (uint8_t)(i * 7 >> 3);
	cr_assert_eq(sp_pprof_request_head(labels, 2, "id-1", sizeof(raw), &out), 0);
	out.data = realloc(out.data, out.len + sizeof(raw));
	memcpy(out.data + out.len, raw, sizeof(raw));
	out.len += sizeof(raw);
	r = spanprof__push__push_request__unpack(NULL, out.len, out.data);

	cr_assert_not_null(r);
	cr_assert_eq(r->n_series, 1);
	cr_assert_eq(r->series[0]->n_labels, 2);
	cr_expect_str_eq(r->series[0]->labels[0]->name, "__name__");
	cr_expect_str_eq(r->series[0]->labels[1]->value, "shop");
	cr_assert_eq(r->series[0]->n_samples, 1);
	cr_expect_str_eq(r->series[0]->samples[0]->id, "id-1");
	cr_assert_eq(r->series[0]->samples[0]->raw_profile.len, sizeof(raw));
	cr_expect_arr_eq(r->series[0]->samples[0]->raw_profile.data, raw, sizeof(raw));
	spanprof__push__push_request__free_unpacked(r, NULL);
	cr_assert_eq(sp_pprof_of_request(&out, &inner), 0);
	cr_assert_eq(inner.len, sizeof(raw));
	cr_expect_arr_eq(inner.data, raw, sizeof(raw));
	free(inner.data);
	out.len--;
	cr_expect_eq(sp_pprof_of_request(&out, &inner), -EINVAL, "a byte is missing");
	free(out.data);
}
