/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a profile have its samples as they are in the whole, and nothing else. */
#include "export/profile/cut.h"
#include "export/profile/encode.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/profile/otlp.h"
#include "export/push/request.h"
#include "profile_reader.h"

#define MAPPINGS 3U
#define LOCATIONS 60U
#define SAMPLES 200U

static uint64_t state = 88172645463325252U;

static unsigned roll(unsigned n)
{
	state = state * UINT64_C(6364136223846793005) + 1442695040888963407U;
	return (unsigned)(state >> 33) % n;
}

static void add_location(struct sp_pprof *p, unsigned n, uint64_t mapping)
{
	struct sp_pprof_line line[3];
	unsigned lines = 1 + roll(3);
	char name[32], file[32];
	uint64_t id;

	for (unsigned i = 0; i < lines; i++) {
		(void)snprintf(name, sizeof(name), "f%u", roll(40));
		(void)snprintf(file, sizeof(file), "%u.c", roll(9));
		line[i].line = roll(300);
		cr_assert_eq(sp_pprof_function(p, name, name, file, &line[i].function), 0);
	}
	cr_assert_eq(sp_pprof_location(p, mapping, 0x1000 + n, line, lines, &id), 0);
	cr_assert_eq(id, n + 1);
}

static void add_sample(struct sp_pprof *p)
{
	static const char *const key[] = {"span_id", "span_name", "thread_name"};
	uint64_t id[70];
	char text[3][32];
	struct sp_label label[3];
	struct sp_pprof_sample s = {.location = id,
				    .locations = 1 + roll(64),
				    .count = roll(3),
				    .ns = 1 + (int64_t)roll(1000000000) * roll(1000),
				    .label = label,
				    .labels = roll(4)};

	for (size_t i = 0; i < s.locations; i++)
		id[i] = 1 + roll(LOCATIONS);
	for (size_t i = 0; i < s.labels; i++) {
		(void)snprintf(text[i], sizeof(text[i]), "value %u", roll(50));
		label[i] = (struct sp_label){key[i], text[i]};
	}
	cr_assert_eq(sp_pprof_sample(p, &s), 0);
}

static struct sp_bytes whole_of(unsigned samples)
{
	static const struct sp_pprof_limits limits = {SP_ENCODE_SAMPLES, SP_ENCODE_BYTES};
	static const struct sp_pprof_times times = {
		.period_ns = 10000000, .time_ns = 1700000000000000000, .duration_ns = 15000000000};
	struct sp_pprof *p = sp_pprof_new(&limits, &times);
	struct sp_bytes b;
	uint64_t mapping[MAPPINGS];
	char file[32];

	cr_assert_not_null(p);
	cr_assert_eq(sp_pprof_comment(p, "spanprof 1"), 0);
	for (unsigned i = 0; i < MAPPINGS; i++) {
		const struct sp_pprof_mapping m = {
			0x1000 * (i + 1), 0x1000 * (i + 2), i, file, "0a0b", true, true};

		(void)snprintf(file, sizeof(file), "/bin/%u", i);
		cr_assert_eq(sp_pprof_mapping(p, &m, &mapping[i]), 0);
	}
	for (unsigned i = 0; i < LOCATIONS; i++)
		add_location(p, i, mapping[roll(MAPPINGS)]);
	for (unsigned i = 0; i < samples; i++)
		add_sample(p);
	cr_assert_eq(sp_pprof_pack(p, &b), 0);
	sp_pprof_free(p);
	return b;
}

static void put_location(FILE *f, const profile *p, const profile_location *l)
{
	const Spanprof__Pprof__Mapping *m = p->mapping[l->mapping_id - 1];

	(void)fprintf(f, " %lx in %s %s %lx-%lx+%lx", (unsigned long)l->address,
		      profile_string(p, m->filename), profile_string(p, m->build_id),
		      (unsigned long)m->memory_start, (unsigned long)m->memory_limit,
		      (unsigned long)m->file_offset);
	for (size_t k = 0; k < l->n_line; k++) {
		const Spanprof__Pprof__Function *function =
			p->function[l->line[k]->function_id - 1];

		(void)fprintf(f, " %s %s %s:%ld", profile_string(p, function->name),
			      profile_string(p, function->system_name),
			      profile_string(p, function->filename), (long)l->line[k]->line);
	}
}

/* All that a reader sees of a sample. */
static char *text_of(const profile *p, const profile_sample *s)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	cr_assert_not_null(f);
	for (size_t i = 0; i < s->n_value; i++)
		(void)fprintf(f, "%ld ", (long)s->value[i]);
	for (size_t i = 0; i < s->n_location_id; i++)
		put_location(f, p, p->location[s->location_id[i] - 1]);
	for (size_t i = 0; i < s->n_label; i++)
		(void)fprintf(f, " %s=%s", profile_string(p, s->label[i]->key),
			      profile_string(p, s->label[i]->str));
	(void)fclose(f);
	return text;
}

/* Each element of a table is referred to. */
static void expect_nothing_else(const profile *p)
{
	bool location[LOCATIONS + 1] = {false}, function[1024] = {false}, mapping[64] = {false};
	size_t locations = 0, functions = 0, mappings = 0;

	for (size_t i = 0; i < p->n_sample; i++)
		for (size_t k = 0; k < p->sample[i]->n_location_id; k++)
			location[p->sample[i]->location_id[k]] = true;
	mapping[1] = true; /* the program */
	for (size_t i = 0; i < p->n_location; i++) {
		mapping[p->location[i]->mapping_id] = true;
		for (size_t k = 0; k < p->location[i]->n_line; k++)
			function[p->location[i]->line[k]->function_id] = true;
	}
	for (size_t i = 0; i <= LOCATIONS; i++)
		locations += location[i];
	for (size_t i = 0; i < 1024; i++)
		functions += function[i];
	for (size_t i = 0; i < 64; i++)
		mappings += mapping[i];
	cr_expect_eq(locations, p->n_location);
	cr_expect_eq(functions, p->n_function);
	cr_expect_eq(mappings, p->n_mapping);
	for (size_t i = 0; i < p->n_string_table; i++)
		cr_expect_eq(profile_count_string(p, p->string_table[i]), 1);
}

