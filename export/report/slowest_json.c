/* SPDX-License-Identifier: Apache-2.0 */
/* Prints what made requests slow (slowest.h), as JSON. Context: the report tool. */
#include "export/report/slowest_json.h"

#include <string.h>

json_t *sp_json_number(uint64_t n)
{
	if (n == SP_ROOT_VALUE_UNKNOWN)
		return json_null();
	return json_integer(n <= INT64_MAX ? (json_int_t)n : INT64_MAX);
}

static json_t *whole(double ns)
{
	return json_integer(ns < 9e18 ? (json_int_t)ns : INT64_MAX);
}

json_t *sp_json_text(const char *text)
{
	return text[0] != '\0' ? json_string(text) : json_null();
}

int sp_json_print(FILE *out, const char *separator, json_t *value)
{
	int err = 0;

	(void)fputs(separator, out);
	if (value == NULL || json_dumpf(value, out, JSON_PRESERVE_ORDER | JSON_ENCODE_ANY) != 0)
		err = -1;
	json_decref(value);
	return err;
}

static json_t *json_time(const struct sp_slowest_time *time)
{
	if (!time->is_known)
		return json_null();
	return json_pack("{s:o, s:o}", "ns", whole(time->ns), "low_ns", whole(time->low_ns));
}

static json_t *json_part(const struct sp_slowest *x, enum sp_part part,
			 const struct sp_slowest_time *time, uint32_t leaf)
{
	const char *text = sp_slowest_text(x, leaf);

	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "for", sp_part_words[part], "ns",
			 whole(time->ns), "low_ns", whole(time->low_ns), "samples",
			 sp_json_number(time->samples), "held_by",
			 sp_json_text(sp_slowest_has_holder(text) ? text + strlen("held by ") : ""),
			 "call", sp_json_text(sp_slowest_has_holder(text) ? "" : text));
}

/* Appends `one` to `all`; takes over both. NULL if either is NULL or memory is short. */
static json_t *append(json_t *all, json_t *one)
{
	if (json_array_append_new(all, one) == 0)
		return all;
	json_decref(all);
	return NULL;
}

static json_t *json_waits(const struct sp_slowest *x, const struct sp_slowest_request *q)
{
	json_t *all = json_array();

	for (unsigned part = SP_PART_RUNNABLE; part < SP_PART_SAMPLED; part++) {
		struct sp_slowest_time time = sp_slowest_part(x, q, (enum sp_part)part);
		uint64_t samples;
		uint32_t leaf = sp_slowest_leaf(x, q->node[part], &samples);

		if (time.is_known)
			all = append(all, json_part(x, (enum sp_part)part, &time, leaf));
	}
	return all;
}

static json_t *json_causes(const struct sp_slowest *x, const struct sp_slowest_request *q)
{
	json_t *all = json_array();

	for (unsigned i = 0; i < q->causes.n; i++) {
		const struct sp_slowest_cause *c = &q->causes.cause[i];
		json_t *one = json_part(x, c->part, &c->time, c->leaf);

		if (json_object_set_new(one, "function",
					sp_json_text(sp_slowest_text(x, c->function))) != 0) {
			json_decref(one);
			one = NULL;
		}
		all = append(all, one);
	}
	return all;
}

json_t *sp_slowest_json_profile(const struct sp_slowest *x, const struct sp_slowest_request *q)
{
	const struct sp_slowest_group *g = &x->group[q->group];

	return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "slower_by_ns",
			 !q->is_added && g->p50_ns != SP_ROOT_VALUE_UNKNOWN
				 ? sp_json_number(q->slower_by_ns)
				 : json_null(),
			 "cpu", json_time(&q->cpu), "off_cpu", json_time(&q->off_cpu), "runnable",
			 json_time(&q->runnable), "waits", json_waits(x, q), "allocated_bytes",
			 sp_json_number(q->allocated_bytes), "major_page_faults",
			 sp_json_number(x->roots.root[q->root].major_faults));
}

static json_t *json_request(const struct sp_slowest *x, size_t i)
{
	const struct sp_slowest_request *q = &x->request[i];
	const struct sp_slowest_group *g = &x->group[q->group];
	const struct sp_report_root *root = &x->roots.root[q->root];
	char sentence[SP_REPORT_TEXT_MAX + 1];
	json_t *all, *profile = sp_slowest_json_profile(x, q);

	sp_slowest_sentence(sentence, x, q, false);
	all = json_pack("{s:o, s:o, s:s, s:s, s:s, s:s, s:o, s:o, s:o}", "start_ns",
			sp_json_number(root->start_ns), "ns", sp_json_number(q->duration_ns),
			"service", sp_report_roots_text(&x->roots, g->service), "span_name",
			sp_report_roots_text(&x->roots, g->name), "span_id", root->span_id,
			"trace_id", root->trace_id, "causes", json_causes(x, q), "why_not",
			sp_json_text(q->why_not != NULL ? q->why_not : ""), "sentence",
			json_string(sentence));
	if (json_object_update_missing(all, profile) != 0) {
		json_decref(all);
		all = NULL;
	}
	json_decref(profile);
	return all;
}

static json_t *json_mean(const struct sp_slowest *x, const struct sp_slowest_group *g,
			 enum sp_part part)
{
	double ns;

	return sp_slowest_mean(x, g, part, &ns) ? whole(ns) : json_null();
}

static json_t *json_name(const struct sp_slowest *x, size_t i)
{
	const struct sp_slowest_group *g = &x->group[i];

	return json_pack(
		"{s:s, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "service",
		sp_report_roots_text(&x->roots, g->service), "span_name",
		sp_report_roots_text(&x->roots, g->name), "requests", sp_json_number(g->count),
		"requests_per_second", g->rate > 0 ? json_real(g->rate) : json_null(), "slow",
		sp_json_number(g->slow), "p50_ns", sp_json_number(g->p50_ns), "p90_ns",
		sp_json_number(g->p90_ns), "p99_ns", sp_json_number(g->p99_ns), "cpu_ns",
		json_mean(x, g, SP_PART_CPU), "off_cpu_ns", json_mean(x, g, SP_PART_OFF_CPU));
}

static int print_rows(FILE *out, const struct sp_slowest *x, const char *key, size_t n,
		      json_t *(*row)(const struct sp_slowest *x, size_t i))
{
	int err = 0;

	(void)fprintf(out, ",\n \"%s\": [", key);
	for (size_t i = 0; i < n; i++)
		err |= sp_json_print(out, i != 0 ? ",\n  " : "\n  ", row(x, i));
	(void)fputc(']', out);
	return err;
}

int sp_slowest_print_json(FILE *out, const struct sp_slowest *x)
{
	int err;

	(void)fprintf(out, "{\n \"profiles\": %zu,\n \"passed_over\": %zu,\n \"slow\": %zu",
		      x->r.files, x->r.passed, x->all_requests);
	err = print_rows(out, x, "requests", x->requests, json_request);
	err |= print_rows(out, x, "span_names", x->groups, json_name);
	(void)fputs("\n}\n", out);
	return err != 0 || ferror(out) != 0 ? -1 : 0;
}
