/* SPDX-License-Identifier: Apache-2.0 */
/* Secrets in URLs are removed from texts. */
#include <criterion/criterion.h>
#include <string.h>

#include "export/util/log.h"

Test(redact, takes_the_secrets_out_of_every_url, .timeout = 20)
{
	static const struct {
		const char *text, *left;
	} pair[] = {
		{"", ""},
		{"no address: a@b?c#d", "no address: a@b?c#d"},
		{"http://host:1/path", "http://host:1/path"},
		{"http://u:p@host:1/path?token=x#y", "http://host:1/path"},
		{"in 'http://u:p@host' and ftp://t@x?q, or not",
		 "in 'http://host' and ftp://x or not"},
		{"http://u:p/?#@q@host/x", "http://host/x"},
		{"http://u:p@", "http://"},
		{"http://?x", "http://"},
		{"://@", "://"},
		{"a://b://c@d", "a://d"},
		{"unix:///run/x", "unix:///run/x"},
		{"http://[::1]:4040/?x a@b", "http://[::1]:4040/ a@b"},
	};
	char text[128];

	for (size_t i = 0; i < sizeof(pair) / sizeof(pair[0]); i++) {
		strcpy(text, pair[i].text);
		sp_redact(text);
		cr_expect_str_eq(text, pair[i].left, "%s: %s", pair[i].text, text);
	}
}

Test(redact, looks_behind_nul_bytes, .timeout = 20)
{
	char text[32] = "x\0 http://u:p@h?q";

	cr_assert_eq(sp_redact_bytes(text, 17), 11);
	cr_expect_str_eq(text, "x  http://h");
}
