/* SPDX-License-Identifier: Apache-2.0 */
/* The lines at info and debug of a healthy run, and the advice for an unhealthy one. */
#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>

#include "core_double.h"
#include "export/loop/status.h"
#include "export/push/push.h"
#include "export/push/reply.h"

static char service[] = "shop";
static char folder[] = "/var/tmp/profiles";

static void set_up(void)
{
	core_reset();
	core.config.log_level = SP_LOG_INFO;
	core.config.service_name = service;
	core.config.sample_rate_hz = 100;
	core.ops.pid = 4711;
	core.facts = (struct sp_core_facts){.signal_number = SIGURG};
}

TestSuite(start_line, .init = set_up, .timeout = 10);

static void know_sdk(void)
{
	core.facts.sdks = 1;
	core.facts.sdk[0].name = "opentelemetry-cpp, ABI v1";
	strcpy(core.facts.sdk[0].object, "/srv/libfoo.so");
	strcpy(core.facts.sdk[0].release, "1.28.0");
}

static const char *const server[] = {"http://pyroscope:4040", "https://other"};

Test(start_line, says_what_is_profiled_and_how)
{
	know_sdk();

	cr_expect(sp_start_line_log(&core.ops, server, 1, false));
	cr_expect_str_eq(core.log, "profiling 4711 as shop, 100 Hz, SIGURG, pushing to "
				   "http://pyroscope:4040; SDK opentelemetry-cpp, ABI v1, release "
				   "1.28.0 in /srv/libfoo.so\n");
}

Test(start_line, waits_for_the_sdk_but_not_for_ever)
{
	core.config.output_dir = folder;

	cr_expect_not(sp_start_line_log(&core.ops, NULL, 0, false));
	cr_expect_str_eq(core.log, "");
	cr_expect(sp_start_line_log(&core.ops, NULL, 0, true));
	cr_expect_str_eq(core.log, "profiling 4711 as shop, 100 Hz, SIGURG, writing into "
				   "/var/tmp/profiles; no SDK has recorded a span so far\n");
}

Test(start_line, tells_that_spans_are_those_that_a_library_publishes)
{
	core.facts.thread_context = "read";

	cr_expect(sp_start_line_log(&core.ops, server, 1, true));
	cr_expect_str_eq(core.log, "profiling 4711 as shop, 100 Hz, SIGURG, pushing to "
				   "http://pyroscope:4040; spans come from the program's thread "
				   "context\n");
}

Test(start_line, is_not_told_by_default)
{
	know_sdk();
	core.config.log_level = SP_LOG_WARN;

	cr_expect(sp_start_line_log(&core.ops, NULL, 0, false));
	cr_expect_str_eq(core.log, "");
}

Test(start_line, names_signals_as_the_configuration_does)
{
	char name[SP_SIGNAL_NAME];

	sp_signal_name(SIGPROF, name);
	cr_expect_str_eq(name, "SIGPROF");
	sp_signal_name(SIGRTMIN + 3, name);
	cr_expect_str_eq(name, "RTMIN+3");
	sp_signal_name(0, name);
	cr_expect_str_eq(name, "");
}

static struct sp_reply reply;

static void answer(int status, const char *text)
{
	reply = (struct sp_reply){.kind = status != 0 ? SP_REPLY_STATUS : SP_REPLY_UNREACHABLE,
				  .status = status,
				  .text_len = strlen(text)};
	strcpy(reply.text, text);
}

Test(start_line, failures_come_with_a_remedy)
{
	static const struct {
		int status;
		const char *text;
		const char *said;
	} cases[] = {
		{401, "no org id",
		 "status 401: no org id; check SPANPROF_AUTH_TOKEN, SPANPROF_BASIC_AUTH_USER and "
		 "SPANPROF_TENANT_ID"},
		{404, "",
		 "status 404; check that SPANPROF_SERVER_ADDRESS is that of a Pyroscope server"},
		{400, "bad label", "status 400: bad label"},
		{0, "Could not resolve host: x",
		 "Could not resolve host: x; check the name in SPANPROF_SERVER_ADDRESS"},
		{0, "Failed to connect to x",
		 "Failed to connect to x; check SPANPROF_SERVER_ADDRESS, and that the server "
		 "runs"},
		{0, "SSL certificate problem",
		 "SSL certificate problem; check SPANPROF_TLS_CA_FILE"},
		{0, "the time is over", "the time is over"},
		{0, "error:0A00010B:SSL routines::wrong version number",
		 "error:0A00010B:SSL routines::wrong version number; the server speaks http there, "
		 "not https: check SPANPROF_SERVER_ADDRESS"},
		{0, "OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to x",
		 "OpenSSL SSL_connect: SSL_ERROR_SYSCALL in connection to x; the server may speak "
		 "http there, not https: check SPANPROF_SERVER_ADDRESS"},
		{502,
		 "<html>\r\n<head><Title>502 Bad Gateway</TITLE></head>\r\n<body>\r\n<center>"
		 "<h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx</center>",
		 "status 502: 502 Bad Gateway"},
		{502, "</title> in the wrong order <title>",
		 "status 502: </title> in the wrong order <title>"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char out[SP_PUSH_ERROR];

		answer(cases[i].status, cases[i].text);
		sp_reply_describe(&reply, out, sizeof(out));
		cr_expect_str_eq(out, cases[i].said);
	}
}

Test(start_line, remedies_name_the_variables_that_are_set)
{
	static char address[] = "PYROSCOPE_SERVER_ADDRESS=http://x";
	static char file[] = "SPANPROF_AUTH_TOKEN_FILE=/x", token[] = "PYROSCOPE_AUTH_TOKEN=x";
	static char user[] = "PYROSCOPE_BASIC_AUTH_USER=x", authorities[] = "SSL_CERT_FILE=/x";
	char *environment[] = {address, file, token, user, authorities, NULL};
	static const struct {
		int status;
		const char *text;
		const char *said;
	} cases[] = {
		{401, "",
		 "status 401; check SPANPROF_AUTH_TOKEN_FILE, PYROSCOPE_BASIC_AUTH_USER and "
		 "SPANPROF_TENANT_ID"},
		{404, "",
		 "status 404; check that PYROSCOPE_SERVER_ADDRESS is that of a Pyroscope server"},
		{0, "resolve", "resolve; check the name in PYROSCOPE_SERVER_ADDRESS"},
		{0, "certificate", "certificate; check SSL_CERT_FILE"},
	};

	sp_config_capture(environment);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char out[SP_PUSH_ERROR];

		answer(cases[i].status, cases[i].text);
		sp_reply_describe(&reply, out, sizeof(out));
		cr_expect_str_eq(out, cases[i].said);
	}
}
