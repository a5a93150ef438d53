/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration from the environment or the machine's file, in two steps. sp_config_load() copies
 * our variables in the constructor (no heap, bounded; hosts wipe or rewrite environ later).
 * sp_config_parse() reads the copy at activation and warns once per bad value. One table has every
 * variable: name, aliases, type, default and help; the table in this folder's README.md is printed
 * from it.
 */
#ifndef SP_CONFIG_H
#define SP_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/log.h"

#define SP_PROFILE_URL_DEFAULT "grafana-drilldown"

enum sp_profile_mode { SP_PROFILE_ON_SPAN, SP_PROFILE_ALWAYS };
/*
 * A user may set SP_SCOPE_AUTO and SP_SCOPE_SLOW; in struct sp_config another scope replaces them.
 */
enum sp_label_scope { SP_SCOPE_ROOT, SP_SCOPE_ALL, SP_SCOPE_NONE, SP_SCOPE_AUTO, SP_SCOPE_SLOW };
/* Decides which span a thread works for; see sampler/span/span.h. */
enum sp_active_span { SP_ACTIVE_AUTO, SP_ACTIVE_SCOPE, SP_ACTIVE_START, SP_ACTIVE_CONTEXT };
enum sp_seccomp_mode { SP_SECCOMP_ASK, SP_SECCOMP_TRUST };
enum sp_attributes_mode { SP_ATTRIBUTES_ALWAYS, SP_ATTRIBUTES_WITH_SAMPLES, SP_ATTRIBUTES_NEVER };
/*
 * Where stacks are walked: in the handler with the exporter's help, in the handler alone, or in the
 * exporter.
 */
enum sp_unwind_mode { SP_UNWIND_AUTO, SP_UNWIND_CFI, SP_UNWIND_SNAPSHOT };
enum sp_symbolize_mode { SP_SYMBOLIZE_FULL, SP_SYMBOLIZE_NAMES, SP_SYMBOLIZE_OFF };
enum sp_protocol { SP_PROTOCOL_PUSH, SP_PROTOCOL_INGEST, SP_PROTOCOL_OTLP };
enum sp_otlp_protocol { SP_OTLP_HTTP_PROTOBUF };
enum sp_compression { SP_COMPRESSION_GZIP, SP_COMPRESSION_NONE };
enum sp_format { SP_FORMAT_PPROF, SP_FORMAT_OTLP };

#define SP_RESOURCE_LABELS_MAX 17U

/* Servers that get every profile. */
#define SP_SERVERS_MAX 4U

/* An attribute of the OTel resource, decoded. */
struct sp_config_attribute {
	const char *key; /* NULL = end of the list */
	const char *value;
};

/*
 * config_table.h and the README of this folder say which variables fill a field, in which order.
 * Strings are NUL-terminated and valid until exit; NULL = not set.
 */
struct sp_config {
	bool disabled; /* sp_config_disabled() */
	enum sp_profile_mode profile;
	uint32_t sample_rate_hz;
	uint32_t upload_interval_ms;
	uint32_t flush_timeout_ms; /* 0 = the end does not wait; the exporter sends the rest */
	uint32_t push_timeout_ms;
	uint32_t push_queue_capacity;
	uint32_t push_max_tries; /* 0 = no limit */
	enum sp_protocol protocol;
	enum sp_otlp_protocol otlp_protocol; /* only one value */
	enum sp_compression compression;     /* of pushes in OTLP */
	enum sp_format output_format;
	uint32_t max_span_names;
	uint32_t max_series; /* sets of labels that one process's samples may have at a server */
	uint32_t max_span_age_ms;
	uint32_t output_max_files; /* 0 = any number */
	uint32_t output_max_mib;   /* 0 = any size */
	uint32_t stack_depth;      /* 1..SP_FRAMES_MAX */
	enum sp_unwind_mode unwind;
	int signal_number;
	enum sp_label_scope span_id_scope;
	enum sp_label_scope span_name_scope;
	bool slow_ids;     /* the exporter removes the ids of roots that were not slow */
	bool span_latency; /* label samples with latency */
	enum sp_active_span active_span;
	bool thread_context; /* publish it, for other profilers: thread_context.h */
	bool trace_id;       /* label samples with trace_id */
	bool thread_name;
	enum sp_attributes_mode attributes;
	bool measure_roots; /* the CPU time of a random few of them, for that of their names */
	bool span_cpu_time;
	bool span_times;         /* attributes with the parts of a span's time */
	bool off_cpu;            /* a profile of waiting time */
	bool off_cpu_targets;    /* the leaf of a stack names the object of the wait */
	bool wall;               /* a profile of CPU and waiting time */
	bool alloc;              /* a profile of allocations */
	uint32_t alloc_interval; /* mean number of bytes between two samples */
	enum sp_symbolize_mode symbolize;
	enum sp_log_level log_level;
	enum sp_seccomp_mode seccomp; /* sp_config_says() */
	bool hook_dlsym;              /* sp_config_says() */

