/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to a server of our own, which answers what the test wants. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "core_double.h"
#include "export/address.h"
#include "export/http.h"
#include "test/unit/descriptors.h"

static char address[160];
static int listener;
static pthread_t thread;
static const char *response; /* NULL = never answer */
static size_t padding;       /* bytes of 'x' sent after it */
static unsigned drip_ms;     /* between two of them */
static unsigned answer_ms;   /* after the request */
static size_t sent;
static char request[65536];
static size_t request_len;

static char query[16];

static struct sp_http *http;
static struct sp_reply reply;
static char warnings[1024];

/* Reads head and body of one request. */
static void read_request(int fd)
{
	const char *length, *end;

	request_len = 0;
	for (;;) {
		ssize_t n = recv(fd, request + request_len, sizeof(request) - 1 - request_len, 0);

		if (n <= 0)
			return;
		request_len += (size_t)n;
		request[request_len] = '\0';
		end = strstr(request, "\r\n\r\n");
		length = strcasestr(request, "Content-Length: ");
		if (end != NULL && strncmp(request, "CONNECT ", 8) == 0)
			return;
		if (end != NULL && length != NULL &&
		    request_len >= (size_t)(end + 4 - request) + strtoul(length + 16, NULL, 10))
			return;
	}
}

static void *serve(void *arg)
{
	static const char x[4096] = {'x'};
	int fd = accept(listener, NULL, NULL);
	char end;

	read_request(fd);
	if (response != NULL) {
		(void)poll(NULL, 0, (int)answer_ms);
		(void)send(fd, response, strlen(response), MSG_NOSIGNAL);
		for (size_t n; sent < padding; sent += n) {
			n = padding - sent < sizeof(x) ? padding - sent : sizeof(x);
			if (drip_ms != 0) {
				/* Until then the client must have hung up. */
				n = 1;
				if (poll(&(struct pollfd){.fd = fd, .events = POLLRDHUP}, 1,
					 (int)drip_ms) != 0)
					break;
			}
			if (send(fd, x, n, MSG_NOSIGNAL) < 0)
				break;
		}
	} else {
		/* Until the client hangs up. */
		(void)recv(fd, &end, 1, 0);
	}
	shutdown(fd, SHUT_WR);
	while (recv(fd, &end, 1, 0) > 0)
		;
	close(fd);
	return arg;
}

static void warn(void *arg, const char *text)
{
	(void)arg;
	strcat(strcat(warnings, text), "\n");
}

static const struct sp_http_hooks hooks = {warn, NULL};

static void set_up(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);

	core_reset();
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)&a, len), 0);
	cr_assert_eq(listen(listener, 4), 0);
	cr_assert_eq(getsockname(listener, (struct sockaddr *)&a, &len), 0);
	(void)snprintf(address, sizeof(address), "http://127.0.0.1:%u", ntohs(a.sin_port));
	core.config.server_address = address;
}

TestSuite(http, .init = set_up);

static void post(const char *answer, uint32_t timeout_ms)
{
	static uint8_t body[] = "the body";
	const struct sp_message m = {.body = {body, 8}, .query = query[0] != '\0' ? query : NULL};

	response = answer;
	cr_assert_eq(sp_http_new(&core.config, "1.2.3", &hooks, &http), 0);
	cr_assert_eq(pthread_create(&thread, NULL, serve, NULL), 0);
	sp_http_post(http, &m, timeout_ms, &reply);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	sp_http_free(http);
}

static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

Test(http, posts_what_the_server_expects, .timeout = 20)
{
	post(ok, 5000);

	cr_expect_eq(reply.kind, SP_REPLY_STATUS);
	cr_expect_eq(reply.status, 200);
	cr_expect_eq(strncmp(request, "POST /push.v1.PusherService/Push HTTP/1.1\r\n", 43), 0, "%s",
		     request);
	cr_expect_not_null(strstr(request, "\r\nContent-Type: application/proto\r\n"));
	cr_expect_not_null(strstr(request, "\r\nContent-Encoding: gzip\r\n"));
	cr_expect_not_null(strstr(request, "\r\nUser-Agent: libspanprof/1.2.3\r\n"));
	cr_expect_not_null(strstr(request, "\r\nContent-Length: 8\r\n"));
	cr_expect_null(strcasestr(request, "\r\nExpect:"));
	cr_expect_null(strcasestr(request, "\r\nAuthorization:"));
	cr_expect_null(strcasestr(request, "\r\nX-Scope-OrgID:"));
	cr_expect_not_null(strstr(request, "\r\n\r\nthe body"));
	cr_expect_str_eq(warnings, "");
}

