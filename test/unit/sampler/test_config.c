/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of sampler/config/config_read.c: capture, ranks of names, defaults, kill switches. */
#include "sampler/config/config.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "config_env.h"
#include "sampler/config/config_table.h"

static bool disabled_by(const char *entry)
{
	char *envp[] = {strdup(entry), NULL};
	bool disabled;

	sp_config_capture(envp);
	disabled = sp_config_disabled();
	free(envp[0]);
	return disabled;
}

Test(config, has_the_documented_defaults, .timeout = 20)
{
	cr_assert_eq(PARSE("HOME=/root"), 0);

	cr_expect_eq(cfg.disabled, false);
	cr_expect_eq(cfg.profile, SP_PROFILE_ON_SPAN);
	cr_expect_eq(cfg.sample_rate_hz, 100);
	cr_expect_eq(cfg.upload_interval_ms, 15000);
	cr_expect_eq(cfg.flush_timeout_ms, 2000);
	cr_expect_eq(cfg.push_timeout_ms, 10000);
	cr_expect_eq(cfg.push_queue_capacity, 8);
	cr_expect_eq(cfg.push_max_tries, 0);
	cr_expect_eq(cfg.protocol, SP_PROTOCOL_PUSH);
	cr_expect_eq(cfg.tls_insecure, false);
	cr_expect_null(cfg.status_file);
	cr_expect_eq(cfg.max_span_names, 1000);
	cr_expect_eq(cfg.max_series, 2000);
	cr_expect_eq(cfg.max_span_age_ms, 3600000);
	cr_expect_eq(cfg.stack_depth, 128);
	cr_expect_eq(cfg.signal_number, 0);
	cr_expect_eq(cfg.span_id_scope, SP_SCOPE_ROOT);
	cr_expect_eq(cfg.span_name_scope, SP_SCOPE_ROOT);
	cr_expect_eq(cfg.trace_id, true);
	cr_expect_eq(cfg.attributes, SP_ATTRIBUTES_WITH_SAMPLES);
	cr_expect_eq(cfg.active_span, SP_ACTIVE_AUTO);
	cr_expect_eq(cfg.log_level, SP_LOG_WARN);
	cr_expect_eq(cfg.add_profile_url, true);
	cr_expect_str_eq(cfg.server_address, "http://localhost:4040");
	cr_expect_null(cfg.output_dir);
	cr_expect_null(cfg.profile_url);
	cr_expect_null(cfg.baseline_url);
	cr_expect_null(cfg.auth_token);
	cr_expect_null(cfg.http_headers_file);
	cr_expect_null(cfg.service_namespace);
}

Test(config, names_a_nameless_service_by_its_program, .timeout = 20)
{
	char path[512];
	char want[600];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	cr_assert_gt(n, 0);
	path[n] = '\0';
	(void)snprintf(want, sizeof(want), "unknown_service:%s", strrchr(path, '/') + 1);
	PARSE("HOME=/root");

	cr_assert_str_eq(cfg.service_name, want);
}

Test(config, reads_every_default_of_the_table, .timeout = 20)
{
	for (unsigned id = 0; id < SP_VAR_N; id++) {
		const struct sp_config_var *var = &sp_config_vars[id];
		struct sp_config_value v = {.text = NULL};

		cr_expect_not_null(var->source[0].name);
		cr_expect_not_null(var->help);
		cr_expect(var->fallback == NULL ||
				  sp_config_parse_value(var, SP_FORM_OWN, var->fallback, &v) == 0,
			  "%s: %s", var->source[0].name, v.why);
	}
}

