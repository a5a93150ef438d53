/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of sampler/base/text.c. */
#include "sampler/base/text.h"

#include <criterion/criterion.h>
#include <string.h>

#define FFFD "\xef\xbf\xbd"

static const char *clean(const char *text, size_t len, size_t cap)
{
	static char out[256];
	size_t n = sp_text_clean(out, cap, text, len);

	cr_assert_leq(n, cap);
	cr_assert(sp_text_valid(out, n));
	out[n] = '\0';
	return out;
}

Test(text, accepts_every_length_of_utf8, .timeout = 20)
{
	static const char *const good[] = {"",
					   "plain",
					   "\x7f",
					   "\xc2\x80",
					   "\xdf\xbf",
					   "\xe0\xa0\x80",
					   "\xed\x9f\xbf",
					   "\xee\x80\x80",
					   "\xef\xbf\xbf",
					   "\xf0\x90\x80\x80",
					   "\xf4\x8f\xbf\xbf"};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		cr_expect(sp_text_valid(good[i], strlen(good[i])), "case %zu", i);
		cr_expect_str_eq(clean(good[i], strlen(good[i]), 200), good[i]);
	}
}

Test(text, replaces_each_maximal_invalid_part_once, .timeout = 20)
{
	/* The table of Unicode's section 3.9 and its neighbours. */
	static const struct {
		const char *in;
		const char *out;
	} cases[] = {
		{"\x80", FFFD},
		{"\xff", FFFD},
		{"\xc0\xaf", FFFD FFFD},
		{"\xe0\x80\xaf", FFFD FFFD FFFD},
		{"\xed\xa0\x80", FFFD FFFD FFFD},
		{"\xf4\x90\x80\x80", FFFD FFFD FFFD FFFD},
		{"\xe1\x80\xe2\xf0\x91\x92\xf1\xbf\x41", FFFD FFFD FFFD FFFD "A"},
		{"a\xc3", "a" FFFD},
		{"a\xf0\x9f\x98", "a" FFFD},
		{"a\xc3(b", "a" FFFD "(b"},
		{"\xc1\xbf", FFFD FFFD},
		{"\xe0\x9f\xbf", FFFD FFFD FFFD},
		{"\xf0\x8f\xbf\xbf", FFFD FFFD FFFD FFFD},
		{"\xf5\x80\x80\x80", FFFD FFFD FFFD FFFD},
		{"\xe2\x82", FFFD},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_expect(!sp_text_valid(cases[i].in, strlen(cases[i].in)), "case %zu", i);
		cr_expect_str_eq(clean(cases[i].in, strlen(cases[i].in), 200), cases[i].out,
				 "case %zu", i);
	}
}

Test(text, has_no_nul, .timeout = 20)
{
	cr_expect_not(sp_text_valid("a\0b", 3));
	cr_expect_str_eq(clean("a\0b", 3, 200), "a" FFFD "b");
}

Test(text, never_splits_a_character_when_it_cuts, .timeout = 20)
{
	cr_expect_str_eq(clean("ab\xc3\xa9", 4, 3), "ab");
	cr_expect_str_eq(clean("ab\xc3\xa9", 4, 4), "ab\xc3\xa9");
	cr_expect_str_eq(clean("ab\xff", 3, 4), "ab", "the replacement does not fit either");
	cr_expect_str_eq(clean("abc", 3, 0), "");
}

Test(text, finds_the_boundary_before_a_split_character, .timeout = 20)
{
	static const char s[] = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";
	static const size_t want[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10};

	for (size_t len = 0; len < sizeof(want) / sizeof(want[0]); len++)
		cr_expect_eq(sp_text_boundary(s, len), want[len], "cut at %zu", len);
}

/*
 * Eight plain characters are checked at once: a byte that is not plain must be noticed at each of the eight
 * positions.
 */
Test(text, sees_every_byte_at_every_place, .timeout = 20)
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
			n = sp_text_clean(out, sizeof(out), in, sizeof(in));
			cr_assert_eq(n, sizeof(in) + (good ? 0 : 2));
			cr_assert_eq(memcmp(out, want, n), 0, "byte %#x at %u", byte, at);
		}
	}
}

Test(text, what_may_be_shown_drives_no_terminal_and_keeps_its_length, .timeout = 20)
{
	static const struct {
		const char *text, *shown;
	} pair[] = {
		{"", ""},
		{"plain caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80",
		 "plain caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"},
		{"a\x1b[2J\r\n\t\x7f", "a [2J    "},
		{"\xc2\x80\xc2\x9f\xc2\xa0", "    \xc2\xa0"},
		{"\x80\x9b\xff\xc2", "????"},
		{"\xc2", "?"},
		{"x\xe2\x82", "x??"},
		{"\xed\xa0\x80z", "???z"},
		{"\xe0\x82\x9b", "???"},
	};
	char text[64];

	for (size_t i = 0; i < sizeof(pair) / sizeof(pair[0]); i++) {
		strcpy(text, pair[i].text);
		sp_text_printable(text, strlen(text));
		cr_expect_str_eq(text, pair[i].shown, "%zu: %s", i, text);
	}
}

Test(text, lists_have_items_without_blanks_and_no_empty_ones, .timeout = 20)
{
	static const char *const want[] = {"a", "b c", "d"};
	const char *list = " a,,\t, b c ,d , ";
	const char *item;
	size_t len;

	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		cr_assert(sp_text_next_item(&list, &item, &len));
		cr_expect_eq(len, strlen(want[i]));
		cr_expect_arr_eq(item, want[i], len);
	}
	cr_expect_not(sp_text_next_item(&list, &item, &len));
	cr_expect_eq(*list, '\0');
}

