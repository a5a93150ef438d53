/* SPDX-License-Identifier: Apache-2.0 */
/* Several servers: which comma separates them, and which credential is whose. */
#include "sampler/config/config.h"

#include <stdio.h>

#include "config_env.h"
#include "sampler/config/config_table.h"

static void expect_element(const char *list, bool is_address, unsigned k, const char *want)
{
	size_t len = 99;
	const char *got = sp_config_element(list, is_address, k, &len);

	if (want == NULL) {
		cr_expect_null(got, "%s: %u", list, k);
		return;
	}
	cr_assert_not_null(got, "%s: %u", list, k);
	cr_expect(len == strlen(want) && memcmp(got, want, len) == 0, "%s: %u is %.*s", list, k,
		  (int)len, got);
}

Test(config_servers, elements_are_between_commas, .timeout = 20)
{
	expect_element("a", false, 0, "a");
	expect_element("a", false, 1, NULL);
	expect_element("", false, 0, "");
	expect_element("", false, 1, NULL);
	expect_element("a, b\t,\n c ", false, 0, "a");
	expect_element("a, b\t,\n c ", false, 1, "b");
	expect_element("a, b\t,\n c ", false, 2, "c");
	expect_element("a, b\t,\n c ", false, 3, NULL);
	expect_element(",,", false, 0, "");
	expect_element(",,", false, 1, "");
	expect_element(",,", false, 2, "");
	expect_element(",,", false, 3, NULL);
	expect_element(" , ", false, 1, "");
	expect_element(", /x", false, 0, "");
}

Test(config_servers, a_comma_may_be_part_of_an_address, .timeout = 20)
{
	expect_element("http://u:p,w@h/a,b", true, 0, "http://u:p,w@h/a,b");
	expect_element("http://u:p,w@h/a,b", true, 1, NULL);
	expect_element("http://a/x,y, HTTPS://b,unix:///c,d", true, 0, "http://a/x,y");
	expect_element("http://a/x,y, HTTPS://b,unix:///c,d", true, 1, "HTTPS://b");
	expect_element("http://a/x,y, HTTPS://b,unix:///c,d", true, 2, "unix:///c,d");
	expect_element("http://a/x,y, HTTPS://b,unix:///c,d", true, 3, NULL);
	expect_element("http://a,,http://b", true, 1, "");
	expect_element("http://a,,http://b", true, 2, "http://b");
	expect_element("http://a,", true, 1, "");
	expect_element("http://a, ", true, 1, "");
	expect_element(",http://a", true, 0, "");
}

Test(config_servers, are_one_to_four, .timeout = 20)
{
	cr_assert_eq(PARSE("HOME=/root"), 0);
	cr_expect_eq(cfg.servers, 1);
	cr_assert_eq(PARSE("SPANPROF_SERVER_ADDRESS=http://u:p,w@h/a,b"), 0);
	cr_expect_eq(cfg.servers, 1);
	cr_expect_str_eq(cfg.server_address, "http://u:p,w@h/a,b");
	cr_assert_eq(PARSE("PYROSCOPE_SERVER_ADDRESS=http://a:1, https://b/x"), 0);
	cr_expect_eq(cfg.servers, 2);
	cr_assert_eq(PARSE("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT=http://a,http://b,http://c"), 0);
	cr_expect_eq(cfg.servers, 3);
	cr_expect(cfg.server_path);
	cr_assert_eq(PARSE("SPANPROF_SERVER_ADDRESS=http://a,http://b,http://c,unix:///d"), 0);
	cr_expect_eq(cfg.servers, 4);
	cr_assert_eq(PARSE("SPANPROF_OUTPUT_DIR=/tmp"), 0);
	cr_expect_eq(cfg.servers, 0);
}

