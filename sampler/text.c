/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks and repairs UTF-8, because a server refuses a whole profile for one bad byte in a label.
 * Contexts INIT, APP and BG; called by label.c, log.c and config*.c. No state, no allocation.
 */
#include "sampler/text.h"

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
		return 1;
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

/* The length of the next character, or of the maximal invalid part, with *good saying which. */
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

bool sp_text_valid(const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	bool good = true;

	for (size_t i = 0; i < len && good;)
		i += step(s + i, len - i, &good);
	return good;
}

size_t sp_text_clean(char *dst, size_t cap, const char *text, size_t len)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t out = 0;

	for (size_t i = 0; i < len;) {
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
