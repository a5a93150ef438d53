/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks and repairs UTF-8. Symbol names, paths and labels come from files and from users, so no
 * string enters a profile unseen. Context: BG. Callers: strtab.c, series.c, demangle.c.
 */
#include "export/utf8.h"

#include <stdint.h>
#include <string.h>

static const char replacement[3] = {'\xef', '\xbf', '\xbd'};

static bool continues(const unsigned char *u, size_t n)
{
	for (size_t i = 1; i < n; i++)
		if ((u[i] & 0xc0U) != 0x80U)
			return false;
	return true;
}

size_t sp_utf8_sequence(const char *s, size_t len)
{
	const unsigned char *u = (const unsigned char *)s;
	size_t n;

	if (len == 0)
		return 0;
	if (u[0] < 0x80U)
		return 1;
	if (u[0] < 0xc2U || u[0] > 0xf4U)
		return 0;
	n = u[0] < 0xe0U ? 2 : u[0] < 0xf0U ? 3 : 4;
	if (len < n || !continues(u, n))
		return 0;
	/* Overlong forms, surrogates and values past U+10FFFF show in the second byte. */
	if ((u[0] == 0xe0U && u[1] < 0xa0U) || (u[0] == 0xedU && u[1] > 0x9fU) ||
	    (u[0] == 0xf0U && u[1] < 0x90U) || (u[0] == 0xf4U && u[1] > 0x8fU))
		return 0;
	return n;
}

bool sp_utf8_valid(const char *s, size_t len)
{
	while (len != 0) {
		size_t n = sp_utf8_sequence(s, len);

		if (n == 0)
			return false;
		s += n;
		len -= n;
	}
	return true;
}

/* Eight characters that are neither NUL nor part of a sequence. A byte from 0x81 on, or NUL, leaves
 * its top bit set when 1 is taken from it; 0x80 has it anyway. */
static bool plain(const char *s)
{
	uint64_t w;

	memcpy(&w, s, sizeof(w));
	return (((w - UINT64_C(0x0101010101010101)) | w) & UINT64_C(0x8080808080808080)) == 0;
}

/* Length of the beginning that needs no repair, in steps of eight. */
static size_t plain_length(const char *s, size_t len)
{
	size_t n = 0;

	while (len - n >= 8 && plain(s + n))
		n += 8;
	return n;
}

size_t sp_utf8_clean(char *out, size_t cap, const char *s, size_t len)
{
	size_t used = plain_length(s, len < cap ? len : cap);

	memcpy(out, s, used);
	s += used;
	len -= used;
	while (len != 0) {
		size_t taken = *s == '\0' ? 0 : sp_utf8_sequence(s, len);
		const char *from = taken != 0 ? s : replacement;
		size_t n = taken != 0 ? taken : sizeof(replacement);

		if (n > cap - used)
			break;
		memcpy(out + used, from, n);
		used += n;
		taken += taken == 0;
		s += taken;
		len -= taken;
	}
	return used;
}

void sp_utf8_blank_controls(char *s, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if ((unsigned char)s[i] < ' ' || s[i] == '\x7f')
			s[i] = ' ';
		else if (s[i] == '\xc2' && i + 1 < len && (unsigned char)s[i + 1] < 0xa0)
			s[i + 1] = '\xa0';
	}
}