/* Pushing to some of the servers would look like success. */
Test(config_servers, with_a_bad_address_nothing_is_pushed, .timeout = 20)
{
	static const struct {
		const char *entry, *why;
	} bad[] = {
		{"SPANPROF_SERVER_ADDRESS=http://a,http://b,http://c,http://d,http://e",
		 "SPANPROF_SERVER_ADDRESS: server 5 of the list is one too many: there may be 4; "
		 "nothing is pushed"},
		{"SPANPROF_SERVER_ADDRESS=http://a,,http://b",
		 "SPANPROF_SERVER_ADDRESS: server 2 of the list is empty; nothing is pushed"},
		{"SPANPROF_SERVER_ADDRESS=http://a,",
		 "SPANPROF_SERVER_ADDRESS: server 2 of the list is empty; nothing is pushed"},
		{"SPANPROF_SERVER_ADDRESS=,http://a",
		 "SPANPROF_SERVER_ADDRESS: server 1 of the list is empty; nothing is pushed"},
		{"PYROSCOPE_SERVER_ADDRESS=http://a,http://secret:5x",
		 "PYROSCOPE_SERVER_ADDRESS: server 2 of the list has no valid host and port; "
		 "nothing is pushed"},
		{"SPANPROF_SERVER_ADDRESS=http://a:4040,b:4040",
		 "SPANPROF_SERVER_ADDRESS: has no valid host and port; nothing is pushed"},
		{"SPANPROF_SERVER_ADDRESS=http://secret,b",
		 "SPANPROF_SERVER_ADDRESS: has no valid host and port; nothing is pushed"},
		{"SPANPROF_SERVER_ADDRESS=http://a,https://b?secret",
		 "SPANPROF_SERVER_ADDRESS: server 2 of the list contains a query or a fragment; "
		 "nothing is pushed"},
		{"SPANPROF_SERVER_ADDRESS=http://a,unix://secret",
		 "SPANPROF_SERVER_ADDRESS: server 2 of the list does not name an absolute socket "
		 "path after unix://; nothing is pushed"},
		{"SPANPROF_SERVER_ADDRESS=http://a,http://a/",
		 "SPANPROF_SERVER_ADDRESS: names a server twice, with the same credentials; "
		 "nothing is pushed"},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_expect_eq(PARSE(bad[i].entry), 1, "%s", bad[i].entry);
		cr_expect_not_null(strstr(stderr_text, bad[i].why), "%s: %s", bad[i].entry,
				   stderr_text);
		cr_expect_null(strstr(stderr_text, "secret"), "%s", stderr_text);
		cr_expect_null(cfg.server_address, "%s", bad[i].entry);
		cr_expect_eq(cfg.servers, 0);
	}
}

#define TWO "SPANPROF_SERVER_ADDRESS=http://a,http://b"

static const char *const of_server[] = {
	"SPANPROF_BASIC_AUTH_USER",      "SPANPROF_BASIC_AUTH_PASSWORD",
	"SPANPROF_AUTH_TOKEN",           "SPANPROF_TENANT_ID",
	"SPANPROF_BASIC_AUTH_USER_FILE", "SPANPROF_BASIC_AUTH_PASSWORD_FILE",
	"SPANPROF_AUTH_TOKEN_FILE",      "SPANPROF_TENANT_ID_FILE",
	"SPANPROF_HTTP_HEADERS_FILE",    "SPANPROF_TLS_CERT_FILE",
	"SPANPROF_TLS_KEY_FILE",
};

/* One, too few or too many: nobody knows whose they are. */
Test(config_servers, one_credential_is_not_for_all, .timeout = 20)
{
	static const char *const values[] = {"/secret", "/secret,/b,/c", "/secret,/b,"};

	for (size_t i = 0; i < sizeof(of_server) / sizeof(of_server[0]); i++) {
		for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
			char entry[160], want[200];

			(void)snprintf(entry, sizeof(entry), "%s=%s", of_server[i], values[k]);
			(void)snprintf(want, sizeof(want),
				       "%s: is not a list with one element for each of the 2 "
				       "servers; nothing is pushed",
				       of_server[i]);
			cr_expect_eq(PARSE(TWO, entry), 1, "%s", entry);
			cr_expect_not_null(strstr(stderr_text, want), "%s: %s", entry, stderr_text);
			cr_expect_null(strstr(stderr_text, "secret"), "%s", stderr_text);
			cr_expect_null(cfg.server_address, "%s", entry);
		}
	}
}

Test(config_servers, each_has_its_own, .timeout = 20)
{
	for (size_t i = 0; i < sizeof(of_server) / sizeof(of_server[0]); i++) {
		static const char *const values[] = {"/x,/y", ",/y", "/x,", " /x , /y ", ","};

		for (size_t k = 0; k < sizeof(values) / sizeof(values[0]); k++) {
			char entry[160];

			(void)snprintf(entry, sizeof(entry), "%s=%s", of_server[i], values[k]);
			cr_expect_eq(PARSE(TWO, entry), 0, "%s: %s", entry, stderr_text);
			cr_expect_eq(cfg.servers, 2, "%s", entry);
		}
	}
	PARSE(TWO, "SPANPROF_AUTH_TOKEN=x,y");
	cr_expect_str_eq(cfg.auth_token, "x,y");
}

