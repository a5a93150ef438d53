/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials: where they come from, which servers get them, and that no message shows them. */
#define _GNU_SOURCE
#include "export/push/http.h"
#include "http_unit.h"
#include "test/unit/scratch.h"

static void with_folder(void)
{
	set_up();
	scratch_make();
}

TestSuite(http_secrets, .init = with_folder, .fini = scratch_remove);

static const char *write_secret(const char *name, const char *content)
{
	return scratch_write(name, content, strlen(content));
}

Test(http_secrets, sends_credentials_and_extra_headers, .timeout = 20)
{
	core.config.auth_token = "t0ken";
	core.config.tenant_id = "team-a";
	core.config.http_headers = "{\"X-Extra\": \"yes\", \"bad name\": \"no\"}";
	post(ok, 5000);

	cr_expect_not_null(strstr(request, "\r\nAuthorization: Bearer t0ken\r\n"));
	cr_expect_not_null(strstr(request, "\r\nX-Scope-OrgID: team-a\r\n"));
	cr_expect_not_null(strstr(request, "\r\nX-Extra: yes\r\n"));
	cr_expect_null(strstr(request, "bad name"));
	cr_expect_str_eq(
		warnings,
		"some headers of SPANPROF_HTTP_HEADERS cannot be sent and were left out\n");
}

Test(http_secrets, prefers_basic_over_bearer, .timeout = 20)
{
	core.config.auth_token = "t0ken";
	core.config.basic_auth_user = "user";
	core.config.basic_auth_password = "pass:word";
	post(ok, 5000);

	/* base64 of user:pass:word */
	cr_expect_not_null(strstr(request, "\r\nAuthorization: Basic dXNlcjpwYXNzOndvcmQ=\r\n"));
	cr_expect_null(strstr(request, "t0ken"));
}

Test(http_secrets, the_users_own_header_takes_the_place_of_ours, .timeout = 20)
{
	core.config.auth_token = "t0ken";
	core.config.http_headers = "{\"authorization\": \"Custom x\"}";
	post(ok, 5000);

	cr_expect_not_null(strstr(request, "\r\nauthorization: Custom x\r\n"));
	cr_expect_null(strstr(request, "t0ken"));
}

Test(http_secrets, shows_no_secret_of_a_redirect, .timeout = 20)
{
	post("HTTP/1.1 301 Moved\r\nLocation: https://user:s3cret@example.org/x\r\n"
	     "Content-Length: 0\r\n\r\n",
	     5000);

	cr_expect_not_null(strstr(reply.text, "https://example.org/x"), "%s", reply.text);
	cr_expect_null(strstr(reply.text, "s3cret"));
}

Test(http_secrets, shows_no_query_of_a_redirect, .timeout = 20)
{
	post("HTTP/1.1 301 Moved\r\nLocation: https://example.org/x?token=s3cret#s3cret\r\n"
	     "Content-Length: 0\r\n\r\n",
	     5000);

	cr_expect_not_null(strstr(reply.text, "https://example.org/x"), "%s", reply.text);
	cr_expect_null(strstr(reply.text, "s3cret"), "%s", reply.text);
}

Test(http_secrets, shows_no_secret_that_an_answer_quotes, .timeout = 20)
{
	post("HTTP/1.1 502 Bad\r\nContent-Length: 66\r\n\r\n"
	     "no way to http://user:s3cret@host:4040/push?token=s3cret from here",
	     5000);

	cr_expect_str_eq(reply.text, "no way to http://host:4040/push from here");
	cr_expect_eq(reply.text_len, strlen(reply.text));
}

Test(http_secrets, shows_addresses_without_their_secrets, .timeout = 20)
{
	static const char *const text[] = {"http://user:s3cret@example:1/x",
					   "http://user:1/s3cret@example", "example:1/s3cret@x",
					   "https://s3cret:s3cret@@example"};
	const char *why;
	struct sp_address a;

	for (size_t i = 0; i < sizeof(text) / sizeof(text[0]); i++) {
		cr_assert_eq(sp_address_parse(text[i], &a, &why), 0, "%s", text[i]);
		cr_expect_null(strstr(a.shown, "s3cret"), "%s", a.shown);
		sp_address_fini(&a);
	}
}

Test(http_secrets, warns_of_credentials_in_plain_http_to_another_host, .timeout = 20)
{
	static const struct {
		const char *address, *user, *token, *headers;
		bool warned;
	} setting[] = {
		{"http://pyroscope:4040", "user", NULL, NULL, true},
		{"http://pyroscope:4040", NULL, "token", NULL, true},
		{"http://pyroscope:4040", NULL, NULL, "{\"authorization\": \"x\"}", true},
		{"http://user:password@pyroscope:4040", NULL, NULL, NULL, true},
		{"http://pyroscope:4040", NULL, NULL, "{\"X-Y\": \"x\"}", false},
		{"http://pyroscope:4040", NULL, NULL, NULL, false},
		{"https://pyroscope:4040", "user", "token", NULL, false},
		{"http://localhost:4040", "user", "token", NULL, false},
		{"http://127.0.0.1:4040", "user", "token", NULL, false},
		{"unix:///socket", "user", "token", NULL, false},
	};

	for (size_t i = 0; i < sizeof(setting) / sizeof(setting[0]); i++) {
		warnings[0] = '\0';
		core.config.server_address = setting[i].address;
		core.config.basic_auth_user = setting[i].user;
		core.config.auth_token = setting[i].token;
		core.config.http_headers = setting[i].headers;
		cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
		sp_http_free(http);

		cr_expect_eq(strstr(warnings, "plain http") != NULL, setting[i].warned, "%zu: %s",
			     i, warnings);
	}
}