static void expect_part(const struct sp_bytes *whole, uint32_t first, uint32_t end)
{
	profile *all = profile_read(whole->data, whole->len);
	struct sp_bytes bytes;
	profile *part;

	cr_assert_eq(sp_cut(whole, first, end, &bytes), 0);
	cr_expect_leq(bytes.len, whole->len);
	part = profile_read(bytes.data, bytes.len);
	cr_assert_eq(part->n_sample, end - first);
	for (uint32_t i = first; i < end; i++) {
		char *want = text_of(all, all->sample[i]);
		char *got = text_of(part, part->sample[i - first]);

		cr_expect_str_eq(got, want);
		free(want);
		free(got);
	}
	expect_nothing_else(part);
	cr_expect_eq(part->time_nanos, all->time_nanos);
	cr_expect_eq(part->duration_nanos, all->duration_nanos);
	cr_expect_eq(part->period, all->period);
	cr_assert_eq(part->n_comment, 1);
	cr_expect_str_eq(profile_string(part, part->comment[0]), "spanprof 1");
	for (size_t i = 0; i < 2; i++)
		cr_expect_str_eq(profile_string(part, part->sample_type[i]->type),
				 profile_string(all, all->sample_type[i]->type));
	cr_expect_str_eq(profile_string(part, part->period_type->unit), "nanoseconds");
	profile_done(part);
	profile_done(all);
	free(bytes.data);
}

Test(cut, has_the_samples_of_the_part_and_what_they_refer_to, .timeout = 60)
{
	for (unsigned round = 0; round < 10; round++) {
		struct sp_bytes whole = whole_of(SAMPLES);
		unsigned first = roll(SAMPLES);

		expect_part(&whole, first, first + 1 + roll(SAMPLES - first));
		expect_part(&whole, first, first + 1);
		expect_part(&whole, 0, SAMPLES);
		free(whole.data);
	}
}

Test(cut, of_samples_that_are_not_there_is_refused, .timeout = 20)
{
	struct sp_bytes whole = whole_of(3), out;

	cr_expect_eq(sp_cut(&whole, 0, 4, &out), -EINVAL);
	cr_expect_eq(sp_cut(&whole, 3, 4, &out), -EINVAL);
	cr_expect_eq(sp_cut(&whole, 2, 2, &out), -EINVAL);
	cr_expect_null(out.data);
	free(whole.data);
}

/* Of damaged bytes sp_cut() makes a profile or an error, and it reads and writes nothing outside of them. */
Test(cut, of_damaged_bytes_is_refused_or_a_profile, .timeout = 60)
{
	struct sp_bytes whole = whole_of(20), out;
	unsigned refused = 0;

	for (unsigned i = 0; i < 5000; i++) {
		struct sp_bytes bad = {malloc(whole.len), 1 + roll((unsigned)whole.len)};

		memcpy(bad.data, whole.data, whole.len);
		for (unsigned k = 0; k < 3; k++)
			bad.data[roll((unsigned)bad.len)] = (uint8_t)roll(256);
		refused += sp_cut(&bad, 0, 1 + roll(20), &out) != 0;
		free(out.data);
		free(bad.data);
	}
	cr_expect_gt(refused, 250);
	free(whole.data);
}

/* In each protocol the parts of a message are cut from its body, also after the message is freed. */
Test(cut, is_of_what_a_message_carries, .timeout = 20)
{
	static const enum sp_protocol protocol[] = {SP_PROTOCOL_PUSH, SP_PROTOCOL_INGEST,
						    SP_PROTOCOL_OTLP};
	const struct sp_series series = {.n = 0, .pid = SIZE_MAX};
	struct sp_bytes resource;

	cr_assert_eq(sp_otlp_resource(NULL, 0, &resource), 0);

	for (unsigned i = 0; i < 3; i++) {
		const struct sp_request r = {.protocol = protocol[i],
					     .series = &series,
					     .resource = &resource,
					     .id = "1",
					     .rate_hz = 100};
		struct sp_encoded encoded = {.bytes = whole_of(30), .records = 30}, part;
		struct sp_message m, second = {.type = SP_PROFILE_CPU};
		struct sp_bytes direct;

		encoded.counted = calloc(30, sizeof(*encoded.counted));
		for (unsigned k = 0; k < 30; k++)
			encoded.samples += encoded.counted[k] = k;
		cr_assert_eq(sp_request_make(&r, &encoded, &m), 0);
		sp_message_set_whole(&m, protocol[i], &encoded);
		cr_expect_eq(m.end, 30);
		cr_expect_eq(m.samples, 29 * 30 / 2);
		sp_message_set_part(&second, &m, 10, 20, 145);
		sp_message_fini(&m);

		cr_assert_eq(sp_message_cut(&second, 20, 23, &part), 0);
		cr_assert_eq(sp_cut(&encoded.bytes, 20, 23, &direct), 0);
		cr_expect_eq(part.samples, 20 + 21 + 22);
		cr_expect_eq(part.records, 3);
		cr_assert_eq(part.bytes.len, direct.len);
		cr_expect_arr_eq(part.bytes.data, direct.data, direct.len);
		free(direct.data);
		sp_encoded_fini(&part);
		sp_message_fini(&second);
		sp_encoded_fini(&encoded);
	}
	free(resource.data);
}
