/* SPDX-License-Identifier: Apache-2.0 */
/* Makes rows and series from a valid profile, and counts silent changes; see record.h. */
#include "test/pyroscope/record.h"

#include <stdlib.h>
#include <string.h>

#include "test/pyroscope/codec.h"

struct pd_record *pd_record_new(void)
{
	struct pd_record *r = calloc(1, sizeof(*r));

	if (r == NULL)
		abort();
	return r;
}

void pd_record_free(struct pd_record *r)
{
	if (r == NULL)
		return;
	json_decref(r->headers);
	pd_arena_fini(&r->arena);
	free(r);
}

static bool location_usable(const struct pd_profile *p, const struct pd_location *l)
{
	if (l == NULL || (l->lines == 0 && l->address == 0))
		return false;
	if (l->mapping_id != 0 && pd_profile_mapping(p, l->mapping_id) == NULL)
		return false;
	for (size_t i = 0; i < l->lines; i++)
		if (pd_profile_function(p, l->line[i].function_id) == NULL)
			return false;
	return true;
}

static void count_locations(struct pd_record *r)
{
	for (size_t i = 0; i < r->profile.locations; i++) {
		r->losses.locations_without_lines += r->profile.location[i].lines == 0;
		r->losses.unusable_locations +=
			!location_usable(&r->profile, &r->profile.location[i]);
	}
}

/* Whether the server keeps the sample; counts the reason if not. */
static bool sample_kept(struct pd_record *r, const struct pd_sample *s)
{
	bool zero = true;

	for (size_t i = 0; i < s->locations; i++)
		if (!location_usable(&r->profile,
				     pd_profile_location(&r->profile, s->location_id[i]))) {
			r->losses.unresolved_samples++;
			return false;
		}
	for (size_t i = 0; i < s->values; i++) {
		if (s->value[i] < 0) {
			r->losses.negative_samples++;
			return false;
		}
		zero = zero && s->value[i] == 0;
	}
	r->losses.zero_samples += zero;
	return !zero;
}

static void take_span(struct pd_record *r, struct pd_row *row, struct pd_bytes text)
{
	uint8_t id[8];
	uint64_t value = 0;

	if (pd_hex_decode(text, id, sizeof(id)))
		for (size_t i = 0; i < sizeof(id); i++)
			value = value << 8 | id[i];
	if (value == 0)
		r->losses.invalid_span_ids++;
	else if (row->span_id != 0)
		r->losses.repeated_sample_labels++;
	else
		row->span_id = value;
}

static void take_trace(struct pd_record *r, struct pd_row *row, struct pd_bytes text)
{
	static const uint8_t none[16];
	uint8_t id[16];

	if (!pd_hex_decode(text, id, sizeof(id)) || memcmp(id, none, sizeof(id)) == 0) {
		r->losses.invalid_trace_ids++;
	} else if (row->has_trace) {
		r->losses.repeated_sample_labels++;
	} else {
		memcpy(row->trace_id, id, sizeof(id));
		row->has_trace = true;
	}
}

static void take_label(struct pd_record *r, struct pd_row *row, const struct pd_label *l)
{
	struct pd_bytes name = pd_profile_string(&r->profile, l->key);
	struct pd_bytes value = pd_profile_string(&r->profile, l->str);
	bool old_name = pd_bytes_is(name, "profile_id");

	if (l->str == 0) {
		r->losses.numeric_labels++;
	} else if (old_name || pd_bytes_is(name, "span_id")) {
		r->losses.renamed_profile_ids += old_name;
		take_span(r, row, value);
	} else if (pd_bytes_is(name, "trace_id")) {
		take_trace(r, row, value);
	} else if (value.len == 0) {
		r->losses.empty_labels++;
	} else if (pd_labels_has(row->labels, name)) {
		r->losses.repeated_sample_labels++;
	} else {
		row->labels.at[row->labels.len++] = (struct pd_pair){name, value};
	}
}

static void make_rows(struct pd_record *r)
{
	r->row = pd_arena_calloc(&r->arena, r->profile.samples, sizeof(*r->row));
	for (size_t i = 0; i < r->profile.samples; i++) {
		const struct pd_sample *s = &r->profile.sample[i];
		struct pd_row *row = &r->row[r->rows];

		if (!sample_kept(r, s))
			continue;
		row->location_id = s->location_id;
		row->locations = s->locations;
		row->value = pd_arena_calloc(&r->arena, s->values, sizeof(*row->value));
		memcpy(row->value, s->value, s->values * sizeof(*row->value));
		row->labels.at = pd_arena_calloc(&r->arena, s->labels, sizeof(*row->labels.at));
		for (size_t j = 0; j < s->labels; j++)
			take_label(r, row, &s->label[j]);
		pd_labels_sort(&row->labels);
		r->rows++;
	}
}