Test(config, asks_names_in_the_order_of_their_rank, .timeout = 20)
{
	for (unsigned id = 0; id < SP_VAR_N; id++) {
		for (unsigned i = 1; i < SP_CONFIG_SOURCES; i++) {
			const char *name = sp_config_vars[id].source[i].name;
			const char *before = sp_config_vars[id].source[i - 1].name;

			if (name == NULL)
				continue;
			cr_expect_neq(strncmp(name, "SPANPROF_", 9), 0, "%s", name);
			cr_expect(strncmp(before, "OTEL_", 5) != 0 ||
					  strncmp(name, "OTEL_", 5) == 0 || id == SP_VAR_DISABLED ||
					  strcmp(name, "SSL_CERT_FILE") == 0,
				  "%s after %s", name, before);
		}
	}
	PARSE("OTEL_SERVICE_NAME=d", "PYROSCOPE_APPLICATION_NAME=b", "OTEL_PYROSCOPE_APP_NAME=c",
	      "OTEL_RESOURCE_ATTRIBUTES=service.name=e", "SPANPROF_APPLICATION_NAME=a");
	cr_expect_str_eq(cfg.service_name, "a");
	PARSE("OTEL_SERVICE_NAME=d", "PYROSCOPE_APPLICATION_NAME=b", "OTEL_PYROSCOPE_APP_NAME=c");
	cr_expect_str_eq(cfg.service_name, "b");
	PARSE("OTEL_SERVICE_NAME=d", "OTEL_PYROSCOPE_APP_NAME=c");
	cr_expect_str_eq(cfg.service_name, "c");
	PARSE("OTEL_RESOURCE_ATTRIBUTES=service.name=e", "OTEL_SERVICE_NAME=d");
	cr_expect_str_eq(cfg.service_name, "d");
	PARSE("OTEL_RESOURCE_ATTRIBUTES=service.name=e", "OTEL_SERVICE_NAME=");
	cr_expect_str_eq(cfg.service_name, "e");
	PARSE("PYROSCOPE_SERVER_ADDRESS=http://p:1", "PYROSCOPE_ADHOC_SERVER_ADDRESS=http://a:2");
	cr_expect_str_eq(cfg.server_address, "http://a:2");
	PARSE("OTEL_LOG_LEVEL=debug", "PYROSCOPE_LOG_LEVEL=error");
	cr_expect_eq(cfg.log_level, SP_LOG_ERROR);
}

Test(config, falls_to_the_default_and_not_to_the_next_name, .timeout = 20)
{
	cr_expect_eq(PARSE("SPANPROF_UPLOAD_INTERVAL=soon", "PYROSCOPE_UPLOAD_INTERVAL=30s"), 1);
	cr_expect_eq(cfg.upload_interval_ms, 15000);
	cr_expect_eq(PARSE("SPANPROF_UPLOAD_INTERVAL=20s", "PYROSCOPE_UPLOAD_INTERVAL=soon"), 0,
		     "a value that is not asked for is not complained about");
	cr_expect_eq(cfg.upload_interval_ms, 20000);
}

Test(config, takes_the_first_of_two_entries_as_getenv_does, .timeout = 20)
{
	PARSE("SPANPROF_TENANT_ID=first", "SPANPROF_TENANT_ID=second");
	cr_expect_str_eq(cfg.tenant_id, "first");
	PARSE("SPANPROF_TENANT_ID=", "SPANPROF_TENANT_ID=second");
	cr_expect_null(cfg.tenant_id);
}

/* A Secret of Kubernetes that was made with echo ends with a newline. */
Test(config, cuts_newlines_at_the_end_of_a_value, .timeout = 20)
{
	cr_expect_eq(PARSE("SPANPROF_SERVER_ADDRESS=http://pyroscope:4040\n",
			   "SPANPROF_BASIC_AUTH_USER=1234\r\n",
			   "SPANPROF_BASIC_AUTH_PASSWORD=secret\n\n",
			   "SPANPROF_APPLICATION_NAME=checkout\n", "SPANPROF_SAMPLE_RATE=250\n",
			   "SPANPROF_OUTPUT_DIR=\n"),
		     0);
	cr_expect_str_eq(cfg.server_address, "http://pyroscope:4040");
	cr_expect_str_eq(cfg.basic_auth_user, "1234");
	cr_expect_str_eq(cfg.basic_auth_password, "secret");
	cr_expect_str_eq(cfg.service_name, "checkout");
	cr_expect_eq(cfg.sample_rate_hz, 250);
	cr_expect_null(cfg.output_dir, "nothing but a newline is not set");
	cr_expect(disabled_by("SPANPROF_DISABLED=true\n"));
}

