/* SPDX-License-Identifier: Apache-2.0 */
/* Stores the attributes of local roots for two profiles (root_values.h). Context: the exporter. */
#include "export/profile/root_values.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/profile/pprof.h"
#include "export/util/containers.h"
#include "export/util/log.h"
#include "sampler/base/text.h"

struct root {
	uint64_t id;
	uint32_t value[SP_SPAN_VALUES_MAX]; /* text ids, in the order of the keys; 0 = none */
	enum sp_latency latency;
	bool is_timed; /* end is known */
	bool keeps_id;
	struct sp_root_end end;
	uint64_t alike; /* since the last sp_root_values_decide(); 0 = unknown */
};

const char *const sp_latency_words[SP_LATENCIES] = {
	[SP_LATENCY_P50] = "p50",
	[SP_LATENCY_P90] = "p90",
	[SP_LATENCY_P99] = "p99",
	[SP_LATENCY_SLOW] = "slow",
};

/* The roots of one profile. */
struct generation {
	struct sp_hash_index by_id;
	struct root *root;
	size_t n, cap;
	struct sp_strtab text;
};

struct sp_root_values {
	const struct sp_core_ops *ops;
	char name[SP_SPAN_VALUES_MAX][SP_SPAN_KEY_BYTES + 2];
	unsigned key[SP_SPAN_VALUES_MAX]; /* keys that are labels */
	unsigned attributes;              /* without latency */
	bool has_latency;
	struct generation now, before;
};

unsigned sp_root_labels(const char *keys, char name[SP_SPAN_VALUES_MAX][SP_SPAN_KEY_BYTES + 2],
			sp_root_label_refused refused, void *arg)
{
	char whole[SP_LABEL_NAME_MAX];
	const char *reason;
	const char *key;
	unsigned n = 0;
	size_t len;

	/* The configuration has checked their number and lengths; a leading digit costs one byte more. */
	for (; keys != NULL && n < SP_SPAN_VALUES_MAX && sp_text_next_item(&keys, &key, &len);
	     n++) {
		if (len > SP_SPAN_KEY_BYTES)
			len = SP_SPAN_KEY_BYTES;
		(void)sp_attribute_name(whole, key, len);
		reason = sp_label_refusal(whole);
		for (unsigned i = 0; reason == NULL && i < n; i++)
			if (sp_label_is(name[i], whole))
				reason = "the name is already taken";
		(void)snprintf(name[n], sizeof(name[n]), "%.*s", (int)sizeof(name[n]) - 1,
			       reason == NULL ? whole : "");
		if (reason != NULL && refused != NULL)
			refused(arg, key, len, reason);
	}
	return n;
}

static void free_generation(struct generation *g)
{
	sp_hash_index_fini(&g->by_id);
	sp_strtab_fini(&g->text);
	free(g->root);
	memset(g, 0, sizeof(*g));
}

static bool make_generation(struct generation *g)
{
	memset(g, 0, sizeof(*g));
	return sp_strtab_init(&g->text) == 0;
}

static void tell_refused(void *arg, const char *key, size_t len, const char *reason)
{
	const struct sp_root_values *v = arg;

	sp_export_log(v->ops, SP_LOG_WARN, "SPANPROF_SPAN_LABELS: %.*s makes no label: %s",
		      (int)len, key, reason);
}

struct sp_root_values *sp_root_values_new(const struct sp_core_ops *ops)
{
	static bool told;
	struct sp_root_values *v = calloc(1, sizeof(*v));
	unsigned n;

	if (v == NULL)
		return NULL;
	v->ops = ops;
	/* All processes of an exporter have one configuration. */
	n = sp_root_labels(ops->config->span_labels, v->name, told ? NULL : tell_refused, v);
	told = true;
	v->has_latency = ops->config->span_latency;
	for (unsigned i = 0; i < n; i++) {
		if (v->has_latency && sp_label_is(v->name[i], SP_LATENCY_LABEL)) {
			sp_export_log(ops, SP_LOG_WARN,
				      "SPANPROF_SPAN_LABELS: the label latency is that of "
				      "SPANPROF_SPAN_LATENCY, not the attribute");
			continue;
		}
		if (v->name[i][0] != '\0')
			v->key[v->attributes++] = i;
	}
	if (make_generation(&v->now) && make_generation(&v->before))
		return v;
	sp_root_values_free(v);
	return NULL;
}

