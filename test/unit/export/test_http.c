/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and the results of their answers. */
#define _GNU_SOURCE
#include "export/push/http.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <errno.h>
#include <sys/un.h>
#include <time.h>

#include "http_unit.h"
#include "sampler/base/compiler.h"
#include "test/unit/scratch.h"

TestSuite(http, .init = set_up);

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

static int allocations_left; /* allocations until one fails */

static void *curl_malloc(size_t size)
{
	return --allocations_left != 0 ? malloc(size) : NULL;
}

static void *curl_calloc(size_t n, size_t size)
{
	return --allocations_left != 0 ? calloc(n, size) : NULL;
}

static void *curl_realloc(void *old, size_t size)
{
	return --allocations_left != 0 ? realloc(old, size) : NULL;
}

static char *curl_strdup(const char *text)
{
	return --allocations_left != 0 ? strdup(text) : NULL;
}

static void *serve_all(void *arg)
{
	while (request_len == 0)
		(void)serve(arg);
	return arg;
}

/* A header that names the profile's owner or the format of its bytes must not be missing from a request. */
Test(http, without_memory_of_libcurl_sends_no_request_that_lacks_a_header, .timeout = 60)
{
	static uint8_t body[] = "the body";
	const struct sp_message m = {.body = {body, 8}};
	CURLcode (*init)(long, curl_malloc_callback, curl_free_callback, curl_realloc_callback,
			 curl_strdup_callback, curl_calloc_callback);
	unsigned slot;

	*(void **)&init = dlsym(dlopen("libcurl.so.4", RTLD_NOW), "curl_global_init_mem");
	cr_assert_eq(
		init(CURL_GLOBAL_ALL, curl_malloc, free, curl_realloc, curl_strdup, curl_calloc),
		CURLE_OK);
	cr_assert_eq(sp_http_new(&core.config, "1.2.3", &hooks, &http), 0);
	response = ok;
	cr_assert_eq(pthread_create(&thread, NULL, serve_all, NULL), 0);
	reply.kind = SP_REPLY_UNREACHABLE;
	for (int n = 1; reply.kind != SP_REPLY_STATUS && n < 1000; n++) {
		allocations_left = n;
		sp_http_start(http, 0, &m, 5000);
		allocations_left = 0;
		while (!go_on(&slot))
			;
	}
	sp_http_free(http);
	cr_assert_eq(pthread_join(thread, NULL), 0);

	cr_expect_not_null(strstr(request, "\r\nContent-Type: application/proto\r\n"), "%s",
			   request);
	cr_expect_not_null(strstr(request, "\r\nContent-Encoding: gzip\r\n"), "%s", request);
	cr_expect_not_null(strstr(request, "\r\nConnect-Protocol-Version: 1\r\n"), "%s", request);
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

Test(http, an_answer_that_drips_is_one_when_its_head_is_there, .timeout = 20)
{
	padding = 100000;
	drip_ms = 50;
	post("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", 500);

	cr_expect_eq(reply.kind, SP_REPLY_STATUS, "it would be sent again: %s", reply.text);
	cr_expect_eq(reply.status, 200);
}

Test(http, a_head_with_line_feeds_alone_is_one, .timeout = 20)
{
	padding = 100000;
	drip_ms = 50;
	post("HTTP/1.1 200 OK\nContent-Length: 100000\n\n", 500);

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
	/* gzip's magic number and an invalid continuation */
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
	/* A machine that stutters makes it smaller. */
	cr_expect_gt(reply.skew_ms, 7200000 - 10000);
	cr_expect_leq(reply.skew_ms, 7200000 + 500);
	cr_expect_gt(reply.answered_ms, (now - 7200 - 1) * 1000);
}

Test(http, knows_no_skew_without_a_date, .timeout = 20)
{
	post("HTTP/1.1 200 OK\r\nDate: yesterday\r\nContent-Length: 0\r\n\r\n", 5000);

	cr_expect_not(reply.has_skew);
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

Test(http, an_answer_that_breaks_off_is_one_when_its_head_is_there, .timeout = 20)
{
	post("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", 5000);

	cr_expect_eq(reply.kind, SP_REPLY_STATUS, "it would be lost: %s", reply.text);
	cr_expect_eq(reply.status, 200);
}

/* Fields behind the body (a trailer) are no new head. */
Test(http, an_answer_that_breaks_off_in_its_trailer_is_one, .timeout = 20)
{
	post("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"
	     "Server-Timing: db\r\n",
	     5000);

	cr_expect_eq(reply.kind, SP_REPLY_STATUS);
	cr_expect_eq(reply.status, 200);
}

/* Success answers of a Pyroscope, of an OTLP receiver and of servers of another kind. */
Test(http, knows_an_answer_of_another_kind_by_its_type_and_body, .timeout = 60)
{
	enum { PUSH = 1, OTLP = 2, INGEST = 4, ALL = 7 };
	static const struct {
		const char *type; /* NULL = no type */
		const char *body;
		unsigned foreign; /* bits of the protocols whose servers do not answer like this */
	} answer[] = {
		{NULL, "", 0},
		{"application/proto", "", 0},
		{"application/proto", "<", 0},
		{"application/protobuf; x=y", "x", 0},
		{"application/json", "{}", 0},
		{"application/json", " {}", 0},
		{"application/json", "{\"status\":\"ok\"}", PUSH},
		{"text/plain", "", 0},
		{"text/plain", "it works", PUSH},
		{"text/html", "", ALL},
		{"Text/HTML; charset=utf-8", "Sign in", ALL},
		{"application/xhtml+xml", "x", ALL},
		{NULL, "<!doctype html>", ALL},
		{NULL, "\xef\xbb\xbf\r\n\t <html>", ALL},
		{"text/plain", "<html>", ALL},
		{NULL, "it works", 0},
	};
	static const enum sp_protocol protocol[] = {SP_PROTOCOL_PUSH, SP_PROTOCOL_OTLP,
						    SP_PROTOCOL_INGEST};

	for (size_t i = 0; i < SP_ARRAY_LEN(answer); i++)
		for (unsigned k = 0; k < SP_ARRAY_LEN(protocol); k++) {
			bool foreign = (answer[i].foreign >> k & 1) != 0;
			char text[512];

			(void)snprintf(text, sizeof(text),
				       "HTTP/1.1 200 OK\r\n%s%s%sContent-Length: %zu\r\n\r\n%s",
				       answer[i].type != NULL ? "Content-Type: " : "",
				       answer[i].type != NULL ? answer[i].type : "",
				       answer[i].type != NULL ? "\r\n" : "", strlen(answer[i].body),
				       answer[i].body);
			core.config.protocol = protocol[k];
			post(text, 5000);
			cr_expect_eq(reply.is_foreign, foreign, "%zu %u", i, k);
			cr_expect_eq(sp_reply_good(&reply), !foreign, "%zu %u", i, k);
			cr_expect(!foreign || sp_reply_again(&reply));
		}
}

/* An empty push is a gzip file of nothing if the head says that the body is packed. */
Test(http, an_empty_push_has_no_profile, .timeout = 20)
{
	unsigned slot;

	response = ok;
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	cr_assert_eq(pthread_create(&thread, NULL, serve, NULL), 0);
	sp_http_start(http, 0, NULL, 5000);
	while (!go_on(&slot))
		;
	sp_http_free(http);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	cr_expect_eq(reply.status, 200);
	cr_expect_not_null(strstr(request, "\r\nContent-Encoding: gzip\r\n"), "%s", request);
	cr_expect_not_null(strstr(request, "\r\nContent-Length: 20\r\n"), "%s", request);
	cr_expect_eq(memcmp(strstr(request, "\r\n\r\n") + 4, "\x1f\x8b\x08", 3), 0);
}

Test(http, talks_to_a_unix_socket, .timeout = 20)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	const char *path;

	scratch_make();
	path = in_scratch("socket");
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
	scratch_remove();
}

Test(http, says_why_nobody_answers, .timeout = 20)
{
	close(listener);
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	send_small();

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
	/* RFC 9110, 15: an unknown status counts as 5xx, so the profile is not lost. */
	static const char *const head[] = {
		"HTTP/2 4991111111111111111111 x\r\n\r\n",
		"HTTP/2 4294967195 x\r\n\r\n",
		"HTTP/2 4000 x\r\n\r\n",
		"HTTP/1.1 600 x\r\nContent-Length: 0\r\n\r\n",
	};

	for (size_t i = 0; i < sizeof(head) / sizeof(head[0]); i++) {
		post(head[i], 5000);
		cr_expect_eq(reply.kind, SP_REPLY_UNREACHABLE, "%s %d", head[i], reply.status);
		cr_expect_str_eq(reply.text, "the answer has no valid HTTP status", "%s", head[i]);
	}
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
		cr_expect_not_null(strstr(
			warnings, "the server address in SPANPROF_SERVER_ADDRESS cannot be used"));
	}
}

