/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one list of all variables. Parsing, warnings, suggestions for misspelt names, --help-env, the
 * README.md of this folder and spanprof(7) are made from it. And the functions that parse one
 * value.
 */
#ifndef SP_CONFIG_TABLE_H
#define SP_CONFIG_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "sampler/config/config.h"
#include "sampler/region/names.h"
#include "sampler/region/record.h"

enum sp_config_type {
	SP_TYPE_SWITCH,   /* a bool; true under any of its names keeps us inert */
	SP_TYPE_BOOL,     /* true or false */
	SP_TYPE_ENUM,     /* one of .choices */
	SP_TYPE_INTEGER,  /* .min to .max */
	SP_TYPE_DURATION, /* .min to .max milliseconds */
	SP_TYPE_SIGNAL,
	SP_TYPE_PATH,        /* absolute */
	SP_TYPE_SECRET_FILE, /* as SP_TYPE_PATH; never shown: some users write the secret itself */
	SP_TYPE_ADDRESS,     /* http, https or unix URL, user information allowed; never shown */
	SP_TYPE_BASE_URL,    /* http or https URL without user information, because spans show it */
	SP_TYPE_LINK,        /* as SP_TYPE_BASE_URL with placeholders, or one of .choices */
	SP_TYPE_TEXT,        /* UTF-8 without control characters */
	SP_TYPE_PAIRS,       /* k=v,k=v or k:v,k:v */
	SP_TYPE_RESOURCE,    /* k=v,k=v, percent-encoded as OTel defines it */
	SP_TYPE_ATTRIBUTES,  /* key,key: at most SP_SPAN_VALUES_MAX keys of attributes */
	SP_TYPE_SLOW,        /* off, auto or a duration, each also for a name: name=200ms */
	SP_TYPE_SECRET,      /* as SP_TYPE_TEXT; never shown */
	SP_TYPE_HEADERS,     /* JSON object; never shown */
};

/* How the value of an alias differs from the variable's own. */
enum sp_config_form {
	SP_FORM_OWN,
	SP_FORM_NOT,       /* a bool: the opposite */
	SP_FORM_PERIOD,    /* a duration: the time between two samples instead of the rate */
	SP_FORM_ROOT_ONLY, /* a bool: true = root, false = all */
	SP_FORM_ADD,       /* a bool: true = the default, false = none */
	SP_FORM_MS,        /* a duration: milliseconds without a unit; 0 = the longest */
};

/*
 * Variables with this prefix configure exporters of every signal, and count only if profiles are
 * sent in OTLP.
 */
#define SP_OTLP_PREFIX "OTEL_EXPORTER_OTLP_"

struct sp_config_choice {
	const char *word;
	uint32_t value; /* later words for the same value are accepted, but not documented */
};

struct sp_config_source {
	const char *name;
	enum sp_config_form form;
};

#define SP_CONFIG_SOURCES 5U

struct sp_config_var {
	struct sp_config_source source[SP_CONFIG_SOURCES]; /* the first one has precedence */
	enum sp_config_type type;
	uint32_t min;
	uint32_t max;
	const struct sp_config_choice *choices; /* a NULL word ends them */
	size_t field;                           /* offset in struct sp_config */
	const char *fallback;                   /* the default in the form of a value, or NULL */
	const char *words;                      /* the default in words, if fallback is NULL */
	const char *help;
};

/*
 * X(id, type, field, the other members of struct sp_config_var). The id and the field name the
 * meaning. So SPANPROF_APPLICATION_NAME is SERVICE_NAME: its value is OpenTelemetry's service.name
 * and becomes the label service_name; the variable's name is the one that Pyroscope's own clients
 * use.
 */
