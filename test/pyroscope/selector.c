/* SPDX-License-Identifier: Apache-2.0 */
/* Selectors and the walk over the store; see selector.h. */
#include "test/pyroscope/selector.h"

#include <string.h>

#define VIEW_LABELS 6

struct cursor {
	struct pd_bytes in;
	struct pd_arena *arena;
	struct pd_error *e;
};

static int bad(const struct cursor *c, const char *what)
{
	return pd_error_set(c->e, PD_INVALID_ARGUMENT, "selector",
			    "failed to parse label selector: %s at '%.*s'", what, (int)c->in.len,
			    (const char *)c->in.at);
}

static bool next_is(struct cursor *c, const char *text)
{
	size_t len = strlen(text);

	c->in = pd_bytes_trim(c->in);
	if (c->in.len < len || memcmp(c->in.at, text, len) != 0)
		return false;
	c->in.at += len;
	c->in.len -= len;
	return true;
}

static int read_name(struct cursor *c, struct pd_bytes *name)
{
	size_t len = 0;

	c->in = pd_bytes_trim(c->in);
	while (len < c->in.len && strchr("=!~,{}\" ", c->in.at[len]) == NULL)
		len++;
	*name = (struct pd_bytes){c->in.at, len};
	c->in.at += len;
	c->in.len -= len;
	return len > 0 ? 0 : bad(c, "no label name");
}

static int read_value(struct cursor *c, struct pd_bytes *value)
{
	struct pd_text text = {0};

	if (!next_is(c, "\""))
		return bad(c, "no opening quote");
	while (c->in.len > 0 && c->in.at[0] != '"') {
		uint8_t byte = c->in.at[0];

		if (byte == '\\' && c->in.len > 1) {
			c->in.at++;
			c->in.len--;
			byte = c->in.at[0] == 'n' ? '\n' : c->in.at[0];
		}
		pd_text_add(&text, &byte, 1);
		c->in.at++;
		c->in.len--;
	}
	*value = pd_arena_copy(c->arena, pd_text_bytes(&text));
	pd_text_fini(&text);
	return next_is(c, "\"") ? 0 : bad(c, "no closing quote");
}

static int read_matcher(struct cursor *c, struct pd_matcher *m)
{
	if (read_name(c, &m->name) != 0)
		return -1;
	if (next_is(c, "=~") || next_is(c, "!~"))
		return bad(c, "the double has no regular expressions");
	m->negated = next_is(c, "!=");
	if (!m->negated && !next_is(c, "="))
		return bad(c, "no operator");
	return read_value(c, &m->value);
}

int pd_selector_parse(struct pd_arena *a, struct pd_bytes text, struct pd_selector *s,
		      struct pd_error *e)
{
	struct cursor c = {text, a, e};
	/* A matcher has at least four characters. */
	struct pd_matcher *all = pd_arena_calloc(a, s->len + text.len / 4 + 1, sizeof(*all));

	if (s->len > 0)
		memcpy(all, s->at, s->len * sizeof(*all));
	s->at = all;
	if (!next_is(&c, "{"))
		return bad(&c, "no opening brace");
	while (!next_is(&c, "}")) {
		if (read_matcher(&c, &s->at[s->len]) != 0)
			return -1;
		s->len++;
		if (!next_is(&c, ",") && (c.in.len == 0 || c.in.at[0] != '}'))
			return bad(&c, "no comma or closing brace");
	}
	c.in = pd_bytes_trim(c.in);
	return c.in.len == 0 ? 0 : bad(&c, "text after the selector");
}

static struct pd_bytes value_of(struct pd_labels l, struct pd_bytes name)
{
	for (size_t i = 0; i < l.len; i++)
		if (pd_bytes_equal(l.at[i].name, name))
			return l.at[i].value;
	return (struct pd_bytes){NULL, 0};
}

bool pd_selector_matches(const struct pd_selector *s, struct pd_labels l)
{
	for (size_t i = 0; i < s->len; i++) {
		const struct pd_matcher *m = &s->at[i];

		if (pd_bytes_equal(value_of(l, m->name), m->value) == m->negated)
			return false;
	}
	return true;
}

static struct pd_labels view_labels(struct pd_arena *a, const struct pd_view *v)
{
	const struct pd_profile *p = &v->record->profile;
	const struct pd_value_type *t = &p->sample_type[v->sample_type];
	struct pd_labels l = pd_labels_copy(a, v->record->series[v->series].labels, VIEW_LABELS);
	struct pd_text type = {0};

	pd_record_type(v->record, v->sample_type, &type);
	pd_labels_add(&l, "__profile_type__", pd_arena_copy(a, pd_text_bytes(&type)));
	pd_labels_add(&l, "__type__", pd_profile_string(p, t->type));
	pd_labels_add(&l, "__unit__", pd_profile_string(p, t->unit));
	pd_labels_add(&l, "__period_type__", pd_profile_string(p, p->period_type.type));
	pd_labels_add(&l, "__period_unit__", pd_profile_string(p, p->period_type.unit));
	pd_labels_add(&l, "__service_name__", pd_labels_get(l, "service_name"));
	pd_labels_sort(&l);
	pd_text_fini(&type);
	return l;
}

static bool in_scope(const struct pd_scope *s, const struct pd_record *r)
{
	int64_t ms = r->profile.time_nanos / 1000000;

	return strcmp(r->tenant, s->tenant) == 0 &&
	       (!s->timed || (ms >= s->start_ms && ms <= s->end_ms));
}

static void visit_record(const struct pd_scope *scope, const struct pd_record *r,
			 void (*see)(const struct pd_view *v, void *arg), void *arg)
{
	for (size_t i = 0; i < r->series_count; i++)
		for (size_t j = 0; j < r->profile.sample_types; j++) {
			struct pd_view v = {.record = r, .series = i, .sample_type = j};
			struct pd_arena a = {0};

			v.labels = view_labels(&a, &v);
			if (pd_selector_matches(&scope->selector, v.labels))
				see(&v, arg);
			pd_arena_fini(&a);
		}
}

void pd_scope_visit(const struct pd_double *d, const struct pd_scope *scope,
		    void (*see)(const struct pd_view *v, void *arg), void *arg)
{
	for (const struct pd_record *r = d->first; r != NULL; r = r->next)
		if (in_scope(scope, r))
			visit_record(scope, r, see, arg);
}