/* Servers accept a single line feed as a line break, and some a carriage return. */
Test(http, sends_no_header_with_a_line_break, .timeout = 20)
{
	static const char *const breaks[] = {"a\r\nEvil: 1", "a\nEvil: 1", "a\rEvil: 1", "a\n"};

	core.config.http_headers = "not json";
	for (size_t i = 0; i < sizeof(breaks) / sizeof(breaks[0]); i++) {
		warnings[0] = '\0';
		core.config.tenant_id = breaks[i];
		core.config.auth_token = i % 2 == 0 ? breaks[i] : NULL;
		post(ok, 5000);

		cr_expect_null(strstr(request, "Evil"), "%zu", i);
		cr_expect_null(strcasestr(request, "X-Scope-OrgID"), "%zu", i);
		cr_expect_null(strcasestr(request, "Authorization"), "%zu", i);
		cr_expect_not_null(strstr(warnings, "line break"), "%zu", i);
		cr_expect_not_null(strstr(warnings, "not a JSON object"), "%zu", i);
	}
}

Test(http, sends_no_header_of_the_users_with_a_control_character, .timeout = 20)
{
	core.config.http_headers =
		"{\"A\": \"1\\nEvil: 1\", \"B\": \"1\\rEvil: 1\", \"C\": \"Evil\\u007f\", "
		"\"D\": \"Evil\\u0001\", \"E\\nEvil\": \"1\", \"F\": \"x\\ty\"}";
	post(ok, 5000);

	cr_expect_null(strstr(request, "Evil"));
	cr_expect_not_null(strstr(request, "\r\nF: x\ty\r\n"));
	cr_expect_not_null(
		strstr(warnings, "some headers of SPANPROF_HTTP_HEADERS cannot be sent"));
}