// clang-format off
#define SP_CHOICES(...) (const struct sp_config_choice[]){__VA_ARGS__, {NULL, 0}}
#define SP_FOR_EACH_CONFIG(X) \
	X(DISABLED, SWITCH, disabled, \
	  .source = {{"SPANPROF_DISABLED", SP_FORM_OWN}, {"OTEL_SDK_DISABLED", SP_FORM_OWN}, \
		     {"PYROSCOPE_AGENT_ENABLED", SP_FORM_NOT}, \
		     {"OTEL_PYROSCOPE_START_PROFILING", SP_FORM_NOT}}, \
	  .fallback = "false", \
	  .help = "Profile nothing. One of these names suffices. SPANPROF_DISABLED disables " \
		  "profiling unless it is empty, `false`, `0`, `no` or `off`, without a " \
		  "message; OTEL_SDK_DISABLED only with `true`; PYROSCOPE_AGENT_ENABLED and " \
		  "OTEL_PYROSCOPE_START_PROFILING with `false`, `0`, `no` or `off`.") \
	X(PROFILE, ENUM, profile, \
	  .source = {{"SPANPROF_PROFILE", SP_FORM_OWN}}, \
	  .choices = SP_CHOICES({"on-span", SP_PROFILE_ON_SPAN}, {"always", SP_PROFILE_ALWAYS}), \
	  .fallback = "on-span", \
	  .help = "When profiling starts: `on-span`, at the first recorded span or manual label, " \
		  "or earlier in a program that publishes thread contexts; `always`, when the " \
		  "program starts.") \
	X(SERVER_ADDRESS, ADDRESS, server_address, \
	  .source = {{"SPANPROF_SERVER_ADDRESS", SP_FORM_OWN}, \
		     {"PYROSCOPE_ADHOC_SERVER_ADDRESS", SP_FORM_OWN}, \
		     {"PYROSCOPE_SERVER_ADDRESS", SP_FORM_OWN}, \
		     {SP_OTLP_PREFIX "PROFILES_ENDPOINT", SP_FORM_OWN}, \
		     {SP_OTLP_PREFIX "ENDPOINT", SP_FORM_OWN}}, \
	  .words = "http://localhost:4040 (for OTLP http://localhost:4318), or none if " \
		   "SPANPROF_OUTPUT_DIR is set", \
	  .help = "The server that profiles are pushed to, or up to four, separated by commas. `unix:///run/pyroscope.sock` names a " \
		  "socket. Redirects are not followed. " SP_OTLP_PREFIX "PROFILES_ENDPOINT is used as it " \
		  "is; the path of the API is appended to all other addresses. Each of several servers " \
		  "gets every profile; credentials are lists in the same order then (SEVERAL SERVERS).") \
	X(PROTOCOL, ENUM, protocol, \
	  .source = {{"SPANPROF_PROTOCOL", SP_FORM_OWN}}, \
	  .choices = SP_CHOICES({"push", SP_PROTOCOL_PUSH}, {"ingest", SP_PROTOCOL_INGEST}, \
				{"otlp", SP_PROTOCOL_OTLP}), .fallback = "push", \
	  .help = "`push`: Pyroscope's current API, /push.v1.PusherService/Push. `ingest`: its " \
		  "older /ingest, for servers and proxies that only know that. `otlp`: " \
		  "OpenTelemetry's profiles (alpha) over HTTP, /v1development/profiles; the " \
		  "default if " SP_OTLP_PREFIX "PROFILES_ENDPOINT is set and no address of Pyroscope is. " \
		  "Variables that begin with " SP_OTLP_PREFIX " have an effect only with `otlp`.") \
	X(OTLP_PROTOCOL, ENUM, otlp_protocol, \
	  .source = {{SP_OTLP_PREFIX "PROFILES_PROTOCOL", SP_FORM_OWN}, \
		     {SP_OTLP_PREFIX "PROTOCOL", SP_FORM_OWN}}, \
	  .choices = SP_CHOICES({"http/protobuf", SP_OTLP_HTTP_PROTOBUF}), \
	  .fallback = "http/protobuf", \
	  .help = "OTLP goes over HTTP as protobuf. Other values get a warning and are ignored.") \
	X(COMPRESSION, ENUM, compression, \
	  .source = {{"SPANPROF_COMPRESSION", SP_FORM_OWN}, \
		     {SP_OTLP_PREFIX "PROFILES_COMPRESSION", SP_FORM_OWN}, \
		     {SP_OTLP_PREFIX "COMPRESSION", SP_FORM_OWN}}, \
	  .choices = SP_CHOICES({"gzip", SP_COMPRESSION_GZIP}, {"none", SP_COMPRESSION_NONE}), \
	  .fallback = "gzip", \
	  .help = "The compression of pushes in OTLP. All other pushes are compressed with gzip.") \
	X(OUTPUT_DIR, PATH, output_dir, \
	  .source = {{"SPANPROF_OUTPUT_DIR", SP_FORM_OWN}}, \
	  .help = "Write profiles into this directory.") \
	X(OUTPUT_FORMAT, ENUM, output_format, \
	  .source = {{"SPANPROF_OUTPUT_FORMAT", SP_FORM_OWN}}, \
	  .choices = SP_CHOICES({"pprof", SP_FORMAT_PPROF}, {"otlp", SP_FORMAT_OTLP}), \
	  .fallback = "pprof", \
	  .help = "The format of the profiles in SPANPROF_OUTPUT_DIR: pprof, or OpenTelemetry's " \
		  "ProfilesData, both compressed with gzip.") \
	X(OUTPUT_MAX_FILES, INTEGER, output_max_files, \
	  .source = {{"SPANPROF_OUTPUT_MAX_FILES", SP_FORM_OWN}}, \
	  .min = 0, .max = 10000000, .fallback = "0", \
	  .help = "How many profiles of this user SPANPROF_OUTPUT_DIR may have; the oldest are " \
		  "deleted. 0 = any number.") \
	X(OUTPUT_MAX_MIB, INTEGER, output_max_mib, \
	  .source = {{"SPANPROF_OUTPUT_MAX_MIB", SP_FORM_OWN}}, \
	  .min = 0, .max = 1U << 30, .fallback = "0", \
	  .help = "How many MiB the profiles of this user in SPANPROF_OUTPUT_DIR may have " \
		  "together; the oldest are deleted. 0 = any size.") \
	X(SERVICE_NAME, TEXT, service_name, \
	  .source = {{"SPANPROF_APPLICATION_NAME", SP_FORM_OWN}, \
		     {"PYROSCOPE_APPLICATION_NAME", SP_FORM_OWN}, \
		     {"OTEL_PYROSCOPE_APP_NAME", SP_FORM_OWN}, \
		     {"OTEL_SERVICE_NAME", SP_FORM_OWN}}, \
	  .words = "the service.name that the program gives to opentelemetry-cpp or publishes in its " \
		   "process context, which also wins over OTEL_SERVICE_NAME; else service.name of " \
		   "OTEL_RESOURCE_ATTRIBUTES, else unknown_service:<program>", \
	  .help = "The service of the profiles (label service_name, in OTLP service.name). It must " \
		  "equal the service.name of the spans. A name in the program's code counts if " \
		  "the SDK has it before profiling starts.") \
	X(RESOURCE_ATTRIBUTES, RESOURCE, resource_attributes, \
	  .source = {{"OTEL_RESOURCE_ATTRIBUTES", SP_FORM_OWN}}, \
	  .help = "OpenTelemetry's resource attributes. Profiles get service.name, " \
		  "service.namespace and those in SPANPROF_RESOURCE_LABELS, in OTLP all. If one " \
		  "is malformed, all are ignored.") \
	X(RESOURCE_LABELS, TEXT, resource_labels, \
	  .source = {{"SPANPROF_RESOURCE_LABELS", SP_FORM_OWN}}, \
	  .fallback = "service.version,deployment.environment.name,deployment.environment," \
		      "k8s.namespace.name,k8s.pod.name,k8s.container.name", \
	  .help = "Up to 16 resource attributes that become series labels, with underscores " \
		  "instead of dots; `none` = none; OTLP has all attributes, with their dots. Each " \
		  "distinct value makes a series.") \
	X(LABELS, PAIRS, labels, \
	  .source = {{"SPANPROF_LABELS", SP_FORM_OWN}, {"PYROSCOPE_LABELS", SP_FORM_OWN}}, \
	  .help = "Additional series labels, in OTLP attributes of the resource. An empty value, " \
		  "as in `pid=`, removes that label from series and samples at the server.") \
	X(MAX_SERIES, INTEGER, max_series, \
	  .source = {{"SPANPROF_MAX_SERIES", SP_FORM_OWN}}, \
	  .min = 8, .max = 1000000, .fallback = "2000", \
	  .help = "How many series the samples of a process may make at the server, one for each " \
		  "set of labels without span_id and trace_id. In further sets the value of an " \
		  "attribute becomes `(other)`, then the name of the thread, then that of the " \
		  "span.") \
	X(SPAN_ID_SCOPE, ENUM, span_id_scope, \
	  .source = {{"SPANPROF_SPAN_ID_SCOPE", SP_FORM_OWN}, \
		     {"OTEL_PYROSCOPE_ROOT_SPAN_ONLY", SP_FORM_ROOT_ONLY}}, \
	  .choices = SP_CHOICES({"root", SP_SCOPE_ROOT}, {"all", SP_SCOPE_ALL}, \
				{"slow", SP_SCOPE_SLOW}, {"none", SP_SCOPE_NONE}), \
	  .fallback = "root", \
	  .help = "Which span's id becomes the label span_id: that of the local root " \
		  "(`root`), that of the innermost span (`all`), that of the local root if it " \
		  "was slow or has not ended (`slow`), or none. " \
		  "OTEL_PYROSCOPE_ROOT_SPAN_ONLY is `true` for `root` or `false` for `all`.") \
	X(SPAN_NAME_SCOPE, ENUM, span_name_scope, \
	  .source = {{"SPANPROF_SPAN_NAME_SCOPE", SP_FORM_OWN}, \
		     {"OTEL_PYROSCOPE_ADD_SPAN_NAME", SP_FORM_ADD}}, \
	  .choices = SP_CHOICES({"auto", SP_SCOPE_AUTO}, {"root", SP_SCOPE_ROOT}, \
				{"all", SP_SCOPE_ALL}, {"none", SP_SCOPE_NONE}), \
	  .fallback = "auto", \
	  .help = "Which span's name becomes the label span_name. `auto`: as " \
		  "SPANPROF_SPAN_ID_SCOPE if that is `all`, so that id and name are of " \
		  "one span, else `root`. OTEL_PYROSCOPE_ADD_SPAN_NAME is `true` for `auto` or " \
		  "`false` for `none`.") \
	X(ACTIVE_SPAN, ENUM, active_span, \
	  .source = {{"SPANPROF_ACTIVE_SPAN", SP_FORM_OWN}}, \
	  .choices = SP_CHOICES({"auto", SP_ACTIVE_AUTO}, {"scope", SP_ACTIVE_SCOPE}, \
				{"start", SP_ACTIVE_START}, {"context", SP_ACTIVE_CONTEXT}), \
	  .fallback = "auto", \
	  .help = "What makes a span active on a thread. `scope`: the SDK's scopes. " \
		  "`start`: its start and end. `context`: the thread context that a " \
		  "library of the program publishes. `auto`: start and end while spans " \
		  "nest, scopes once the program uses them, and the thread context on " \
		  "threads without spans of a hooked SDK.") \
	X(THREAD_CONTEXT, BOOL, thread_context, \
	  .source = {{"SPANPROF_THREAD_CONTEXT", SP_FORM_OWN}}, .fallback = "false", \
	  .help = "Publish the active spans of threads in OpenTelemetry's thread context, " \
		  "for eBPF profilers, unless a library of the program publishes its own.") \
	X(TRACE_ID, BOOL, trace_id, \
	  .source = {{"SPANPROF_TRACE_ID", SP_FORM_OWN}}, .fallback = "true", \
	  .help = "Label samples with trace_id; in OTLP it is in a link, with the span_id if " \
		  "there is one. If this variable is not set, SPANPROF_SPAN_ID_SCOPE=none removes " \
		  "trace_id, too.") \
	X(THREAD_NAME, BOOL, thread_name, \
	  .source = {{"SPANPROF_THREAD_NAME", SP_FORM_OWN}}, .fallback = "false", \
	  .help = "Label samples with thread_name (in OTLP thread.name), the thread's name in the " \
		  "kernel at that moment. Costs a system call per sample. After 256 different " \
		  "names, new ones become `(other)`.") \
	X(SPAN_LABELS, ATTRIBUTES, span_labels, \
	  .source = {{"SPANPROF_SPAN_LABELS", SP_FORM_OWN}}, \
	  .help = "Up to four attributes of local roots, such as `http.route`, whose values become " \
		  "labels of their samples, with underscores instead of dots, except in OTLP. A value " \
		  "is a string, a number or a boolean; it is known when the span ends, and cut at 256 bytes. After " \
		  "1,000 different values of one attribute in a profile, new values become `(other)`. " \
		  "Each distinct value makes a series.") \
	X(SPAN_LATENCY, BOOL, span_latency, \
	  .source = {{"SPANPROF_SPAN_LATENCY", SP_FORM_OWN}}, .fallback = "false", \
	  .help = "Label samples with latency: how long their local root lasted, compared with " \
		  "the other roots of its name. `p50`: no longer than the median; `p90`: no " \
		  "longer than the 90th percentile; `p99`: no longer than the 99th; `slow`: " \
		  "longer, or at least the duration in SPANPROF_SLOW. The label is known when the root ends.") \
	X(MAX_SPAN_NAMES, INTEGER, max_span_names, \
	  .source = {{"SPANPROF_MAX_SPAN_NAMES", SP_FORM_OWN}}, \
	  .min = 1, .max = SP_NAMES_MAX, .fallback = "1000", \
	  .help = "How many different span names a process can have. New names after that become " \
		  "`(other)`.") \
	X(MAX_SPAN_AGE, DURATION, max_span_age_ms, \
	  .source = {{"SPANPROF_MAX_SPAN_AGE", SP_FORM_OWN}}, \
	  .min = 1000, .max = 86400000, .fallback = "1h", \
	  .help = "A span that is open for longer loses its labels and attributes, " \
		  "because its end may never come. While the table of 16,384 open spans is " \
		  "full, a new span may displace a span that has been open for a minute.") \
	X(ATTRIBUTES, ENUM, attributes, \
	  .source = {{"SPANPROF_ATTRIBUTES", SP_FORM_OWN}}, \
	  .choices = SP_CHOICES({"always", SP_ATTRIBUTES_ALWAYS}, \
				{"with-samples", SP_ATTRIBUTES_WITH_SAMPLES}, \
				{"never", SP_ATTRIBUTES_NEVER}), .fallback = "with-samples", \
	  .help = "Which spans get `pyroscope.profile.id` and the links, of those whose id can be " \
		  "a label: all; those that have a sample of CPU time or of an allocation when " \
		  "they end (with SPANPROF_OFF_CPU or SPANPROF_WALL also those with a wait); or " \
		  "none. Samples that a forked child takes in a span of its parent do not count.") \
	X(MEASURE_ROOTS, BOOL, measure_roots, \
	  .source = {{"SPANPROF_MEASURE_ROOTS", SP_FORM_OWN}}, .fallback = "true", \
	  .help = "Measure the CPU time of a random few local roots, at most some 400 a second, and " \
		  "correct that of their names by it: samples alone give names of short roots too " \
		  "little or too much time. Totals do not change. Only if `span_name` is that of " \
		  "the local root.") \
	X(SPAN_CPU_TIME, BOOL, span_cpu_time, \
	  .source = {{"SPANPROF_SPAN_CPU_TIME", SP_FORM_OWN}}, .fallback = "false", \
	  .help = "Give local roots the attribute `spanprof.cpu_time_ns`: the CPU time that " \
		  "threads have spent in them, measured and not sampled. Costs two system calls " \
		  "each time a local root is active on a thread.") \
	X(SPAN_TIMES, BOOL, span_times, \
	  .source = {{"SPANPROF_SPAN_TIMES", SP_FORM_OWN}}, .fallback = "false", \
	  .help = "Give local roots attributes that tell where their time went: " \
		  "`spanprof.cpu_time_ns`, `.off_cpu_time_ns`, of it `.runnable_time_ns`, " \
		  "`.page_faults.major`, `.context_switches.voluntary` and `.involuntary`. All " \
		  "are exact for spans of any length, except the runnable time, which is exact to " \
		  "a tenth; a time that is unknown is left out. Costs four system calls each time " \
		  "a local root is active on a thread.") \
	X(SLOW, SLOW, slow, \
	  .source = {{"SPANPROF_SLOW", SP_FORM_OWN}}, .fallback = "auto", \
	  .help = "Which local roots are listed one by one in the folder of SPANPROF_OUTPUT_DIR. " \
		  "`auto`: of each name the slowest hundredth of an upload interval, at least " \
		  "one, at most 20. A duration, such as `200ms`: those that last as long, or " \
		  "longer. `off`: none. For one name: `checkout=200ms,1s`. Without a folder only " \
		  "a duration or `off` has an effect, on SPANPROF_SPAN_LATENCY and " \
		  "SPANPROF_SPAN_ID_SCOPE=slow.") \
	X(OFF_CPU, BOOL, off_cpu, \
	  .source = {{"SPANPROF_OFF_CPU", SP_FORM_OWN}}, .fallback = "false", \
	  .help = "Add the profile `off_cpu`: where threads with a span wait, how long, " \
		  "and in which span. No signal is sent to a waiting thread.") \
	X(OFF_CPU_TARGETS, BOOL, off_cpu_targets, \
	  .source = {{"SPANPROF_OFF_CPU_TARGETS", SP_FORM_OWN}}, .fallback = "false", \
	  .help = "With SPANPROF_OFF_CPU or SPANPROF_WALL: distinguish waits by their targets, " \
		  "such as `recvfrom tcp 10.0.0.5:5432`.") \
	X(WALL, BOOL, wall, \
	  .source = {{"SPANPROF_WALL", SP_FORM_OWN}}, .fallback = "false", \
	  .help = "Add the profile `wall`: CPU time and waiting time together. Grafana's " \
		  "links from a span show only one profile type.") \
	X(ALLOC, BOOL, alloc, \
	  .source = {{"SPANPROF_ALLOC", SP_FORM_OWN}}, .fallback = "false", \
	  .help = "Add the profiles `memory`, the allocations of each stack and span, and " \
		  "`inuse`, the blocks that are not freed yet. Needs libspanprof-alloc.so in " \
		  "LD_PRELOAD, too.") \
	X(ALLOC_INTERVAL, INTEGER, alloc_interval, \
	  .source = {{"SPANPROF_ALLOC_INTERVAL", SP_FORM_OWN}}, \
	  .min = 1024, .max = 1U << 30, .fallback = "524288", \
	  .help = "How many bytes a program allocates between two samples, on average.") \
	X(PROFILE_URL, LINK, profile_url, \
	  .source = {{"SPANPROF_PROFILE_URL", SP_FORM_OWN}}, \
	  .choices = sp_config_link_choices, \
	  .words = "no link, or " SP_PROFILE_URL_DEFAULT " if SPANPROF_PROFILE_BASE_URL is set", \
	  .help = "`pyroscope.profile.url` of a span: a preset, or a URL with {span_id}, " \
		  "{trace_id}, {service}, {span_name}, {profile_type}, {from_ms}, {until_ms}, " \
		  "{from_ns}, {until_ns}. The type is `wall` if SPANPROF_WALL is set, `off_cpu` " \
		  "for a span that has waits in its profile and no CPU samples, and CPU for all " \
		  "others. The times are extended by SPANPROF_UPLOAD_INTERVAL and " \
		  "SPANPROF_PUSH_TIMEOUT, so that they include the whole profile.") \
	X(BASELINE_URL, LINK, baseline_url, \
	  .source = {{"SPANPROF_BASELINE_URL", SP_FORM_OWN}}, \
	  .choices = sp_config_link_choices, \
	  .words = "as SPANPROF_PROFILE_URL if that is a preset, else no link", \
	  .help = "`pyroscope.profile.baseline.url` of a span: the same service and span " \
		  "name in the hour before it. As SPANPROF_PROFILE_URL, but {until_ms} is " \
		  "the start of the span.") \
	X(BASELINE_LABELS, PAIRS, baseline_labels, \
	  .source = {{"SPANPROF_BASELINE_LABELS", SP_FORM_OWN}, \
		     {"OTEL_PYROSCOPE_BASELINE_LABELS", SP_FORM_OWN}}, \
	  .help = "Labels of the baseline of `pyroscope-legacy`; a label with an empty value is " \
		  "left out.") \
	X(PROFILE_BASE_URL, BASE_URL, profile_base_url, \
	  .source = {{"SPANPROF_PROFILE_BASE_URL", SP_FORM_OWN}}, \
	  .help = "The address of Grafana, or for `pyroscope-legacy` of Pyroscope, for the presets " \
		  "of SPANPROF_PROFILE_URL.") \
	X(PROFILE_DATASOURCE, TEXT, profile_datasource, \
	  .source = {{"SPANPROF_PROFILE_DATASOURCE", SP_FORM_OWN}}, \
	  .words = "chosen by Grafana: its default, or the last one used", \
	  .help = "The uid of the Pyroscope data source that Grafana shows when a link opens it; " \
		  "{datasource} in a URL.") \
	X(ADD_PROFILE_URL, BOOL, add_profile_url, \
	  .source = {{"OTEL_PYROSCOPE_ADD_PROFILE_URL", SP_FORM_OWN}}, .fallback = "true", \
	  .help = "`false`: spans get no `pyroscope.profile.url`.") \
	X(ADD_BASELINE_URL, BOOL, add_baseline_url, \
	  .source = {{"OTEL_PYROSCOPE_ADD_PROFILE_BASELINE_URL", SP_FORM_OWN}}, .fallback = "true", \
	  .help = "`false`: spans get no `pyroscope.profile.baseline.url`.") \
	X(SAMPLE_RATE, INTEGER, sample_rate_hz, \
	  .source = {{"SPANPROF_SAMPLE_RATE", SP_FORM_OWN}, \
		     {"PYROSCOPE_PROFILING_INTERVAL", SP_FORM_PERIOD}}, \
	  .min = 1, .max = 1000, .fallback = "100", \
	  .help = "Samples per second of CPU time; in PYROSCOPE_PROFILING_INTERVAL the time between " \
		  "two samples, such as `10ms`.") \
	X(STACK_DEPTH, INTEGER, stack_depth, \
	  .source = {{"SPANPROF_STACK_DEPTH", SP_FORM_OWN}}, \
	  .min = 1, .max = SP_FRAMES_MAX, .fallback = "128", \
	  .help = "How many frames of a stack are kept, counted from the leaf.") \
	X(UNWIND, ENUM, unwind, \
	  .source = {{"SPANPROF_UNWIND", SP_FORM_OWN}}, \
	  .choices = SP_CHOICES({"auto", SP_UNWIND_AUTO}, {"cfi", SP_UNWIND_CFI}, \
				{"snapshot", SP_UNWIND_SNAPSHOT}), .fallback = "auto", \
	  .help = "Where stacks are unwound. `cfi`: in the signal handler. `snapshot`: in " \
		  "the exporter, from copies of the stack. `auto`: in the handler " \
		  "wherever that is possible.") \
	X(SYMBOLIZE, ENUM, symbolize, \
	  .source = {{"SPANPROF_SYMBOLIZE", SP_FORM_OWN}}, \
	  .choices = SP_CHOICES({"full", SP_SYMBOLIZE_FULL}, {"names", SP_SYMBOLIZE_NAMES}, \
				{"off", SP_SYMBOLIZE_OFF}), .fallback = "full", \
	  .help = "`full`: function names, files, lines and inlined functions. `names`: " \
		  "function names only. `off`: addresses and build IDs, for a server that " \
		  "symbolizes.") \
	X(DEBUGINFOD_URLS, TEXT, debuginfod_urls, \
	  .source = {{"DEBUGINFOD_URLS", SP_FORM_OWN}}, \
	  .words = "none", \
	  .help = "debuginfod servers that are asked for debug files that are not " \
		  "installed. Needs libdebuginfod.so.1.") \
	X(SIGNAL, SIGNAL, signal_number, \
	  .source = {{"SPANPROF_SIGNAL", SP_FORM_OWN}}, .fallback = "auto", \
	  .help = "The signal used for sampling, by name (`SIGURG`, `RTMIN+3`) or number, for a " \
		  "program that resets all signals below the C library. The program must neither " \
		  "block nor handle the signal, nor wait for it. `auto`: signal 33, which glibc " \
		  "reserves for itself, or SIGURG if signal 33 cannot be used.") \
	X(UPLOAD_INTERVAL, DURATION, upload_interval_ms, \
	  .source = {{"SPANPROF_UPLOAD_INTERVAL", SP_FORM_OWN}, \
		     {"PYROSCOPE_UPLOAD_INTERVAL", SP_FORM_OWN}}, \
	  .min = 200, .max = 600000, .fallback = "15s", \
	  .help = "The time that one profile covers, from one push to the next. Durations " \
		  "need a unit: ns, us, ms, s, m or h.") \
	X(FLUSH_TIMEOUT, DURATION, flush_timeout_ms, \
	  .source = {{"SPANPROF_FLUSH_TIMEOUT", SP_FORM_OWN}}, \
	  .min = 0, .max = 60000, .fallback = "2s", \
	  .help = "How long the end of a process may be delayed. A process that has started the " \
		  "exporter waits until the last push is done and the exporter has ended; any " \
		  "other process waits until the exporter has its samples. An exporter that has " \
		  "not ended half a second after that time is killed by the process that started " \
		  "it. `0` = no delay: the exporter outlives the process, pid 1 or a subreaper " \
		  "can wait for it, and only SPANPROF_STATUS_FILE shows that the last push has failed.") \
	X(PUSH_TIMEOUT, DURATION, push_timeout_ms, \
	  .source = {{"SPANPROF_PUSH_TIMEOUT", SP_FORM_OWN}, \
		     {"PYROSCOPE_PROFILE_EXPORT_TIMEOUT", SP_FORM_OWN}, \
		     {SP_OTLP_PREFIX "PROFILES_TIMEOUT", SP_FORM_MS}, \
		     {SP_OTLP_PREFIX "TIMEOUT", SP_FORM_MS}}, \
	  .min = 100, .max = 600000, .fallback = "10s", \
	  .help = "The time that one push may take; OpenTelemetry's variables have it in " \
		  "milliseconds.") \
	X(PUSH_QUEUE_CAPACITY, INTEGER, push_queue_capacity, \
	  .source = {{"SPANPROF_PUSH_QUEUE_CAPACITY", SP_FORM_OWN}, \
		     {"PYROSCOPE_PUSH_QUEUE_CAPACITY", SP_FORM_OWN}}, \
	  .min = 1, .max = 128, .fallback = "8", \
	  .help = "How many profiles of each type can wait for each running process while " \
		  "the server takes no profile. When the queue is full, the oldest profile in it " \
		  "is dropped.") \
	X(PUSH_MAX_TRIES, INTEGER, push_max_tries, \
	  .source = {{"SPANPROF_PUSH_MAX_TRIES", SP_FORM_OWN}, \
		     {"PYROSCOPE_INGEST_MAX_TRIES", SP_FORM_OWN}}, \
	  .min = 0, .max = 100, .fallback = "0", \
	  .help = "How often one push is tried at most; `0` = until the profile is an hour old. Older " \
		  "profiles are lost.") \
	X(BASIC_AUTH_USER, TEXT, basic_auth_user, \
	  .source = {{"SPANPROF_BASIC_AUTH_USER", SP_FORM_OWN}, \
		     {"PYROSCOPE_BASIC_AUTH_USER", SP_FORM_OWN}}, \
	  .help = "User name for HTTP basic authentication.") \
	X(BASIC_AUTH_USER_FILE, SECRET_FILE, basic_auth_user_file, \
	  .source = {{"SPANPROF_BASIC_AUTH_USER_FILE", SP_FORM_OWN}}, \
	  .help = "File with the user name. It wins over the variable.") \
	X(BASIC_AUTH_PASSWORD, SECRET, basic_auth_password, \
	  .source = {{"SPANPROF_BASIC_AUTH_PASSWORD", SP_FORM_OWN}, \
		     {"PYROSCOPE_BASIC_AUTH_PASSWORD", SP_FORM_OWN}}, \
	  .help = "Password for HTTP basic authentication. The environment can be read in " \
		  "/proc, so prefer the file.") \
	X(BASIC_AUTH_PASSWORD_FILE, SECRET_FILE, basic_auth_password_file, \
	  .source = {{"SPANPROF_BASIC_AUTH_PASSWORD_FILE", SP_FORM_OWN}}, \
	  .help = "File with the password. It wins over the variable.") \
	X(AUTH_TOKEN, SECRET, auth_token, \
	  .source = {{"SPANPROF_AUTH_TOKEN", SP_FORM_OWN}, {"PYROSCOPE_AUTH_TOKEN", SP_FORM_OWN}}, \
	  .help = "Bearer token. Not sent if there is a user name.") \
	X(AUTH_TOKEN_FILE, SECRET_FILE, auth_token_file, \
	  .source = {{"SPANPROF_AUTH_TOKEN_FILE", SP_FORM_OWN}}, \
	  .help = "File with the token. It wins over the variable.") \
	X(TENANT_ID, TEXT, tenant_id, \
	  .source = {{"SPANPROF_TENANT_ID", SP_FORM_OWN}, {"PYROSCOPE_TENANT_ID", SP_FORM_OWN}}, \
	  .help = "Tenant id, sent as X-Scope-OrgID.") \
	X(TENANT_ID_FILE, SECRET_FILE, tenant_id_file, \
	  .source = {{"SPANPROF_TENANT_ID_FILE", SP_FORM_OWN}}, \
	  .help = "File with the tenant id. It wins over the variable.") \
	X(HTTP_HEADERS, HEADERS, http_headers, \
	  .source = {{"SPANPROF_HTTP_HEADERS", SP_FORM_OWN}, \
		     {"PYROSCOPE_HTTP_HEADERS", SP_FORM_OWN}, \
		     {SP_OTLP_PREFIX "PROFILES_HEADERS", SP_FORM_OWN}, \
		     {SP_OTLP_PREFIX "HEADERS", SP_FORM_OWN}}, \
	  .help = "Additional request headers; OpenTelemetry's variables have them as k=v,k=v, " \
		  "percent-encoded.") \
	X(HTTP_HEADERS_FILE, SECRET_FILE, http_headers_file, \
	  .source = {{"SPANPROF_HTTP_HEADERS_FILE", SP_FORM_OWN}}, \
	  .help = "File with the headers. It wins over the variable.") \
	X(SECCOMP, ENUM, seccomp, \
	  .source = {{"SPANPROF_SECCOMP", SP_FORM_OWN}}, \
	  .choices = SP_CHOICES({"ask", SP_SECCOMP_ASK}, {"trust", SP_SECCOMP_TRUST}), \
	  .fallback = "ask", \
	  .help = "When profiling starts below a seccomp filter that is older than the program, " \
		  "as in a container. `ask`: once the program has made a thread, or a fork after " \
		  "its first span, because the filter may kill the program for the clone() that " \
		  "starts the exporter. `trust`: at once, because this filter does not kill.") \
	X(HOOK_DLSYM, BOOL, hook_dlsym, \
	  .source = {{"SPANPROF_HOOK_DLSYM", SP_FORM_OWN}}, .fallback = "false", \
	  .help = "Also hook functions of a C SDK that the program gets by `dlsym`: " \
		  "Python's ctypes, LuaJIT, cffi.") \
	X(TLS_CA_FILE, PATH, tls_ca_file, \
	  .source = {{"SPANPROF_TLS_CA_FILE", SP_FORM_OWN}, \
		     {SP_OTLP_PREFIX "PROFILES_CERTIFICATE", SP_FORM_OWN}, \
		     {SP_OTLP_PREFIX "CERTIFICATE", SP_FORM_OWN}, {"SSL_CERT_FILE", SP_FORM_OWN}}, \
	  .words = "the system's", \
	  .help = "Certificate authorities (PEM) that the server's certificate is " \
		  "verified with.") \
	X(TLS_CERT_FILE, PATH, tls_cert_file, \
	  .source = {{"SPANPROF_TLS_CERT_FILE", SP_FORM_OWN}, \
		     {SP_OTLP_PREFIX "PROFILES_CLIENT_CERTIFICATE", SP_FORM_OWN}, \
		     {SP_OTLP_PREFIX "CLIENT_CERTIFICATE", SP_FORM_OWN}}, \
	  .help = "Client certificate (PEM), for servers that ask for one.") \
	X(TLS_KEY_FILE, PATH, tls_key_file, \
	  .source = {{"SPANPROF_TLS_KEY_FILE", SP_FORM_OWN}, \
		     {SP_OTLP_PREFIX "PROFILES_CLIENT_KEY", SP_FORM_OWN}, \
		     {SP_OTLP_PREFIX "CLIENT_KEY", SP_FORM_OWN}}, \
	  .words = "SPANPROF_TLS_CERT_FILE", \
	  .help = "Private key (PEM) of the client certificate, without a pass phrase.") \
	X(TLS_INSECURE_SKIP_VERIFY, BOOL, tls_insecure, \
	  .source = {{"SPANPROF_TLS_INSECURE_SKIP_VERIFY", SP_FORM_OWN}}, .fallback = "false", \
	  .help = "Do not verify the server's certificate. For trials only.") \
	X(HTTP_PROXY, SECRET, http_proxy, \
	  .source = {{"http_proxy", SP_FORM_OWN}}, \
	  .help = "Proxy for http:// servers, as curl uses it.") \
	X(HTTPS_PROXY, SECRET, https_proxy, \
	  .source = {{"https_proxy", SP_FORM_OWN}, {"HTTPS_PROXY", SP_FORM_OWN}}, \
	  .help = "Proxy for https:// servers.") \
	X(ALL_PROXY, SECRET, all_proxy, \
	  .source = {{"all_proxy", SP_FORM_OWN}, {"ALL_PROXY", SP_FORM_OWN}}, \
	  .help = "Proxy if the variable for the server's scheme is not set.") \
	X(NO_PROXY, TEXT, no_proxy, \
	  .source = {{"no_proxy", SP_FORM_OWN}, {"NO_PROXY", SP_FORM_OWN}}, \
	  .help = "Hosts that are reached without a proxy. `localhost` always is.") \
	X(STATUS_FILE, PATH, status_file, \
	  .source = {{"SPANPROF_STATUS_FILE", SP_FORM_OWN}}, \
	  .help = "JSON file that says what is sampled, sent and lost. It is rewritten at " \
		  "each upload interval; `%p` in the path is the process id. " \
		  "`spanprof-report --status` prints it in words.") \
	X(LOG_LEVEL, ENUM, log_level, \
	  .source = {{"SPANPROF_LOG_LEVEL", SP_FORM_OWN}, {"PYROSCOPE_LOG_LEVEL", SP_FORM_OWN}, \
		     {"OTEL_LOG_LEVEL", SP_FORM_OWN}}, \
	  .choices = sp_config_level_choices, .fallback = "warn", \
	  .help = "The least severe messages that are written to stderr.")
