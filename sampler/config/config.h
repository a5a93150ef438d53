/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration from the environment. Two steps: sp_config_capture() copies our variables in the
 * constructor (no heap, bounded; hosts wipe or rewrite environ later), sp_config_parse() reads the
 * copy at activation and warns once per bad value. One table holds every variable: name, aliases,
 * type, default and help; the table in this folder's README.md is printed from it.
 */
#ifndef SP_CONFIG_H
#define SP_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/log.h"

#define SP_PROFILE_URL_DEFAULT "grafana-drilldown"

enum sp_profile_mode { SP_PROFILE_ON_SPAN, SP_PROFILE_ALWAYS };
/* SP_SCOPE_AUTO is what a user may write; in struct sp_config it is one of the others. */
enum sp_label_scope { SP_SCOPE_ROOT, SP_SCOPE_ALL, SP_SCOPE_NONE, SP_SCOPE_AUTO };
/* What decides which span a thread works for; see sampler/span/span.h. */
enum sp_active_span { SP_ACTIVE_AUTO, SP_ACTIVE_SCOPE, SP_ACTIVE_START, SP_ACTIVE_CONTEXT };
enum sp_seccomp_mode { SP_SECCOMP_ASK, SP_SECCOMP_TRUST };
enum sp_attributes_mode { SP_ATTRIBUTES_ALWAYS, SP_ATTRIBUTES_WITH_SAMPLES, SP_ATTRIBUTES_NEVER };
/* Who walks stacks: the handler with the exporter's help, the handler, or the exporter. */
enum sp_unwind_mode { SP_UNWIND_AUTO, SP_UNWIND_CFI, SP_UNWIND_SNAPSHOT };
enum sp_symbolize_mode { SP_SYMBOLIZE_FULL, SP_SYMBOLIZE_NAMES, SP_SYMBOLIZE_OFF };
enum sp_protocol { SP_PROTOCOL_PUSH, SP_PROTOCOL_INGEST, SP_PROTOCOL_OTLP };
enum sp_otlp_protocol { SP_OTLP_HTTP_PROTOBUF };
enum sp_compression { SP_COMPRESSION_GZIP, SP_COMPRESSION_NONE };
enum sp_format { SP_FORMAT_PPROF, SP_FORMAT_OTLP };

#define SP_RESOURCE_LABELS_MAX 17U

/* Of the OTel resource, decoded. */
struct sp_config_attribute {
	const char *key; /* NULL = no more */
	const char *value;
};

/*
 * Which variables fill a field, in which order, is told by config_table.h and the README of this
 * room. Strings are NUL-terminated and valid until exit; NULL = not set.
 */
struct sp_config {
	bool disabled; /* sp_config_disabled() */
	enum sp_profile_mode profile;
	uint32_t sample_rate_hz;
	uint32_t upload_interval_ms;
	uint32_t flush_timeout_ms; /* 0 = the end does not wait; the exporter sends what is left */
	uint32_t push_timeout_ms;
	uint32_t push_queue_capacity;
	uint32_t push_max_tries; /* 0 = no limit */
	enum sp_protocol protocol;
	enum sp_otlp_protocol otlp_protocol; /* there is but one */
	enum sp_compression compression;     /* of pushes in OTLP */
	enum sp_format output_format;
	uint32_t max_span_names;
	uint32_t max_span_age_ms;
	uint32_t stack_depth; /* 1..SP_FRAMES_MAX */
	enum sp_unwind_mode unwind;
	int signal_number;
	enum sp_label_scope span_id_scope;
	enum sp_label_scope span_name_scope;
	enum sp_active_span active_span;
	bool thread_context; /* publish it, for other profilers: thread_context.h */
	bool trace_id;       /* label samples with trace_id */
	bool thread_name;
	enum sp_attributes_mode attributes;
	bool span_cpu_time;
	bool span_times;         /* attributes that tell where a span's time went */
	bool off_cpu;            /* a profile of waiting time */
	bool off_cpu_targets;    /* its leaves say what was waited for */
	bool wall;               /* a profile of CPU and waiting time */
	bool alloc;              /* a profile of allocations */
	uint32_t alloc_interval; /* bytes between two samples, in the mean */
	enum sp_symbolize_mode symbolize;
	enum sp_log_level log_level;
	enum sp_seccomp_mode seccomp; /* sp_config_says() */
	bool hook_dlsym;              /* sp_config_says() */

	const char *output_dir;         /* absolute */
	const char *exporter;           /* absolute; NULL = beside our own object */
	const char *server_address;     /* http://, https:// or unix:///; NULL = do not push */
	bool server_path;               /* the address has the path already */
	const char *service_name;       /* never NULL: at last "unknown_service:<program>" */
	const char *service_namespace;  /* from OTEL_RESOURCE_ATTRIBUTES, decoded */
	bool add_profile_url;           /* false: profile_url is NULL */
	const char *profile_url;        /* template or preset name, spelled as in the table */
	bool add_baseline_url;          /* false: baseline_url is NULL */
	const char *baseline_url;       /* as profile_url */
	const char *baseline_labels;    /* k=v,k=v; for one preset */
	const char *profile_base_url;   /* what the presets start with */
	const char *profile_datasource; /* which data source of Grafana the presets name */

