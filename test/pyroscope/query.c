/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The querier's calls that tests need, in JSON: SelectMergeSpanProfile, SelectMergeStacktraces (as
 * a flame graph), Series, LabelNames, LabelValues, ProfileTypes.
 */
#include <stdlib.h>
#include <string.h>

#include "test/pyroscope/codec.h"
#include "test/pyroscope/flame.h"
#include "test/pyroscope/routes.h"
#include "test/pyroscope/selector.h"

struct query {
	struct pd_arena arena;
	const struct pd_double *d;
	const json_t *body;
	struct pd_scope scope;
	struct pd_error e;
};

static int invalid(struct query *q, const char *what)
{
	return pd_error_set(&q->e, PD_INVALID_ARGUMENT, "query", "%s", what);
}

/* Reads a 64-bit number: protojson writes it as a text, and reads texts and numbers. */
static int64_t number(const json_t *j)
{
	if (json_is_string(j))
		return strtoll(json_string_value(j), NULL, 10);
	return json_integer_value(j);
}

static struct pd_bytes text(const json_t *j)
{
	return (struct pd_bytes){(const uint8_t *)json_string_value(j), json_string_length(j)};
}

static int read_time(struct query *q, bool required)
{
	struct pd_scope *s = &q->scope;

	s->start_ms = number(json_object_get(q->body, "start"));
	s->end_ms = number(json_object_get(q->body, "end"));
	s->timed = s->start_ms != 0 || s->end_ms != 0 || required;
	if (!s->timed)
		return 0;
	if (s->start_ms == 0 || s->end_ms == 0)
		return invalid(q, "missing time range in the query");
	if (s->start_ms > s->end_ms)
		return invalid(q, "query start time is after end time");
	return 0;
}

static int read_matchers(struct query *q)
{
	const json_t *list = json_object_get(q->body, "matchers");

	for (size_t i = 0; i < json_array_size(list); i++)
		if (pd_selector_parse(&q->arena, text(json_array_get(list, i)), &q->scope.selector,
				      &q->e) != 0)
			return -1;
	return 0;
}

/* The sorted labels with the wanted names, as {"labels":[{"name":..,"value":..}]}. */
static json_t *series_json(struct pd_labels l, const json_t *names)
{
	json_t *pairs = json_array();

	for (size_t i = 0; i < l.len; i++) {
		bool wanted = json_array_size(names) == 0;

		for (size_t j = 0; j < json_array_size(names); j++)
			wanted |= pd_bytes_equal(text(json_array_get(names, j)), l.at[i].name);
		if (wanted)
			json_array_append_new(pairs, json_pack("{s:o,s:o}", "name",
							       pd_json_bytes(l.at[i].name), "value",
							       pd_json_bytes(l.at[i].value)));
	}
	return json_pack("{s:o}", "labels", pairs);
}

struct listing {
	const struct query *q;
	json_t *set; /* text of an item: item; jansson keeps the order of insertion */
};

static void list_item(const struct listing *l, json_t *item)
{
	struct pd_text key = {0};

	pd_json_add(&key, item);
	json_object_set_new(l->set, key.at, item);
	pd_text_fini(&key);
}

static void see_series(const struct pd_view *v, void *arg)
{
	const struct listing *l = arg;

	list_item(l, series_json(v->labels, json_object_get(l->q->body, "labelNames")));
}

static void see_value(const struct pd_view *v, void *arg)
{
	const struct listing *l = arg;
	const char *name = json_string_value(json_object_get(l->q->body, "name"));
	struct pd_bytes value = pd_labels_get(v->labels, name != NULL ? name : "");

	if (value.len > 0)
		list_item(l, pd_json_bytes(value));
}

static void see_name(const struct pd_view *v, void *arg)
{
	for (size_t i = 0; i < v->labels.len; i++)
		list_item(arg, pd_json_bytes(v->labels.at[i].name));
}

