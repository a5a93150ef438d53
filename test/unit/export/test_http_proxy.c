/* SPDX-License-Identifier: Apache-2.0 */
/* Which proxy is used for which host, and the messages about it. */
#define _GNU_SOURCE
#include "export/push/http.h"
#include "http_unit.h"

TestSuite(http_proxy, .init = set_up);

Test(http_proxy, has_a_password_that_is_never_shown, .timeout = 60)
{
	static const char *const proxies[] = {
		"http://user:s3cret@127.0.0.1:1",   "user:s3cret@127.0.0.1:1",
		"ftp://user:s3cret@127.0.0.1:1",    "http://user:s3cret@127.0.0.1:port",
		"http://user:s3cret@[::1",          "http://user:s3cret/x@127.0.0.1:1",
		"http://user:s3cret @127.0.0.1:1",  "http://s3cret@@:1",
		"http://user:s3cret@name.invalid",  "http://user:1/s3cret@127.0.0.1:1",
		"socks5h://user:s3cret@127.0.0.1:1"};

	core.config.server_address = "http://pyroscope.invalid:4040";
	for (size_t i = 0; i < sizeof(proxies) / sizeof(proxies[0]); i++) {
		core.config.all_proxy = proxies[i];
		cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
		send_small();
		sp_http_free(http);

		cr_expect_eq(reply.kind, SP_REPLY_UNREACHABLE, "%s", proxies[i]);
		cr_expect_null(strstr(reply.text, "s3cret"), "%s: %s", proxies[i], reply.text);
		cr_expect_neq(reply.text_len, 0, "%s", proxies[i]);
	}
}

Test(http_proxy, is_told_of_by_its_answer, .timeout = 20)
{
	char proxy[256];

	(void)snprintf(proxy, sizeof(proxy), "http://user:s3cret@%s", address + strlen("http://"));
	core.config.server_address = "https://pyroscope.invalid:4040";
	core.config.https_proxy = proxy;
	response = "HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n";
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	post_small();
	sp_http_free(http);

	cr_expect_eq(strncmp(reply.text, "the proxy answered 407: ", 24), 0, "%s", reply.text);
}

Test(http_proxy, is_that_of_the_configuration_and_no_other, .timeout = 20)
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

Test(http_proxy, is_not_asked_for_this_host_and_is_for_names_that_only_look_like_it, .timeout = 20)
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

Test(http_proxy, is_not_asked_for_hosts_of_no_proxy, .timeout = 20)
{
	core.config.server_address = "http://pyroscope.invalid:4040";
	core.config.all_proxy = address;
	core.config.no_proxy = "other,.invalid";
	cr_assert_eq(sp_http_new(&core.config, "1", &hooks, &http), 0);
	send_small();

	cr_expect_eq(reply.kind, SP_REPLY_UNREACHABLE);
	cr_expect_not_null(strstr(reply.text, "pyroscope.invalid"), "%s", reply.text);
	sp_http_free(http);
}
