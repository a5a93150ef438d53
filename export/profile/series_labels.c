/* SPDX-License-Identifier: Apache-2.0 */
/* Bounds the series that the labels of samples make at a server (series_labels.h). Context: the exporter. */
#include "export/profile/series_labels.h"

#include <stdlib.h>
#include <string.h>

#include "export/profile/pprof.h"
#include "export/util/containers.h"

/* In the order from the last to the first that is replaced. */
enum kind { SPAN_NAME, THREAD_NAME, ATTRIBUTE, KINDS };

/* A set is known by its hash: two sets with the same hash count as one. */
struct sp_series_labels {
	const char *left_out;
	uint32_t max;
	uint64_t *set;
	size_t cap;
	uint32_t n;
	struct sp_hash_index by_hash;
};

static const char other[] = "(other)";

struct sp_series_labels *sp_series_labels_new(const char *left_out, uint32_t max)
{
	struct sp_series_labels *s = calloc(1, sizeof(*s));

	if (s != NULL) {
		s->left_out = left_out;
		s->max = max;
	}
	return s;
}

void sp_series_labels_free(struct sp_series_labels *s)
{
	if (s == NULL)
		return;
	free(s->set);
	sp_hash_index_fini(&s->by_hash);
	free(s);
}

/* Pyroscope keeps these two labels with each sample. */
static bool is_of_sample(const char *name)
{
	return strcmp(name, "span_id") == 0 || strcmp(name, "trace_id") == 0;
}

static enum kind kind_of(const char *name)
{
	if (strcmp(name, "span_name") == 0)
		return SPAN_NAME;
	return strcmp(name, "thread_name") == 0 ? THREAD_NAME : ATTRIBUTE;
}

static void leave_out(const struct sp_series_labels *s, struct sp_record_labels *labels)
{
	size_t kept = 0;

	for (size_t i = 0; i < labels->n; i++) {
		const char *name = labels->label[i].name;

		if (strcmp(name, "blocked_by_span_id") != 0 &&
		    !sp_label_is_left_out(s->left_out, name))
			labels->label[kept++] = labels->label[i];
	}
	labels->n = kept;
}

static bool is_known(const struct sp_series_labels *s, uint64_t hash)
{
	uint32_t i;

	for (uint32_t step = 0; sp_hash_index_next(&s->by_hash, (uint32_t)hash, &step, &i);)
		if (s->set[i] == hash)
			return true;
	return false;
}

/* Whether the set is known, or there is room for one more set of its kind. When out of memory there is no room. */
static bool has_room(struct sp_series_labels *s, const struct sp_record_labels *labels)
{
	uint64_t room = s->max, hash = 0;

	for (size_t i = 0; i < labels->n; i++) {
		const struct sp_label *l = &labels->label[i];
		uint64_t most = s->max;

		if (is_of_sample(l->name))
			continue;
		hash = sp_hash_add_bytes(hash, l->name, strlen(l->name));
		hash = sp_hash_add_bytes(hash, l->value, strlen(l->value));
		if (strcmp(l->value, other) != 0)
			most = most * (KINDS + 1 - (uint64_t)kind_of(l->name)) / (KINDS + 1);
		if (most < room)
			room = most;
	}
	if (is_known(s, hash))
		return true;
	if (s->n >= room || !SP_GROW(s->set, s->cap, s->n + 1, SIZE_MAX) ||
	    !sp_hash_index_put(&s->by_hash, (uint32_t)hash, s->n))
		return false;
	s->set[s->n++] = hash;
	return true;
}

static bool replace(struct sp_record_labels *labels, enum kind kind)
{
	bool has_replaced = false;

	for (size_t i = 0; i < labels->n; i++) {
		struct sp_label *l = &labels->label[i];

		if (is_of_sample(l->name) || kind_of(l->name) != kind || l->value == other)
			continue;
		l->value = other;
		has_replaced = true;
	}
	return has_replaced;
}

bool sp_series_labels_apply(struct sp_series_labels *s, struct sp_record_labels *labels)
{
	bool has_replaced = false;

	leave_out(s, labels);
	for (unsigned kind = KINDS; kind != 0 && !has_room(s, labels); kind--)
		has_replaced = replace(labels, (enum kind)(kind - 1)) || has_replaced;
	return has_replaced;
}
