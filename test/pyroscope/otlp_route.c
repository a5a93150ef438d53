/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /v1development/profiles: converts OTLP to pprof as the server does, and then handles it like
 * all other profiles. The rules of OTLP (otlp.c) are checked by the double; the server notices few
 * violations.
 */
#include <stdlib.h>
#include <string.h>

#include "test/pyroscope/codec.h"
#include "test/pyroscope/double.h"
#include "test/pyroscope/otlp.h"
#include "test/pyroscope/routes.h"

/* The profile that is being made, and the texts that were added to the dictionary's. */
struct maker {
	const struct pd_otlp *o;
	const struct pd_otlp_profile *from;
	struct pd_arena *arena;
	struct pd_profile *p;
	size_t cap;
	int64_t *attribute_text; /* 0 = not added yet */
	int64_t *span_text, *trace_text;
	int64_t span_key, trace_key;
	/* service of the samples; the server makes a series for each service, the double has one */
	struct pd_bytes service;
};

static int64_t add_text(struct maker *m, struct pd_bytes text)
{
	if (m->p->strings == m->cap)
		abort();
	m->p->string[m->p->strings] = text;
	return (int64_t)m->p->strings++;
}

static int64_t find_text(struct maker *m, const char *text)
{
	for (size_t i = 0; i < m->p->strings; i++)
		if (pd_bytes_is(m->p->string[i], text))
			return (int64_t)i;
	return add_text(m, pd_bytes_of(text));
}

static int64_t add_hex(struct maker *m, struct pd_bytes id)
{
	char *hex = pd_arena_calloc(m->arena, 2 * id.len + 1, 1);

	for (size_t i = 0; i < id.len; i++)
		snprintf(hex + 2 * i, 3, "%02x", id.at[i]);
	return add_text(m, pd_bytes_of(hex));
}

static void make_tables(struct maker *m)
{
	const struct pd_otlp_element *const *t = (const struct pd_otlp_element *const *)m->o->table;
	struct pd_profile *p = m->p;

	p->mappings = m->o->n[PD_MAPPINGS] - 1;
	p->mapping = pd_arena_calloc(m->arena, p->mappings, sizeof(*p->mapping));
	for (size_t i = 0; i < p->mappings; i++)
		p->mapping[i] = (struct pd_mapping){.id = i + 1,
						    .filename = (int64_t)t[PD_MAPPINGS][i + 1].v[4],
						    .has_functions = true};
	p->functions = m->o->n[PD_FUNCTIONS] - 1;
	p->function = pd_arena_calloc(m->arena, p->functions, sizeof(*p->function));
	for (size_t i = 0; i < p->functions; i++) {
		const uint64_t *v = t[PD_FUNCTIONS][i + 1].v;

		p->function[i] =
			(struct pd_function){i + 1, (int64_t)v[1], (int64_t)v[2], (int64_t)v[3]};
	}
	p->locations = m->o->n[PD_LOCATIONS] - 1;
	p->location = pd_arena_calloc(m->arena, p->locations, sizeof(*p->location));
	for (size_t i = 0; i < p->locations; i++) {
		const struct pd_otlp_element *from = &t[PD_LOCATIONS][i + 1];
		struct pd_location *l = &p->location[i];

		*l = (struct pd_location){.id = i + 1,
					  .mapping_id = from->v[1],
					  .address = from->v[2],
					  .lines = from->lines};
		l->line = pd_arena_calloc(m->arena, l->lines, sizeof(*l->line));
		for (size_t k = 0; k < l->lines; k++)
			l->line[k] = (struct pd_line){from->line[k].function, from->line[k].line};
		if (l->lines == 0 && l->mapping_id != 0)
			p->mapping[l->mapping_id - 1].has_functions = false;
	}
	pd_profile_index(m->arena, p);
}

static void make_labels(struct maker *m, const struct pd_otlp_sample *from, struct pd_sample *to)
{
	to->label = pd_arena_calloc(m->arena, from->attributes + 2, sizeof(*to->label));
	for (size_t i = 0; i < from->attributes; i++) {
		const struct pd_otlp_element *a = &m->o->table[PD_ATTRIBUTES][from->attribute[i]];
		int64_t *text = &m->attribute_text[from->attribute[i]];

		if (a->text.len == 0)
			continue;
		/* service.name of a sample is that of the series, and not a label. */
		if (pd_bytes_is(pd_profile_string(m->p, (int64_t)a->v[1]), "service.name")) {
			m->service = a->text;
			continue;
		}
		if (*text == 0)
			*text = add_text(m, a->text);
		to->label[to->labels++] = (struct pd_label){.key = (int64_t)a->v[1], .str = *text};
	}
	if (from->link == 0)
		return;
	if (m->span_text[from->link] == 0) {
		m->span_text[from->link] = add_hex(m, m->o->table[PD_LINKS][from->link].id[1]);
		m->trace_text[from->link] = add_hex(m, m->o->table[PD_LINKS][from->link].id[0]);
	}
	to->label[to->labels++] =
		(struct pd_label){.key = m->span_key, .str = m->span_text[from->link]};
	to->label[to->labels++] =
		(struct pd_label){.key = m->trace_key, .str = m->trace_text[from->link]};
}