Test(http, keeps_the_path_of_the_address, .timeout = 20)
{
	strcat(address, "/pre/fix//");
	post(ok, 5000);

	cr_expect_eq(strncmp(request, "POST /pre/fix/push.v1.PusherService/Push ", 41), 0, "%s",
		     request);
}

Test(http, adds_the_scheme, .timeout = 20)
{
	core.config.server_address = address + strlen("http://");
	post(ok, 5000);

	cr_expect_eq(reply.status, 200);
}

Test(http, sends_credentials_and_extra_headers, .timeout = 20)
{
	core.config.auth_token = "t0ken";
	core.config.tenant_id = "team-a";
	core.config.http_headers = "{\"X-Extra\": \"yes\", \"bad name\": \"no\"}";
	post(ok, 5000);

	cr_expect_not_null(strstr(request, "\r\nAuthorization: Bearer t0ken\r\n"));
	cr_expect_not_null(strstr(request, "\r\nX-Scope-OrgID: team-a\r\n"));
	cr_expect_not_null(strstr(request, "\r\nX-Extra: yes\r\n"));
	cr_expect_null(strstr(request, "bad name"));
	cr_expect_str_eq(warnings, "some HTTP headers cannot be sent and were left out\n");
}

Test(http, prefers_basic_over_bearer, .timeout = 20)
{
	core.config.auth_token = "t0ken";
	core.config.basic_auth_user = "user";
	core.config.basic_auth_password = "pass:word";
	post(ok, 5000);

	/* base64 of user:pass:word */
	cr_expect_not_null(strstr(request, "\r\nAuthorization: Basic dXNlcjpwYXNzOndvcmQ=\r\n"));
	cr_expect_null(strstr(request, "t0ken"));
}

Test(http, keeps_the_begin_of_the_answer, .timeout = 20)
{
	padding = 100000;
	post("HTTP/1.1 429 Slow\r\nRetry-After: 17\r\nContent-Length: 100009\r\n\r\n{\"code\":1",
	     5000);

	cr_expect_eq(reply.kind, SP_REPLY_STATUS);
	cr_expect_eq(reply.status, 429);
	cr_expect_eq(reply.retry_after_s, 17);
	cr_expect_eq(reply.text_len, SP_REPLY_BODY);
	cr_expect_eq(strncmp(reply.text, "{\"code\":1", 9), 0);
}

Test(http, takes_the_head_of_an_endless_answer_for_the_answer, .timeout = 20)
{
	padding = (size_t)64 << 20;
	post("HTTP/1.1 200 OK\r\nContent-Length: 4294967296\r\n\r\n", 15000);

	cr_expect_eq(reply.kind, SP_REPLY_STATUS);
	cr_expect_eq(reply.status, 200);
	cr_expect_leq(reply.text_len, SP_REPLY_BODY);
	cr_expect_lt(sent, (size_t)16 << 20, "all of it was read");
}

Test(http, does_not_follow_redirects, .timeout = 20)
{
	char redirect[256];

	(void)snprintf(redirect, sizeof(redirect),
		       "HTTP/1.1 302 Found\r\nLocation: %s/elsewhere\r\nContent-Length: 0\r\n\r\n",
		       address);
	post(redirect, 5000);

	cr_expect_eq(reply.kind, SP_REPLY_STATUS);
	cr_expect_eq(reply.status, 302);
	cr_expect_not_null(strstr(reply.text, "redirects are not followed, this one names http://"),
			   "%s", reply.text);
}

Test(http, shows_no_secret_of_a_redirect, .timeout = 20)
{
	post("HTTP/1.1 301 Moved\r\nLocation: https://user:s3cret@example.org/x\r\n"
	     "Content-Length: 0\r\n\r\n",
	     5000);

	cr_expect_not_null(strstr(reply.text, "https://example.org/x"), "%s", reply.text);
	cr_expect_null(strstr(reply.text, "s3cret"));
}

