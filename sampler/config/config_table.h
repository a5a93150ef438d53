/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one list of all variables. Parsing, warnings, help with misspelt names and README's table are
 * made from it. Only the config files of this folder include it.
 */
#ifndef SP_CONFIG_TABLE_H
#define SP_CONFIG_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "sampler/config/config.h"
#include "sampler/region/names.h"
#include "sampler/region/sample.h"

enum sp_config_type {
	SP_TYPE_SWITCH,   /* a bool whose true, from any of its names, keeps us inert */
	SP_TYPE_BOOL,     /* true or false */
	SP_TYPE_ENUM,     /* one of .choices */
	SP_TYPE_INTEGER,  /* .min to .max */
	SP_TYPE_DURATION, /* .min to .max milliseconds */
	SP_TYPE_SIGNAL,
	SP_TYPE_PATH,        /* absolute */
	SP_TYPE_SECRET_FILE, /* as SP_TYPE_PATH; never shown: some write the secret itself here */
	SP_TYPE_ADDRESS,     /* http, https or unix URL, user information allowed; never shown */
	SP_TYPE_BASE_URL,    /* http or https URL without user information: it ends up in spans */
	SP_TYPE_LINK,        /* as SP_TYPE_BASE_URL with placeholders, or one of .choices */
	SP_TYPE_TEXT,        /* UTF-8 without control characters */
	SP_TYPE_PAIRS,       /* k=v,k=v or k:v,k:v */
	SP_TYPE_RESOURCE,    /* k=v,k=v, percent-encoded as OTel defines it */
	SP_TYPE_SECRET,      /* as SP_TYPE_TEXT; never shown */
	SP_TYPE_HEADERS,     /* JSON object; never shown */
};

/* How the value of an alias differs in meaning from the variable's own. */
enum sp_config_form {
	SP_FORM_OWN,
	SP_FORM_NOT,       /* a bool: the contrary */
	SP_FORM_PERIOD,    /* a duration: the time between two samples instead of the rate */
	SP_FORM_ROOT_ONLY, /* a bool: true = root, false = all */
	SP_FORM_ADD,       /* a bool: true = the default, false = none */
};

struct sp_config_choice {
	const char *word;
	uint32_t value; /* a second word for the same value is accepted but not advertised */
};

struct sp_config_source {
	const char *name;
	enum sp_config_form form;
};

#define SP_CONFIG_SOURCES 4U

struct sp_config_var {
	struct sp_config_source source[SP_CONFIG_SOURCES]; /* highest rank first, own name first */
	enum sp_config_type type;
	uint32_t min;
	uint32_t max;
	const struct sp_config_choice *choices; /* up to a NULL word */
	size_t field;                           /* offset in struct sp_config */
	const char *fallback;                   /* the default as a user would write it, or NULL */
	const char *words;                      /* the default in words, if fallback is NULL */
	const char *help;
};

