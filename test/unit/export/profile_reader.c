/* SPDX-License-Identifier: Apache-2.0 */
/* The server's rules as assertions. Context: tests. Callers: test/unit/export/. */
#include "profile_reader.h"

#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/base/text.h"

static void check_id(const profile *p, int64_t id)
{
	cr_assert(id >= 0 && (uint64_t)id < p->n_string_table, "string index %ld", (long)id);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void check_strings(const profile *p)
{
	char **sorted = calloc(p->n_string_table, sizeof(*sorted));

	cr_assert_gt(p->n_string_table, 0);
	cr_assert_str_eq(p->string_table[0], "");
	memcpy(sorted, p->string_table, p->n_string_table * sizeof(*sorted));
	qsort(sorted, p->n_string_table, sizeof(*sorted), by_text);
	for (size_t i = 0; i < p->n_string_table; i++) {
		cr_assert(sp_text_valid(sorted[i], strlen(sorted[i])));
		cr_assert(i == 0 || strcmp(sorted[i - 1], sorted[i]) != 0, "\"%s\" twice",
			  sorted[i]);
	}
	free(sorted);
}

static void check_sample(const profile *p, const profile_sample *s)
{
	cr_assert_eq(s->n_value, p->n_sample_type);
	cr_assert_gt(s->n_location_id, 0, "a sample without frames vanishes");
	for (size_t i = 0; i < s->n_location_id; i++)
		cr_assert(s->location_id[i] >= 1 && s->location_id[i] <= p->n_location);
	for (size_t i = 0; i < s->n_label; i++) {
		check_id(p, s->label[i]->key);
		check_id(p, s->label[i]->str);
		cr_assert_neq(s->label[i]->key, 0);
		cr_assert((s->label[i]->str != 0) != (s->label[i]->num != 0));
		cr_assert_leq(strlen(p->string_table[s->label[i]->str]), 2048);
	}
}

static void check_tables(const profile *p)
{
	for (size_t i = 0; i < p->n_mapping; i++) {
		cr_assert_eq(p->mapping[i]->id, i + 1);
		check_id(p, p->mapping[i]->filename);
		check_id(p, p->mapping[i]->build_id);
	}
	for (size_t i = 0; i < p->n_location; i++) {
		cr_assert_eq(p->location[i]->id, i + 1);
		cr_assert(p->location[i]->mapping_id >= 1 &&
			  p->location[i]->mapping_id <= p->n_mapping);
		/* The server symbolizes a mapping either completely or not at all. */
		cr_assert_eq(p->location[i]->n_line != 0,
			     p->mapping[p->location[i]->mapping_id - 1]->has_functions,
			     "a location without lines vanishes");
		for (size_t k = 0; k < p->location[i]->n_line; k++)
			cr_assert(p->location[i]->line[k]->function_id >= 1 &&
				  p->location[i]->line[k]->function_id <= p->n_function);
	}
	for (size_t i = 0; i < p->n_function; i++) {
		cr_assert_eq(p->function[i]->id, i + 1);
		check_id(p, p->function[i]->name);
		check_id(p, p->function[i]->system_name);
		check_id(p, p->function[i]->filename);
		cr_assert_neq(p->function[i]->name, 0);
	}
}

/* The period of CPU time and of wall time has the same name, that of allocations is bytes, and waits have none. */
static void check_types(const profile *p)
{
	const char *type = profile_string(p, p->sample_type[1]->type);
	bool is_in_use = strcmp(type, "inuse_space") == 0;
	bool is_memory = is_in_use || strcmp(type, "alloc_space") == 0;
	bool has_one = strcmp(type, "off_cpu") != 0;

	cr_assert(!has_one || is_memory || strcmp(type, "cpu") == 0 || strcmp(type, "wall") == 0,
		  "%s", type);
	cr_assert_str_eq(profile_string(p, p->sample_type[0]->type), is_in_use   ? "inuse_objects"
								     : is_memory ? "alloc_objects"
										 : "samples");
	cr_assert_str_eq(profile_string(p, p->sample_type[1]->unit),
			 is_memory ? "bytes" : "nanoseconds");
	cr_assert_not_null(p->period_type);
	cr_assert_str_eq(profile_string(p, p->period_type->type), is_memory ? "space"
								  : has_one ? type
									    : "");
	cr_assert_str_eq(profile_string(p, p->period_type->unit), is_memory ? "bytes"
								  : has_one ? "nanoseconds"
									    : "");
}

profile *profile_read(const uint8_t *data, size_t len)
{
	profile *p = spanprof__pprof__profile__unpack(NULL, len, data);

	cr_assert_not_null(p, "not a profile");
	check_strings(p);
	cr_assert_eq(p->n_sample_type, 2);
	cr_assert_str_eq(profile_string(p, p->sample_type[0]->unit), "count");
	check_types(p);
	check_tables(p);
	for (size_t i = 0; i < p->n_sample; i++)
		check_sample(p, p->sample[i]);
	return p;
}

void profile_done(profile *p)
{
	spanprof__pprof__profile__free_unpacked(p, NULL);
}

const char *profile_string(const profile *p, int64_t id)
{
	check_id(p, id);
	return p->string_table[id];
}

const char *profile_frame(const profile *p, const profile_sample *s, size_t i)
{
	if (i >= s->n_location_id || p->location[s->location_id[i] - 1]->n_line == 0)
		return "";
	return profile_string(
		p, p->function[p->location[s->location_id[i] - 1]->line[0]->function_id - 1]->name);
}

const char *profile_label(const profile *p, const profile_sample *s, const char *key)
{
	for (size_t i = 0; i < s->n_label; i++)
		if (strcmp(profile_string(p, s->label[i]->key), key) == 0)
			return profile_string(p, s->label[i]->str);
	return NULL;
}

unsigned profile_count_string(const profile *p, const char *s)
{
	unsigned n = 0;

	for (size_t i = 0; i < p->n_string_table; i++)
		n += strcmp(p->string_table[i], s) == 0;
	return n;
}

int64_t profile_total(const profile *p, size_t i)
{
	int64_t sum = 0;

	for (size_t k = 0; k < p->n_sample; k++)
		sum += p->sample[k]->value[i];
	return sum;
}