Test(http, shows_no_query_of_a_redirect, .timeout = 20)
{
	post("HTTP/1.1 301 Moved\r\nLocation: https://example.org/x?token=s3cret#s3cret\r\n"
	     "Content-Length: 0\r\n\r\n",
	     5000);

	cr_expect_not_null(strstr(reply.text, "https://example.org/x"), "%s", reply.text);
	cr_expect_null(strstr(reply.text, "s3cret"), "%s", reply.text);
}

Test(http, shows_no_secret_that_an_answer_quotes, .timeout = 20)
{
	post("HTTP/1.1 502 Bad\r\nContent-Length: 66\r\n\r\n"
	     "no way to http://user:s3cret@host:4040/push?token=s3cret from here",
	     5000);

	cr_expect_str_eq(reply.text, "no way to http://host:4040/push from here");
	cr_expect_eq(reply.text_len, strlen(reply.text));
}

Test(http, shows_no_password_of_a_proxy, .timeout = 60)
{
	static const char *const proxies[] = {
		"http://user:s3cret@127.0.0.1:1",   "user:s3cret@127.0.0.1:1",
		"ftp://user:s3cret@127.0.0.1:1",    "http://user:s3cret@127.0.0.1:port",
		"http://user:s3cret@[::1",          "http://user:s3cret/x@127.0.0.1:1",
		"http://user:s3cret @127.0.0.1:1",  "http://s3cret@@:1",
		"http://user:s3cret@name.invalid",  "http://user:1/s3cret@127.0.0.1:1",
		"socks5h://user:s3cret@127.0.0.1:1"};
	static uint8_t body[] = "x";
	const struct sp_message m = {.body = {body, 1}};

	core.config.server_address = "http://pyroscope.invalid:4040";
	for (size_t i = 0; i < sizeof(proxies) / sizeof(proxies[0]); i++) {
		core.config.all_proxy = proxies[i];
		cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
		sp_http_post(http, &m, 5000, &reply);
		sp_http_free(http);

		cr_expect_eq(reply.kind, SP_REPLY_UNREACHABLE, "%s", proxies[i]);
		cr_expect_null(strstr(reply.text, "s3cret"), "%s: %s", proxies[i], reply.text);
		cr_expect_neq(reply.text_len, 0, "%s", proxies[i]);
	}
}

Test(http, tells_what_a_proxy_with_a_password_answers, .timeout = 20)
{
	static uint8_t body[] = "x";
	const struct sp_message m = {.body = {body, 1}};
	char proxy[256];

	(void)snprintf(proxy, sizeof(proxy), "http://user:s3cret@%s", address + strlen("http://"));
	core.config.server_address = "https://pyroscope.invalid:4040";
	core.config.https_proxy = proxy;
	response = "HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n";
	cr_assert_eq(pthread_create(&thread, NULL, serve, NULL), 0);
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	sp_http_post(http, &m, 5000, &reply);
	sp_http_free(http);
	pthread_join(thread, NULL);

	cr_expect_eq(strncmp(reply.text, "the proxy answered 407: ", 24), 0, "%s", reply.text);
}

Test(http, shows_addresses_without_their_secrets, .timeout = 20)
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

Test(http, warns_of_credentials_in_plain_http_to_another_host, .timeout = 20)
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

Test(http, an_answer_that_drips_is_one_when_its_head_is_there, .timeout = 20)
{
	padding = 100000;
	drip_ms = 50;
	post("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", 500);

	cr_expect_eq(reply.kind, SP_REPLY_STATUS, "it would be sent again: %s", reply.text);
	cr_expect_eq(reply.status, 200);
}

Test(http, half_a_head_is_no_answer, .timeout = 20)
{
	padding = 100000;
	drip_ms = 50;
	post("HTTP/1.1 200 OK\r\nX-Slow: ", 500);

	cr_expect_eq(reply.kind, SP_REPLY_UNREACHABLE);
	cr_expect(reply.sent);
}

Test(http, a_compressed_answer_is_never_unpacked, .timeout = 20)
{
	/* gzip's magic number and nothing that could follow it */
	post("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08x",
	     5000);

	cr_expect_eq(reply.status, 200);
	cr_expect_eq(reply.text_len, 4);
	cr_expect_null(strcasestr(request, "\r\nAccept-Encoding:"));
}

