/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 checks and repairs against sequences worked out by hand. */
#include <criterion/criterion.h>
#include <string.h>

#include "export/utf8.h"

static const char *clean(const char *s, size_t len, size_t cap)
{
	static char out[256];

	out[sp_utf8_clean(out, cap, s, len)] = '\0';
	return out;
}

Test(utf8, knows_valid_from_invalid, .timeout = 20)
{
	static const char *const good[] = {"",
					   "abc",
					   "\xc3\xa9",
					   "\xe2\x82\xac",
					   "\xf0\x9f\x98\x80",
					   "\xed\x9f\xbf",
					   "\xee\x80\x80",
					   "\xf4\x8f\xbf\xbf"};
	static const char *const bad[] = {
		"\x80", /* continuation alone */
		"\xc3", /* cut short */
		"\xe2\x82",
		"\xf0\x9f\x98",
		"\xc0\xaf", /* overlong */
		"\xc1\xbf",
		"\xe0\x9f\xbf",
		"\xf0\x8f\xbf\xbf",
		"\xed\xa0\x80",     /* surrogate */
		"\xf4\x90\x80\x80", /* past U+10FFFF */
		"\xf5\x80\x80\x80",
		"\xff",
		"a\xc3(b",
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		cr_expect(sp_utf8_valid(good[i], strlen(good[i])), "good %zu", i);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_not(sp_utf8_valid(bad[i], strlen(bad[i])), "bad %zu", i);
}

Test(utf8, replaces_each_invalid_byte, .timeout = 20)
{
	cr_expect_str_eq(clean("a\xff"
			       "b",
			       3, 100),
			 "a\xef\xbf\xbd"
			 "b");
	cr_expect_str_eq(clean("\xe2\x82", 2, 100), "\xef\xbf\xbd\xef\xbf\xbd");
	cr_expect_str_eq(clean("a\0b", 3, 100), "a\xef\xbf\xbd"
						"b");
	cr_expect_str_eq(clean("\xc3\xa9", 2, 100), "\xc3\xa9");
}

Test(utf8, cuts_between_characters, .timeout = 20)
{
	cr_expect_str_eq(clean("ab\xe2\x82\xac", 5, 5), "ab\xe2\x82\xac");
	cr_expect_str_eq(clean("ab\xe2\x82\xac", 5, 4), "ab");
	cr_expect_str_eq(clean("ab\xff", 3, 4), "ab");
	cr_expect_str_eq(clean("ab", 2, 0), "");
}

/* Eight plain characters are taken at once: a byte that is not plain has to be seen at each place. */
Test(utf8, sees_every_byte_at_every_place, .timeout = 20)
{
	for (unsigned at = 0; at < 24; at++) {
		for (unsigned byte = 0; byte < 256; byte++) {
			bool good = byte != 0 && byte < 128;
			char in[24], out[64], want[64];
			size_t n;

			memset(in, 'a', sizeof(in));
			in[at] = (char)byte;
			memset(want, 'a', sizeof(want));
			memcpy(want + at, good ? &in[at] : "\xef\xbf\xbd", good ? 1 : 3);
			n = sp_utf8_clean(out, sizeof(out), in, sizeof(in));
			cr_assert_eq(n, sizeof(in) + (good ? 0 : 2));
			cr_assert_eq(memcmp(out, want, n), 0, "byte %#x at %u", byte, at);
		}
	}
}
