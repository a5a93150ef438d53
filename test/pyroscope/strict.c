/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks for data that the server would drop, merge or misread without a message; see validate.h.
 */
#include "test/pyroscope/validate.h"

#include <stdlib.h>

static int strict(struct pd_error *e, const char *what, uint64_t id)
{
	return pd_error_set(e, PD_INVALID_ARGUMENT, "strict", "strict: %s (%llu)", what,
			    (unsigned long long)id);
}

static int check_indexes(const struct pd_profile *p, struct pd_error *e)
{
	if (!p->has_period_type)
		return strict(e, "no period_type", 0);
	if (!pd_profile_has_string(p, p->period_type.type) ||
	    !pd_profile_has_string(p, p->period_type.unit))
		return strict(e, "period_type string index out of range", 0);
	if (!pd_profile_has_string(p, p->drop_frames) ||
	    !pd_profile_has_string(p, p->keep_frames) ||
	    !pd_profile_has_string(p, p->default_sample_type))
		return strict(e, "profile string index out of range", 0);
	for (size_t i = 0; i < p->functions; i++)
		if (p->function[i].name < 0)
			return strict(e, "function name below 0", i);
	for (size_t i = 0; i < p->comments; i++)
		if (!pd_profile_has_string(p, p->comment[i]))
			return strict(e, "comment string index out of range", i);
	for (size_t i = 0; i < p->samples; i++)
		for (size_t j = 0; j < p->sample[i].labels; j++)
			if (!pd_profile_has_string(p, p->sample[i].label[j].num_unit))
				return strict(e, "label unit string index out of range", i);
	return 0;
}

static int compare_strings(const void *a, const void *b)
{
	return pd_bytes_compare(*(const struct pd_bytes *)a, *(const struct pd_bytes *)b);
}

/*
 * The server searches a label key by the first equal string in one place and by the last one in
 * another. So a key that is in the table twice loses its spans.
 */
static int check_duplicate_strings(const struct pd_profile *p, struct pd_error *e)
{
	struct pd_arena a = {0};
	struct pd_bytes *sorted = pd_arena_calloc(&a, p->strings, sizeof(*sorted));
	int rc = 0;

	for (size_t i = 0; i < p->strings; i++)
		sorted[i] = p->string[i];
	qsort(sorted, p->strings, sizeof(*sorted), compare_strings);
	for (size_t i = 1; i < p->strings && rc == 0; i++)
		if (pd_bytes_equal(sorted[i - 1], sorted[i]))
			rc = pd_error_set(e, PD_INVALID_ARGUMENT, "strict",
					  "strict: string in the table twice ('%.*s')",
					  (int)sorted[i].len, (const char *)sorted[i].at);
	pd_arena_fini(&a);
	return rc;
}

static int check_unique(const struct pd_index *index, size_t count, const char *what,
			struct pd_error *e)
{
	for (size_t i = 1; i < count; i++)
		if (index[i - 1].id == index[i].id)
			return strict(e, what, index[i].id);
	return 0;
}

static int check_location(const struct pd_profile *p, const struct pd_location *l,
			  struct pd_error *e)
{
	const struct pd_mapping *m = pd_profile_mapping(p, l->mapping_id);

	if (m == NULL)
		return strict(e, "location without an existing mapping", l->id);
	if (l->lines == 0 && m->has_functions)
		return strict(e, "location without lines in a mapping that has functions", l->id);
	for (size_t i = 0; i < l->lines; i++)
		if (pd_profile_function(p, l->line[i].function_id) == NULL)
			return strict(e, "location with a missing function", l->id);
	return 0;
}

static int check_references(const struct pd_profile *p, struct pd_error *e)
{
	for (size_t i = 0; i < p->mappings; i++)
		if (p->mapping[i].id == 0)
			return strict(e, "mapping id is 0", i);
	for (size_t i = 0; i < p->locations; i++)
		if (check_location(p, &p->location[i], e) != 0)
			return -1;
	for (size_t i = 0; i < p->samples; i++)
		for (size_t j = 0; j < p->sample[i].locations; j++)
			if (pd_profile_location(p, p->sample[i].location_id[j]) == NULL)
				return strict(e, "sample with a missing location", i);
	return 0;
}

int pd_validate_strict(const struct pd_profile *p, struct pd_error *e)
{
	if (check_indexes(p, e) != 0 || check_duplicate_strings(p, e) != 0 ||
	    check_unique(p->mapping_index, p->mappings, "mapping id twice", e) != 0 ||
	    check_unique(p->location_index, p->locations, "location id twice", e) != 0 ||
	    check_unique(p->function_index, p->functions, "function id twice", e) != 0)
		return -1;
	return check_references(p, e);
}
