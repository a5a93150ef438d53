/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 as the server accepts it: one invalid byte in any string rejects a whole profile. */
#ifndef SP_UTF8_H
#define SP_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Length of the valid sequence at s (1..4), or 0 when the first byte does not begin one. */
size_t sp_utf8_sequence(const char *s, size_t len);

bool sp_utf8_valid(const char *s, size_t len);

/*
 * Copies s to out with every invalid byte and every NUL replaced by U+FFFD, cut at cap bytes
 * before the character that would not fit. No terminator. Returns the length written.
 */
size_t sp_utf8_clean(char *out, size_t cap, const char *s, size_t len);

/* Terminals obey the control characters of ASCII, and those of Latin-1 (U+0080 to U+009F): each
 * becomes a blank, the latter ones no-break spaces of the same length. */
void sp_utf8_blank_controls(char *s, size_t len);

#endif
