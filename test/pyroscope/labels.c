/* SPDX-License-Identifier: Apache-2.0 */
/* Label sets; see labels.h. */
#include "test/pyroscope/labels.h"

#include <stdlib.h>
#include <string.h>

#include "test/pyroscope/codec.h"

struct pd_labels pd_labels_copy(struct pd_arena *a, struct pd_labels l, size_t room)
{
	struct pd_labels copy = {pd_arena_calloc(a, l.len + room, sizeof(*copy.at)), l.len};

	for (size_t i = 0; i < l.len; i++) {
		copy.at[i].name = pd_arena_copy(a, l.at[i].name);
		copy.at[i].value = pd_arena_copy(a, l.at[i].value);
	}
	return copy;
}

void pd_labels_add(struct pd_labels *l, const char *name, struct pd_bytes value)
{
	l->at[l->len++] = (struct pd_pair){pd_bytes_of(name), value};
}

struct pd_bytes pd_labels_get(struct pd_labels l, const char *name)
{
	for (size_t i = 0; i < l.len; i++)
		if (pd_bytes_is(l.at[i].name, name))
			return l.at[i].value;
	return (struct pd_bytes){NULL, 0};
}

bool pd_labels_has(struct pd_labels l, struct pd_bytes name)
{
	for (size_t i = 0; i < l.len; i++)
		if (pd_bytes_equal(l.at[i].name, name))
			return true;
	return false;
}

void pd_labels_remove(struct pd_labels *l, const char *name)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->len; i++)
		if (!pd_bytes_is(l->at[i].name, name))
			l->at[kept++] = l->at[i];
	l->len = kept;
}

static int compare_pairs(const void *a, const void *b)
{
	const struct pd_pair *x = a;
	const struct pd_pair *y = b;
	int order = pd_bytes_compare(x->name, y->name);

	return order != 0 ? order : pd_bytes_compare(x->value, y->value);
}

void pd_labels_sort(struct pd_labels *l)
{
	if (l->len > 1)
		qsort(l->at, l->len, sizeof(*l->at), compare_pairs);
}

int pd_labels_compare(struct pd_labels a, struct pd_labels b)
{
	for (size_t i = 0; i < a.len && i < b.len; i++) {
		int order = compare_pairs(&a.at[i], &b.at[i]);

		if (order != 0)
			return order;
	}
	return (a.len > b.len) - (a.len < b.len);
}

void pd_labels_text(struct pd_labels l, struct pd_text *out)
{
	const char *between = "{";

	for (size_t i = 0; i < l.len; i++) {
		if (l.at[i].value.len == 0)
			continue;
		pd_text_adds(out, between);
		between = ", ";
		pd_text_add(out, l.at[i].name.at, l.at[i].name.len);
		pd_text_adds(out, "=");
		pd_text_quote(out, l.at[i].value);
	}
	pd_text_adds(out, between[0] == '{' ? "{}" : "}");
}

static bool is_name_start(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(uint8_t c)
{
	return c >= '0' && c <= '9';
}

/* Since Prometheus 3 a name may be any text, also with dots and dashes. */
static bool metric_name_valid(struct pd_bytes name)
{
	return name.len > 0 && pd_utf8_valid(name);
}

bool pd_labels_name_safe(struct pd_bytes name)
{
	for (size_t i = 0; i < name.len; i++) {
		uint8_t c = name.at[i];

		if (!is_name_start(c) && !(i > 0 && (is_digit(c) || c == '.')))
			return false;
	}
	return name.len > 0;
}

/* text: the whole set, for messages. */
static int validate_pair(const struct pd_limits *limits, const struct pd_pair *p,
			 const struct pd_pair *before, const char *text, struct pd_error *e)
{
	int name_len = (int)p->name.len;
	int value_len = (int)p->value.len;
	const char *name = (const char *)p->name.at;
	const char *value = (const char *)p->value.at;

	if (p->name.len > limits->label_name_bytes)
		return pd_error_set(e, PD_INVALID_ARGUMENT, "label_name_too_long",
				    "profile with labels '%s' has label name too long: '%.*s'",
				    text, name_len, name);
	if (p->value.len > limits->label_value_bytes)
		return pd_error_set(e, PD_INVALID_ARGUMENT, "label_value_too_long",
				    "profile with labels '%s' has label value too long: '%.*s'",
				    text, value_len, value);
	if (p->name.len == 0 || !pd_utf8_valid(p->name))
		return pd_error_set(e, PD_INVALID_ARGUMENT, "invalid_labels",
				    "invalid labels '%s' with error: invalid label name '%.*s'",
				    text, name_len, name);
	if (!pd_utf8_valid(p->value))
		return pd_error_set(e, PD_INVALID_ARGUMENT, "invalid_labels",
				    "invalid labels '%s' with error: invalid label value '%.*s'",
				    text, value_len, value);
	if (before != NULL && pd_bytes_equal(before->name, p->name))
		return pd_error_set(e, PD_INVALID_ARGUMENT, "duplicate_label_names",
				    "profile with labels '%s' has duplicate label name: '%.*s'",
				    text, name_len, name);
	return 0;
}

static int validate_set(const struct pd_limits *limits, struct pd_labels l, const char *text,
			struct pd_error *e)
{
	if (l.len > limits->label_names)
		return pd_error_set(e, PD_INVALID_ARGUMENT, "max_label_names_per_series",
				    "profile series '%s' has %zu label names; limit %zu", text,
				    l.len, limits->label_names);
	if (!metric_name_valid(pd_labels_get(l, "__name__")))
		return pd_error_set(e, PD_INVALID_ARGUMENT, "invalid_labels",
				    "invalid labels '%s' with error: invalid metric name", text);
	if (pd_labels_get(l, "service_name").len == 0)
		return pd_error_set(e, PD_INVALID_ARGUMENT, "missing_labels",
				    "invalid labels '%s' with error: service name is not provided",
				    text);
	for (size_t i = 0; i < l.len; i++)
		if (validate_pair(limits, &l.at[i], i > 0 ? &l.at[i - 1] : NULL, text, e) != 0)
			return -1;
	return 0;
}

int pd_labels_validate(const struct pd_limits *limits, struct pd_labels *l, struct pd_error *e)
{
	struct pd_text text = {0};
	int rc;

	if (l->len == 0)
		return pd_error_set(e, PD_INVALID_ARGUMENT, "missing_labels",
				    "error at least one label pair is required per profile");
	pd_labels_sort(l);
	pd_labels_text(*l, &text);
	rc = validate_set(limits, *l, text.at, e);
	pd_text_fini(&text);
	return rc;
}