	const char *basic_auth_user;
	const char *basic_auth_password; /* secret: never logged */
	const char *auth_token;          /* secret */
	const char *tenant_id;
	const char *debuginfod_urls; /* NULL = no server is asked for debug information */
	const char *http_headers;    /* secret; JSON object of strings, parsed by the exporter */
	/*
	 * Absolute paths of files that hold the secret (Kubernetes secret mounts, systemd
	 * credentials). The exporter reads them; a file wins over the value above.
	 */
	const char *basic_auth_user_file;
	const char *basic_auth_password_file;
	const char *auth_token_file;
	const char *tenant_id_file;
	const char *http_headers_file;

	/* Absolute paths of PEM files; libcurl reads them at each push. */
	const char *tls_ca_file;
	const char *tls_cert_file;
	const char *tls_key_file;
	bool tls_insecure;
	/*
	 * The proxies of the environment at the program's start. Secrets, as they may contain user
	 * and password; all except no_proxy.
	 */
	const char *http_proxy;
	const char *https_proxy;
	const char *all_proxy;
	const char *no_proxy;

	const char *status_file; /* absolute; %p is the process id */

	const char *labels;              /* k=v,k=v; an item without = is k:v */
	const char *span_labels;         /* key,key: of attributes; NULL = none */
	const char *resource_attributes; /* OTEL_RESOURCE_ATTRIBUTES and the SDK's, still encoded */
	const char *resource_labels;     /* attribute,attribute: which of them are labels */
	struct sp_config_attribute resource_label[SP_RESOURCE_LABELS_MAX]; /* those; up to a NULL */
};

/* What a service without a name is called (OpenTelemetry's resource conventions). */
#define SP_CONFIG_UNKNOWN_SERVICE "unknown_service"

/*
 * INIT context. Copies the variables that the table names out of envp. Values longer than 8 KiB are
 * remembered as too long, and those beyond the 32 KiB of the copy as without room. Never allocates, logs or fails.
 */
void sp_config_capture(char *const *envp);

/*
 * APP, one thread at a time, before the copy is parsed. Resource attributes that the program gave
 * its SDK, in the form of OTEL_RESOURCE_ATTRIBUTES, which wins where both have a key. service is
 * the service.name among them, NULL = none. Only the first call after a capture counts.
 */
void sp_config_copy_resource(const char *attributes, const char *service);

/*
 * APP, one thread at a time. The copy as an environment for the exporter, with that service name: a
 * NULL-terminated list that is valid until the next call. It disables spanprof, in case the object
 * is preloaded into every program of the system.
 */
char *const *sp_config_copy_environment(const char *service_name);

/*
 * INIT context, after capture: a kill switch is set. SPANPROF_DISABLED unless it is empty, false, 0, no
 * or off; OTEL_SDK_DISABLED with true; PYROSCOPE_AGENT_ENABLED or OTEL_PYROSCOPE_START_PROFILING
 * with false, 0, no or off. Logs nothing, so a bad value of SPANPROF_DISABLED disables in silence.
 */
bool sp_config_disabled(void);

/* INIT context, after capture: another library's thread context may label samples, which it may by default. */
bool sp_config_allows_context(void);

/* INIT context, after capture: a server or a folder is named, though it may be of no use. */
bool sp_config_names_sink(void);

/* Somebody has to look at waiting threads. Any context. */
static inline bool sp_config_wants_waits(const struct sp_config *cfg)
{
	return cfg->off_cpu || cfg->wall;
}

/*
 * APP context. Parses the copy into *cfg: each bad value gets one warning that names the
 * variable and what is wrong with it (never a secret's value) and falls to its default, not to the
 * next source, so that what applies can be read off the message. Sets the log level first. cfg is
 * complete whatever the input. Called at activation by one thread; a later call gives the same
 * values and repeats no warning.
 */
void sp_config_parse(struct sp_config *cfg);

/* APP. Reads only the log level, for messages before or without an activation. */
void sp_config_parse_log_level(void);

/* A warning with two names. */
#define SP_CONFIG_OTHER_SERVICE                                                                    \
	"the profiles have the service \"%s\", the spans of the program \"%s\": links between "    \
	"them will not work"

/* Without "SIG"; NULL for real-time signals and numbers that are none. */
const char *sp_config_signal_name(int number);

/*
 * Calls fn once per variable, in table order, for help output; *h is valid during the call. Tools
 * only, never inside a host.
 */
struct sp_config_help {
	const char *name;
	const char *aliases; /* comma-separated in the order they are asked, may be "" */
	const char
		*type; /* "bool", "enum: a|b", "duration", "integer 1..1000", "string", "secret" */
	const char *fallback; /* the default in words */
	const char *help;
};
void sp_config_each(void (*fn)(const struct sp_config_help *h, void *arg), void *arg);

#endif
