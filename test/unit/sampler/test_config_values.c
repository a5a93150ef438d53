/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of sampler/config/config_parse.c: good and bad values of every variable. */
#include "sampler/config/config_table.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "config_env.h"

#define HUSH "hush-hush"

/* Values that a type must refuse. HUSH must never appear in the output if the value is secret. */
static const char *const bad_bool[] = {"1", "yes", "on", "tru", "truefalse", "-", NULL};
static const char *const bad_enum[] = {"bogus", "root ,all", "0", "1", "alway", NULL};
static const char *const bad_integer[] = {"abc",
					  "-1",
					  "0",
					  "1.5",
					  "1e2",
					  "0x10",
					  "+7",
					  "7 7",
					  "1073741825",
					  "4294967297",
					  "99999999999999999999999",
					  NULL};
static const char *const bad_duration[] = {"15",
					   "fast",
					   "-5s",
					   "5 s",
					   "s",
					   "1.5s",
					   "1m30s",
					   "25h",
					   "99999999999999999999s",
					   "307445734561825861h",
					   NULL};
static const char *const bad_period[] = {"10", "0", "0ms", "999us", "2s", "ten", "-10ms", NULL};
static const char *const bad_signal[] = {
	"SIGKILL", "stop",      "SEGV", "SIGBUS",   "SIGFPE",  "SIGILL", "SIGTRAP",
	"ABRT",    "SIGCHLD",   "9",    "11",       "32",      "33",     "0",
	"65",      "-1",        "SIG",  "SIGBOGUS", "RTMIN-1", "RTMIN+", "RTMIN+99",
	"RTMAX+1", "SIGSIGURG", "1 0",  "TSTP",     "SIGTTIN", "ttou",   NULL};
static const char *const bad_path[] = {"relative/path", "./x", "~/" HUSH, "/a\nb", HUSH, NULL};
#define PATH_36 "a-path-of-36-bytes-to-be-repeated/a/"
static const char *const bad_address[] = {HUSH,
					  "localhost:4040",
					  "ftp://" HUSH "@h/",
					  "http:///" HUSH,
					  "http://u:" HUSH "@:80/",
					  "http://u:" HUSH "@h:99999",
					  "http://u:" HUSH,
					  "http://h:0/",
					  "http://h/\r\nX: " HUSH,
					  "http://h h/",
					  "http://[::1/",
					  "http://[]/",
					  "http://h:80x/?" HUSH,
					  "unix://" HUSH,
					  "unix://",
					  "http://",
					  "https://\xc3\xa9/",
					  "http://h/base?x=" HUSH,
					  "http://h#" HUSH,
					  "unix:///" PATH_36 PATH_36 PATH_36,
					  NULL};
static const char *const bad_base_url[] = {"http://u:" HUSH "@h/", "unix:///s", HUSH, "https://",
					   "http://h/ x",          NULL};
static const char *const bad_text[] = {HUSH "\n" HUSH, "\x01" HUSH, "a\x7f", HUSH "\xff", NULL};
static const char *const bad_pairs[] = {"=v",     "k", "a=b,c", "a=b,=c", ":v", "a=" HUSH "\n" HUSH,
					"k=\xc3", NULL};
static const char *const bad_resource[] = {"k",
					   "=v",
					   "a=b,c",
					   "a=%",
					   "a=%4",
					   "a=%zz",
					   "a=%0a",
					   "a=%ff",
					   "a=%00",
					   "%20=v,%=x",
					   "service.name=x,broken",
					   NULL};
#define KEY_64 "k123456789abcdefk123456789abcdefk123456789abcdefk123456789abcdef"
static const char *const bad_attributes[] = {
	"a,b,c,d,e", " , ,", "a,b, a", "a\nb", HUSH "\xff", "a," KEY_64 KEY_64 KEY_64 KEY_64, NULL};
static const char *const bad_slow[] = {
	"fast",  "200",  "0",          "-5s", "1.5s",   "a=",           "a=b",
	"a=200", "1s,a", "a=1s,b=0ms", "yes", "1s\x01", "a=1s,\xff=1s", NULL};
static const char *const bad_headers[] = {"{\x01}", "{\"a\":\"" HUSH "\x7f\"}", "{\"\xff\":\"\"}",
					  NULL};