Test(http, learns_how_late_it_is_at_the_server, .timeout = 20)
{
	time_t now = time(NULL) + 7200;
	char answer[128];
	struct tm tm;
	size_t n;

	gmtime_r(&now, &tm);
	n = strftime(answer, sizeof(answer), "HTTP/1.1 200 OK\r\nDate: %a, %d %b %Y %T GMT\r\n",
		     &tm);
	strcpy(answer + n, "Content-Length: 0\r\n\r\n");
	post(answer, 5000);

	cr_expect(reply.has_skew);
	/* A machine that stutters shortens it. */
	cr_expect_gt(reply.skew_ms, 7200000 - 10000);
	cr_expect_leq(reply.skew_ms, 7200000 + 500);
	cr_expect_gt(reply.answered_ms, (now - 7200 - 1) * 1000);
}

Test(http, knows_no_skew_without_a_date, .timeout = 20)
{
	post("HTTP/1.1 200 OK\r\nDate: yesterday\r\nContent-Length: 0\r\n\r\n", 5000);

	cr_expect_not(reply.has_skew);
}

Test(http, the_users_own_header_takes_the_place_of_ours, .timeout = 20)
{
	core.config.auth_token = "t0ken";
	core.config.http_headers = "{\"authorization\": \"Custom x\"}";
	post(ok, 5000);

	cr_expect_not_null(strstr(request, "\r\nauthorization: Custom x\r\n"));
	cr_expect_null(strstr(request, "t0ken"));
}

Test(http, ingest_has_its_own_path_and_headers, .timeout = 20)
{
	core.config.protocol = SP_PROTOCOL_INGEST;
	strcpy(query, "?name=a");
	post(ok, 5000);

	cr_expect_eq(strncmp(request, "POST /ingest?name=a HTTP/1.1\r\n", 30), 0, "%s", request);
	cr_expect_null(strcasestr(request, "\r\nContent-Encoding:"));
	cr_expect_null(strcasestr(request, "application/proto"));
}

static char folder[64];

static void write_secret(const char *name, const char *content, char path[128])
{
	FILE *f;

	if (folder[0] == '\0')
		cr_assert_not_null(mkdtemp(strcpy(folder, "/tmp/spanprof-test-XXXXXX")));
	(void)snprintf(path, 128, "%s/%s", folder, name);
	f = fopen(path, "we");
	cr_assert_not_null(f);
	fputs(content, f);
	fclose(f);
}

static void remove_folder(void)
{
	char command[128];

	(void)snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	cr_assert_eq(system(command), 0);
}

static void post_again(void)
{
	static uint8_t body[] = "x";
	const struct sp_message m = {.body = {body, 1}};

	cr_assert_eq(pthread_create(&thread, NULL, serve, NULL), 0);
	sp_http_post(http, &m, 5000, &reply);
	cr_assert_eq(pthread_join(thread, NULL), 0);
}

Test(http, follows_secrets_that_rotate, .timeout = 20)
{
	char token[128], headers[128], tenant[128];

	write_secret("token", "first\n", token);
	write_secret("headers", "{\"X-Key\":\n \"one\"}\n", headers);
	core.config.auth_token = "of-the-variable";
	core.config.auth_token_file = token;
	core.config.http_headers_file = headers;
	write_secret("tenant", "team-a\n", tenant);
	core.config.tenant_id_file = tenant;
	response = ok;
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	post_again();
	cr_expect_not_null(strstr(request, "Authorization: Bearer first\r\n"), "%s", request);
	cr_expect_not_null(strstr(request, "X-Key: one\r\n"));
	cr_expect_not_null(strstr(request, "X-Scope-OrgID: team-a\r\n"));

	write_secret("token", "second", token);
	write_secret("headers", "{\"X-Key\": \"two\"}", headers);
	write_secret("tenant", "team-b", tenant);
	post_again();
	cr_expect_not_null(strstr(request, "X-Scope-OrgID: team-b\r\n"));
	cr_expect_not_null(strstr(request, "Authorization: Bearer second\r\n"), "%s", request);
	cr_expect_not_null(strstr(request, "X-Key: two\r\n"));
	cr_expect_str_eq(warnings, "");

	cr_assert_eq(unlink(token), 0);
	post_again();
	post_again();
	cr_expect_not_null(strstr(request, "Authorization: Bearer second\r\n"), "%s", request);
	cr_expect_str_eq(warnings,
			 "SPANPROF_AUTH_TOKEN_FILE: the file cannot be used: No such file or "
			 "directory; what was last known goes on to be sent\n");

	write_secret("token", "third", token);
	post_again();
	cr_expect_not_null(strstr(request, "Authorization: Bearer third\r\n"));
	cr_assert_eq(unlink(token), 0);
	post_again();
	cr_expect_not_null(strstr(strchr(warnings, '\n'), "SPANPROF_AUTH_TOKEN_FILE"),
			   "the second time it is gone was not told");
	cr_expect_null(strstr(warnings, "third"));
	sp_http_free(http);
	remove_folder();
}