void sp_root_values_free(struct sp_root_values *v)
{
	if (v == NULL)
		return;
	free_generation(&v->now);
	free_generation(&v->before);
	free(v);
}

static uint32_t hash_of(uint64_t id)
{
	return (uint32_t)sp_hash_add(0, id);
}

static struct root *find(const struct generation *g, uint64_t id)
{
	uint32_t i;

	for (uint32_t step = 0; sp_hash_index_next(&g->by_id, hash_of(id), &step, &i);)
		if (g->root[i].id == id)
			return &g->root[i];
	return NULL;
}

/* A program's own generator may repeat ids: the last root counts. */
static struct root *add(struct generation *g, uint64_t id)
{
	struct root *root = find(g, id);

	if (root == NULL) {
		if (g->n == SP_ROOT_VALUES_MAX ||
		    !SP_GROW(g->root, g->cap, g->n + 1, SP_ROOT_VALUES_MAX) ||
		    !sp_hash_index_put(&g->by_id, hash_of(id), (uint32_t)g->n))
			return NULL;
		root = &g->root[g->n++];
		*root = (struct root){.id = id};
	}
	memset(root->value, 0, sizeof(root->value));
	return root;
}

void sp_root_values_end(struct sp_root_values *v, const struct sp_root_end *end)
{
	struct root *root;

	if (v == NULL || end->root_id == 0)
		return;
	root = add(&v->now, end->root_id);
	if (root == NULL) {
		v->ops->counter_add(v->ops->arg, SP_COUNT_SPAN_VALUES_NO_ROOM, 1);
		return;
	}
	*root = (struct root){.id = end->root_id, .end = *end, .is_timed = true};
}

/* A root with the same labels; itself if there is no other one, or no memory. */
static uint64_t find_alike(const struct generation *g, struct sp_hash_index *by_labels, uint32_t n)
{
	const struct root *root = &g->root[n];
	uint64_t hash = sp_hash_add(0, root->latency);
	uint32_t i;

	for (unsigned k = 0; k < SP_SPAN_VALUES_MAX; k++)
		hash = sp_hash_add(hash, root->value[k]);
	for (uint32_t step = 0; sp_hash_index_next(by_labels, (uint32_t)hash, &step, &i);)
		if (g->root[i].latency == root->latency &&
		    memcmp(g->root[i].value, root->value, sizeof(root->value)) == 0)
			return g->root[i].id;
	(void)sp_hash_index_put(by_labels, (uint32_t)hash, n);
	return root->id;
}

static void decide(struct generation *g, sp_root_latency_of latency_of, void *arg)
{
	struct sp_hash_index by_labels = {0};

	for (uint32_t i = 0; i < g->n; i++) {
		struct root *root = &g->root[i];

		root->latency = root->is_timed ? latency_of(arg, &root->end) : SP_LATENCY_UNKNOWN;
		root->keeps_id =
			root->latency == SP_LATENCY_SLOW || root->latency == SP_LATENCY_UNKNOWN;
		root->alike = find_alike(g, &by_labels, i);
	}
	sp_hash_index_fini(&by_labels);
}

void sp_root_values_decide(struct sp_root_values *v, sp_root_latency_of latency_of, void *arg)
{
	const struct sp_config *config = v != NULL ? v->ops->config : NULL;

	/* Otherwise nobody asks. */
	if (config == NULL ||
	    (!sp_config_wants_latency(config) && config->span_id_scope != SP_SCOPE_NONE))
		return;
	decide(&v->now, latency_of, arg);
	decide(&v->before, latency_of, arg);
}

static struct root *find_any(const struct sp_root_values *v, uint64_t root_id,
			     const struct generation **in)
{
	struct root *root = root_id != 0 ? find(&v->now, root_id) : NULL;

	*in = &v->now;
	if (root != NULL || root_id == 0)
		return root;
	*in = &v->before;
	return find(&v->before, root_id);
}

void sp_root_values_keep_id(struct sp_root_values *v, uint64_t root_id)
{
	const struct generation *in;
	struct root *root = v != NULL ? find_any(v, root_id, &in) : NULL;

	if (root != NULL)
		root->keeps_id = true;
}

