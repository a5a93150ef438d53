/* SPDX-License-Identifier: Apache-2.0 */
/* The grammar of /ingest's name; see labelset.h. */
#include "test/pyroscope/labelset.h"

#include <string.h>

static bool label_char(uint8_t c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '.';
}

static bool app_char(uint8_t c)
{
	return label_char(c) || c == '-' || c == '/';
}

static int bad_name(struct pd_error *e, const char *what, struct pd_bytes text, char c)
{
	return pd_error_set(e, PD_INVALID_ARGUMENT, "bad_name",
			    "%s: %.*s: character is not allowed: '%c'", what, (int)text.len,
			    (const char *)text.at, c);
}

static int check_app(struct pd_bytes app, struct pd_error *e)
{
	if (app.len == 0)
		return pd_error_set(e, PD_INVALID_ARGUMENT, "bad_name", "service name is required");
	for (size_t i = 0; i < app.len; i++)
		if (!app_char(app.at[i]))
			return bad_name(e, "invalid service name", app, (char)app.at[i]);
	return 0;
}

static int check_key(struct pd_bytes key, struct pd_error *e)
{
	if (key.len == 0)
		return pd_error_set(e, PD_INVALID_ARGUMENT, "bad_name", "label name is required");
	for (size_t i = 0; i < key.len; i++)
		if (!label_char(key.at[i]))
			return bad_name(e, "invalid label name", key, (char)key.at[i]);
	return 0;
}

static void set(struct pd_labels *labels, struct pd_bytes key, struct pd_bytes value)
{
	for (size_t i = 0; i < labels->len; i++)
		if (pd_bytes_equal(labels->at[i].name, key)) {
			labels->at[i].value = value;
			return;
		}
	labels->at[labels->len++] = (struct pd_pair){key, value};
}

/* Reads up to one of the stop characters or the end; *in begins there afterwards. */
static struct pd_bytes word(struct pd_bytes *in, const char *stops)
{
	struct pd_bytes w = {in->at, 0};

	while (w.len < in->len && (in->at[w.len] == '\0' || !strchr(stops, in->at[w.len])))
		w.len++;
	in->at += w.len;
	in->len -= w.len;
	return w;
}

static void skip(struct pd_bytes *in)
{
	in->at++;
	in->len--;
}

int pd_labelset_parse(struct pd_arena *a, struct pd_bytes name, struct pd_labels *labels,
		      struct pd_error *e)
{
	struct pd_bytes app = pd_bytes_trim(word(&name, "{"));

	/* Each pair has at least a '='. */
	labels->at = pd_arena_calloc(a, name.len + 1, sizeof(*labels->at));
	labels->len = 0;
	if (check_app(app, e) != 0)
		return -1;
	pd_labels_add(labels, "__name__", app);
	if (name.len > 0)
		skip(&name);
	while (name.len > 0) {
		struct pd_bytes key = word(&name, "=}");
		struct pd_bytes value;

		/* The server ignores text behind the closing brace, and a key without a value. */
		if (name.len == 0 || name.at[0] == '}')
			return 0;
		skip(&name);
		value = word(&name, ",}");
		if (name.len == 0)
			return 0;
		key = pd_bytes_trim(key);
		if (!pd_bytes_is(key, "__name__") && check_key(key, e) != 0)
			return -1;
		set(labels, key, pd_bytes_trim(value));
		/* After a '}' that ends a value, the server reads on as after a ','. */
		skip(&name);
	}
	return 0;
}
