/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a profile: valid, complete, and no larger than what they hold. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/profile/pprof.h"
#include "export/profile/pprof_split.h"
#include "export/push/request.h"
#include "export/push/series.h"
#include "profile_reader.h"

#define RECORDS 1000

static const struct sp_pprof_limits roomy = {100000, 1 << 24};
static const struct sp_pprof_times times = {10000000, 1700000000123456789, 15000000000,
					    SP_PROFILE_CPU};

static void put_record(struct sp_pprof *p, unsigned i, const uint64_t mapping[2])
{
	char function[32], span_id[17], name[32];
	uint64_t f, own, location[2];
	struct sp_pprof_sample s = {
		.location = location,
		.locations = 2,
		.count = 1 + i % 3,
		.ns = 10000000 + i,
		.span_id = span_id,
		.span_name = name,
		.trace_id = "7c9e66797425440de944be07fc1f90ae",
	};

	(void)snprintf(function, sizeof(function), "function_%u", i);
	(void)snprintf(span_id, sizeof(span_id), "%016x", i + 1);
	s.span_name_len = (size_t)snprintf(name, sizeof(name), "GET /%u", i % 10);
	/* Two frames of one function each, the outer one of all records, in the first object. */
	cr_assert_eq(sp_pprof_function(p, function, function, "a.c", &own), 0);
	cr_assert_eq(sp_pprof_function(p, "main", "main", "main.c", &f), 0);
	cr_assert_eq(sp_pprof_location(p, mapping[i < RECORDS / 2], 0x1000 + i,
				       &(struct sp_pprof_line){own, i}, 1, &location[0]),
		     0);
	cr_assert_eq(sp_pprof_location(p, mapping[0], 0x999, &(struct sp_pprof_line){f, 7}, 1,
				       &location[1]),
		     0);
	cr_assert_eq(sp_pprof_sample(p, &s), 0);
}

static struct sp_bytes make(unsigned records)
{
	static const struct sp_pprof_mapping m[2] = {
		{0x1000, 0x2000, 0, "/bin/program", "abcd", true, true},
		{0x3000, 0x4000, 0, "/lib/library", "beef", true, true}};
	struct sp_pprof *p = sp_pprof_new(&roomy, &times);
	uint64_t mapping[2];
	struct sp_bytes packed;

	cr_assert_not_null(p);
	cr_assert_eq(sp_pprof_comment(p, "spanprof 1"), 0);
	cr_assert_eq(sp_pprof_mapping(p, &m[0], &mapping[0]), 0);
	cr_assert_eq(sp_pprof_mapping(p, &m[1], &mapping[1]), 0);
	for (unsigned i = 0; i < records; i++)
		put_record(p, i, mapping);
	cr_assert_eq(sp_pprof_pack(p, &packed), 0);
	sp_pprof_free(p);
	return packed;
}

static profile *part(const struct sp_bytes *whole, size_t from, size_t to, size_t *len)
{
	struct sp_bytes b;
	profile *read;

	cr_assert_eq(sp_pprof_part(whole, from, to, &b), 0);
	read = profile_read(b.data, b.len);
	*len = b.len;
	free(b.data);
	return read;
}

/* Everything a reader sees of a record, wherever its strings and ids are. */
static void same_record(const profile *a, const profile_sample *x, const profile *b,
			const profile_sample *y)
{
	static const char *const label[] = {"span_id", "span_name", "trace_id"};

	cr_expect_eq(x->value[0], y->value[0]);
	cr_expect_eq(x->value[1], y->value[1]);
	cr_assert_eq(x->n_location_id, y->n_location_id);
	for (size_t i = 0; i < x->n_location_id; i++)
		cr_expect_str_eq(profile_frame(a, x, i), profile_frame(b, y, i));
	cr_assert_eq(x->n_label, y->n_label);
	for (size_t i = 0; i < sizeof(label) / sizeof(label[0]); i++)
		cr_expect_str_eq(profile_label(a, x, label[i]), profile_label(b, y, label[i]));
}

static void same_head(const profile *a, const profile *b)
{
	cr_expect_eq(a->time_nanos, b->time_nanos);
	cr_expect_eq(a->duration_nanos, b->duration_nanos);
	cr_expect_eq(a->period, b->period);
	cr_assert_eq(b->n_sample_type, 2);
	cr_expect_str_eq(profile_string(b, b->sample_type[0]->type), "samples");
	cr_expect_str_eq(profile_string(b, b->sample_type[1]->unit), "nanoseconds");
	cr_expect_str_eq(profile_string(b, b->period_type->type), "cpu");
	cr_assert_eq(b->n_comment, 1);
	cr_expect_str_eq(profile_string(b, b->comment[0]), "spanprof 1");
	cr_assert_geq(b->n_mapping, 1);
	cr_expect_str_eq(profile_string(b, b->mapping[0]->filename), "/bin/program");
	cr_expect_str_eq(profile_string(b, b->mapping[0]->build_id), "abcd");
}