bool sp_root_values_is_usual(const struct sp_root_values *v, uint64_t root_id, uint64_t *alike)
{
	const struct generation *in;
	const struct root *root = find_any(v, root_id, &in);

	*alike = root != NULL && root->alike != 0 ? root->alike : root_id;
	return root != NULL && !root->keeps_id;
}

/* The shortest of 15 to 17 digits that gives the same number when it is read. */
static int print_double(char *out, size_t size, double x)
{
	int len = 0;

	for (int digits = 15; digits <= 17; digits++) {
		len = snprintf(out, size, "%.*g", digits, x);
		if (strtod(out, NULL) == x)
			break;
	}
	return len;
}

static size_t print_value(char out[SP_SPAN_VALUE_BYTES], uint32_t type, const uint8_t *bytes,
			  size_t len)
{
	uint64_t word = 0;
	double x;

	if (type == SP_SPAN_VALUE_TEXT)
		return sp_text_clean(out, SP_SPAN_VALUE_BYTES, (const char *)bytes, len);
	memcpy(&word, bytes, sizeof(word));
	switch (type) {
	case SP_SPAN_VALUE_INT64:
		return (size_t)snprintf(out, SP_SPAN_VALUE_BYTES, "%" PRId64, (int64_t)word);
	case SP_SPAN_VALUE_UINT64:
		return (size_t)snprintf(out, SP_SPAN_VALUE_BYTES, "%" PRIu64, word);
	case SP_SPAN_VALUE_DOUBLE:
		memcpy(&x, &word, sizeof(x));
		return (size_t)print_double(out, SP_SPAN_VALUE_BYTES, x);
	case SP_SPAN_VALUE_BOOL:
		return (size_t)snprintf(out, SP_SPAN_VALUE_BYTES, "%s",
					word != 0 ? "true" : "false");
	default:
		return 0;
	}
}

void sp_root_values_take(struct sp_root_values *v, const struct sp_span_values *record)
{
	const uint8_t *at = record->bytes;
	char text[SP_SPAN_VALUE_BYTES];
	struct root *root;
	bool fits;

	if (v == NULL || record->root_id == 0)
		return;
	root = add(&v->now, record->root_id);
	fits = root != NULL;
	for (unsigned i = 0; fits && i < SP_SPAN_VALUES_MAX; i++) {
		size_t len = print_value(text, record->value[i].type, at, record->value[i].bytes);

		at += SP_SPAN_VALUE_PADDED(record->value[i].bytes);
		if (len != 0)
			fits = sp_strtab_find(&v->now.text, text, len, &root->value[i]) ||
			       (v->now.text.used + len < SP_ROOT_VALUES_TEXTS &&
				sp_strtab_put(&v->now.text, text, len, &root->value[i]) == 0);
	}
	if (fits)
		return;
	/* If only some values of a root were stored, a reader would take them for all of them. */
	if (root != NULL)
		memset(root->value, 0, sizeof(root->value));
	v->ops->counter_add(v->ops->arg, SP_COUNT_SPAN_VALUES_NO_ROOM, 1);
}

void sp_root_values_age(struct sp_root_values *v)
{
	struct generation fresh;

	/* When out of memory the old roots stay; their number is bounded. */
	if (v == NULL || v->now.n + v->before.n == 0 || !make_generation(&fresh))
		return;
	free_generation(&v->before);
	v->before = v->now;
	v->now = fresh;
}

unsigned sp_root_values_attributes(const struct sp_root_values *v)
{
	return v->attributes + v->has_latency;
}

const char *sp_root_values_name(const struct sp_root_values *v, unsigned attribute)
{
	return attribute < v->attributes ? v->name[v->key[attribute]] : SP_LATENCY_LABEL;
}

const char *sp_root_values_get(const struct sp_root_values *v, uint64_t root_id, unsigned attribute,
			       size_t *len)
{
	const struct generation *g;
	const struct root *root = find_any(v, root_id, &g);
	const char *text = NULL;

	if (root == NULL)
		return NULL;
	if (attribute < v->attributes)
		return root->value[v->key[attribute]] != 0
			       ? sp_strtab_get(&g->text, root->value[v->key[attribute]], len)
			       : NULL;
	text = sp_latency_words[root->latency];
	*len = text != NULL ? strlen(text) : 0;
	return text;
}