static const char *const *bad_values(const struct sp_config_var *var, enum sp_config_form form)
{
	static const char *const *const by_type[] = {
		[SP_TYPE_SWITCH] = bad_bool,
		[SP_TYPE_BOOL] = bad_bool,
		[SP_TYPE_ENUM] = bad_enum,
		[SP_TYPE_INTEGER] = bad_integer,
		[SP_TYPE_DURATION] = bad_duration,
		[SP_TYPE_SIGNAL] = bad_signal,
		[SP_TYPE_PATH] = bad_path,
		[SP_TYPE_SECRET_FILE] = bad_path,
		[SP_TYPE_ADDRESS] = bad_address,
		[SP_TYPE_BASE_URL] = bad_base_url,
		[SP_TYPE_LINK] = bad_base_url,
		[SP_TYPE_TEXT] = bad_text,
		[SP_TYPE_PAIRS] = bad_pairs,
		[SP_TYPE_RESOURCE] = bad_resource,
		[SP_TYPE_SECRET] = bad_text,
		[SP_TYPE_HEADERS] = bad_headers,
		[SP_TYPE_ATTRIBUTES] = bad_attributes,
		[SP_TYPE_SLOW] = bad_slow,
	};

	static const char *const bad_ms[] = {"1s", "-1", "99", "600001", "1.5", "ten", NULL};

	if (form == SP_FORM_PERIOD)
		return bad_period;
	if (form == SP_FORM_MS)
		return bad_ms;
	return form != SP_FORM_OWN ? bad_bool : by_type[var->type];
}

static bool is_shown(const struct sp_config_var *var)
{
	return var->type <= SP_TYPE_PATH;
}

/* Names that count only if profiles go out in OTLP. */
static bool is_otlp(const char *name)
{
	return strncmp(name, SP_OTLP_PREFIX, strlen(SP_OTLP_PREFIX)) == 0;
}

static void expect_refused(const struct sp_config_var *var, const char *name, const char *value,
			   const struct sp_config *defaults)
{
	char entry[512];
	char start[128];

	(void)snprintf(entry, sizeof(entry), "%s=%s", name, value);
	(void)snprintf(start, sizeof(start), "spanprof[%d]: %s: ", (int)getpid(), name);
	cr_expect_eq(PARSE(entry, is_otlp(name) ? "SPANPROF_PROTOCOL=otlp" : "HOME=/"), 1,
		     "%s: got: %s", entry, stderr_text);
	cr_expect_eq(strncmp(stderr_text, start, strlen(start)), 0, "got: %s", stderr_text);
	cr_expect(is_shown(var) || !stderr_has(HUSH), "shown: %s", stderr_text);
	if (var->type == SP_TYPE_SWITCH)
		return;
	/* A user who names a server gets no other server. */
	cr_expect(var->type != SP_TYPE_ADDRESS || cfg.server_address == NULL, "%s", entry);
	if (var->type == SP_TYPE_ADDRESS) {
		cfg.server_address = defaults->server_address;
		cfg.servers = defaults->servers;
	}
	cr_expect_eq(memcmp(&cfg, defaults, sizeof(cfg)), 0, "%s left a trace", entry);
}

static bool may_be_zero(const struct sp_config_var *var, const char *value)
{
	return var->type == SP_TYPE_INTEGER && var->min == 0 && strcmp(value, "0") == 0;
}

Test(config_values, refuses_each_bad_value_with_one_warning_and_the_default, .timeout = 60)
{
	struct sp_config defaults, of_otlp;

	cr_assert_eq(PARSE("SPANPROF_PROTOCOL=otlp"), 0);
	of_otlp = cfg;
	cr_assert_eq(PARSE("HOME=/"), 0);
	defaults = cfg;
	for (unsigned id = 0; id < SP_VAR_N; id++) {
		const struct sp_config_var *var = &sp_config_vars[id];

		for (unsigned i = 0; i < SP_CONFIG_SOURCES && var->source[i].name != NULL; i++) {
			const char *const *bad = bad_values(var, var->source[i].form);

			for (; *bad != NULL; bad++)
				if (!may_be_zero(var, *bad))
					expect_refused(var, var->source[i].name, *bad,
						       is_otlp(var->source[i].name) ? &of_otlp
										    : &defaults);
		}
	}
}