Test(config, ignores_what_is_not_a_variable_of_ours, .timeout = 20)
{
	cr_expect_eq(PARSE("", "=", "=x", "SPANPROF_SAMPLE_RATE", "PATH=/bin", "OTEL_UNHEARD_OF=1",
			   "PYROSCOPE_FORMAT=jfr", "XSPANPROF_SAMPLE_RATE=3", "spanprof_signal=9"),
		     0);
	cr_expect_eq(cfg.sample_rate_hz, 100);
	sp_config_capture(NULL);
	cr_expect_eq(sp_config_disabled(), false);
	cr_expect_eq(sp_config_says(SP_VAR_PROFILE, "always"), false);
}

Test(config, turns_off_by_any_kill_switch, .timeout = 20)
{
	cr_expect(disabled_by("SPANPROF_DISABLED=true"));
	cr_expect(disabled_by("SPANPROF_DISABLED=TRUE"));
	cr_expect(disabled_by("SPANPROF_DISABLED=1"), "off is the safe side");
	cr_expect(disabled_by("SPANPROF_DISABLED=yes"));
	cr_expect(disabled_by("SPANPROF_DISABLED=treu"));
	cr_expect(disabled_by("OTEL_SDK_DISABLED=true"));
	cr_expect(disabled_by("PYROSCOPE_AGENT_ENABLED=false"));
	cr_expect(disabled_by("PYROSCOPE_AGENT_ENABLED=0"));
	cr_expect(disabled_by("OTEL_PYROSCOPE_START_PROFILING=False"));

	cr_expect(!disabled_by("SPANPROF_DISABLED=false"));
	cr_expect(!disabled_by("SPANPROF_DISABLED=0"));
	cr_expect(!disabled_by("SPANPROF_DISABLED="));
	cr_expect(!disabled_by("OTEL_SDK_DISABLED=1"), "OTel: nothing but true means true");
	cr_expect(!disabled_by("PYROSCOPE_AGENT_ENABLED=true"));
	cr_expect(!disabled_by("PYROSCOPE_AGENT_ENABLED="));
	cr_expect(!disabled_by("HOME=/"));
	PARSE("SPANPROF_DISABLED=false", "OTEL_SDK_DISABLED=true");
	cr_expect(cfg.disabled, "each switch suffices");
}

Test(config, warns_of_a_kill_switch_that_is_no_bool, .timeout = 20)
{
	cr_expect_eq(PARSE("SPANPROF_DISABLED=0", "PYROSCOPE_AGENT_ENABLED=maybe"), 2);
	cr_expect(
		stderr_has("SPANPROF_DISABLED: \"0\" is neither true nor false; it does not turn"));
	cr_expect(stderr_has("PYROSCOPE_AGENT_ENABLED: \"maybe\" is neither true nor false"));
	cr_expect_eq(PARSE("SPANPROF_DISABLED=1"), 1);
	cr_expect(stderr_has("profiling is off"));
}

/* Asked before anything is parsed: every name of the address counts, and so does the folder. */
Test(config, knows_whether_a_place_for_profiles_is_named, .timeout = 20)
{
	PARSE("SPANPROF_SERVICE_NAME=shop");
	cr_expect_not(sp_config_names_sink());
	PARSE("SPANPROF_SERVER_ADDRESS=http://a:1");
	cr_expect(sp_config_names_sink());
	PARSE("PYROSCOPE_SERVER_ADDRESS=http://a:1");
	cr_expect(sp_config_names_sink());
	PARSE("SPANPROF_OUTPUT_DIR=/var/tmp/p");
	cr_expect(sp_config_names_sink());
	PARSE("SPANPROF_OUTPUT_DIR=");
	cr_expect_not(sp_config_names_sink());
}