	const char *output_dir;         /* absolute */
	const char *server_address;     /* http://, https:// or unix:///; NULL = do not push */
	unsigned servers;               /* with several the address is a list of them, see below */
	bool server_path;               /* the address has the path already */
	const char *service_name;       /* never NULL: at last "unknown_service:<program>" */
	const char *service_namespace;  /* from OTEL_RESOURCE_ATTRIBUTES, decoded */
	bool add_profile_url;           /* false: profile_url is NULL */
	const char *profile_url;        /* template or preset name, spelled as in the table */
	bool add_baseline_url;          /* false: baseline_url is NULL */
	const char *baseline_url;       /* as profile_url */
	const char *baseline_labels;    /* k=v,k=v; for one preset */
	const char *profile_base_url;   /* the beginning of a preset's URL */
	const char *profile_datasource; /* the data source of Grafana in a preset's URL */

	/*
	 * Credentials. With several servers each is a list with one element for each server:
	 * sp_config_element() k is for server k, and an empty element is no credential.
	 * http_headers is NULL then.
	 */
	const char *basic_auth_user;
	const char *basic_auth_password; /* secret: never logged */
	const char *auth_token;          /* secret */
	const char *tenant_id;
	const char *http_headers; /* secret; JSON object of strings, parsed by the exporter */
	/*
	 * Absolute paths of files with a secret (Kubernetes secret mounts, systemd credentials).
	 * The exporter reads them; a file wins over the value above.
	 */
	const char *basic_auth_user_file;
	const char *basic_auth_password_file;
	const char *auth_token_file;
	const char *tenant_id_file;
	const char *http_headers_file;

	/* Absolute paths of PEM files, which are read at each push. */
	const char *tls_cert_file;
	const char *tls_key_file;

	const char *tls_ca_file; /* the same for all servers */
	bool tls_insecure;
	const char *debuginfod_urls; /* NULL = no server */
	/*
	 * The proxies in the environment at the program's start. All except no_proxy are secrets,
	 * because they may contain user and password.
	 */
	const char *http_proxy;
	const char *https_proxy;
	const char *all_proxy;
	const char *no_proxy;

	/* Which local roots are slow, for sp_config_slow(); NULL = no root is listed. */
	const char *slow;

	const char *status_file; /* absolute; %p is the process id */

	const char *labels;              /* k=v,k=v; an item without = is k:v */
	const char *span_labels;         /* key,key: attributes that become labels; NULL = none */
	const char *resource_attributes; /* OTEL_RESOURCE_ATTRIBUTES and the SDK's, still encoded */
	const char *resource_labels;     /* attribute,attribute: those that become labels */
	struct sp_config_attribute
		resource_label[SP_RESOURCE_LABELS_MAX]; /* their values; a NULL key ends the list */
};

/* The name of a service without one (OpenTelemetry's resource conventions). */
#define SP_CONFIG_UNKNOWN_SERVICE "unknown_service"

/*
 * INIT context. Copies the table's variables from envp. The copy marks a value of more than 8 KiB
 * as too long, and a value that does not fit into its 32 KiB as without room. Never allocates, logs
 * or fails.
 */
void sp_config_capture(char *const *envp);

/*
 * INIT context. Same as sp_config_capture() if LD_PRELOAD names our object, whose path the loader
 * gives as object: a user who sets LD_PRELOAD can execute any code in the program anyway. Otherwise
 * the settings come from the file (config_file.h), and only a switch-off, the service's name and
 * labels come from the environment.
 */
void sp_config_load(char *const *envp, const char *object, const char *path);

/* Whether LD_PRELOAD in envp has an entry with the file name of the object. */
bool sp_config_is_preloaded(char *const *envp, const char *object);