Test(pprof_split, halves_are_profiles_that_add_up_to_the_whole, .timeout = 60)
{
	struct sp_bytes whole = make(RECORDS);
	profile *all = profile_read(whole.data, whole.len);
	size_t len[2];
	profile *half[2] = {part(&whole, 0, RECORDS / 2, &len[0]),
			    part(&whole, RECORDS / 2, RECORDS, &len[1])};

	for (size_t v = 0; v < 2; v++)
		cr_expect_eq(profile_total(half[0], v) + profile_total(half[1], v),
			     profile_total(all, v));
	for (unsigned h = 0; h < 2; h++) {
		same_head(all, half[h]);
		cr_assert_eq(half[h]->n_sample, RECORDS / 2);
		for (size_t i = 0; i < RECORDS / 2; i++)
			same_record(all, all->sample[h * RECORDS / 2 + i], half[h],
				    half[h]->sample[i]);
		cr_expect_eq(profile_count_string(half[h], "span_id"), 1);
		cr_expect_leq(len[h], whole.len * 55 / 100, "%zu of %zu", len[h], whole.len);
	}
	cr_expect_eq(half[0]->n_mapping, 2);
	cr_expect_eq(half[1]->n_mapping, 1, "nothing in it is of the library");
	cr_expect_eq(half[0]->n_function, RECORDS / 2 + 1, "and main()");
	for (unsigned h = 0; h < 2; h++)
		profile_done(half[h]);
	profile_done(all);
	free(whole.data);
}

Test(pprof_split, one_record_is_small_and_whole, .timeout = 60)
{
	struct sp_bytes whole = make(RECORDS);
	profile *all = profile_read(whole.data, whole.len);
	size_t len;
	profile *one = part(&whole, 777, 778, &len);

	same_head(all, one);
	cr_assert_eq(one->n_sample, 1);
	same_record(all, all->sample[777], one, one->sample[0]);
	cr_expect_eq(one->location[1]->line[0]->line, 7);
	cr_expect_eq(one->location[0]->address, 0x1000 + 777);
	cr_expect_leq(len, 600, "%zu", len);
	profile_done(one);
	profile_done(all);
	free(whole.data);
}

Test(pprof_split, counts_records_and_samples, .timeout = 20)
{
	struct sp_bytes whole = make(100);
	struct sp_pprof_count c;
	profile *all = profile_read(whole.data, whole.len);

	cr_assert_eq(sp_pprof_count(&whole, &c), 0);
	cr_expect_eq(c.records, 100);
	cr_expect_eq(c.samples, (uint64_t)profile_total(all, 0));
	profile_done(all);
	free(whole.data);
}

/* The profile is ours, but a mistake there must not be one of memory here. */
Test(pprof_split, survives_damage, .timeout = 60)
{
	struct sp_bytes whole = make(8);
	struct sp_pprof_count c;
	struct sp_bytes copy, out;
	unsigned refused = 0;

	for (size_t len = 0; len <= whole.len; len++) {
		copy = (struct sp_bytes){malloc(len + 1), len};
		memcpy(copy.data, whole.data, len);
		(void)sp_pprof_count(&copy, &c);
		if (sp_pprof_part(&copy, 0, 4, &out) == 0)
			free(out.data);
		else
			refused++;
		free(copy.data);
	}
	cr_expect_gt(refused, 0);
	for (size_t bit = 0; bit < whole.len * 8; bit++) {
		copy = (struct sp_bytes){malloc(whole.len), whole.len};
		memcpy(copy.data, whole.data, whole.len);
		copy.data[bit / 8] ^= (uint8_t)(1U << bit % 8);
		(void)sp_pprof_count(&copy, &c);
		if (sp_pprof_part(&copy, 2, 6, &out) == 0)
			free(out.data);
		free(copy.data);
	}
	free(whole.data);
}

static struct sp_series series;

static void read_back(enum sp_protocol protocol)
{
	const struct sp_request request = {
		.protocol = protocol, .series = &series, .id = "x", .from_ns = 5, .until_ns = 9};
	struct sp_bytes whole = make(50), out;
	struct sp_message m;

	cr_assert_eq(sp_request_make(&request, &whole, &m), 0);
	cr_expect_eq(m.from_ns, 5);
	cr_expect_eq(m.until_ns, 9);
	cr_assert_eq(sp_message_profile(protocol, &m, &out), 0);
	cr_assert_eq(out.len, whole.len);
	cr_expect_arr_eq(out.data, whole.data, whole.len);
	free(out.data);
	m.body.len /= 2;
	cr_expect_neq(sp_message_profile(protocol, &m, &out), 0, "cut short");
	sp_message_fini(&m);
	free(whole.data);
}

Test(pprof_split, a_message_gives_its_profile_back, .timeout = 20)
{
	series.label[0] = (struct sp_label){"service_name", "s"};
	series.n = 1;
	read_back(SP_PROTOCOL_PUSH);
	read_back(SP_PROTOCOL_INGEST);
}