Test(config_values, says_what_is_wrong_and_what_applies, .timeout = 20)
{
	static const char *const cases[][2] = {
		{"SPANPROF_SAMPLE_RATE=abc",
		 "SPANPROF_SAMPLE_RATE: \"abc\" is not a number from 1 to 1000; using 100\n"},
		{"PYROSCOPE_PROFILING_INTERVAL=10",
		 "\"10\" is not a duration from 1ms to 1s with a unit (us, ms, s); using "
		 "SPANPROF_SAMPLE_RATE=100\n"},
		{"SPANPROF_UPLOAD_INTERVAL=1h",
		 "\"1h\" is not a duration from 200ms to 10m with a unit (ms, s, m); using 15s\n"},
		{"SPANPROF_SIGNAL=SIGKILL",
		 "\"SIGKILL\" is a signal that cannot be used for sampling; using auto\n"},
		{"SPANPROF_SIGNAL=SIGFOO", "\"SIGFOO\" is not a signal; using auto\n"},
		{"SPANPROF_LOG_LEVEL=loud",
		 "\"loud\" is not one of none, error, warn, info, debug; using warn\n"},
		{"SPANPROF_OUTPUT_DIR=profiles",
		 "SPANPROF_OUTPUT_DIR: \"profiles\" is not an absolute path; ignored\n"},
		{"SPANPROF_SERVER_ADDRESS=ftp://server", "; nothing is pushed\n"},
		{"SPANPROF_AUTH_TOKEN=a\nb",
		 "SPANPROF_AUTH_TOKEN: contains a control character; ignored\n"},
		{"SPANPROF_SPAN_LABELS=a,b,c,d,e",
		 "SPANPROF_SPAN_LABELS: names more than 4 attributes; ignored\n"},
		{"SPANPROF_SLOW=fast",
		 "SPANPROF_SLOW: has an item that is not off, auto, a duration such as 200ms, or "
		 "NAME=200ms; using auto\n"},
		{"OTEL_RESOURCE_ATTRIBUTES=a", "has an item that is not key=value; ignored\n"},
		{"SPANPROF_PROFILE_URL=grafana",
		 "SPANPROF_PROFILE_URL: is not one of "
		 "grafana-drilldown, grafana-explore, pyroscope-legacy; ignored, the default "
		 "applies\n"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_expect_eq(PARSE(cases[i][0]), 1);
		cr_expect(stderr_has(cases[i][1]), "got: %s", stderr_text);
	}
}

struct number_case {
	const char *entry;
	size_t field;
	uint32_t want;
};

#define NUMBER(entry, field, want)                                                                 \
	{                                                                                          \
		entry, offsetof(struct sp_config, field), want                                     \
	}

Test(config_values, reads_good_numbers, .timeout = 20)
{
	static const struct number_case cases[] = {
		NUMBER("SPANPROF_SAMPLE_RATE=1", sample_rate_hz, 1),
		NUMBER("SPANPROF_SAMPLE_RATE=1000", sample_rate_hz, 1000),
		NUMBER("SPANPROF_SAMPLE_RATE= 099\n", sample_rate_hz, 99),
		NUMBER("PYROSCOPE_PROFILING_INTERVAL=10ms", sample_rate_hz, 100),
		NUMBER("PYROSCOPE_PROFILING_INTERVAL=1s", sample_rate_hz, 1),
		NUMBER("PYROSCOPE_PROFILING_INTERVAL=1ms", sample_rate_hz, 1000),
		NUMBER("PYROSCOPE_PROFILING_INTERVAL=9ms", sample_rate_hz, 111),
		NUMBER("PYROSCOPE_PROFILING_INTERVAL=10000us", sample_rate_hz, 100),
		NUMBER("PYROSCOPE_PROFILING_INTERVAL=20000000ns", sample_rate_hz, 50),
		NUMBER("SPANPROF_UPLOAD_INTERVAL=200ms", upload_interval_ms, 200),
		NUMBER("SPANPROF_UPLOAD_INTERVAL=10m", upload_interval_ms, 600000),
		NUMBER("PYROSCOPE_UPLOAD_INTERVAL=10S", upload_interval_ms, 10000),
		NUMBER("SPANPROF_FLUSH_TIMEOUT=0", flush_timeout_ms, 0),
		NUMBER("SPANPROF_FLUSH_TIMEOUT=0s", flush_timeout_ms, 0),
		NUMBER("SPANPROF_FLUSH_TIMEOUT=1ns", flush_timeout_ms, 1),
		NUMBER("SPANPROF_FLUSH_TIMEOUT=1m", flush_timeout_ms, 60000),
		NUMBER("SPANPROF_PUSH_TIMEOUT=100ms", push_timeout_ms, 100),
		NUMBER("PYROSCOPE_PROFILE_EXPORT_TIMEOUT=30s", push_timeout_ms, 30000),
		NUMBER("PYROSCOPE_PUSH_QUEUE_CAPACITY=128", push_queue_capacity, 128),
		NUMBER("SPANPROF_PUSH_QUEUE_CAPACITY=1", push_queue_capacity, 1),
		NUMBER("PYROSCOPE_INGEST_MAX_TRIES=3", push_max_tries, 3),
		NUMBER("SPANPROF_PUSH_MAX_TRIES=100", push_max_tries, 100),
		NUMBER("SPANPROF_MAX_SPAN_NAMES=100000", max_span_names, 100000),
		NUMBER("SPANPROF_MAX_SERIES=100", max_series, 100),
		NUMBER("SPANPROF_OUTPUT_MAX_FILES=20000", output_max_files, 20000),
		NUMBER("SPANPROF_OUTPUT_MAX_MIB=500", output_max_mib, 500),
		NUMBER("SPANPROF_MAX_SPAN_AGE=1s", max_span_age_ms, 1000),
		NUMBER("SPANPROF_MAX_SPAN_AGE=24h", max_span_age_ms, 86400000),
		NUMBER("SPANPROF_STACK_DEPTH=496", stack_depth, SP_FRAMES_MAX),
		NUMBER("SPANPROF_PROFILE=ALWAYS", profile, SP_PROFILE_ALWAYS),
		NUMBER("SPANPROF_SPAN_ID_SCOPE=all", span_id_scope, SP_SCOPE_ALL),
		NUMBER("SPANPROF_SPAN_ID_SCOPE=none", span_id_scope, SP_SCOPE_NONE),
		NUMBER("OTEL_PYROSCOPE_ROOT_SPAN_ONLY=false", span_id_scope, SP_SCOPE_ALL),
		NUMBER("OTEL_PYROSCOPE_ROOT_SPAN_ONLY=true", span_id_scope, SP_SCOPE_ROOT),
		NUMBER("SPANPROF_SPAN_NAME_SCOPE=all", span_name_scope, SP_SCOPE_ALL),
		NUMBER("OTEL_PYROSCOPE_ADD_SPAN_NAME=False", span_name_scope, SP_SCOPE_NONE),
		NUMBER("OTEL_PYROSCOPE_ADD_SPAN_NAME=true", span_name_scope, SP_SCOPE_ROOT),
		NUMBER("SPANPROF_ATTRIBUTES=never", attributes, SP_ATTRIBUTES_NEVER),
		NUMBER("SPANPROF_ATTRIBUTES=with-samples", attributes, SP_ATTRIBUTES_WITH_SAMPLES),
		NUMBER("SPANPROF_ATTRIBUTES=always", attributes, SP_ATTRIBUTES_ALWAYS),
		NUMBER("SPANPROF_ACTIVE_SPAN=auto", active_span, SP_ACTIVE_AUTO),
		NUMBER("SPANPROF_ACTIVE_SPAN=scope", active_span, SP_ACTIVE_SCOPE),
		NUMBER("SPANPROF_ACTIVE_SPAN=start", active_span, SP_ACTIVE_START),
		NUMBER("SPANPROF_UNWIND=auto", unwind, SP_UNWIND_AUTO),
		NUMBER("SPANPROF_UNWIND=cfi", unwind, SP_UNWIND_CFI),
		NUMBER("SPANPROF_UNWIND=snapshot", unwind, SP_UNWIND_SNAPSHOT),
		NUMBER("SPANPROF_SYMBOLIZE=names", symbolize, SP_SYMBOLIZE_NAMES),
		NUMBER("SPANPROF_SYMBOLIZE=off", symbolize, SP_SYMBOLIZE_OFF),
		NUMBER("SPANPROF_PROTOCOL=Ingest", protocol, SP_PROTOCOL_INGEST),
		NUMBER("SPANPROF_PUSH_MAX_TRIES=0", push_max_tries, 0),
		NUMBER("SPANPROF_LOG_LEVEL=debug", log_level, SP_LOG_DEBUG),
		NUMBER("PYROSCOPE_LOG_LEVEL=WARNING", log_level, SP_LOG_WARN),
		NUMBER("OTEL_LOG_LEVEL=off", log_level, SP_LOG_NONE),
		NUMBER("SPANPROF_SIGNAL=auto", signal_number, 0),
		NUMBER("SPANPROF_SIGNAL=SIGPROF", signal_number, SIGPROF),
		NUMBER("SPANPROF_SIGNAL=urg", signal_number, SIGURG),
		NUMBER("SPANPROF_SIGNAL=sigusr2", signal_number, SIGUSR2),
		NUMBER("SPANPROF_SIGNAL=27", signal_number, 27),
		NUMBER("SPANPROF_SIGNAL=35", signal_number, 35),
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t got;

		cr_expect_eq(PARSE(cases[i].entry), 0, "got: %s", stderr_text);
		memcpy(&got, (const char *)&cfg + cases[i].field, sizeof(got));
		cr_expect_eq(got, cases[i].want, "%s: %u", cases[i].entry, got);
	}
}

/* A child's id with its root's name would be a label that belongs to no span. */
Test(config_values, names_follow_the_ids_of_all_spans_unless_told_otherwise, .timeout = 20)
{
	PARSE("SPANPROF_SPAN_ID_SCOPE=all");
	cr_expect_eq(cfg.span_name_scope, SP_SCOPE_ALL);
	PARSE("OTEL_PYROSCOPE_ROOT_SPAN_ONLY=false");
	cr_expect_eq(cfg.span_name_scope, SP_SCOPE_ALL);
	PARSE("SPANPROF_SPAN_ID_SCOPE=all", "OTEL_PYROSCOPE_ADD_SPAN_NAME=true");
	cr_expect_eq(cfg.span_name_scope, SP_SCOPE_ALL);
	PARSE("SPANPROF_SPAN_ID_SCOPE=all", "SPANPROF_SPAN_NAME_SCOPE=auto");
	cr_expect_eq(cfg.span_name_scope, SP_SCOPE_ALL);
	PARSE("SPANPROF_SPAN_ID_SCOPE=all", "SPANPROF_SPAN_NAME_SCOPE=root");
	cr_expect_eq(cfg.span_name_scope, SP_SCOPE_ROOT);
	PARSE("SPANPROF_SPAN_ID_SCOPE=all", "OTEL_PYROSCOPE_ADD_SPAN_NAME=false");
	cr_expect_eq(cfg.span_name_scope, SP_SCOPE_NONE);
	PARSE("SPANPROF_SPAN_ID_SCOPE=none");
	cr_expect_eq(cfg.span_name_scope, SP_SCOPE_ROOT);
	PARSE("SPANPROF_SPAN_NAME_SCOPE=none");
	cr_expect_eq(cfg.span_id_scope, SP_SCOPE_ROOT);
	cr_expect_eq(cfg.span_name_scope, SP_SCOPE_NONE);
}

Test(config_values, has_no_trace_without_ids_of_spans_unless_it_is_wanted, .timeout = 20)
{
	PARSE("SPANPROF_SPAN_ID_SCOPE=all");
	cr_expect(cfg.trace_id);
	PARSE("SPANPROF_SPAN_ID_SCOPE=none");
	cr_expect_not(cfg.trace_id);
	PARSE("SPANPROF_SPAN_ID_SCOPE=none", "SPANPROF_TRACE_ID=true");
	cr_expect(cfg.trace_id);
	PARSE("SPANPROF_TRACE_ID=false");
	cr_expect_not(cfg.trace_id);
}

Test(config_values, reads_real_time_signals_by_name, .timeout = 20)
{
	PARSE("SPANPROF_SIGNAL=SIGRTMIN+3");
	cr_expect_eq(cfg.signal_number, SIGRTMIN + 3);
	PARSE("SPANPROF_SIGNAL=rtmin");
	cr_expect_eq(cfg.signal_number, SIGRTMIN);
	PARSE("SPANPROF_SIGNAL=RTMAX-1");
	cr_expect_eq(cfg.signal_number, SIGRTMAX - 1);
}

struct text_case {
	const char *name;
	size_t field;
	const char *value;
};

#define TEXT(name, field, value)                                                                   \
	{                                                                                          \
		name, offsetof(struct sp_config, field), value                                     \
	}

Test(config_values, keeps_good_texts_as_they_are, .timeout = 20)
{
	static const struct text_case cases[] = {
		TEXT("SPANPROF_SERVER_ADDRESS", server_address, "https://u:p@h.example:443/base"),
		TEXT("PYROSCOPE_SERVER_ADDRESS", server_address, "HTTP://[::1]:4040"),
		TEXT("PYROSCOPE_ADHOC_SERVER_ADDRESS", server_address, "unix:///run/p.sock"),
		TEXT("SPANPROF_OUTPUT_DIR", output_dir, "/var/tmp/caf\xe9 x"),
		TEXT("SPANPROF_APPLICATION_NAME", service_name, "caf\xc3\xa9 100%"),
		TEXT("PYROSCOPE_APPLICATION_NAME", service_name, "a=b,c"),
		TEXT("SPANPROF_LABELS", labels, "env=prod, region = eu ,"),
		TEXT("PYROSCOPE_LABELS", labels, "env:prod,url=http://x"),
		TEXT("SPANPROF_PROFILE_BASE_URL", profile_base_url, "https://g.example/sub"),
		TEXT("SPANPROF_PROFILE_DATASOURCE", profile_datasource, "pyro-1"),
		TEXT("SPANPROF_BASIC_AUTH_USER", basic_auth_user, "1234"),
		TEXT("PYROSCOPE_BASIC_AUTH_USER", basic_auth_user, "user"),
		TEXT("SPANPROF_BASIC_AUTH_PASSWORD", basic_auth_password, HUSH),
		TEXT("PYROSCOPE_BASIC_AUTH_PASSWORD", basic_auth_password, HUSH),
		TEXT("SPANPROF_BASIC_AUTH_USER_FILE", basic_auth_user_file, "/run/s/u"),
		TEXT("SPANPROF_BASIC_AUTH_PASSWORD_FILE", basic_auth_password_file, "/run/s/p"),
		TEXT("SPANPROF_AUTH_TOKEN", auth_token, HUSH),
		TEXT("PYROSCOPE_AUTH_TOKEN", auth_token, HUSH),
		TEXT("SPANPROF_AUTH_TOKEN_FILE", auth_token_file, "/run/s/t"),
		TEXT("SPANPROF_TENANT_ID", tenant_id, "team-a"),
		TEXT("PYROSCOPE_TENANT_ID", tenant_id, "team-b"),
		TEXT("SPANPROF_TENANT_ID_FILE", tenant_id_file, "/run/s/i"),
		TEXT("SPANPROF_RESOURCE_LABELS", resource_labels, "a.b, c"),
		TEXT("SPANPROF_SPAN_LABELS", span_labels, "mysql.digest_text, http.route ,c,d,"),
		TEXT("SPANPROF_HTTP_HEADERS", http_headers, "{\"X-A\":\"b}\\\"{\"}"),
		TEXT("PYROSCOPE_HTTP_HEADERS", http_headers, "\n{\n\t\"X\": \"y\"\n}"),
		TEXT("SPANPROF_HTTP_HEADERS_FILE", http_headers_file, "/run/s/h"),
		TEXT("SPANPROF_TLS_CA_FILE", tls_ca_file, "/etc/ca.pem"),
		TEXT("SSL_CERT_FILE", tls_ca_file, "/etc/ca.pem"),
		TEXT("SPANPROF_TLS_CERT_FILE", tls_cert_file, "/run/s/cert"),
		TEXT("SPANPROF_TLS_KEY_FILE", tls_key_file, "/run/s/key"),
		TEXT("http_proxy", http_proxy, "http://u:" HUSH "@proxy:3128"),
		TEXT("https_proxy", https_proxy, "proxy:3128"),
		TEXT("HTTPS_PROXY", https_proxy, "socks5h://proxy"),
		TEXT("all_proxy", all_proxy, "proxy"),
		TEXT("ALL_PROXY", all_proxy, "proxy"),
		TEXT("no_proxy", no_proxy, ".local,10.0.0.0/8"),
		TEXT("NO_PROXY", no_proxy, "*"),
		TEXT("SPANPROF_STATUS_FILE", status_file, "/run/spanprof.%p.json"),
		TEXT("OTEL_RESOURCE_ATTRIBUTES", resource_attributes, "a=b, c%3D=d%2Ce=f,"),
	};
	char entry[256];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const char *got;

		(void)snprintf(entry, sizeof(entry), "%s=%s", cases[i].name, cases[i].value);
		cr_expect_eq(PARSE(entry), 0, "got: %s", stderr_text);
		memcpy(&got, (const char *)&cfg + cases[i].field, sizeof(got));
		cr_expect(got != NULL && strcmp(got, cases[i].value) == 0, "%s: %s", entry,
			  got != NULL ? got : "NULL");
	}
}