Test(http, user_and_password_come_from_files, .timeout = 20)
{
	char user[128], password[128];

	write_secret("user", "Aladdin\n", user);
	write_secret("password", "open sesame\n", password);
	core.config.basic_auth_user = "of-the-variable";
	core.config.basic_auth_user_file = user;
	core.config.basic_auth_password_file = password;
	response = ok;
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	post_again();

	/* RFC 7617, 2 */
	cr_expect_not_null(strstr(request, "Authorization: Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n"),
			   "%s", request);
	cr_expect_str_eq(warnings, "");
	sp_http_free(http);
	remove_folder();
}

Test(http, says_once_what_is_wrong_with_headers_of_a_file, .timeout = 20)
{
	char headers[128];

	write_secret("headers", "s3cret, no JSON", headers);
	core.config.http_headers_file = headers;
	response = ok;
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	post_again();
	post_again();

	cr_expect_str_eq(warnings,
			 "the HTTP headers are not a JSON object of strings, none of them is "
			 "sent\n");
	sp_http_free(http);
	remove_folder();
}

Test(http, talks_to_a_unix_socket, .timeout = 20)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	char path[128];

	write_secret("socket", "", path);
	cr_assert_eq(unlink(path), 0);
	strcpy(a.sun_path, path);
	close(listener);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
	cr_assert_eq(listen(listener, 4), 0);
	(void)snprintf(address, sizeof(address), "unix://%s", path);
	core.config.http_proxy = "http://127.0.0.1:1";
	post(ok, 5000);

	cr_expect_eq(reply.status, 200, "%s", reply.text);
	cr_expect_eq(strncmp(request, "POST /push.v1.PusherService/Push ", 33), 0, "%s", request);
	cr_expect_not_null(strstr(request, "\r\nHost: localhost\r\n"));
	remove_folder();
}

Test(http, uses_the_proxy_of_the_configuration_and_no_other, .timeout = 20)
{
	char proxy[64];

	strcpy(proxy, address);
	setenv("http_proxy", "http://127.0.0.1:1", 1);
	core.config.server_address = "http://pyroscope.invalid:4040";
	core.config.http_proxy = proxy;
	post(ok, 5000);

	cr_expect_eq(reply.status, 200, "%s", reply.text);
	cr_expect_eq(strncmp(request, "POST http://pyroscope.invalid:4040/push.v1.", 43), 0, "%s",
		     request);
}

Test(http, asks_no_proxy_for_this_host_and_any_for_names_that_only_look_like_it, .timeout = 20)
{
	static const struct {
		const char *address;
		bool local;
	} pair[] = {
		{"http://localhost", true},
		{"http://LOCALHOST:4040/x", true},
		{"http://u:p@127.0.0.1:1", true},
		{"http://127.9.9.9/x", true},
		{"http://[::1]:4040", true},
		{"http://example@localhost", true},
		{"http://127.1", true},
		{"unix:///x", true},
		{"http://localhost.example", false},
		{"http://127.0.0.1.example", false},
		{"http://localhost@example", false},
		{"http://localhost@@example", false},
		{"http://localhost%2eexample", false},
		{"http://[::1", false},
		{"http://[::2]", false},
		{"http://1270.0.0.1", false},
	};
	const char *why;
	struct sp_address a;

	for (size_t i = 0; i < sizeof(pair) / sizeof(pair[0]); i++) {
		cr_assert_eq(sp_address_parse(pair[i].address, &a, &why), 0, "%s", pair[i].address);
		cr_expect_eq(sp_address_is_local(&a), pair[i].local, "%s", pair[i].address);
		sp_address_fini(&a);
	}
}