Test(config_servers, of_one_server_a_comma_is_part_of_a_credential, .timeout = 20)
{
	cr_expect_eq(PARSE("SPANPROF_AUTH_TOKEN=x,y", "SPANPROF_BASIC_AUTH_PASSWORD=,",
			   "SPANPROF_TENANT_ID=a,b", "SPANPROF_AUTH_TOKEN_FILE=/a,b"),
		     0);
	cr_expect_str_eq(cfg.auth_token, "x,y");
	cr_expect_str_eq(cfg.basic_auth_password, ",");
	cr_expect_str_eq(cfg.tenant_id, "a,b");
	cr_expect_str_eq(cfg.auth_token_file, "/a,b");
	cr_expect_eq(PARSE("SPANPROF_AUTH_TOKEN_FILE=,/b"), 1);
	cr_expect_null(cfg.auth_token_file);
	cr_expect_not_null(cfg.server_address);
}

Test(config_servers, a_bad_element_is_told_by_its_number, .timeout = 20)
{
	cr_expect_eq(PARSE(TWO, "SPANPROF_AUTH_TOKEN_FILE=/a,secret"), 1);
	cr_expect_not_null(strstr(stderr_text, "SPANPROF_AUTH_TOKEN_FILE: element 2 of the list is "
					       "not an absolute path; nothing is pushed"),
			   "%s", stderr_text);
	cr_expect_null(strstr(stderr_text, "secret"), "%s", stderr_text);
	cr_expect_null(cfg.server_address);
	cr_expect_eq(PARSE(TWO, "SPANPROF_AUTH_TOKEN=secret\x01,b"), 1);
	cr_expect_not_null(strstr(stderr_text, "SPANPROF_AUTH_TOKEN: element 1 of the list "
					       "contains a control character"),
			   "%s", stderr_text);
	cr_expect_null(strstr(stderr_text, "secret"), "%s", stderr_text);
	cr_expect_null(cfg.server_address);
}

/* They are JSON, which may hold credentials, and no list. */
Test(config_servers, headers_for_several_are_in_files, .timeout = 20)
{
	cr_expect_eq(PARSE(TWO, "SPANPROF_HTTP_HEADERS={\"Authorization\":\"secret\"}"), 1);
	cr_expect_not_null(strstr(stderr_text, "SPANPROF_HTTP_HEADERS: cannot be for several "
					       "servers: use SPANPROF_HTTP_HEADERS_FILE"),
			   "%s", stderr_text);
	cr_expect_null(strstr(stderr_text, "secret"), "%s", stderr_text);
	cr_expect_null(cfg.server_address);
	cr_expect_eq(PARSE("OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT=http://a,http://b",
			   "OTEL_EXPORTER_OTLP_HEADERS=a=secret"),
		     1);
	cr_expect_not_null(strstr(stderr_text, "OTEL_EXPORTER_OTLP_HEADERS: cannot be for several"),
			   "%s", stderr_text);
	cr_expect_null(cfg.server_address);
}

Test(config_servers, one_server_may_have_several_tenants, .timeout = 20)
{
	cr_expect_eq(
		PARSE("SPANPROF_SERVER_ADDRESS=http://a,http://a", "SPANPROF_TENANT_ID=one,two"),
		0);
	cr_expect_eq(cfg.servers, 2);
	cr_expect_eq(PARSE("SPANPROF_SERVER_ADDRESS=http://a,http://b,http://a",
			   "SPANPROF_TENANT_ID=one,two,one"),
		     1);
	cr_expect_not_null(strstr(stderr_text, "names a server twice"), "%s", stderr_text);
	cr_expect_null(cfg.server_address);
	cr_expect_eq(PARSE("SPANPROF_SERVER_ADDRESS=http://a,http://a",
			   "SPANPROF_TENANT_ID=one,two", "SPANPROF_AUTH_TOKEN=x,x"),
		     0);
}

/* A folder goes on. */
Test(config_servers, refusing_credentials_leaves_the_folder, .timeout = 20)
{
	cr_expect_eq(PARSE(TWO, "SPANPROF_TENANT_ID=one", "SPANPROF_OUTPUT_DIR=/tmp"), 1);
	cr_expect_null(cfg.server_address);
	cr_expect_str_eq(cfg.output_dir, "/tmp");
}

/* The parser does not check a credential if it does not know the server. */
Test(config_servers, refused_credentials_are_not_kept, .timeout = 20)
{
	PARSE("SPANPROF_SERVER_ADDRESS=http://a,", "SPANPROF_AUTH_TOKEN=a\x01",
	      "SPANPROF_TLS_KEY_FILE=no-path", "SPANPROF_HTTP_HEADERS={}");
	cr_expect_null(cfg.auth_token);
	cr_expect_null(cfg.tls_key_file);
	cr_expect_null(cfg.http_headers);
	PARSE(TWO, "SPANPROF_AUTH_TOKEN=a", "SPANPROF_TENANT_ID=x,y");
	cr_expect_null(cfg.auth_token);
	cr_expect_null(cfg.tenant_id);
}
