/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text is UTF-8 as RFC 3629 defines it, without overlong forms, surrogates, and values above
 * U+10FFFF; and it contains no NUL.
 */
#ifndef SP_TEXT_H
#define SP_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sampler/base/compiler.h"

bool sp_text_valid(const char *text, size_t len);

/*
 * Copies text into dst, which holds cap bytes: each maximal invalid part becomes one U+FFFD, and
 * the copy ends before the first character that does not fit. No NUL is added. Returns its length.
 */
size_t sp_text_clean(char *dst, size_t cap, const char *text, size_t len);

/* The largest length <= len at which a cut of valid UTF-8 text splits no character. */
size_t sp_text_boundary(const char *text, size_t len);

/*
 * Makes text from an untrusted source safe to print. Terminals obey the control characters of
 * ASCII, those of Latin-1 (U+0080 to U+009F), and some terminals also single bytes of the latter.
 * In place and without a change of length: control characters become blanks, and each byte that is
 * not UTF-8 becomes a question mark.
 */
void sp_text_printable(char *s, size_t len);

/* Whether c is a control character of ASCII, which no name and no address has. */
static inline bool sp_text_is_control(char c)
{
	return (unsigned char)c < 0x20 || c == 0x7f;
}

/* Whether the text has a control character. */
bool sp_text_has_control(const char *text, size_t len);

/* The value of a hexadecimal digit of either case, or -1. */
int sp_text_digit(char c);

/*
 * Reads the number that begins at *s, to base 10 or 16, and moves *s behind its digits. A number
 * above 64 bits is UINT64_MAX. False if there is no digit.
 */
bool sp_text_number(const char **s, unsigned base, uint64_t *n);

/*
 * Encodes a byte for a URL or a percent-encoded list (RFC 3986): an unreserved character as itself,
 * others as "%" and two digits. Returns the number of characters, 1 or 3.
 */
size_t sp_text_percent(char out[3], char c);

/* Whether the text begins with "%" and two digits, and the byte that they encode. */
bool sp_text_is_escape(const char *text, size_t len, char *byte);

/* Decodes a whole text; out may be the text itself. Returns the length; there is no NUL. */
size_t sp_text_unescape(char *out, const char *text, size_t len);

/* Lower-case hex of n bytes, NUL-terminated; out holds 2 * n + 1 bytes. */
void sp_text_hex(char *out, const uint8_t *bytes, size_t n);

/*
 * sp_text_hex() for an id of 8 bytes in memory order. Each start and end of a span writes one id,
 * so all digits are computed at once; both processors have registers of 16 bytes for that.
 */
#define SP_TEXT_ID_SIZE 17U
/* Only clang, and gcc since 12, have the first builtin, and clang does not have the second. */
#ifdef __clang__
#define SP_TEXT_SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SP_TEXT_SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (bytes){__VA_ARGS__})
#endif
static inline void sp_text_id(char out[SP_TEXT_ID_SIZE], uint64_t id)
{
	_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first byte is the lowest");
	typedef int8_t bytes __attribute__((vector_size(16)));
	typedef uint64_t words __attribute__((vector_size(16)));
	const uint64_t nibbles = UINT64_C(0x0f0f0f0f0f0f0f0f);
	bytes high = (bytes)(words){id >> 4 & nibbles, 0};
	bytes low = (bytes)(words){id & nibbles, 0};
	bytes digits =
		SP_TEXT_SHUFFLE(high, low, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);

	digits += '0' + ((digits > 9) & ('a' - '0' - 10));
	memcpy(out, &digits, sizeof(digits));
	out[sizeof(digits)] = '\0';
}

/*
 * The next item of a list with commas, without the blanks around it; empty items are skipped. *list
 * moves behind the item. False at the end.
 */
bool sp_text_next_item(const char **list, const char **item, size_t *len);

/* Key and value, each without the blanks around it. */
struct sp_text_pair {
	const char *key;
	size_t key_len;
	const char *value; /* NULL without a separator */
	size_t value_len;
	char separator; /* '=', or ':' if there is no '='; 0 = neither */
};

/* The next pair of a list of key=value or key:value. */
bool sp_text_next_pair(const char **list, struct sp_text_pair *p);

/*
 * As snprintf() for %s, %.*s, %d, %u and %% with the lengths l, ll and z; messages need no other
 * conversions. A null %s prints "(null)"; any other conversion ends the output with "%?", because
 * its argument's size is unknown. The result is always NUL-terminated when cap > 0. Returns the
 * bytes written without the NUL: never more than cap - 1. Any context except SIG.
 */
size_t sp_fmt_vsnprintf(char *buf, size_t cap, const char *fmt, va_list args) SP_PRINTF(3, 0);
size_t sp_fmt_snprintf(char *buf, size_t cap, const char *fmt, ...) SP_PRINTF(3, 4);

#endif