static uint64_t slow(const char *list, const char *name)
{
	return sp_config_slow(list, name, strlen(name));
}

Test(config_values, tells_from_when_on_a_root_is_slow, .timeout = 20)
{
	static const char list[] = "checkout=200ms, GET /a=b = 5us,1s,other=off, third =AUTO";

	cr_expect_eq(slow("auto", "x"), SP_SLOW_AUTO);
	cr_expect_eq(slow("off", "x"), SP_SLOW_NEVER);
	cr_expect_eq(slow(" 2s ", "x"), 2 * SP_NS_PER_S);
	cr_expect_eq(slow("", "x"), SP_SLOW_AUTO);
	cr_expect_eq(slow("x=3s", "y"), SP_SLOW_AUTO);
	cr_expect_eq(slow(list, "checkout"), 200 * SP_NS_PER_MS);
	cr_expect_eq(slow(list, "checkout2"), SP_NS_PER_S);
	cr_expect_eq(slow(list, "checkou"), SP_NS_PER_S);
	cr_expect_eq(slow(list, "GET /a=b"), 5000);
	cr_expect_eq(slow(list, "other"), SP_SLOW_NEVER);
	cr_expect_eq(slow(list, "third"), SP_SLOW_AUTO);
	cr_expect_eq(slow(list, ""), SP_NS_PER_S);
	cr_expect_eq(slow("7ms,fast,a=slow", "a"), 7 * SP_NS_PER_MS, "bad items are none");
}