Test(config, links_spans_once_a_base_address_is_known, .timeout = 20)
{
	PARSE("SPANPROF_PROFILE_BASE_URL=https://grafana.example/g");
	cr_expect_str_eq(cfg.profile_url, SP_PROFILE_URL_DEFAULT);
	PARSE("SPANPROF_PROFILE_URL=Grafana-Explore");
	cr_expect_str_eq(cfg.profile_url, "grafana-explore",
			 "in the spelling profile_url.c compares");
	cr_expect_str_eq(cfg.baseline_url, "grafana-explore", "a preset has both links");
	PARSE("SPANPROF_PROFILE_URL=https://x.example/?id={span_id}&n={span_name}");
	cr_expect_null(cfg.baseline_url, "a template stands for one");
	cr_expect_str_eq(cfg.profile_url, "https://x.example/?id={span_id}&n={span_name}");
	PARSE("SPANPROF_PROFILE_URL=grafana-explore", "OTEL_PYROSCOPE_ADD_PROFILE_URL=false");
	cr_expect_null(cfg.profile_url);
	cr_expect_str_eq(cfg.baseline_url, "grafana-explore");
	PARSE("SPANPROF_PROFILE_URL=grafana-explore",
	      "OTEL_PYROSCOPE_ADD_PROFILE_BASELINE_URL=false");
	cr_expect_str_eq(cfg.profile_url, "grafana-explore");
	cr_expect_null(cfg.baseline_url);
	PARSE("SPANPROF_PROFILE_URL=grafana-explore", "SPANPROF_BASELINE_URL=http://x/{from_ms}",
	      "OTEL_PYROSCOPE_BASELINE_LABELS=region=eu");
	cr_expect_str_eq(cfg.baseline_url, "http://x/{from_ms}");
	cr_expect_str_eq(cfg.baseline_labels, "region=eu");
}

Test(config, says_so_when_a_value_or_the_copy_is_too_long, .timeout = 20)
{
	static char big[SP_CONFIG_VALUE_MAX + 64];
	static char four[5][SP_CONFIG_VALUE_MAX + 64];
	size_t name = (size_t)snprintf(big, sizeof(big), "SPANPROF_TENANT_ID=");

	memset(big + name, 't', SP_CONFIG_VALUE_MAX);
	cr_expect_eq(PARSE(big), 0, "got: %s", stderr_text);
	cr_expect_eq(strlen(cfg.tenant_id), SP_CONFIG_VALUE_MAX);
	big[name + SP_CONFIG_VALUE_MAX] = 't';
	cr_expect_eq(PARSE(big), 1);
	cr_expect(stderr_has("SPANPROF_TENANT_ID: is longer than 8192 bytes; ignored"), "got: %s",
		  stderr_text);
	cr_expect_null(cfg.tenant_id);

	static const char *const names[] = {
		"SPANPROF_TENANT_ID=", "SPANPROF_AUTH_TOKEN=", "SPANPROF_BASIC_AUTH_USER=",
		"SPANPROF_BASIC_AUTH_PASSWORD=", "SPANPROF_APPLICATION_NAME="};
	for (int i = 0; i < 5; i++) {
		name = (size_t)snprintf(four[i], sizeof(four[i]), "%s", names[i]);
		memset(four[i] + name, 'v', 8000);
	}
	cr_expect_eq(PARSE(four[0], four[1], four[2], four[3], four[4], "SPANPROF_SAMPLE_RATE=99"),
		     1, "got: %s", stderr_text);
	cr_expect(stderr_has("SPANPROF_APPLICATION_NAME: does not fit"), "got: %s", stderr_text);
	cr_expect_eq(strlen(cfg.basic_auth_password), 8000);
	cr_expect_eq(cfg.sample_rate_hz, 99, "a short value still fits");
}

