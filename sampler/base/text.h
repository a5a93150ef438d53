/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text is UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, at most U+10FFFF; and it
 * holds no NUL.
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

/* The largest length <= len at which valid UTF-8 text may be cut without splitting a character. */
size_t sp_text_boundary(const char *text, size_t len);

/*
 * Makes text from an untrusted source safe to print. Terminals obey the control characters of
 * ASCII, those of Latin-1 (U+0080 to U+009F) and, some of them, the bytes of the latter alone. In
 * place and without a change of length: control characters become blanks, and each byte that is not
 * UTF-8 a question mark.
 */
void sp_text_printable(char *s, size_t len);

/* A control character of ASCII, which no name and no address has. */
static inline bool sp_text_is_control(char c)
{
	return (unsigned char)c < 0x20 || c == 0x7f;
}

/* There is one in the text. */
bool sp_text_has_control(const char *text, size_t len);

/* What a hexadecimal digit of either case stands for, or -1. */
int sp_text_digit(char c);

/*
 * The number that begins at *s, to base 10 or 16: *s moves behind its digits. What 64 bits do not hold is
 * UINT64_MAX. False where there is no digit.
 */
bool sp_text_number(const char **s, unsigned base, uint64_t *n);

/*
 * What stands for a byte in a URL and in lists that are encoded like one (RFC 3986): an unreserved character
 * itself, "%" and two digits else. Returns how many characters of out that are, 1 or 3.
 */
size_t sp_text_percent(char out[3], char c);

/* Whether the text begins with "%" and two digits, and the byte that these stand for. */
bool sp_text_is_escape(const char *text, size_t len, char *byte);

/* The contrary of a whole text, which may be written over itself. Returns its length; there is no NUL. */
size_t sp_text_unescape(char *out, const char *text, size_t len);

/* Lower-case hex of n bytes, NUL-terminated; out holds 2 * n + 1 bytes. */
void sp_text_hex(char *out, const uint8_t *bytes, size_t n);

/*
 * The same as sp_text_hex() for an id of 8 bytes, as it lies in memory. One is written for each span
 * that starts or ends, so all digits are made at once; each processor that we know has registers of
 * 16 bytes for that.
 */
#define SP_TEXT_ID_SIZE 17U
/* Only clang and gcc from 12 on have the former, and clang does not have the latter. */
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
 * The next item of a list with commas, without the blanks around it; empty ones are passed over. *list
 * moves behind it. False at the end.
 */
bool sp_text_next_item(const char **list, const char **item, size_t *len);

/* Without the blanks around each. */
struct sp_text_pair {
	const char *key;
	size_t key_len;
	const char *value; /* NULL without a separator */
	size_t value_len;
	char separator; /* '=', or ':' where there is no '='; 0 = neither */
};

/* The same of a list of key=value or key:value. */
bool sp_text_next_pair(const char **list, struct sp_text_pair *p);

/*
 * As snprintf for %s, %.*s, %d, %u and %% with the lengths l, ll and z, which is all that messages need. A null %s
 * prints "(null)"; any other conversion ends the output with "%?", because its argument's size is unknown. The
 * result is always NUL-terminated when cap > 0. Returns the bytes written without the NUL: never more than
 * cap - 1. Any context except SIG.
 */
size_t sp_fmt_vsnprintf(char *buf, size_t cap, const char *fmt, va_list args) SP_PRINTF(3, 0);
size_t sp_fmt_snprintf(char *buf, size_t cap, const char *fmt, ...) SP_PRINTF(3, 4);

#endif