/* The list goes into the folder. */
Test(config_values, wants_slow_roots_where_there_is_a_folder, .timeout = 20)
{
	cr_expect_eq(PARSE("SPANPROF_OUTPUT_DIR=/tmp"), 0);
	cr_expect_str_eq(cfg.slow, "auto");
	cr_expect_eq(PARSE("SPANPROF_OUTPUT_DIR=/tmp", "SPANPROF_SLOW=a=1s,200ms"), 0);
	cr_expect_str_eq(cfg.slow, "a=1s,200ms");
	cr_expect_eq(PARSE("SPANPROF_OUTPUT_DIR=/tmp", "SPANPROF_SLOW= OFF"), 0);
	cr_expect_null(cfg.slow);
	cr_expect_eq(PARSE("SPANPROF_OUTPUT_DIR=/tmp", "SPANPROF_SLOW=bad"), 1);
	cr_expect_str_eq(cfg.slow, "auto");
	cr_expect_eq(PARSE("HOME=/"), 0);
	cr_expect_null(cfg.slow);
	cr_expect_eq(PARSE("SPANPROF_SLOW=off"), 0);
	cr_expect_null(cfg.slow);
	cr_expect_eq(PARSE("SPANPROF_SLOW=auto"), 0);
	cr_expect_null(cfg.slow);
	cr_expect_eq(PARSE("SPANPROF_SLOW=200ms"), 1);
	cr_expect_null(cfg.slow);
	cr_expect(stderr_has("SPANPROF_SLOW has no effect without SPANPROF_OUTPUT_DIR"), "%s",
		  stderr_text);
}

