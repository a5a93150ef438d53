/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /double/spans: the sums of all stored profiles by span, service, span name and pid, so that a
 * test can compare them with the host's own figures.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "test/pyroscope/codec.h"
#include "test/pyroscope/routes.h"

struct weight {
	int64_t ns;
	int64_t samples;
};

/* The value in the unit; `missing` if no sample type has that unit. */
static int64_t value_of(const struct pd_record *r, const struct pd_row *row, const char *unit,
			int64_t missing)
{
	for (size_t i = 0; i < r->profile.sample_types; i++)
		if (pd_bytes_is(pd_profile_string(&r->profile, r->profile.sample_type[i].unit),
				unit))
			return row->value[i];
	return missing;
}

/*
 * From OTLP the server makes CPU time twice: "cpu" from the time that was sent, and "process_cpu"
 * from the number of samples times their period. Here the first gives the time, and the second the
 * number of samples.
 */
static struct weight weight_of(const struct pd_record *r, const struct pd_row *row)
{
	struct weight w = {value_of(r, row, "nanoseconds", 0), value_of(r, row, "count", 1)};
	struct pd_bytes name = pd_labels_get(r->labels, "__name__");

	if (!pd_bytes_is(pd_labels_get(r->labels, "__otel__"), "true"))
		return w;
	if (pd_bytes_is(name, "cpu"))
		w.samples = 0;
	if (pd_bytes_is(name, "process_cpu") && r->profile.period != 0)
		w = (struct weight){0, w.ns / r->profile.period};
	return w;
}

static void add_number(json_t *to, const char *key, int64_t n)
{
	json_int_t before = json_integer_value(json_object_get(to, key));

	json_object_set_new(to, key, json_integer((json_int_t)((uint64_t)before + (uint64_t)n)));
}

/* The object under a key; made if missing. */
static json_t *member(json_t *of, const char *key)
{
	json_t *j = json_object_get(of, key);

	if (j == NULL) {
		j = json_object();
		json_object_set_new(of, key, j);
	}
	return j;
}

static void add_weight(json_t *to, struct weight w)
{
	add_number(to, "ns", w.ns);
	add_number(to, "samples", w.samples);
	add_number(to, "rows", 1);
}

/* A span has one name, trace and service. Another one is counted, because it is a mistake. */
static void set_once(json_t *span, const char *key, struct pd_bytes value)
{
	const json_t *before = json_object_get(span, key);
	json_t *now = pd_json_bytes(value);

	if (before == NULL)
		json_object_set(span, key, now);
	else if (!json_equal(before, now))
		add_number(span, "conflicts", 1);
	json_decref(now);
}

static void add_by_label(json_t *to, struct pd_labels l, const char *label, struct weight w)
{
	struct pd_bytes value = pd_labels_get(l, label);
	struct pd_text key = {0};

	if (value.len > 0) {
		pd_text_add(&key, value.at, value.len);
		add_weight(member(to, key.at), w);
	}
	pd_text_fini(&key);
}

static void add_span(json_t *spans, const struct pd_row *row, struct pd_labels l, struct weight w)
{
	char id[17];
	char trace[33] = "";
	json_t *span = NULL;

	snprintf(id, sizeof(id), "%016" PRIx64, row->span_id);
	for (size_t i = 0; row->has_trace && i < sizeof(row->trace_id); i++)
		snprintf(trace + 2 * i, 3, "%02x", row->trace_id[i]);
	span = member(spans, id);
	add_weight(span, w);
	set_once(span, "span_name", pd_labels_get(l, "span_name"));
	set_once(span, "service", pd_labels_get(l, "service_name"));
	set_once(span, "trace_id", pd_bytes_of(trace));
}

json_t *pd_spans_json(const struct pd_double *d)
{
	json_t *all = json_pack("{s:{},s:{},s:{},s:{},s:{},s:{},s:{}}", "spans", "services",
				"span_names", "pids", "with_span", "without_span", "total");
	json_t *spans = member(all, "spans");

	add_number(all, "profiles", (int64_t)d->stats.profiles);
	for (const struct pd_record *r = d->first; r != NULL; r = r->next)
		for (size_t i = 0; i < r->rows; i++) {
			const struct pd_row *row = &r->row[i];
			struct pd_labels l = r->series[row->series].labels;
			struct weight w = weight_of(r, row);

			if (row->span_id != 0)
				add_span(spans, row, l, w);
			add_weight(member(all, row->span_id != 0 ? "with_span" : "without_span"),
				   w);
			add_weight(member(all, "total"), w);
			add_by_label(member(all, "services"), l, "service_name", w);
			add_by_label(member(all, "span_names"), l, "span_name", w);
			add_by_label(member(all, "pids"), l, "pid", w);
			add_by_label(member(all, "pids"), l, "process.pid", w);
		}
	return all;
}
