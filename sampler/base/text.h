/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text is UTF-8 as RFC 3629 defines it: no overlong forms, no surrogates, at most U+10FFFF; and it
 * holds no NUL.
 */
#ifndef SP_TEXT_H
#define SP_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* What a hexadecimal digit of either case stands for, or -1. */
int sp_text_digit(char c);

/*
 * The number that begins at *s, to base 10 or 16: *s moves behind its digits. What 64 bits do not hold is
 * UINT64_MAX. False where there is no digit.
 */
bool sp_text_number(const char **s, unsigned base, uint64_t *n);

/* Lower-case hex of n bytes, NUL-terminated; out holds 2 * n + 1 bytes. */
void sp_text_hex(char *out, const uint8_t *bytes, size_t n);

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

#endif