Test(http_secrets, until_its_file_can_be_read_headers_are_the_variables_in_its_own_form,
     .timeout = 20)
{
	char protocol[] = "SPANPROF_PROTOCOL=otlp";
	char list[] = "OTEL_EXPORTER_OTLP_HEADERS=x-one=of%20the%20list";
	char file[] = "SPANPROF_HTTP_HEADERS_FILE=/which/is/not/there/yet";
	char *const env[] = {protocol, list, file, NULL};
	const char *path = write_secret("headers", "{\"x-one\": \"of the file\"}");

	sp_config_capture(env);
	core.config.http_headers = "x-one=of%20the%20list";
	core.config.http_headers_file = path;
	cr_assert_eq(unlink(path), 0);
	response = ok;
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	post_small();
	cr_expect_not_null(strstr(request, "\r\nx-one:of the list\r\n"), "%s", request);
	cr_expect_str_eq(warnings, "SPANPROF_HTTP_HEADERS_FILE: the file cannot be used: No such "
				   "file or directory; the last value is still sent\n");
	write_secret("headers", "{\"x-one\": \"of the file\"}");
	post_small();
	sp_http_free(http);
	cr_expect_not_null(strstr(request, "\r\nx-one: of the file\r\n"), "%s", request);
}

Test(http_secrets, warns_once_of_credentials_in_a_file_of_headers, .timeout = 20)
{
	const char *plain = "{\"X-Y\": \"x\"}";

	/* No server answers there, and the name is looked up only if it is no address of this machine. */
	core.config.server_address = "http://[::ffff:0.0.0.0]:1";
	core.config.http_headers_file = write_secret("headers", plain);
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	send_small();
	cr_expect_str_eq(warnings, "");
	write_secret("headers", "{\"Authorization\": \"Bearer x\"}");
	send_small();
	send_small();
	sp_http_free(http);

	cr_expect_str_eq(warnings, "credentials go to the server over plain http: anybody in "
				   "between can read them; use https\n");
}

Test(http_secrets, follows_secrets_that_rotate, .timeout = 20)
{
	const char *token = write_secret("token", "first\n");
	const char *headers = write_secret("headers", "{\"X-Key\":\n \"one\"}\n");
	const char *tenant = write_secret("tenant", "team-a\n");

	core.config.auth_token = "of-the-variable";
	core.config.auth_token_file = token;
	core.config.http_headers_file = headers;
	core.config.tenant_id_file = tenant;
	response = ok;
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	post_small();
	cr_expect_not_null(strstr(request, "Authorization: Bearer first\r\n"), "%s", request);
	cr_expect_not_null(strstr(request, "X-Key: one\r\n"));
	cr_expect_not_null(strstr(request, "X-Scope-OrgID: team-a\r\n"));

	write_secret("token", "second");
	write_secret("headers", "{\"X-Key\": \"two\"}");
	write_secret("tenant", "team-b");
	post_small();
	cr_expect_not_null(strstr(request, "X-Scope-OrgID: team-b\r\n"));
	cr_expect_not_null(strstr(request, "Authorization: Bearer second\r\n"), "%s", request);
	cr_expect_not_null(strstr(request, "X-Key: two\r\n"));
	cr_expect_str_eq(warnings, "");

	cr_assert_eq(unlink(token), 0);
	post_small();
	post_small();
	cr_expect_not_null(strstr(request, "Authorization: Bearer second\r\n"), "%s", request);
	cr_expect_str_eq(warnings,
			 "SPANPROF_AUTH_TOKEN_FILE: the file cannot be used: No such file or "
			 "directory; the last value is still sent\n");

	write_secret("token", "third");
	post_small();
	cr_expect_not_null(strstr(request, "Authorization: Bearer third\r\n"));
	cr_assert_eq(unlink(token), 0);
	post_small();
	cr_expect_not_null(strstr(strchr(warnings, '\n'), "SPANPROF_AUTH_TOKEN_FILE"),
			   "the second time it is gone was not told");
	cr_expect_null(strstr(warnings, "third"));
	sp_http_free(http);
}

Test(http_secrets, user_and_password_come_from_files, .timeout = 20)
{
	const char *user = write_secret("user", "Aladdin\n");
	const char *password = write_secret("password", "open sesame\n");

	core.config.basic_auth_user = "of-the-variable";
	core.config.basic_auth_user_file = user;
	core.config.basic_auth_password_file = password;
	response = ok;
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	post_small();

	/* RFC 7617, 2 */
	cr_expect_not_null(strstr(request, "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n"),
			   "%s", request);
	cr_expect_str_eq(warnings, "");
	sp_http_free(http);
}

Test(http_secrets, says_once_what_is_wrong_with_headers_of_a_file, .timeout = 20)
{
	core.config.http_headers_file = write_secret("headers", "s3cret, no JSON");
	response = ok;
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	post_small();
	post_small();

	cr_expect_str_eq(warnings,
			 "SPANPROF_HTTP_HEADERS is not a JSON object of strings: none of the "
			 "headers is sent\n");
	sp_http_free(http);
}