/* How long roots last is known by labels as well, or by who keeps an id. */
Test(config_values, wants_slow_roots_for_latency_and_ids, .timeout = 20)
{
	cr_expect_eq(PARSE("HOME=/"), 0);
	cr_expect_not(cfg.span_latency || cfg.slow_ids);
	cr_expect_eq(PARSE("SPANPROF_SPAN_LATENCY=true"), 0);
	cr_expect(cfg.span_latency);
	cr_expect_not(cfg.slow_ids);
	cr_expect_str_eq(cfg.slow, "auto");
	cr_expect_eq(PARSE("SPANPROF_SPAN_ID_SCOPE=slow", "SPANPROF_SLOW=200ms"), 0);
	cr_expect(cfg.slow_ids);
	cr_expect_eq(cfg.span_id_scope, SP_SCOPE_ROOT);
	cr_expect_eq(cfg.span_name_scope, SP_SCOPE_ROOT);
	cr_expect(cfg.trace_id);
	cr_expect_str_eq(cfg.slow, "200ms");
	cr_expect_eq(PARSE("SPANPROF_SPAN_LATENCY=true", "SPANPROF_SLOW=off"), 0);
	cr_expect_str_eq(cfg.slow, "off");
	cr_expect_eq(PARSE("SPANPROF_SPAN_LATENCY=maybe"), 1);
	cr_expect_not(cfg.span_latency);
	cr_expect_null(cfg.slow);
}