/*
 * APP, one thread at a time, before the copy is parsed. Adds resource attributes that the program
 * gave its SDK, in the form of OTEL_RESOURCE_ATTRIBUTES; they win over the variable for equal keys.
 * service is the service.name among them, NULL = none. Only the first call after a capture has an
 * effect.
 */
void sp_config_copy_resource(const char *attributes, const char *service);

/*
 * APP, one thread at a time. The copy as an environment for the exporter, with that service name: a
 * NULL-terminated list that is valid until the next call. It disables spanprof, in case our object
 * is preloaded into every program of the system.
 */
char *const *sp_config_copy_environment(const char *service_name);

/*
 * Element k of a list with commas, from 0 on, without the blanks around it; *len may be 0. NULL =
 * the list is shorter. In a list of addresses a comma separates only if a scheme, another comma or
 * the end follows.
 */
const char *sp_config_element(const char *list, bool is_address, unsigned k, size_t *len);

/*
 * INIT context, after the capture. Whether a kill switch is set: SPANPROF_DISABLED unless it is
 * empty, false, 0, no or off; OTEL_SDK_DISABLED with true; PYROSCOPE_AGENT_ENABLED or
 * OTEL_PYROSCOPE_START_PROFILING with false, 0, no or off. Logs nothing, so a bad value of
 * SPANPROF_DISABLED disables without a message.
 */
bool sp_config_disabled(void);

/*
 * INIT context, after the capture. Whether another library's thread context may label samples; by
 * default it may.
 */
bool sp_config_allows_context(void);

/*
 * INIT context, after the capture. Whether a server or a folder is named, even if the name is
 * invalid.
 */
bool sp_config_names_sink(void);

/* Whether the exporter has to watch waiting threads. Any context. */
static inline bool sp_config_wants_waits(const struct sp_config *cfg)
{
	return cfg->off_cpu || cfg->wall;
}

/* Samples of a local root have the root's name, so the time of a name is that of its roots. */
static inline bool sp_config_measures_roots(const struct sp_config *cfg)
{
	return cfg->measure_roots && cfg->span_name_scope == SP_SCOPE_ROOT;
}

/*
 * APP context. Parses the copy into *cfg. Each bad value gets one warning that names the variable
 * and the fault (never a secret's value). The default replaces a bad value, and not the next
 * source, so that the message can name the value in effect. Sets the log level first. *cfg is
 * complete for any input. Called at activation by one thread; a later call gives the same values
 * and repeats no warning.
 */
void sp_config_parse(struct sp_config *cfg);

/* APP. Reads only the log level, for messages without an activation or before it. */
void sp_config_parse_log_level(void);

/* Whether the exporter labels samples with the duration class of their local roots. Any context. */
static inline bool sp_config_wants_latency(const struct sp_config *cfg)
{
	return cfg->span_latency || cfg->slow_ids;
}

/*
 * Whether the exporter adds facts to samples that are known only when their local root has ended.
 * Any context.
 */
static inline bool sp_config_joins_roots(const struct sp_config *cfg)
{
	return cfg->span_labels != NULL || sp_config_wants_latency(cfg);
}

/* The text of a warning with two names. */
#define SP_CONFIG_OTHER_SERVICE                                                                    \
	"the profiles have the service \"%s\", the spans of the program \"%s\": links between "    \
	"them will not work"

/*
 * SPANPROF_SLOW for one span name: a local root that lasts at least this number of nanoseconds is
 * slow. The item with that name decides, else the item without a name, else SP_SLOW_AUTO.
 */
#define SP_SLOW_AUTO UINT64_C(0) /* the slowest of each upload interval are */
#define SP_SLOW_NEVER UINT64_MAX
uint64_t sp_config_slow(const char *list, const char *name, size_t len);

/* The name without "SIG"; NULL for real-time signals and for numbers that are no signal. */
const char *sp_config_signal_name(int number);

/*
 * Calls fn once per variable, in table order, for help output; *h is valid during the call. For
 * tools only, never inside a host.
 */
struct sp_config_help {
	const char *name;
	const char *aliases; /* comma-separated, the first one has precedence; may be "" */
	const char
		*type; /* "bool", "enum: a|b", "duration", "integer 1..1000", "string", "secret" */
	const char *fallback; /* the default as words for the help */
	const char *help;
};
void sp_config_each(void (*fn)(const struct sp_config_help *h, void *arg), void *arg);

#endif