static int compare_rows(const void *a, const void *b)
{
	const struct pd_row *x = a;
	const struct pd_row *y = b;
	int order = pd_labels_compare(x->labels, y->labels);

	if (order != 0)
		return order;
	if (x->span_id != y->span_id)
		return x->span_id > y->span_id ? 1 : -1;
	order = memcmp(x->trace_id, y->trace_id, sizeof(x->trace_id));
	if (order != 0)
		return order;
	return pd_bytes_compare((struct pd_bytes){(const uint8_t *)x->location_id,
						  x->locations * sizeof(*x->location_id)},
				(struct pd_bytes){(const uint8_t *)y->location_id,
						  y->locations * sizeof(*y->location_id)});
}

static void merge_rows(struct pd_record *r)
{
	size_t kept = 0;

	if (r->rows > 1)
		qsort(r->row, r->rows, sizeof(*r->row), compare_rows);
	for (size_t i = 0; i < r->rows; i++) {
		if (kept == 0 || compare_rows(&r->row[kept - 1], &r->row[i]) != 0) {
			r->row[kept++] = r->row[i];
			continue;
		}
		/*
		 * Go's integers wrap. The sum is unsigned, because signed overflow is undefined in
		 * C.
		 */
		for (size_t j = 0; j < r->profile.sample_types; j++)
			r->row[kept - 1].value[j] = (int64_t)((uint64_t)r->row[kept - 1].value[j] +
							      (uint64_t)r->row[i].value[j]);
		r->losses.merged_samples++;
	}
	r->rows = kept;
}

/* rows: how many samples share the row's labels. */
static struct pd_labels join_labels(struct pd_record *r, const struct pd_row *row, size_t rows)
{
	struct pd_labels all = {
		pd_arena_calloc(&r->arena, r->labels.len + row->labels.len, sizeof(*all.at)), 0};

	for (size_t i = 0; i < r->labels.len; i++)
		if (r->labels.at[i].value.len > 0 ||
		    pd_bytes_is(r->labels.at[i].name, "service_name"))
			all.at[all.len++] = r->labels.at[i];
	for (size_t i = 0; i < row->labels.len; i++) {
		if (pd_labels_has(all, row->labels.at[i].name))
			r->losses.shadowed_sample_labels += rows;
		else
			all.at[all.len++] = row->labels.at[i];
	}
	return all;
}

static int make_series(const struct pd_limits *limits, struct pd_record *r, struct pd_error *e)
{
	size_t i = 0;

	r->series = pd_arena_calloc(&r->arena, r->rows, sizeof(*r->series));
	while (i < r->rows) {
		struct pd_series *s = &r->series[r->series_count];
		size_t end = i;

		while (end < r->rows &&
		       pd_labels_compare(r->row[i].labels, r->row[end].labels) == 0)
			r->row[end++].series = r->series_count;
		s->labels = join_labels(r, &r->row[i], end - i);
		if (pd_labels_validate(limits, &s->labels, e) != 0)
			return -1;
		/* This label is not stored, but counts for the limit of 30. */
		pd_labels_remove(&s->labels, "__delta__");
		for (size_t j = 0; j < s->labels.len; j++)
			r->losses.unsafe_label_names += !pd_labels_name_safe(s->labels.at[j].name);
		r->series_count++;
		i = end;
	}
	return 0;
}

int pd_record_split(const struct pd_limits *limits, struct pd_record *r, struct pd_error *e)
{
	count_locations(r);
	make_rows(r);
	if (r->rows < r->profile.samples && !r->profile.has_period_type)
		return pd_error_set(e, PD_UNKNOWN, "panic",
				    "panic: invalid memory address or nil pointer dereference");
	merge_rows(r);
	for (size_t i = 0; i < r->labels.len; i++)
		r->losses.empty_labels += r->labels.at[i].value.len == 0;
	if (pd_labels_has(r->labels, pd_bytes_of("__session_id__"))) {
		pd_labels_remove(&r->labels, "__session_id__");
		r->losses.session_ids++;
	}
	if (r->rows == 0) {
		r->losses.empty_profiles++;
		return 0;
	}
	return make_series(limits, r, e);
}

void pd_record_type(const struct pd_record *r, size_t sample_type, struct pd_text *out)
{
	struct pd_bytes name = pd_labels_get(r->labels, "__name__");
	const struct pd_value_type *t = &r->profile.sample_type[sample_type];
	const int64_t part[] = {t->type, t->unit, r->profile.period_type.type,
				r->profile.period_type.unit};

	pd_text_add(out, name.at, name.len);
	for (size_t i = 0; i < sizeof(part) / sizeof(part[0]); i++) {
		struct pd_bytes text = pd_profile_string(&r->profile, part[i]);

		pd_text_adds(out, ":");
		pd_text_add(out, text.at, text.len);
	}
}