// clang-format on

#define SP_CONFIG_ENUM_(id, ...) SP_VAR_##id,
enum sp_config_id { SP_FOR_EACH_CONFIG(SP_CONFIG_ENUM_) SP_VAR_N };

/*
 * INIT context, after the capture. Whether the variable has that value under its own name; a bad
 * value means the default. Cheap, logs nothing.
 */
bool sp_config_says(enum sp_config_id id, const char *word);

extern const struct sp_config_var sp_config_vars[SP_VAR_N];

/* Whether the value must not be in a file that every user can read. */
bool sp_config_is_secret(enum sp_config_id id, const char *value);

/*
 * Whether the variable is a credential and the text a list for several servers: each element is a value, or empty for a
 * server without that credential.
 */
bool sp_config_is_list_of_credentials(enum sp_config_id id, const char *text);

#define SP_CONFIG_VALUE_MAX 8192U /* bytes of a value; longer ones are not used */
#define SP_CONFIG_UNKNOWN_MAX 8U  /* misspelt variables that get a warning each */

/*
 * For messages: the name under which the user has set variable `id`, which may be an alias. If it
 * is not set, the name under which the user has set `other`, else our own name of `other`.
 */
const char *sp_config_copy_name(enum sp_config_id id, enum sp_config_id other);