Test(config, suggests_the_name_that_was_meant, .timeout = 20)
{
	static const char *const cases[][2] = {
		{"SPANPROF_SAMPLERATE", "SPANPROF_SAMPLE_RATE"},
		{"SPANPROF_SAMPEL_RATE", "SPANPROF_SAMPLE_RATE"},
		{"SPANPROF_DISABLE", "SPANPROF_DISABLED"},
		{"SPANPROF_SERVER_ADDRES", "SPANPROF_SERVER_ADDRESS"},
		{"SPANPROF_INGEST_MAX_TRIES", "SPANPROF_PUSH_MAX_TRIES"},
		{"SPANPROF_SERVICE_NAME", "SPANPROF_APPLICATION_NAME"},
		{"SPANPROF_RESOURCE_ATTRIBUTES", "OTEL_RESOURCE_ATTRIBUTES"},
		{"SPANPROF_ROOT_SPAN_ONLY", "SPANPROF_SPAN_ID_SCOPE"},
		{"SPANPROF_OUTPUT", "SPANPROF_OUTPUT_DIR"},
		{"SPANPROF_SERVER", "SPANPROF_SERVER_ADDRESS"},
	};
	char entry[80];
	char want[80];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		(void)snprintf(entry, sizeof(entry), "%s=hidden", cases[i][0]);
		(void)snprintf(want, sizeof(want),
			       "%s is not a variable of spanprof; did you mean %s?", cases[i][0],
			       cases[i][1]);
		cr_expect_eq(PARSE(entry), 1);
		cr_expect(stderr_has(want), "got: %s", stderr_text);
		cr_expect(!stderr_has("hidden"));
	}
	cr_expect_eq(PARSE("SPANPROF_DEBUG=true"), 0);
	cr_expect_eq(PARSE("SPANPROF_DEBUGGER=1", "SPANPROF_WEATHER=1", "SPANPROF_=1"), 3);
	cr_expect(stderr_has("SPANPROF_WEATHER is not a variable of spanprof; ignored"));
	cr_expect(stderr_has("SPANPROF_ is not a variable of spanprof; ignored"));
}

Test(config, bounds_its_complaints_about_unknown_names, .timeout = 20)
{
	static char entry[20][40];
	const char *entries[24] = {NULL};
	char huge[3000];

	for (unsigned i = 0; i < 20; i++) {
		(void)snprintf(entry[i], sizeof(entry[i]), "SPANPROF_Q%uQ%u=x", i, i);
		entries[i] = entry[i];
	}
	cr_expect_eq(parse_list(entries), SP_CONFIG_UNKNOWN_MAX + 1);
	cr_expect(stderr_has("12 more SPANPROF_ variables"), "got: %s", stderr_text);

	memset(huge, 'Z', sizeof(huge));
	memcpy(huge, "SPANPROF_", 9);
	memcpy(huge + sizeof(huge) - 3, "=1", 3);
	cr_expect_eq(PARSE(huge), 1);
	cr_expect_lt(strlen(stderr_text), 200);
}

Test(config, repeats_no_warning_and_gives_the_same_values, .timeout = 20)
{
	struct sp_config again;

	cr_expect_eq(PARSE("SPANPROF_SAMPLE_RATE=abc", "SPANPROF_X=1", "SPANPROF_TENANT_ID=t",
			   "OTEL_RESOURCE_ATTRIBUTES=service.name=n,service.namespace=m"),
		     2);
	stderr_begin();
	sp_config_parse(&again);
	cr_expect_eq(stderr_end(), 0);
	cr_expect_eq(memcmp(&again, &cfg, sizeof(cfg)), 0);
	cr_expect_str_eq(again.service_namespace, "m");
}