/* X(id, type, field, the other members of struct sp_config_var) */
// clang-format off
#define SP_FOR_EACH_CONFIG(X) \
	X(DISABLED, SWITCH, disabled, \
	  .source = {{"SPANPROF_DISABLED", SP_FORM_OWN}, {"OTEL_SDK_DISABLED", SP_FORM_OWN}, \
		     {"PYROSCOPE_AGENT_ENABLED", SP_FORM_NOT}, \
		     {"OTEL_PYROSCOPE_START_PROFILING", SP_FORM_NOT}}, \
	  .fallback = "false", \
	  .help = "Stay inert. Each name suffices; PYROSCOPE_AGENT_ENABLED and " \
		  "OTEL_PYROSCOPE_START_PROFILING do it with `false`.") \
	X(PROFILE, ENUM, profile, \
	  .source = {{"SPANPROF_PROFILE", SP_FORM_OWN}}, \
	  .choices = sp_config_profile_choices, .fallback = "on-span", \
	  .help = "When to start: at the first recorded span, or at program start.") \
	X(SERVER_ADDRESS, ADDRESS, server_address, \
	  .source = {{"SPANPROF_SERVER_ADDRESS", SP_FORM_OWN}, \
		     {"PYROSCOPE_ADHOC_SERVER_ADDRESS", SP_FORM_OWN}, \
		     {"PYROSCOPE_SERVER_ADDRESS", SP_FORM_OWN}}, \
	  .words = "http://localhost:4040; nothing is pushed if only SPANPROF_OUTPUT_DIR is set", \
	  .help = "Where profiles are pushed to. `unix:///run/pyroscope.sock` names a socket. " \
		  "Redirects are not followed.") \
	X(PROTOCOL, ENUM, protocol, \
	  .source = {{"SPANPROF_PROTOCOL", SP_FORM_OWN}}, \
	  .choices = sp_config_protocol_choices, .fallback = "push", \
	  .help = "`push`: /push.v1.PusherService/Push; `ingest`: the older /ingest, for servers and " \
		  "proxies that know no other.") \
	X(OUTPUT_DIR, PATH, output_dir, \
	  .source = {{"SPANPROF_OUTPUT_DIR", SP_FORM_OWN}}, \
	  .help = "Write pprof files into this directory.") \
	X(SERVICE_NAME, TEXT, service_name, \
	  .source = {{"SPANPROF_APPLICATION_NAME", SP_FORM_OWN}, \
		     {"PYROSCOPE_APPLICATION_NAME", SP_FORM_OWN}, \
		     {"OTEL_PYROSCOPE_APP_NAME", SP_FORM_OWN}, \
		     {"OTEL_SERVICE_NAME", SP_FORM_OWN}}, \
	  .words = "service.name of OTEL_RESOURCE_ATTRIBUTES, else what the program gives " \
		   "opentelemetry-cpp, else unknown_service:<program>", \
	  .help = "The series label service_name. Keep it equal to the service.name of the spans.") \
	X(RESOURCE_ATTRIBUTES, RESOURCE, resource_attributes, \
	  .source = {{"OTEL_RESOURCE_ATTRIBUTES", SP_FORM_OWN}}, \
	  .help = "OTel resource; service.name, service.namespace and SPANPROF_RESOURCE_LABELS are " \
		  "used. One error discards all of it.") \
	X(RESOURCE_LABELS, TEXT, resource_labels, \
	  .source = {{"SPANPROF_RESOURCE_LABELS", SP_FORM_OWN}}, \
	  .fallback = "service.version,deployment.environment.name,deployment.environment," \
		      "k8s.namespace.name,k8s.pod.name,k8s.container.name", \
	  .help = "The attributes of the resource that become series labels, with underscores for " \
		  "dots; `none` = none. Each distinct value is a series.") \
	X(LABELS, PAIRS, labels, \
	  .source = {{"SPANPROF_LABELS", SP_FORM_OWN}, {"PYROSCOPE_LABELS", SP_FORM_OWN}}, \
	  .help = "More series labels.") \
	X(SPAN_ID_SCOPE, ENUM, span_id_scope, \
	  .source = {{"SPANPROF_SPAN_ID_SCOPE", SP_FORM_OWN}, \
		     {"OTEL_PYROSCOPE_ROOT_SPAN_ONLY", SP_FORM_ROOT_ONLY}}, \
	  .choices = sp_config_scope_choices, .fallback = "root", \
	  .help = "Whose id labels a sample: the local root's, the innermost span's, or nobody's.") \
	X(SPAN_NAME_SCOPE, ENUM, span_name_scope, \
	  .source = {{"SPANPROF_SPAN_NAME_SCOPE", SP_FORM_OWN}, \
		     {"OTEL_PYROSCOPE_ADD_SPAN_NAME", SP_FORM_ADD}}, \
	  .choices = sp_config_name_scope_choices, .fallback = "auto", \
	  .help = "The same for the label span_name; `auto` is `all` where SPANPROF_SPAN_ID_SCOPE is " \
		  "`all`, so that an id and a name are of one span, and `root` elsewhere.") \
	X(ACTIVE_SPAN, ENUM, active_span, \
	  .source = {{"SPANPROF_ACTIVE_SPAN", SP_FORM_OWN}}, \
	  .choices = sp_config_active_choices, .fallback = "auto", \
	  .help = "What makes a span active on a thread: only the SDK's scopes, only start and end, only " \
		  "the thread context that a library of the program publishes, or `auto`: scopes once " \
		  "the program uses them, until then start and end while they nest; and that context on " \
		  "threads without spans of an SDK that is hooked.") \
	X(THREAD_CONTEXT, ENUM, thread_context, \
	  .source = {{"SPANPROF_THREAD_CONTEXT", SP_FORM_OWN}}, \
	  .choices = sp_config_publish_choices, .fallback = "auto", \
	  .help = "Publish each thread's active span in OpenTelemetry's thread context, for eBPF profilers: " \
		  "`auto` does where no library of the program could publish its own, `true` where " \
		  "none does.") \
	X(TRACE_ID, BOOL, trace_id, \
	  .source = {{"SPANPROF_TRACE_ID", SP_FORM_OWN}}, .fallback = "true", \
	  .help = "Label samples with trace_id.") \
	X(THREAD_NAME, BOOL, thread_name, \
	  .source = {{"SPANPROF_THREAD_NAME", SP_FORM_OWN}}, .fallback = "false", \
	  .help = "Label samples with thread_name, the kernel's name of the thread at that moment. Takes a " \
		  "system call per sample; more than 256 different names become `(other)`.") \
	X(MAX_SPAN_NAMES, INTEGER, max_span_names, \
	  .source = {{"SPANPROF_MAX_SPAN_NAMES", SP_FORM_OWN}}, \
	  .min = 1, .max = SP_NAMES_MAX, .fallback = "1000", \
	  .help = "More different span names than this become `(other)`.") \
	X(MAX_SPAN_AGE, DURATION, max_span_age_ms, \
	  .source = {{"SPANPROF_MAX_SPAN_AGE", SP_FORM_OWN}}, \
	  .min = 1000, .max = 86400000, .fallback = "1h", \
	  .help = "A span still open after this time loses its labels and attributes: its end may never " \
		  "come.") \
	X(ATTRIBUTES, ENUM, attributes, \
	  .source = {{"SPANPROF_ATTRIBUTES", SP_FORM_OWN}}, \
	  .choices = sp_config_attributes_choices, .fallback = "always", \
	  .help = "Which spans get `pyroscope.profile.id` and the links: all whose id can be a label, " \
		  "those of them that have samples when they end, or none.") \
	X(SPAN_CPU_TIME, BOOL, span_cpu_time, \
	  .source = {{"SPANPROF_SPAN_CPU_TIME", SP_FORM_OWN}}, .fallback = "false", \
	  .help = "Local roots get `spanprof.cpu_time_ns`, the exact CPU time that threads spent in " \
		  "them. Takes a system call per start, end, attach and detach.") \
	X(OFF_CPU, BOOL, off_cpu, \
	  .source = {{"SPANPROF_OFF_CPU", SP_FORM_OWN}}, .fallback = "false", \
	  .help = "A second profile, `off_cpu`: where threads that have a span wait, for how long and in " \
		  "which span. No signal ever goes to a waiting thread.") \
	X(OFF_CPU_TARGETS, BOOL, off_cpu_targets, \
	  .source = {{"SPANPROF_OFF_CPU_TARGETS", SP_FORM_OWN}}, .fallback = "false", \
	  .help = "Waits are told apart by what they wait for, such as `recvfrom tcp 10.0.0.5:5432`.") \
	X(WALL, BOOL, wall, \
	  .source = {{"SPANPROF_WALL", SP_FORM_OWN}}, .fallback = "false", \
	  .help = "A profile `wall` of CPU and waiting time together, for Grafana's links from a span, " \
		  "which show one type.") \
	X(PROFILE_URL, LINK, profile_url, \
	  .source = {{"SPANPROF_PROFILE_URL", SP_FORM_OWN}}, \
	  .choices = sp_config_link_choices, \
	  .words = "no link, or " SP_PROFILE_URL_DEFAULT " if SPANPROF_PROFILE_BASE_URL is set", \
	  .help = "`pyroscope.profile.url` of a span: a preset, or a URL with {span_id}, {trace_id}, " \
		  "{service}, {span_name}, {from_ms}, {until_ms}, {from_ns}, {until_ns}. These reach " \
		  "beyond the span by what a profile may last: SPANPROF_UPLOAD_INTERVAL and " \
		  "SPANPROF_PUSH_TIMEOUT.") \
	X(BASELINE_URL, LINK, baseline_url, \
	  .source = {{"SPANPROF_BASELINE_URL", SP_FORM_OWN}}, \
	  .choices = sp_config_link_choices, \
	  .words = "that of SPANPROF_PROFILE_URL if it is a preset, else no link", \
	  .help = "`pyroscope.profile.baseline.url` of a span: the same service and span name over the " \
		  "hour before it. As SPANPROF_PROFILE_URL, but {until_ms} is the span's start.") \
	X(BASELINE_LABELS, PAIRS, baseline_labels, \
	  .source = {{"SPANPROF_BASELINE_LABELS", SP_FORM_OWN}, \
		     {"OTEL_PYROSCOPE_BASELINE_LABELS", SP_FORM_OWN}}, \
	  .help = "Labels of the baseline of `pyroscope-legacy`; an empty value drops one.") \
	X(PROFILE_BASE_URL, BASE_URL, profile_base_url, \
	  .source = {{"SPANPROF_PROFILE_BASE_URL", SP_FORM_OWN}}, \
	  .help = "What the presets of SPANPROF_PROFILE_URL start with: the address of Grafana.") \
	X(PROFILE_DATASOURCE, TEXT, profile_datasource, \
	  .source = {{"SPANPROF_PROFILE_DATASOURCE", SP_FORM_OWN}}, \
	  .words = "Grafana's choice: its default, or the last one used", \
	  .help = "The uid of the Pyroscope data source that links to Grafana open; {datasource} in a " \
		  "template.") \
	X(ADD_PROFILE_URL, BOOL, add_profile_url, \
	  .source = {{"OTEL_PYROSCOPE_ADD_PROFILE_URL", SP_FORM_OWN}}, .fallback = "true", \
	  .help = "`false` turns the link off.") \
	X(ADD_BASELINE_URL, BOOL, add_baseline_url, \
	  .source = {{"OTEL_PYROSCOPE_ADD_PROFILE_BASELINE_URL", SP_FORM_OWN}}, .fallback = "true", \
	  .help = "`false` turns the link to the baseline off.") \
	X(SAMPLE_RATE, INTEGER, sample_rate_hz, \
	  .source = {{"SPANPROF_SAMPLE_RATE", SP_FORM_OWN}, \
		     {"PYROSCOPE_PROFILING_INTERVAL", SP_FORM_PERIOD}}, \
	  .min = 1, .max = 1000, .fallback = "100", \
	  .help = "Samples per second of CPU time. PYROSCOPE_PROFILING_INTERVAL is the time between " \
		  "two samples, such as `10ms`.") \
	X(STACK_DEPTH, INTEGER, stack_depth, \
	  .source = {{"SPANPROF_STACK_DEPTH", SP_FORM_OWN}}, \
	  .min = 1, .max = SP_FRAMES_MAX, .fallback = "128", \
	  .help = "Frames kept of a stack, from the leaf.") \
	X(UNWIND, ENUM, unwind, \
	  .source = {{"SPANPROF_UNWIND", SP_FORM_OWN}}, \
	  .choices = sp_config_unwind_choices, .fallback = "auto", \
	  .help = "Where stacks are walked: in the signal handler (`cfi`), from copies of the stack in " \
		  "the exporter (`snapshot`), or in the handler wherever it can (`auto`).") \
	X(SYMBOLIZE, ENUM, symbolize, \
	  .source = {{"SPANPROF_SYMBOLIZE", SP_FORM_OWN}}, \
	  .choices = sp_config_symbolize_choices, .fallback = "full", \
	  .help = "`full`: function names, files, lines and inlined functions; `names`: function " \
		  "names; `off`: addresses and build IDs, for a server that symbolizes.") \
	X(SYMBOL_CACHE_MB, INTEGER, symbol_cache_mb, \
	  .source = {{"SPANPROF_SYMBOL_CACHE_MB", SP_FORM_OWN}}, \
	  .min = 4, .max = 65536, .fallback = "64", \
	  .help = "Most MiB for symbols. An object whose debug information needs more than half of " \
		  "it gets names, not lines.") \
	X(DEBUGINFOD_URLS, TEXT, debuginfod_urls, \
	  .source = {{"DEBUGINFOD_URLS", SP_FORM_OWN}}, \
	  .words = "no server is asked", \
	  .help = "debuginfod servers for debug files that are not installed; needs " \
		  "libdebuginfod.so.1.") \
	X(SIGNAL, SIGNAL, signal_number, \
	  .source = {{"SPANPROF_SIGNAL", SP_FORM_OWN}}, .fallback = "auto", \
	  .help = "The sampling signal, by name (`SIGURG`, `RTMIN+3`) or number; `auto` is SIGURG, and " \
		  "a real-time signal once the program uses that one itself.") \
	X(UPLOAD_INTERVAL, DURATION, upload_interval_ms, \
	  .source = {{"SPANPROF_UPLOAD_INTERVAL", SP_FORM_OWN}, \
		     {"PYROSCOPE_UPLOAD_INTERVAL", SP_FORM_OWN}}, \
	  .min = 200, .max = 600000, .fallback = "15s", \
	  .help = "Time that one profile covers. Durations need a unit: ns, us, ms, s, m or h.") \
	X(FLUSH_TIMEOUT, DURATION, flush_timeout_ms, \
	  .source = {{"SPANPROF_FLUSH_TIMEOUT", SP_FORM_OWN}}, \
	  .min = 0, .max = 60000, .fallback = "2s", \
	  .help = "How long the end of a process may wait: for the last push if its exporter serves no " \
		  "other process, else until its samples are taken over; `0` = not at all.") \
	X(PUSH_TIMEOUT, DURATION, push_timeout_ms, \
	  .source = {{"SPANPROF_PUSH_TIMEOUT", SP_FORM_OWN}, \
		     {"PYROSCOPE_PROFILE_EXPORT_TIMEOUT", SP_FORM_OWN}}, \
	  .min = 100, .max = 600000, .fallback = "10s", \
	  .help = "Time one push may take.") \
	X(PUSH_QUEUE_CAPACITY, INTEGER, push_queue_capacity, \
	  .source = {{"SPANPROF_PUSH_QUEUE_CAPACITY", SP_FORM_OWN}, \
		     {"PYROSCOPE_PUSH_QUEUE_CAPACITY", SP_FORM_OWN}}, \
	  .min = 1, .max = 128, .fallback = "8", \
	  .help = "Profiles of each type kept while the server is away, for each process that the " \
		  "exporter serves; then the oldest go.") \
	X(PUSH_MAX_TRIES, INTEGER, push_max_tries, \
	  .source = {{"SPANPROF_PUSH_MAX_TRIES", SP_FORM_OWN}, \
		     {"PYROSCOPE_INGEST_MAX_TRIES", SP_FORM_OWN}}, \
	  .min = 0, .max = 100, .fallback = "0", \
	  .help = "Tries per profile; `0` = until it is an hour old or the queue is full.") \
	X(BASIC_AUTH_USER, TEXT, basic_auth_user, \
	  .source = {{"SPANPROF_BASIC_AUTH_USER", SP_FORM_OWN}, \
		     {"PYROSCOPE_BASIC_AUTH_USER", SP_FORM_OWN}}, \
	  .help = "User of HTTP basic authentication.") \
	X(BASIC_AUTH_USER_FILE, SECRET_FILE, basic_auth_user_file, \
	  .source = {{"SPANPROF_BASIC_AUTH_USER_FILE", SP_FORM_OWN}}, \
	  .help = "File that holds the user; wins over the variable.") \
	X(BASIC_AUTH_PASSWORD, SECRET, basic_auth_password, \
	  .source = {{"SPANPROF_BASIC_AUTH_PASSWORD", SP_FORM_OWN}, \
		     {"PYROSCOPE_BASIC_AUTH_PASSWORD", SP_FORM_OWN}}, \
	  .help = "Its password. The environment is readable in /proc: prefer the file.") \
	X(BASIC_AUTH_PASSWORD_FILE, SECRET_FILE, basic_auth_password_file, \
	  .source = {{"SPANPROF_BASIC_AUTH_PASSWORD_FILE", SP_FORM_OWN}}, \
	  .help = "File that holds the password; wins over the variable.") \
	X(AUTH_TOKEN, SECRET, auth_token, \
	  .source = {{"SPANPROF_AUTH_TOKEN", SP_FORM_OWN}, {"PYROSCOPE_AUTH_TOKEN", SP_FORM_OWN}}, \
	  .help = "Bearer token.") \
	X(AUTH_TOKEN_FILE, SECRET_FILE, auth_token_file, \
	  .source = {{"SPANPROF_AUTH_TOKEN_FILE", SP_FORM_OWN}}, \
	  .help = "File that holds the token; wins over the variable.") \
	X(TENANT_ID, TEXT, tenant_id, \
	  .source = {{"SPANPROF_TENANT_ID", SP_FORM_OWN}, {"PYROSCOPE_TENANT_ID", SP_FORM_OWN}}, \
	  .help = "Tenant, sent as X-Scope-OrgID.") \
	X(TENANT_ID_FILE, SECRET_FILE, tenant_id_file, \
	  .source = {{"SPANPROF_TENANT_ID_FILE", SP_FORM_OWN}}, \
	  .help = "File that holds the tenant; wins over the variable.") \
	X(HTTP_HEADERS, HEADERS, http_headers, \
	  .source = {{"SPANPROF_HTTP_HEADERS", SP_FORM_OWN}, \
		     {"PYROSCOPE_HTTP_HEADERS", SP_FORM_OWN}}, \
	  .help = "More request headers.") \
	X(HTTP_HEADERS_FILE, SECRET_FILE, http_headers_file, \
	  .source = {{"SPANPROF_HTTP_HEADERS_FILE", SP_FORM_OWN}}, \
	  .help = "File that holds the headers; wins over the variable.") \
	X(HOOK_DLSYM, BOOL, hook_dlsym, \
	  .source = {{"SPANPROF_HOOK_DLSYM", SP_FORM_OWN}}, .fallback = "false", \
	  .help = "Also hook SDK functions that the program asks `dlsym` for: Python's ctypes, " \
		  "LuaJIT, cffi.") \
	X(DEEPBIND, BOOL, deepbind, \
	  .source = {{"SPANPROF_DEEPBIND", SP_FORM_OWN}}, .fallback = "false", \
	  .help = "Also hook SDK calls of plugins that are opened with RTLD_DEEPBIND.") \
	X(TLS_CA_FILE, PATH, tls_ca_file, \
	  .source = {{"SPANPROF_TLS_CA_FILE", SP_FORM_OWN}, {"SSL_CERT_FILE", SP_FORM_OWN}}, \
	  .words = "the system's", \
	  .help = "Certificates (PEM) of those who may sign the server's.") \
	X(TLS_CERT_FILE, PATH, tls_cert_file, \
	  .source = {{"SPANPROF_TLS_CERT_FILE", SP_FORM_OWN}}, \
	  .help = "Our own certificate (PEM), for servers that ask for one.") \
	X(TLS_KEY_FILE, PATH, tls_key_file, \
	  .source = {{"SPANPROF_TLS_KEY_FILE", SP_FORM_OWN}}, \
	  .words = "SPANPROF_TLS_CERT_FILE", \
	  .help = "Its key (PEM), without a pass phrase.") \
	X(TLS_INSECURE_SKIP_VERIFY, BOOL, tls_insecure, \
	  .source = {{"SPANPROF_TLS_INSECURE_SKIP_VERIFY", SP_FORM_OWN}}, .fallback = "false", \
	  .help = "Talk to a server whoever it is. For trials only.") \
	X(HTTP_PROXY, SECRET, http_proxy, \
	  .source = {{"http_proxy", SP_FORM_OWN}}, \
	  .help = "Proxy for http:// servers, as curl knows it.") \
	X(HTTPS_PROXY, SECRET, https_proxy, \
	  .source = {{"https_proxy", SP_FORM_OWN}, {"HTTPS_PROXY", SP_FORM_OWN}}, \
	  .help = "Proxy for https:// servers.") \
	X(ALL_PROXY, SECRET, all_proxy, \
	  .source = {{"all_proxy", SP_FORM_OWN}, {"ALL_PROXY", SP_FORM_OWN}}, \
	  .help = "Proxy where neither of the two above is set.") \
	X(NO_PROXY, TEXT, no_proxy, \
	  .source = {{"no_proxy", SP_FORM_OWN}, {"NO_PROXY", SP_FORM_OWN}}, \
	  .help = "Hosts that are asked without a proxy. This host always is.") \
	X(STATUS_FILE, PATH, status_file, \
	  .source = {{"SPANPROF_STATUS_FILE", SP_FORM_OWN}}, \
	  .help = "JSON file that tells what is sampled, sent and lost, rewritten at each upload " \
		  "interval; `%p` in it is the process id. `spanprof-report --status` explains it.") \
	X(EXPORTER, PATH, exporter, \
	  .source = {{"SPANPROF_EXPORTER", SP_FORM_OWN}}, \
	  .words = "spanprof-exporter beside libspanprof.so", \
	  .help = "The program that sends the profiles, where the folder of libspanprof.so is mounted " \
		  "without leave to execute.") \
	X(LOG_LEVEL, ENUM, log_level, \
	  .source = {{"SPANPROF_LOG_LEVEL", SP_FORM_OWN}, {"PYROSCOPE_LOG_LEVEL", SP_FORM_OWN}, \
		     {"OTEL_LOG_LEVEL", SP_FORM_OWN}}, \
	  .choices = sp_config_level_choices, .fallback = "warn", \
	  .help = "Least severe messages that still go to stderr.")
// clang-format on

#define SP_CONFIG_ENUM_(id, ...) SP_VAR_##id,
enum sp_config_id { SP_FOR_EACH_CONFIG(SP_CONFIG_ENUM_) SP_VAR_N };

extern const struct sp_config_var sp_config_vars[SP_VAR_N];

#endif