static void make_samples(struct maker *m, bool are_periods)
{
	struct pd_profile *p = m->p;

	p->samples = m->from->samples;
	p->sample = pd_arena_calloc(m->arena, p->samples, sizeof(*p->sample));
	for (size_t i = 0; i < p->samples; i++) {
		const struct pd_otlp_sample *from = &m->from->sample[i];
		const struct pd_otlp_element *stack = &m->o->table[PD_STACKS][from->stack];
		int64_t *value = pd_arena_calloc(m->arena, 1, sizeof(*value));

		/* Multiplies as Go does, without an error for an overflow. */
		*value = (int64_t)((uint64_t)from->value[0] *
				   (are_periods ? (uint64_t)p->period : 1));
		p->sample[i].value = value;
		p->sample[i].values = 1;
		p->sample[i].location_id = stack->index;
		p->sample[i].locations = stack->indexes;
		make_labels(m, from, &p->sample[i]);
	}
}

/* Makes the name of the profile's type, and finds out whether its values are numbers of periods. */
static struct pd_bytes make_type(struct maker *m, bool *are_periods)
{
	struct pd_profile *p = m->p;
	struct pd_bytes type, unit, period, period_unit;

	p->sample_types = 1;
	p->sample_type = pd_arena_calloc(m->arena, 1, sizeof(*p->sample_type));
	p->sample_type[0] =
		(struct pd_value_type){(int64_t)m->from->type[1], (int64_t)m->from->type[2]};
	p->has_period_type = m->from->has_period_type;
	p->period_type = (struct pd_value_type){(int64_t)m->from->period_type[1],
						(int64_t)m->from->period_type[2]};
	type = pd_profile_string(p, p->sample_type[0].type);
	unit = pd_profile_string(p, p->sample_type[0].unit);
	period = pd_profile_string(p, p->period != 0 ? p->period_type.type : 0);
	period_unit = pd_profile_string(p, p->period != 0 ? p->period_type.unit : 0);
	*are_periods = pd_bytes_is(type, "samples") && pd_bytes_is(unit, "count") &&
		       pd_bytes_is(period, "cpu") && pd_bytes_is(period_unit, "nanoseconds");
	if (*are_periods) {
		p->sample_type[0] = p->period_type;
		return pd_bytes_of("process_cpu");
	}
	if (pd_bytes_is(type, "off_cpu") && pd_bytes_is(unit, "nanoseconds") && period.len == 0)
		return pd_bytes_of("off_cpu");
	return period;
}

/*
 * An upper bound for the profile's size as pprof: the server limits that size, not the size of the
 * request.
 */
static size_t size_of(const struct pd_profile *p)
{
	size_t bytes = 128 + p->mappings * 40 + p->functions * 20;

	for (size_t i = 0; i < p->strings; i++)
		bytes += p->string[i].len + 3;
	for (size_t i = 0; i < p->locations; i++)
		bytes += 20 + p->location[i].lines * 10;
	for (size_t i = 0; i < p->samples; i++)
		bytes += 14 + 2 * p->sample[i].locations + 9 * p->sample[i].labels;
	return bytes;
}

static void take_resource(struct maker *m, struct pd_labels *labels)
{
	const struct pd_otlp_resource *r = &m->o->resource[m->from->resource];

	labels->at = pd_arena_calloc(m->arena, r->pairs + 4, sizeof(*labels->at));
	pd_labels_add(labels, "__delta__", pd_bytes_of("false"));
	pd_labels_add(labels, "__otel__", pd_bytes_of("true"));
	for (size_t i = 0; i < r->pairs; i++) {
		/* The server does not resolve references here. */
		if (r->pair[i].key.len == 0)
			continue;
		pd_labels_add(labels, pd_arena_string(m->arena, r->pair[i].key), r->pair[i].value);
		if (pd_bytes_is(r->pair[i].key, "service.name") && m->service.len == 0)
			pd_labels_add(labels, "service_name", r->pair[i].value);
	}
	if (m->service.len != 0)
		pd_labels_add(labels, "service_name", m->service);
}

static void push_one(struct pd_double *d, const struct pd_request *in, const char *tenant,
		     struct pd_bytes body, size_t which, struct pd_error *e)
{
	struct pd_arena arena = {0};
	struct pd_delivery delivery = {.tenant = tenant, .headers = in->headers, .made = &arena};
	struct pd_profile *p = &delivery.profile;
	struct pd_otlp o;
	struct maker m = {.o = &o, .arena = &arena, .p = p};
	bool are_periods;
	struct pd_bytes name;

