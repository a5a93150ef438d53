/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8, hex, base64, gzip and JSON text of the double. */
#include "test/pyroscope/codec.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

#include "test/pyroscope/tests/builder.h"

Test(codec, utf8_accepts_the_ends_of_every_range, .timeout = 20)
{
	static const char *const good[] = {
		"",
		"plain",
		"\x7f",
		"\xc2\x80",
		"\xdf\xbf",
		"\xe0\xa0\x80",
		"\xed\x9f\xbf",
		"\xee\x80\x80",
		"\xf0\x90\x80\x80",
		"\xf4\x8f\xbf\xbf",
	};

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		cr_expect(pd_utf8_valid(pd_bytes_of(good[i])), "case %zu", i);
}

Test(codec, utf8_refuses_overlong_surrogate_truncated_and_too_large, .timeout = 20)
{
	static const char *const bad[] = {
		"\x80",
		"\xc1\xbf",
		"\xe0\x9f\xbf",
		"\xed\xa0\x80",
		"\xf0\x8f\xbf\xbf",
		"\xf4\x90\x80\x80",
		"\xf5\x80\x80\x80",
		"\xc3",
		"\xe2\x82",
		"\xf0\x9f\x98",
		"ok\xff",
		"\xc3(",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_not(pd_utf8_valid(pd_bytes_of(bad[i])), "case %zu", i);
}

Test(codec, hex_wants_the_exact_length_and_any_case, .timeout = 20)
{
	uint8_t out[2];

	cr_assert(pd_hex_decode(pd_bytes_of("aB09"), out, 2));
	cr_assert(out[0] == 0xab && out[1] == 0x09);
	cr_assert_not(pd_hex_decode(pd_bytes_of("aB0"), out, 2));
	cr_assert_not(pd_hex_decode(pd_bytes_of("aB090"), out, 2));
	cr_assert_not(pd_hex_decode(pd_bytes_of("aB0g"), out, 2));
}

static void expect_base64(const char *text, const char *plain)
{
	struct pd_text out = {0};
	int rc = pd_base64_decode(pd_bytes_of(text), &out);

	if (plain == NULL)
		cr_expect_eq(rc, -EBADMSG, "%s", text);
	else
		cr_expect(rc == 0 && pd_bytes_is(pd_text_bytes(&out), plain), "%s", text);
	pd_text_fini(&out);
}

Test(codec, base64_reads_both_alphabets_and_optional_padding, .timeout = 20)
{
	expect_base64("", "");
	expect_base64("Zm9v", "foo");
	expect_base64("Zm8=", "fo");
	expect_base64("Zm8", "fo");
	expect_base64("Zg==", "f");
	expect_base64("+/8=", "\xfb\xff");
	expect_base64("-_8=", "\xfb\xff");
	expect_base64("Z", NULL);
	expect_base64("Zm9v!", NULL);
	expect_base64("Zm=v", NULL);
}

Test(codec, gunzip_stops_at_the_limit, .timeout = 20)
{
	struct pd_text plain = {0};
	struct pd_text zipped;
	struct pd_text out = {0};

	for (int i = 0; i < 100000; i++)
		pd_text_add(&plain, "x", 1);
	zipped = pb_gzip(&plain);

	cr_assert_eq(pd_gunzip(pd_text_bytes(&zipped), 100000, &out), 0);
	cr_assert_eq(out.len, 100000);
	out.len = 0;
	cr_assert_eq(pd_gunzip(pd_text_bytes(&zipped), 99999, &out), -EFBIG);
	cr_assert_lt(out.len, 99999 + 16385);
	pd_text_fini(&plain);
	pd_text_fini(&zipped);
	pd_text_fini(&out);
}

Test(codec, gunzip_reads_all_members_and_refuses_what_is_cut_or_follows, .timeout = 20)
{
	struct pd_text plain = {0};
	struct pd_text zipped;
	struct pd_text twice = {0};
	struct pd_text out = {0};

	pd_text_adds(&plain, "hello");
	zipped = pb_gzip(&plain);
	pd_text_add(&twice, zipped.at, zipped.len);
	pd_text_add(&twice, zipped.at, zipped.len);

	cr_assert_eq(pd_gunzip(pd_text_bytes(&twice), 100, &out), 0);
	cr_assert(pd_bytes_is(pd_text_bytes(&out), "hellohello"));
	for (size_t cut = 1; cut < zipped.len; cut++) {
		out.len = 0;
		cr_expect_eq(pd_gunzip((struct pd_bytes){(uint8_t *)zipped.at, cut}, 100, &out),
			     -EBADMSG, "cut at %zu", cut);
	}
	pd_text_adds(&twice, "tail");
	out.len = 0;
	cr_assert_eq(pd_gunzip(pd_text_bytes(&twice), 100, &out), -EBADMSG);
	pd_text_fini(&plain);
	pd_text_fini(&zipped);
	pd_text_fini(&twice);
	pd_text_fini(&out);
}

Test(codec, json_replaces_invalid_bytes, .timeout = 20)
{
	json_t *j = pd_json_bytes(pd_bytes_of("a\xff\xc3\xa9"));

	cr_assert_str_eq(json_string_value(j), "a\xef\xbf\xbd\xc3\xa9");
	json_decref(j);
}

Test(codec, text_quotes_as_go_does, .timeout = 20)
{
	struct pd_text t = {0};

	pd_text_quote(&t, pd_bytes_of("a\"b\\c\nd\x01"));
	cr_assert_str_eq(t.at, "\"a\\\"b\\\\c\\nd\\x01\"");
	pd_text_fini(&t);
}