Test(http, spares_hosts_of_no_proxy, .timeout = 20)
{
	static uint8_t body[] = "x";
	const struct sp_message m = {.body = {body, 1}};

	core.config.server_address = "http://pyroscope.invalid:4040";
	core.config.all_proxy = address;
	core.config.no_proxy = "other,.invalid";
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	sp_http_post(http, &m, 5000, &reply);

	cr_expect_eq(reply.kind, SP_REPLY_UNREACHABLE);
	cr_expect_not_null(strstr(reply.text, "pyroscope.invalid"), "%s", reply.text);
	sp_http_free(http);
}

Test(http, stops_when_the_time_is_up, .timeout = 20)
{
	post(NULL, 200);

	cr_expect_eq(reply.kind, SP_REPLY_UNREACHABLE);
	cr_expect_not_null(strcasestr(reply.text, "timed out"), "%s", reply.text);
	cr_expect(reply.sent);
}

#define SLOT 3U
static unsigned slot;

/* Begins a transfer and goes on with it until the server has the request, and some more. */
static void start(const char *answer, uint32_t timeout_ms)
{
	static uint8_t body[] = "the body";
	static const struct sp_message m = {.body = {body, 8}};

	response = answer;
	cr_assert_eq(sp_http_new(&core.config, "1.2.3", &hooks, &http), 0);
	cr_assert_eq(pthread_create(&thread, NULL, serve, NULL), 0);
	sp_http_start(http, SLOT, &m, timeout_ms);
}