Test(text, pairs_are_taken_apart_at_the_first_equals_sign_or_else_colon, .timeout = 20)
{
	static const struct {
		const char *text, *key, *value;
		char separator;
	} pair[] = {
		{"k=v", "k", "v", '='},     {" k = v ", "k", "v", '='},
		{"k:v", "k", "v", ':'},     {"k:l=v:w=x", "k:l", "v:w=x", '='},
		{"k=", "k", "", '='},       {"=v", "", "v", '='},
		{":", "", "", ':'},         {"alone", "alone", NULL, '\0'},
		{"k=v,l=w", "k", "v", '='},
	};
	struct sp_text_pair p;

	for (size_t i = 0; i < sizeof(pair) / sizeof(pair[0]); i++) {
		const char *list = pair[i].text;

		cr_assert(sp_text_next_pair(&list, &p), "%s", pair[i].text);
		cr_expect_eq(p.separator, pair[i].separator, "%s", pair[i].text);
		cr_expect_eq(p.key_len, strlen(pair[i].key), "%s", pair[i].text);
		cr_expect_arr_eq(p.key, pair[i].key, p.key_len, "%s", pair[i].text);
		cr_expect_eq(p.value == NULL, pair[i].value == NULL, "%s", pair[i].text);
		if (pair[i].value == NULL)
			continue;
		cr_expect_eq(p.value_len, strlen(pair[i].value), "%s", pair[i].text);
		cr_expect_arr_eq(p.value, pair[i].value, p.value_len, "%s", pair[i].text);
	}
}

Test(text, bytes_are_written_in_lower_case_hex, .timeout = 20)
{
	const uint8_t bytes[] = {0x00, 0x0f, 0xf0, 0xab, 0xff};
	char out[11];

	sp_text_hex(out, bytes, sizeof(bytes));
	cr_expect_str_eq(out, "000ff0abff");
	sp_text_hex(out, bytes, 0);
	cr_expect_str_eq(out, "");
}

Test(text, an_id_is_written_as_any_bytes_are, .timeout = 20)
{
	char expected[SP_TEXT_ID_SIZE];
	char out[SP_TEXT_ID_SIZE];

	for (unsigned b = 0; b < 256; b++) {
		for (unsigned at = 0; at < 8; at++) {
			uint8_t bytes[8] = {0, 0xff, 0x9a, 0xa9, 0xf0, 0x0f, 0x5b, 0xc3};
			uint64_t id;

			bytes[at] = (uint8_t)b;
			memcpy(&id, bytes, sizeof(id));
			sp_text_hex(expected, bytes, sizeof(bytes));
			sp_text_id(out, id);
			cr_assert_str_eq(out, expected);
		}
	}
}

Test(text, digits_are_those_of_hex_in_either_case, .timeout = 20)
{
	static const char digits[] = "0123456789abcdefABCDEF";
	unsigned others = 0;

	for (int i = 0; i < 22; i++)
		cr_expect_eq(sp_text_digit(digits[i]), i < 16 ? i : i - 6);
	for (int c = -128; c < 128; c++)
		others += sp_text_digit((char)c) < 0;
	cr_expect_eq(others, 256 - 22);
}

Test(text, numbers_end_before_what_is_no_digit_of_theirs, .timeout = 20)
{
	static const struct {
		const char *text;
		unsigned base;
		uint64_t n;
		const char *rest; /* NULL = no number */
	} row[] = {
		{"0", 10, 0, ""},
		{"0042x", 10, 42, "x"},
		{"18446744073709551615", 10, UINT64_MAX, ""},
		{"18446744073709551616 ", 10, UINT64_MAX, " "},
		{"99999999999999999999999999999999999", 10, UINT64_MAX, ""},
		{"7f00-", 16, 0x7f00, "-"},
		{"FfAg", 16, 0xffa, "g"},
		{"ffffffffffffffff0", 16, UINT64_MAX, ""},
		{"12ab", 10, 12, "ab"},
		{"", 10, 0, NULL},
		{" 1", 10, 0, NULL},
		{"-1", 10, 0, NULL},
		{"+1", 16, 0, NULL},
		{"a", 10, 0, NULL},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		const char *at = row[i].text;
		uint64_t n = 4711;

		cr_expect_eq(sp_text_number(&at, row[i].base, &n), row[i].rest != NULL, "%s",
			     row[i].text);
		cr_expect_eq(n, row[i].n, "%s", row[i].text);
		cr_expect_str_eq(at, row[i].rest != NULL ? row[i].rest : row[i].text);
	}
}

Test(text, unreserved_characters_stand_for_themselves_in_a_url)
{
	static const char plain[] = "azAZ09-._~";
	char out[4] = "";

	for (size_t i = 0; plain[i] != '\0'; i++) {
		cr_expect_eq(sp_text_percent(out, plain[i]), 1);
		cr_expect_eq(out[0], plain[i]);
	}
	cr_expect_eq(sp_text_percent(out, ','), 3);
	cr_expect_str_eq(out, "%2C");
	cr_expect_eq(sp_text_percent(out, '\0'), 3);
	cr_expect_str_eq(out, "%00");
	cr_expect_eq(sp_text_percent(out, '\xff'), 3);
	cr_expect_str_eq(out, "%FF");
}