Test(config_values, labels_are_those_attributes_of_the_resource_that_are_wanted, .timeout = 20)
{
	char entry[2000] = "SPANPROF_RESOURCE_LABELS=";

	cr_expect_eq(PARSE("OTEL_RESOURCE_ATTRIBUTES=k8s.pod.name=p%2C1,other=x,service.version=1,"
			   "service.version=2,service.name=s"),
		     0, "got: %s", stderr_text);
	cr_expect_str_eq(cfg.resource_label[0].key, "k8s.pod.name");
	cr_expect_str_eq(cfg.resource_label[0].value, "p,1");
	cr_expect_str_eq(cfg.resource_label[1].key, "service.version");
	cr_expect_str_eq(cfg.resource_label[1].value, "2", "the last wins");
	cr_expect_null(cfg.resource_label[2].key);
	cr_expect_str_eq(cfg.service_name, "s");

	PARSE("OTEL_RESOURCE_ATTRIBUTES=k8s.pod.name=p,mine=x",
	      "SPANPROF_RESOURCE_LABELS= mine ,y");
	cr_expect_str_eq(cfg.resource_label[0].key, "mine");
	cr_expect_null(cfg.resource_label[1].key);
	PARSE("OTEL_RESOURCE_ATTRIBUTES=k8s.pod.name=p", "SPANPROF_RESOURCE_LABELS=none");
	cr_expect_null(cfg.resource_label[0].key);
	PARSE("OTEL_RESOURCE_ATTRIBUTES=k8s.pod.name=p,bad");
	cr_expect_null(cfg.resource_label[0].key, "one error discards all");

	/* More labels than there is room for. */
	for (unsigned i = 0; i < 2 * SP_RESOURCE_LABELS_MAX; i++)
		(void)snprintf(entry + strlen(entry), sizeof(entry) - strlen(entry), "a%u,", i);
	PARSE(entry, "OTEL_RESOURCE_ATTRIBUTES=a0=0,a1=1,a2=2,a3=3,a4=4,a5=5,a6=6,a7=7,a8=8,a9=9,"
		     "a10=10,a11=11,a12=12,a13=13,a14=14,a15=15,a16=16,a17=17,a3=again");
	cr_expect_str_eq(cfg.resource_label[SP_RESOURCE_LABELS_MAX - 2].value, "15");
	cr_expect_str_eq(cfg.resource_label[3].value, "again");
	cr_expect_null(cfg.resource_label[SP_RESOURCE_LABELS_MAX - 1].key);
	cr_expect(stderr_has("SPANPROF_RESOURCE_LABELS: there are more than 16 of its attributes; "
			     "the first 16 are labels"),
		  "got: %s", stderr_text);
	PARSE(entry, "OTEL_RESOURCE_ATTRIBUTES=a0=0,a1=1,a2=2,a3=3,a4=4,a5=5,a6=6,a7=7,a8=8,a9=9,"
		     "a10=10,a11=11,a12=12,a13=13,a14=14,a15=15,b=1,a15=again,a3=again");
	cr_expect_str_eq(cfg.resource_label[SP_RESOURCE_LABELS_MAX - 2].value, "again");
	cr_expect_str_eq(stderr_text, "");
}

Test(config_values, decodes_the_resource, .timeout = 20)
{
	cr_expect_eq(PARSE("OTEL_RESOURCE_ATTRIBUTES=service.namespace=shop, service%2ename = "
			   "cart%20%C3%A9%2C%3d+ ,k=v"),
		     0, "got: %s", stderr_text);
	cr_expect_str_eq(cfg.service_name, "cart \xc3\xa9,=+");
	cr_expect_str_eq(cfg.service_namespace, "shop");

	PARSE("OTEL_RESOURCE_ATTRIBUTES=service.name=one,service.name=two=2");
	cr_expect_str_eq(cfg.service_name, "two=2", "the last wins, the first = splits");
	PARSE("OTEL_RESOURCE_ATTRIBUTES=service.name=", "OTEL_SERVICE_NAME=");
	cr_expect_eq(strncmp(cfg.service_name, "unknown_service", 15), 0);

	cr_expect_eq(PARSE("OTEL_RESOURCE_ATTRIBUTES=service.name=n,service.namespace=m,bad"), 1);
	cr_expect_eq(strncmp(cfg.service_name, "unknown_service", 15), 0, "one error discards all");
	cr_expect_null(cfg.service_namespace);
	cr_expect_null(cfg.resource_attributes);
}