	delivery.raw = pd_arena_copy(&arena, body);
	/* Decoding cannot fail, because the request was decoded once already. */
	if (pd_otlp_decode(&arena, delivery.raw, &o) != 0)
		abort();
	m.from = &o.profile[which];
	m.cap = o.n[PD_STRINGS] + o.n[PD_ATTRIBUTES] + 2 * o.n[PD_LINKS] + 2;
	p->string = pd_arena_calloc(&arena, m.cap, sizeof(*p->string));
	for (size_t i = 0; i < o.n[PD_STRINGS]; i++)
		p->string[p->strings++] = o.table[PD_STRINGS][i].raw;
	m.attribute_text = pd_arena_calloc(&arena, o.n[PD_ATTRIBUTES], sizeof(int64_t));
	m.span_text = pd_arena_calloc(&arena, o.n[PD_LINKS], sizeof(int64_t));
	m.trace_text = pd_arena_calloc(&arena, o.n[PD_LINKS], sizeof(int64_t));
	m.span_key = find_text(&m, "span_id");
	m.trace_key = find_text(&m, "trace_id");
	p->time_nanos = (int64_t)m.from->time_ns;
	p->duration_nanos = (int64_t)m.from->duration_ns;
	p->period = m.from->period;
	name = make_type(&m, &are_periods);
	make_tables(&m);
	make_samples(&m, are_periods);
	take_resource(&m, &delivery.labels);
	pd_labels_add(&delivery.labels, "__name__", name);
	delivery.bytes = size_of(p);
	pd_push(d, &delivery, e);
	pd_arena_fini(&arena);
}

static void answer(struct pd_response *out, unsigned status, const char *reason, const char *text)
{
	out->status = status;
	out->type = "text/plain; charset=utf-8";
	out->body.len = 0;
	pd_text_addf(&out->body, "%s\n", text);
	snprintf(out->note, sizeof(out->note), "%s", reason);
}

static void handle(struct pd_double *d, const struct pd_request *in, const char *tenant,
		   struct pd_bytes body, struct pd_response *out)
{
	struct pd_arena a = {0};
	struct pd_error e = {0};
	struct pd_otlp o = {0};

	if (pd_otlp_decode(&a, body, &o) != 0)
		pd_error_set(&e, PD_INVALID_ARGUMENT, "envelope",
			     "Failed to parse protobuf request");
	else if (!o.has_dictionary)
		pd_error_set(&e, PD_UNKNOWN, "otlp", "missing profile metadata dictionary");
	else
		(void)pd_otlp_judge(&o, d->options.lenient, &e);
	if (e.code != PD_OK)
		pd_stats_reject(&d->stats, &e);
	/* The first error is the answer, and profiles after it are not read. */
	for (size_t i = 0; o.has_dictionary && e.code == PD_OK && i < o.profiles; i++)
		push_one(d, in, tenant, body, i, &e);
	out->status = 200;
	out->type = "application/x-protobuf";
	pd_text_adds(&out->body, "");
	if (e.code != PD_OK)
		answer(out, pd_code_status(e.code), e.reason, e.message.at);
	pd_error_fini(&e);
	pd_arena_fini(&a);
}

void pd_route_otlp(struct pd_double *d, const struct pd_request *in, struct pd_response *out)
{
	const char *type = pd_request_header(in, "content-type");
	const char *tenant = pd_request_tenant(d, in, out);
	struct pd_error e = {0};
	struct pd_text plain = {0};
	bool is_gzip = strcasecmp(pd_request_header(in, "content-encoding"), "gzip") == 0;

	if (tenant == NULL)
		return;
	/* The server takes JSON as well, but no test sends it. */
	if (strcmp(type, "application/x-protobuf") != 0) {
		answer(out, 415, "content_type", "Unsupported Content-Type");
		return;
	}
	if (is_gzip && pd_gunzip(in->body, d->limits.body_bytes, &plain) != 0 &&
	    plain.len <= d->limits.body_bytes)
		pd_error_set(&e, PD_INVALID_ARGUMENT, "content_encoding",
			     "failed to read gzip-compressed request body");
	if (!is_gzip)
		pd_text_add(&plain, in->body.at, in->body.len);
	if (e.code == PD_OK && (in->body_too_large || plain.len > d->limits.body_bytes)) {
		pd_error_set(&e, PD_INVALID_ARGUMENT, "body_limit",
			     "uncompressed profile payload size exceeds limit of %zu bytes",
			     d->limits.body_bytes);
		pd_stats_reject(&d->stats, &e);
		answer(out, 413, e.reason, e.message.at);
	} else if (e.code != PD_OK) {
		pd_stats_reject(&d->stats, &e);
		answer(out, 400, e.reason, e.message.at);
	} else {
		handle(d, in, tenant, pd_text_bytes(&plain), out);
	}
	pd_error_fini(&e);
	pd_text_fini(&plain);
}