struct sp_config_value {
	uint32_t number;  /* bool, enum, integer, duration, signal */
	const char *text; /* every other type: the given text or a constant */
	char why[112];    /* the fault, to follow a name or a quoted value: "is not ..." */
};

/* INIT and APP. 0, or -EINVAL with v->why written. */
int sp_config_parse_value(const struct sp_config_var *var, enum sp_config_form form,
			  const char *text, struct sp_config_value *v);

/* Case-insensitive for ASCII, blanks around text ignored. */
bool sp_config_is_word(const char *text, const char *word);

struct sp_config_resource {
	const char *service_name; /* decoded, in the caller's buffer; NULL = not given or empty */
	const char *service_namespace;
	struct sp_config_attribute label[SP_RESOURCE_LABELS_MAX]; /* up to a NULL key */
	bool label_left_out; /* label has no room for some attributes */
};

/*
 * Reads OTEL_RESOURCE_ATTRIBUTES: percent-decoded, the last of equal keys wins. Returns NULL, or
 * the fault; then *r is empty, because OTel discards the whole value for one error. buf needs
 * strlen(text) + 2 bytes. wanted: key,key of the attributes that become labels; NULL = none.
 */
const char *sp_config_resource_read(const char *text, const char *wanted, char *buf,
				    struct sp_config_resource *r);

/* 1500 -> "1500ms", 15000 -> "15s", 600000 -> "10m". Returns buf. */
const char *sp_config_duration(uint32_t ms, char buf[16]);

/* The documented words of an enum, separated by `between`. Returns their length. */
size_t sp_config_choices(const struct sp_config_var *var, const char *between, char *out,
			 size_t size);

#endif