/* The general endpoint is for the program's traces, and its collector may not know profiles. */
Test(config, sends_otlp_where_a_user_asks_for_it, .timeout = 20)
{
	static const char general[] = "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:4318";
	static const char own[] = "OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT=http://p:9/v1/prof";
	static const char timeout[] = "OTEL_EXPORTER_OTLP_TIMEOUT=1500";

	cr_expect_eq(PARSE(general, timeout, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"), 0);
	cr_expect_eq(cfg.protocol, SP_PROTOCOL_PUSH);
	cr_expect_str_eq(cfg.server_address, "http://localhost:4040");
	cr_expect_eq(cfg.push_timeout_ms, 10000);
	PARSE(general, own, timeout, "OTEL_EXPORTER_OTLP_PROFILES_COMPRESSION=none");
	cr_expect_eq(cfg.protocol, SP_PROTOCOL_OTLP);
	cr_expect_str_eq(cfg.server_address, "http://p:9/v1/prof");
	cr_expect(cfg.server_path);
	cr_expect_eq(cfg.push_timeout_ms, 1500);
	cr_expect_eq(cfg.compression, SP_COMPRESSION_NONE);
	PARSE(general, own, "PYROSCOPE_SERVER_ADDRESS=http://pyroscope:4040");
	cr_expect_eq(cfg.protocol, SP_PROTOCOL_PUSH);
	cr_expect_str_eq(cfg.server_address, "http://pyroscope:4040");
	PARSE(general, own, "SPANPROF_PROTOCOL=push");
	cr_expect_eq(cfg.protocol, SP_PROTOCOL_PUSH);
	cr_expect_str_eq(cfg.server_address, "http://localhost:4040");
	PARSE(general, "SPANPROF_PROTOCOL=otlp");
	cr_expect_str_eq(cfg.server_address, "http://c:4318");
	cr_expect_not(cfg.server_path);
	PARSE(general, own, "SPANPROF_PROTOCOL=otlp", "SPANPROF_SERVER_ADDRESS=http://s");
	cr_expect_eq(cfg.protocol, SP_PROTOCOL_OTLP);
	cr_expect_str_eq(cfg.server_address, "http://s");
	cr_expect_not(cfg.server_path);
	PARSE("SPANPROF_PROTOCOL=otlp");
	cr_expect_str_eq(cfg.server_address, "http://localhost:4318");
	cr_expect_eq(PARSE(own, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc"), 1);
	PARSE(own, "SPANPROF_PUSH_TIMEOUT=7s", timeout);
	cr_expect_eq(cfg.push_timeout_ms, 7000);
	PARSE(own, "OTEL_EXPORTER_OTLP_TIMEOUT=0", "OTEL_EXPORTER_OTLP_HEADERS=a=b",
	      "SPANPROF_HTTP_HEADERS={}", "OTEL_EXPORTER_OTLP_CERTIFICATE=/ca.pem",
	      "SSL_CERT_FILE=/etc/ca.pem");
	cr_expect_eq(cfg.push_timeout_ms, 600000);
	cr_expect_str_eq(cfg.http_headers, "{}");
	cr_expect_str_eq(cfg.tls_ca_file, "/ca.pem");
	PARSE(own, "SPANPROF_OUTPUT_DIR=/out");
	cr_expect_str_eq(cfg.server_address, "http://p:9/v1/prof");
	cr_expect_eq(PARSE("SPANPROF_SERVER_ADDRESS=ftp://s", own), 1);
	cr_expect_null(cfg.server_address, "profiles would go to somebody whom nobody has named");
	PARSE(general, "SPANPROF_OUTPUT_DIR=/out");
	cr_expect_null(cfg.server_address);
	PARSE(own);
	cr_expect(sp_config_names_sink());
	PARSE(general);
	cr_expect_not(sp_config_names_sink());
}

Test(config, is_silent_when_logging_is_off, .timeout = 20)
{
	cr_expect_eq(PARSE("SPANPROF_SAMPLE_RATE=abc", "SPANPROF_LOG_LEVEL=none"), 0);
	cr_expect_eq(cfg.sample_rate_hz, 100);
}

static void look_at(const struct sp_config_help *h, void *arg)
{
	unsigned *rows = arg;

	(*rows)++;
	cr_expect_gt(strlen(h->type), 2, "%s", h->name);
	cr_expect_gt(strlen(h->fallback), 0, "%s", h->name);
	cr_expect_gt(strlen(h->help), 5, "%s", h->name);
	if (strcmp(h->name, "SPANPROF_SERVER_ADDRESS") == 0)
		cr_expect_str_eq(
			h->aliases,
			"PYROSCOPE_ADHOC_SERVER_ADDRESS,PYROSCOPE_SERVER_ADDRESS,"
			"OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT,OTEL_EXPORTER_OTLP_ENDPOINT");
	if (strcmp(h->name, "SPANPROF_UPLOAD_INTERVAL") == 0)
		cr_expect_str_eq(h->type, "duration 200ms..10m");
	if (strcmp(h->name, "SPANPROF_LOG_LEVEL") == 0)
		cr_expect_str_eq(h->type, "enum: none|error|warn|info|debug");
}

Test(config, explains_every_variable, .timeout = 20)
{
	unsigned rows = 0;

	sp_config_each(look_at, &rows);

	cr_assert_eq(rows, SP_VAR_N);
}
