/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Basic types of the Pyroscope double: a span of bytes; memory that is freed with its owner; text
 * that grows; the error with which a request is refused. Out of memory ends the program, because it
 * is only a test tool.
 */
#ifndef PD_BASE_H
#define PD_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that are not owned, and not NUL-terminated. */
struct pd_bytes {
	const uint8_t *at;
	size_t len;
};

/* Every block is a separate allocation, so that AddressSanitizer sees its bounds. */
struct pd_arena {
	struct pd_block *blocks;
};

void *pd_arena_calloc(struct pd_arena *a, size_t count, size_t size);
struct pd_bytes pd_arena_copy(struct pd_arena *a, struct pd_bytes b);
char *pd_arena_string(struct pd_arena *a, struct pd_bytes b); /* NUL-terminated copy */
void pd_arena_fini(struct pd_arena *a);

/* Initially zero: empty. at is NUL-terminated as soon as something was added. */
struct pd_text {
	char *at;
	size_t len;
	size_t cap;
};

void pd_text_add(struct pd_text *t, const void *data, size_t len);
void pd_text_adds(struct pd_text *t, const char *s);
void pd_text_addf(struct pd_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void pd_text_quote(struct pd_text *t, struct pd_bytes b); /* as Go's strconv.Quote */
struct pd_bytes pd_text_bytes(const struct pd_text *t);
void pd_text_fini(struct pd_text *t);

struct pd_bytes pd_bytes_of(const char *s);
bool pd_bytes_equal(struct pd_bytes a, struct pd_bytes b);
bool pd_bytes_is(struct pd_bytes a, const char *s);
int pd_bytes_compare(struct pd_bytes a, struct pd_bytes b); /* as memcmp, the shorter first */
struct pd_bytes pd_bytes_trim(struct pd_bytes b);           /* without white space at the ends */

/* Those error codes of connect with which the server answers. */
enum pd_code {
	PD_OK,
	PD_INVALID_ARGUMENT,
	PD_UNAUTHENTICATED,
	PD_RESOURCE_EXHAUSTED,
	PD_UNKNOWN,
	PD_UNIMPLEMENTED,
};

const char *pd_code_name(enum pd_code code);
unsigned pd_code_status(enum pd_code code); /* the HTTP status of a code */

/* An error: the reason is counted in the statistics, the message is sent to the client. */
struct pd_error {
	enum pd_code code;
	const char *reason;
	struct pd_text message;
};

/* Returns -1, so that a check reads "return pd_error_set(...)". */
int pd_error_set(struct pd_error *e, enum pd_code code, const char *reason, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void pd_error_fini(struct pd_error *e);

#endif