Test(http, nobody_waits_for_a_transfer, .timeout = 20)
{
	struct timespec from, to;
	unsigned polls = 0;

	start(NULL, 200);
	clock_gettime(CLOCK_MONOTONIC, &from);
	while (!sp_http_poll(http, 0, &slot, &reply))
		polls++;
	clock_gettime(CLOCK_MONOTONIC, &to);
	pthread_join(thread, NULL);

	cr_expect_gt(polls, 100, "a poll slept");
	cr_expect_geq((to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000,
		      199);
	sp_http_free(http);
}

Test(http, stops_at_once_when_asked_to, .timeout = 20)
{
	start(NULL, 60000);
	while (request_len == 0)
		cr_assert_not(sp_http_poll(http, 10, &slot, &reply));
	sp_http_stop(http, SLOT, &reply);
	pthread_join(thread, NULL);

	cr_expect_eq(reply.kind, SP_REPLY_ABORTED);
	cr_expect(reply.sent, "the server has it");
	sp_http_free(http);
}

Test(http, an_answer_that_came_in_time_is_one_however_late_it_is_looked_at, .timeout = 20)
{
	const struct timespec late = {.tv_nsec = 300000000};

	answer_ms = 100;
	start(ok, 250);
	while (request_len == 0)
		cr_assert_not(sp_http_poll(http, 10, &slot, &reply));
	nanosleep(&late, NULL);
	while (!sp_http_poll(http, 0, &slot, &reply))
		;
	pthread_join(thread, NULL);

	cr_expect_eq(reply.kind, SP_REPLY_STATUS, "%s", reply.text);
	sp_http_free(http);
}

/* Nobody accepts the second one: it hangs, and the first one is answered all the same. */
Test(http, transfers_go_side_by_side, .timeout = 20)
{
	static uint8_t body[] = "the other body";
	static const struct sp_message other = {.body = {body, 14}};

	answer_ms = 100;
	start(ok, 5000);
	while (request_len == 0)
		cr_assert_not(sp_http_poll(http, 10, &slot, &reply));
	sp_http_start(http, 0, &other, 300);
	while (!sp_http_poll(http, 10, &slot, &reply))
		;
	cr_expect_eq(slot, SLOT);
	cr_expect_eq(reply.status, 200);
	pthread_join(thread, NULL);
	while (!sp_http_poll(http, 10, &slot, &reply))
		;
	cr_expect_eq(slot, 0);
	cr_expect_eq(reply.kind, SP_REPLY_UNREACHABLE);
	cr_expect(reply.sent);
	sp_http_free(http);
}

/* What the kernel takes off our hands without a reader is far less. */
Test(http, knows_that_a_request_was_not_sent_whole, .timeout = 20)
{
	static uint8_t body[16 << 20];
	const struct sp_message m = {.body = {body, sizeof(body)}};

	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	sp_http_post(http, &m, 300, &reply);

	cr_expect_eq(reply.kind, SP_REPLY_UNREACHABLE);
	cr_expect_not(reply.sent);
	sp_http_free(http);
}

Test(http, knows_that_a_request_was_sent_and_not_answered, .timeout = 20)
{
	post("", 5000);
	cr_expect_eq(reply.kind, SP_REPLY_UNREACHABLE);
	cr_expect(reply.sent, "the connection ended after the request: %s", reply.text);
}

Test(http, an_answer_that_breaks_off_is_one_when_its_head_is_there, .timeout = 20)
{
	post("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", 5000);

	cr_expect_eq(reply.kind, SP_REPLY_STATUS, "it would be lost: %s", reply.text);
	cr_expect_eq(reply.status, 200);
}

Test(http, says_why_nobody_answers, .timeout = 20)
{
	static uint8_t body[] = "x";
	const struct sp_message m = {.body = {body, 1}};

	close(listener);
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	sp_http_post(http, &m, 5000, &reply);

	cr_expect_eq(reply.kind, SP_REPLY_UNREACHABLE);
	cr_expect_gt(reply.text_len, 0);
	cr_expect_not_null(strstr(reply.text, "127.0.0.1"), "%s", reply.text);
	cr_expect_not(reply.sent);
	sp_http_free(http);
}

Test(http, survives_an_answer_that_is_no_http, .timeout = 20)
{
	post("SSH-2.0-OpenSSH\r\n", 5000);

	cr_expect_eq(reply.kind, SP_REPLY_UNREACHABLE);
	cr_expect_not(reply.sent, "who speaks another protocol has taken no profile");
}

Test(http, a_status_that_http_does_not_know_is_no_answer, .timeout = 20)
{
	/* RFC 9110, 15: as if it were one of 5xx, so the profile is not lost. */
	static const char *const head[] = {
		"HTTP/2 4991111111111111111111 x\r\n\r\n",
		"HTTP/2 4294967195 x\r\n\r\n",
		"HTTP/2 4000 x\r\n\r\n",
		"HTTP/1.1 600 x\r\nContent-Length: 0\r\n\r\n",
	};

	for (size_t i = 0; i < sizeof(head) / sizeof(head[0]); i++) {
		post(head[i], 5000);
		cr_expect_eq(reply.kind, SP_REPLY_UNREACHABLE, "%s %d", head[i], reply.status);
		cr_expect_str_eq(reply.text, "the answer has no status that HTTP knows", "%s",
				 head[i]);
	}
}

Test(http, holds_no_descriptor_between_requests, .timeout = 20)
{
	unsigned before = open_descriptors();
	static uint8_t body[] = "x";
	const struct sp_message m = {.body = {body, 1}};

	response = ok;
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	for (unsigned i = 0; i < 3; i++) {
		cr_assert_eq(pthread_create(&thread, NULL, serve, NULL), 0);
		sp_http_post(http, &m, 5000, &reply);
		cr_assert_eq(pthread_join(thread, NULL), 0);
		cr_expect_eq(reply.status, 200);
		cr_expect_eq(open_descriptors(), before);
	}
	sp_http_free(http);
}

Test(http, refuses_addresses_it_cannot_use, .timeout = 20)
{
	static const char long_socket[] =
		"unix:///123456789012345678901234567890123456789012345678901234567890"
		"123456789012345678901234567890123456789012345678901234567890.sock";
	static const char *const bad[] = {"ftp://x",
					  "file:///etc/passwd",
					  "http://x/?a=b",
					  "http://x y",
					  "http://x#f",
					  "http://x\r\nEvil: 1",
					  "unix://x",
					  "http://",
					  "https:////",
					  "/",
					  "",
					  long_socket};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		warnings[0] = '\0';
		core.config.server_address = bad[i];
		cr_expect_eq(sp_http_new(&core.config, "1", &hooks, &http), -EINVAL, "%s", bad[i]);
		cr_expect_not_null(strstr(warnings, "the server address cannot be used"));
	}
}

Test(http, sends_no_header_with_a_line_break, .timeout = 20)
{
	core.config.tenant_id = "a\r\nEvil: 1";
	core.config.http_headers = "not json";
	post(ok, 5000);

	cr_expect_null(strstr(request, "Evil"));
	cr_expect_not_null(strstr(warnings, "line break"));
	cr_expect_not_null(strstr(warnings, "not a JSON object"));
}