static void see_type(const struct pd_view *v, void *arg)
{
	static const char *const keys[][2] = {
		{"ID", "__profile_type__"},        {"name", "__name__"},
		{"sampleType", "__type__"},        {"sampleUnit", "__unit__"},
		{"periodType", "__period_type__"}, {"periodUnit", "__period_unit__"},
	};
	json_t *type = json_object();

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		json_object_set_new(type, keys[i][0],
				    pd_json_bytes(pd_labels_get(v->labels, keys[i][1])));
	list_item(arg, type);
}

static int compare_keys(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The set's items as a sorted array; left out if it is empty, as by protojson. */
static json_t *set_json(const char *field, json_t *set)
{
	struct pd_arena a = {0};
	const char **keys = pd_arena_calloc(&a, json_object_size(set), sizeof(*keys));
	json_t *list = json_array();
	json_t *item = NULL;
	const char *key = NULL;
	size_t n = 0;

	json_object_foreach(set, key, item) keys[n++] = key;
	qsort(keys, n, sizeof(*keys), compare_keys);
	for (size_t i = 0; i < n; i++)
		json_array_append(list, json_object_get(set, keys[i]));
	pd_arena_fini(&a);
	return n > 0 ? json_pack("{s:o}", field, list) : (json_decref(list), json_object());
}

static json_t *list(struct query *q, const char *field,
		    void (*see)(const struct pd_view *v, void *arg))
{
	struct listing l = {q, NULL};
	json_t *answer = NULL;

	if (read_time(q, false) != 0 || read_matchers(q) != 0)
		return NULL;
	l.set = json_object();
	pd_scope_visit(q->d, &q->scope, see, &l);
	answer = set_json(field, l.set);
	json_decref(l.set);
	return answer;
}

static json_t *query_series(struct query *q)
{
	return list(q, "labelsSet", see_series);
}

static json_t *query_label_names(struct query *q)
{
	return list(q, "names", see_name);
}

static json_t *query_label_values(struct query *q)
{
	if (json_string_length(json_object_get(q->body, "name")) == 0)
		return invalid(q, "name is required") != 0 ? NULL : json_object();
	return list(q, "names", see_value);
}

static json_t *query_profile_types(struct query *q)
{
	return list(q, "profileTypes", see_type);
}

struct merge {
	struct pd_bytes type;
	const json_t *spans;
	const json_t *traces;
	struct pd_flame flame;
};

static bool span_wanted(const json_t *spans, uint64_t span_id)
{
	char hex[17];

	snprintf(hex, sizeof(hex), "%016llx", (unsigned long long)span_id);
	for (size_t i = 0; i < json_array_size(spans); i++)
		if (strcasecmp(json_string_value(json_array_get(spans, i)), hex) == 0)
			return true;
	return json_array_size(spans) == 0;
}

static bool trace_wanted(const json_t *traces, const struct pd_row *row)
{
	uint8_t id[16];

	for (size_t i = 0; i < json_array_size(traces); i++)
		if (pd_hex_decode(text(json_array_get(traces, i)), id, sizeof(id)) &&
		    row->has_trace && memcmp(id, row->trace_id, sizeof(id)) == 0)
			return true;
	return json_array_size(traces) == 0;
}

static void merge_view(const struct pd_view *v, void *arg)
{
	struct merge *m = arg;

	if (!pd_bytes_equal(pd_labels_get(v->labels, "__profile_type__"), m->type))
		return;
	for (size_t i = 0; i < v->record->rows; i++) {
		const struct pd_row *row = &v->record->row[i];

		if (row->series == v->series && span_wanted(m->spans, row->span_id) &&
		    trace_wanted(m->traces, row))
			pd_flame_add(&m->flame, v->record, row, v->sample_type);
	}
}

/* The server did not foresee this error, so the code is "unknown". */
static int check_ids(struct query *q, const json_t *ids, size_t bytes, enum pd_code code,
		     const char *what)
{
	for (size_t i = 0; i < json_array_size(ids); i++) {
		struct pd_bytes given = text(json_array_get(ids, i));
		struct pd_text quoted = {0};
		uint8_t id[16];

		if (pd_hex_decode(given, id, bytes))
			continue;
		if (given.len == 2 * bytes)
			return pd_error_set(&q->e, code, "query", "encoding/hex: invalid byte");
		pd_text_quote(&quoted, given);
		pd_error_set(&q->e, code, "query", "%s: %s", what, quoted.at);
		pd_text_fini(&quoted);
		return -1;
	}
	return 0;
}

static int read_merge(struct query *q, struct merge *m)
{
	const json_t *selector = json_object_get(q->body, "labelSelector");
	unsigned colons = 0;

	m->type = text(json_object_get(q->body, "profileTypeID"));
	m->spans = json_object_get(q->body, "spanSelector");
	m->traces = json_object_get(q->body, "traceIdSelector");
	for (size_t i = 0; i < m->type.len; i++)
		colons += m->type.at[i] == ':';
	if (colons != 4)
		return pd_error_set(
			&q->e, PD_INVALID_ARGUMENT, "query",
			"profile-type selection must be of the form <name>:<sample-type>:"
			"<sample-unit>:<period-type>:<period-unit>(:delta), got(%u): \"%.*s\"",
			colons + 1, (int)m->type.len, (const char *)m->type.at);
	if (check_ids(q, m->spans, 8, PD_UNKNOWN,
		      "rpc error: code = Unknown desc = invalid span id length") != 0 ||
	    check_ids(q, m->traces, 16, PD_INVALID_ARGUMENT, "invalid trace id length") != 0)
		return -1;
	if (json_array_size(m->spans) > 0 && json_array_size(m->traces) > 0)
		return invalid(q, "span and trace selectors exclude each other");
	if (read_time(q, true) != 0)
		return -1;
	return json_string_length(selector) == 0
		       ? 0
		       : pd_selector_parse(&q->arena, text(selector), &q->scope.selector, &q->e);
}

static json_t *query_stacktraces(struct query *q)
{
	struct merge m = {0};
	json_t *answer = NULL;

	if (read_merge(q, &m) != 0)
		return NULL;
	pd_scope_visit(q->d, &q->scope, merge_view, &m);
	answer = json_pack("{s:o}", "flamegraph", pd_flame_json(&m.flame));
	pd_flame_fini(&m.flame);
	return answer;
}

static json_t *query_span_profile(struct query *q)
{
	/* An empty selector would select everything, which no test means. */
	if (json_array_size(json_object_get(q->body, "spanSelector")) == 0)
		return invalid(q, "the double wants a spanSelector here") != 0 ? NULL
									       : json_object();
	return query_stacktraces(q);
}

static const struct {
	const char *name;
	json_t *(*answer)(struct query *q); /* NULL = refused */
} calls[] = {
	{"SelectMergeSpanProfile", query_span_profile},
	{"SelectMergeStacktraces", query_stacktraces},
	{"Series", query_series},
	{"LabelNames", query_label_names},
	{"LabelValues", query_label_values},
	{"ProfileTypes", query_profile_types},
};

static json_t *answer(struct query *q, const char *name)
{
	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (strcmp(calls[i].name, name) == 0)
			return calls[i].answer(q);
	return NULL;
}

void pd_route_query(struct pd_double *d, const struct pd_request *in, struct pd_response *out)
{
	struct query q = {.d = d};
	json_t *body = json_loadb((const char *)in->body.at, in->body.len, 0, NULL);
	json_t *j = NULL;

	q.body = body;
	if (strncmp(pd_request_header(in, "content-type"), "application/json", 16) != 0) {
		out->status = 415;
		pd_response_header(out, "Accept-Post", "application/json");
	} else if ((q.scope.tenant = pd_request_tenant(d, in, out)) != NULL) {
		if (!json_is_object(body))
			invalid(&q, "unmarshal message: not a JSON object");
		else
			j = answer(&q, strrchr(in->path, '/') + 1);
		if (j != NULL) {
			pd_response_json(out, j);
		} else if (q.e.code != PD_OK) {
			pd_response_error(out, &q.e);
		} else {
			out->status = 404;
			out->type = "text/plain";
			pd_text_adds(&out->body, "404 page not found\n");
		}
	}
	json_decref(body);
	pd_arena_fini(&q.arena);
	pd_error_fini(&q.e);
}
