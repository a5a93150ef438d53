/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks and repairs UTF-8, because a server refuses a whole profile for one bad byte in a label.
 * Splits lists and reads numbers: strtol() depends on the host's locale, and newer headers redirect
 * it to symbols that older C libraries lack. Contexts: INIT, APP and the exporter. No state, no
 * allocation.
 */
#include "sampler/base/text.h"

#include <stdint.h>
#include <string.h>

static const char replacement[3] = {'\xef', '\xbf', '\xbd'};

/*
 * The length of the sequence that a lead byte opens (0 = no lead byte) and the range of its second
 * byte, which is where overlong forms, surrogates and values above U+10FFFF are told apart.
 */
static size_t lead(unsigned char c, unsigned char *low, unsigned char *high)
{
	*low = 0x80;
	*high = 0xbf;
	if (c < 0x80)
		return c != '\0';
	if (c < 0xc2 || c > 0xf4)
		return 0;
	if (c < 0xe0)
		return 2;
	if (c == 0xe0)
		*low = 0xa0;
	if (c == 0xed)
		*high = 0x9f;
	if (c == 0xf0)
		*low = 0x90;
	if (c == 0xf4)
		*high = 0x8f;
	return c < 0xf0 ? 3 : 4;
}

/* The length of the next character or, with *good false, of the maximal invalid part. */
static size_t step(const unsigned char *s, size_t len, bool *good)
{
	unsigned char low;
	unsigned char high;
	size_t want = lead(s[0], &low, &high);
	size_t have = 1;

	*good = false;
	if (want == 0)
		return 1;
	for (; have < want && have < len; have++) {
		if (s[have] < low || s[have] > high)
			return have;
		low = 0x80;
		high = 0xbf;
	}
	*good = have == want;
	return have;
}

bool sp_text_has_control(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (sp_text_is_control(text[i]))
			return true;
	return false;
}

bool sp_text_valid(const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	bool good = true;

	for (size_t i = 0; i < len && good;)
		i += step(s + i, len - i, &good);
	return good;
}

/*
 * Eight characters that are neither NUL nor part of a sequence. A byte from 0x81 on, or NUL, leaves
 * its top bit set when 1 is taken from it; 0x80 has it anyway.
 */
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

size_t sp_text_clean(char *dst, size_t cap, const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t out = plain_length(text, len < cap ? len : cap);

	memcpy(dst, text, out);
	for (size_t i = out; i < len;) {
		bool good;
		size_t n = step(s + i, len - i, &good);
		size_t size = good ? n : sizeof(replacement);

		if (size > cap - out)
			break;
		memcpy(dst + out, good ? text + i : replacement, size);
		out += size;
		i += n;
	}
	return out;
}

size_t sp_text_boundary(const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	unsigned char low;
	unsigned char high;
	size_t start = len;

	while (start > 0 && len - start < 4) {
		start--;
		if ((s[start] & 0xc0) != 0x80)
			return lead(s[start], &low, &high) > len - start ? start : len;
	}
	return len;
}

void sp_text_printable(char *s, size_t len)
{
	bool good;

	for (size_t i = 0, n; i < len; i += n) {
		n = step((const unsigned char *)s + i, len - i, &good);
		if (!good)
			memset(s + i, '?', n);
		else if (n == 1 && sp_text_is_control(s[i]))
			s[i] = ' ';
		else if (n == 2 && s[i] == '\xc2' && (unsigned char)s[i + 1] < 0xa0)
			memset(s + i, ' ', n);
	}
}

int sp_text_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool sp_text_number(const char **s, unsigned base, uint64_t *n)
{
	const char *begin = *s;

	*n = 0;
	for (;; (*s)++) {
		int digit = sp_text_digit(**s);

		if (digit < 0 || (unsigned)digit >= base)
			return *s != begin;
		if (__builtin_mul_overflow(*n, base, n) ||
		    __builtin_add_overflow(*n, (unsigned)digit, n))
			*n = UINT64_MAX;
	}
}

static bool is_unreserved(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

size_t sp_text_percent(char out[3], char c)
{
	static const char digits[] = "0123456789ABCDEF";

	if (is_unreserved(c)) {
		out[0] = c;
		return 1;
	}
	out[0] = '%';
	out[1] = digits[(unsigned char)c >> 4];
	out[2] = digits[(unsigned char)c & 15];
	return 3;
}

void sp_text_hex(char *out, const uint8_t *bytes, size_t n)
{
	static const char digit[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		out[2 * i] = digit[bytes[i] >> 4];
		out[2 * i + 1] = digit[bytes[i] & 15U];
	}
	out[2 * n] = '\0';
}

static bool blank(char c)
{
	return c == ' ' || c == '\t';
}

static void trim(const char **s, size_t *len)
{
	while (*len > 0 && blank((*s)[*len - 1]))
		(*len)--;
	for (; *len > 0 && blank(**s); (*s)++)
		(*len)--;
}

bool sp_text_next_item(const char **list, const char **item, size_t *len)
{
	while (**list != '\0') {
		*item = *list;
		*len = strcspn(*list, ",");
		*list += *len;
		if (**list == ',')
			(*list)++;
		trim(item, len);
		if (*len > 0)
			return true;
	}
	return false;
}

bool sp_text_next_pair(const char **list, struct sp_text_pair *p)
{
	const char *at;

	*p = (struct sp_text_pair){0};
	if (!sp_text_next_item(list, &p->key, &p->key_len))
		return false;
	at = memchr(p->key, '=', p->key_len);
	if (at == NULL)
		at = memchr(p->key, ':', p->key_len);
	if (at == NULL)
		return true;
	p->separator = *at;
	p->value = at + 1;
	p->value_len = p->key_len - (size_t)(p->value - p->key);
	p->key_len = (size_t)(at - p->key);
	trim(&p->key, &p->key_len);
	trim(&p->value, &p->value_len);
	return true;
}
