/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes, memory, text and errors of the Pyroscope double; see base.h. */
#include "test/pyroscope/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pd_block {
	struct pd_block *next;
	max_align_t data[];
};

static void *or_die(void *p)
{
	if (p == NULL) {
		fputs("pyroscope-double: out of memory\n", stderr);
		abort();
	}
	return p;
}

void *pd_arena_calloc(struct pd_arena *a, size_t count, size_t size)
{
	size_t bytes = 0;
	struct pd_block *b = NULL;

	if (__builtin_mul_overflow(count, size, &bytes) ||
	    __builtin_add_overflow(bytes, sizeof(*b), &bytes))
		abort();
	b = or_die(calloc(1, bytes));
	b->next = a->blocks;
	a->blocks = b;
	return b->data;
}

struct pd_bytes pd_arena_copy(struct pd_arena *a, struct pd_bytes b)
{
	uint8_t *copy = pd_arena_calloc(a, b.len, 1);

	if (b.len > 0)
		memcpy(copy, b.at, b.len);
	return (struct pd_bytes){copy, b.len};
}

char *pd_arena_string(struct pd_arena *a, struct pd_bytes b)
{
	char *copy = pd_arena_calloc(a, b.len + 1, 1);

	if (b.len > 0)
		memcpy(copy, b.at, b.len);
	return copy;
}

void pd_arena_fini(struct pd_arena *a)
{
	while (a->blocks != NULL) {
		struct pd_block *next = a->blocks->next;

		free(a->blocks);
		a->blocks = next;
	}
}

void pd_text_add(struct pd_text *t, const void *data, size_t len)
{
	size_t need = t->len + len + 1;

	if (need > t->cap) {
		t->cap = need > 2 * t->cap ? need : 2 * t->cap;
		t->at = or_die(realloc(t->at, t->cap));
	}
	if (len > 0)
		memcpy(t->at + t->len, data, len);
	t->len += len;
	t->at[t->len] = '\0';
}

void pd_text_adds(struct pd_text *t, const char *s)
{
	pd_text_add(t, s, strlen(s));
}

static void __attribute__((format(printf, 2, 0)))
add_format(struct pd_text *t, const char *format, va_list args)
{
	char *s = NULL;
	int n = vasprintf(&s, format, args);

	if (n < 0)
		abort();
	pd_text_add(t, s, (size_t)n);
	free(s);
}

void pd_text_addf(struct pd_text *t, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add_format(t, format, args);
	va_end(args);
}

void pd_text_quote(struct pd_text *t, struct pd_bytes b)
{
	pd_text_adds(t, "\"");
	for (size_t i = 0; i < b.len; i++) {
		uint8_t c = b.at[i];

		if (c == '"' || c == '\\')
			pd_text_addf(t, "\\%c", c);
		else if (c == '\n')
			pd_text_adds(t, "\\n");
		else if (c == '\t')
			pd_text_adds(t, "\\t");
		else if (c == '\r')
			pd_text_adds(t, "\\r");
		else if (c < 0x20 || c == 0x7f)
			pd_text_addf(t, "\\x%02x", c);
		else
			pd_text_add(t, &c, 1);
	}
	pd_text_adds(t, "\"");
}

struct pd_bytes pd_text_bytes(const struct pd_text *t)
{
	return (struct pd_bytes){(const uint8_t *)t->at, t->len};
}

void pd_text_fini(struct pd_text *t)
{
	free(t->at);
	*t = (struct pd_text){0};
}

struct pd_bytes pd_bytes_of(const char *s)
{
	return (struct pd_bytes){(const uint8_t *)s, s != NULL ? strlen(s) : 0};
}

bool pd_bytes_equal(struct pd_bytes a, struct pd_bytes b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

bool pd_bytes_is(struct pd_bytes a, const char *s)
{
	return pd_bytes_equal(a, pd_bytes_of(s));
}

int pd_bytes_compare(struct pd_bytes a, struct pd_bytes b)
{
	size_t common = a.len < b.len ? a.len : b.len;
	int order = common > 0 ? memcmp(a.at, b.at, common) : 0;

	if (order != 0)
		return order;
	return (a.len > b.len) - (a.len < b.len);
}

static bool is_space(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

struct pd_bytes pd_bytes_trim(struct pd_bytes b)
{
	while (b.len > 0 && is_space(b.at[0])) {
		b.at++;
		b.len--;
	}
	while (b.len > 0 && is_space(b.at[b.len - 1]))
		b.len--;
	return b;
}

static const struct {
	const char *name;
	unsigned status;
} codes[] = {
	[PD_OK] = {"ok", 200},
	[PD_INVALID_ARGUMENT] = {"invalid_argument", 400},
	[PD_UNAUTHENTICATED] = {"unauthenticated", 401},
	[PD_RESOURCE_EXHAUSTED] = {"resource_exhausted", 429},
	[PD_UNKNOWN] = {"unknown", 500},
	[PD_UNIMPLEMENTED] = {"unimplemented", 501},
};

const char *pd_code_name(enum pd_code code)
{
	return codes[code].name;
}

unsigned pd_code_status(enum pd_code code)
{
	return codes[code].status;
}

int pd_error_set(struct pd_error *e, enum pd_code code, const char *reason, const char *format, ...)
{
	va_list args;

	e->code = code;
	e->reason = reason;
	e->message.len = 0;
	va_start(args, format);
	add_format(&e->message, format, args);
	va_end(args);
	return -1;
}

void pd_error_fini(struct pd_error *e)
{
	pd_text_fini(&e->message);
	*e = (struct pd_error){0};
}
