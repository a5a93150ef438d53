/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of requests that spanprof-report --serve answers, and all those that it refuses. */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/report/get.h"

TestSuite(report_get, .timeout = 10);

#define HOST "Host: 127.0.0.1:8080\r\n"

static struct sp_get get;

/* In memory of its own length, so that the sanitizer sees what is read behind it. */
static int parse_bytes(const char *head, size_t len)
{
	static char *copy;

	free(copy);
	copy = calloc(1, len + 1);
	memcpy(copy, head, len);
	return sp_get_parse(copy, len, &get);
}

static int parse(const char *head)
{
	return parse_bytes(head, strlen(head));
}

Test(report_get, takes_what_a_browser_sends)
{
	cr_expect_eq(parse("GET /profile.json?type=cpu HTTP/1.1\r\n" HOST
			   "User-Agent: x\r\nAccept: */*\r\nSec-Fetch-Site: same-origin\r\n\r\n"),
		     200);
	cr_expect_str_eq(get.path, "/profile.json");
	cr_expect_str_eq(get.query, "type=cpu");
	cr_expect_eq(parse("GET / HTTP/1.0\r\nhost:localhost\r\nSec-Fetch-Site: none\r\n\r\n"),
		     200);
	cr_expect_str_eq(get.path, "/");
	cr_expect_null(get.query);
	cr_expect_eq(parse("GET / HTTP/1.1\r\nHost: [::1]:1\r\n\r\n"), 200);
}

Test(report_get, is_only_for_names_of_this_machine)
{
	static const char *const hosts[] = {"evil.example",      "127.0.0.1.evil.example",
					    "localhost.evil",    "localhost:80.evil",
					    "localhost:",        "127.0.0.2",
					    "0.0.0.0",           "",
					    "user@localhost",    "[::1].evil",
					    "[::1]evil",         "[::]",
					    "evil, localhost",   "localhost evil",
					    "localhost:8080:80", "127.1"};

	for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
		char head[200];

		(void)snprintf(head, sizeof(head), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", hosts[i]);
		cr_expect_eq(parse(head), 403, "%s", hosts[i]);
	}
	cr_expect_eq(parse("GET / HTTP/1.1\r\n\r\n"), 400, "no host");
	cr_expect_eq(parse("GET / HTTP/1.1\r\n" HOST HOST "\r\n"), 400, "two");
	cr_expect_eq(parse("GET / HTTP/1.1\r\n" HOST "Host: evil\r\n\r\n"), 403);
}

Test(report_get, is_not_for_other_sites)
{
	cr_expect_eq(parse("GET / HTTP/1.1\r\n" HOST "Sec-Fetch-Site: cross-site\r\n\r\n"), 403);
	cr_expect_eq(parse("GET / HTTP/1.1\r\n" HOST "sec-fetch-site:same-site\r\n\r\n"), 403);
}

Test(report_get, is_the_only_method)
{
	static const char *const methods[] = {"POST", "HEAD",    "OPTIONS", "get",
					      "GETT", "CONNECT", ""};

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		char head[200];

		(void)snprintf(head, sizeof(head), "%s / HTTP/1.1\r\n" HOST "\r\n", methods[i]);
		cr_expect_eq(parse(head), 405, "%s", methods[i]);
	}
}

Test(report_get, refuses_what_is_malformed)
{
	static const char *const heads[] = {
		"\r\n\r\n",
		"GET\r\n\r\n",
		"GET /\r\n\r\n",
		"GET  / HTTP/1.1\r\n" HOST "\r\n",
		"GET / HTTP/1.1 \r\n" HOST "\r\n",
		"GET / HTTP/2\r\n" HOST "\r\n",
		"GET http://127.0.0.1/ HTTP/1.1\r\n" HOST "\r\n",
		"GET * HTTP/1.1\r\n" HOST "\r\n",
		"GET /#x HTTP/1.1\r\n" HOST "\r\n",
		"GET / HTTP/1.1\n" HOST "\r\n",
		"GET / HTTP/1.1\r\nHost: localhost\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "\tfolded\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "no colon\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST ": no name\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "Blank : x\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n",
		"GET / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n",
		"GET /\xc3\xa4 HTTP/1.1\r\n" HOST "\r\n",
		"GET /\x1b HTTP/1.1\r\n" HOST "\r\n",
		"GET / HTTP/1.1\r\n" HOST "X: \x7f\r\n\r\n",
		("GET / HTTP/1.1\r\n" HOST),
	};
	static const char nul[] = "GET / HTTP/1.1\r\n" HOST "X: \0\r\n\r\n";

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
		cr_expect_eq(parse(heads[i]), 400, "%s", heads[i]);
	cr_expect_eq(parse_bytes(nul, sizeof(nul) - 1), 400);
}

Test(report_get, knows_no_long_paths)
{
	char head[400] = "GET /";

	memset(head + 5, 'a', 62);
	strcpy(head + 67, " HTTP/1.1\r\n" HOST "\r\n");
	cr_expect_eq(parse(head), 200);
	cr_expect_eq(strlen(get.path), 63);
	memset(head + 5, 'a', 63);
	strcpy(head + 68, " HTTP/1.1\r\n" HOST "\r\n");
	cr_expect_eq(parse(head), 404);
}

Test(report_get, ends_at_the_empty_line)
{
	cr_expect(sp_get_is_whole("GET\r\n\r\n", 7));
	cr_expect_not(sp_get_is_whole("GET\r\n\r\n", 6));
	cr_expect_not(sp_get_is_whole("GET\n\n", 5));
	cr_expect_not(sp_get_is_whole("", 0));
}

Test(report_get, has_pairs_of_a_key_and_a_value)
{
	char text[] = "span_name=GET+%2Forders%3F%c3%A4&type=&a%3Db=c";
	char *query = text;
	char *key, *value;

	cr_expect_eq(sp_get_pair(&query, &key, &value), 1);
	cr_expect_str_eq(key, "span_name");
	cr_expect_str_eq(value, "GET /orders?\xc3\xa4");
	cr_expect_eq(sp_get_pair(&query, &key, &value), 1);
	cr_expect_str_eq(key, "type");
	cr_expect_str_eq(value, "");
	cr_expect_eq(sp_get_pair(&query, &key, &value), 1);
	cr_expect_str_eq(key, "a=b");
	cr_expect_eq(sp_get_pair(&query, &key, &value), 0);
}

Test(report_get, has_no_other_pairs)
{
	static const char *const queries[] = {"a",     "a=%",  "a=%4",  "a=%4x", "a=%00",
					      "%0g=b", "&a=b", "a=b&&", "=%"};
	char *none = NULL;
	char *key, *value;

	for (size_t i = 0; i < sizeof(queries) / sizeof(queries[0]); i++) {
		char text[20];
		char *query = text;
		int found;

		strcpy(text, queries[i]);
		while ((found = sp_get_pair(&query, &key, &value)) > 0)
			;
		cr_expect_eq(found, -1, "%s", queries[i]);
	}
	cr_expect_eq(sp_get_pair(&none, &key, &value), 0);
}
