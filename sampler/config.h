/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Configuration from the environment. Two steps: sp_config_capture() copies our variables in the
 * constructor (no heap, bounded; hosts wipe or rewrite environ later), sp_config_parse() reads the
 * copy at activation and warns once per bad value. One table holds every variable: name, aliases,
 * type, default and help, and README's table is printed from it.
 */
#ifndef SP_CONFIG_H
#define SP_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/log.h"

/* SIGURG is ignored by default, so a host that resets every handler loses samples, not its life. */
#define SP_CONFIG_SIGNAL_DEFAULT "SIGURG"
#define SP_PROFILE_URL_DEFAULT "grafana-drilldown"

enum sp_profile_mode { SP_PROFILE_ON_SPAN, SP_PROFILE_ALWAYS };
enum sp_label_scope { SP_SCOPE_ROOT, SP_SCOPE_ALL, SP_SCOPE_NONE };
enum sp_attributes_mode { SP_ATTRIBUTES_ALWAYS, SP_ATTRIBUTES_NEVER };

/* Strings point into the captured copy, NUL-terminated, valid until exit; NULL = not set. */
struct sp_config {
	bool disabled;                    /* sp_config_disabled() */
	enum sp_profile_mode profile;     /* SPANPROF_PROFILE */
	uint32_t sample_rate_hz;          /* SPANPROF_SAMPLE_RATE, PYROSCOPE_PROFILING_INTERVAL (inverse) */
	uint32_t upload_interval_ms;      /* SPANPROF_UPLOAD_INTERVAL, PYROSCOPE_UPLOAD_INTERVAL */
	uint32_t flush_timeout_ms;        /* SPANPROF_FLUSH_TIMEOUT; 0 = no flush at exit */
	uint32_t push_timeout_ms;         /* SPANPROF_PUSH_TIMEOUT, PYROSCOPE_PROFILE_EXPORT_TIMEOUT */
	uint32_t push_queue_capacity;     /* SPANPROF_PUSH_QUEUE_CAPACITY, PYROSCOPE_PUSH_QUEUE_CAPACITY */
	uint32_t push_max_tries;          /* SPANPROF_PUSH_MAX_TRIES, PYROSCOPE_INGEST_MAX_TRIES */
	uint32_t max_span_names;          /* SPANPROF_MAX_SPAN_NAMES */
	uint32_t stack_depth;             /* SPANPROF_STACK_DEPTH, 1..SP_FRAMES_MAX */
	int signal_number;                /* SPANPROF_SIGNAL; a number or a name such as SIGURG, RTMIN+3 */
	enum sp_label_scope span_id_scope;   /* SPANPROF_SPAN_ID_SCOPE, OTEL_PYROSCOPE_ROOT_SPAN_ONLY */
	enum sp_label_scope span_name_scope; /* SPANPROF_SPAN_NAME_SCOPE, OTEL_PYROSCOPE_ADD_SPAN_NAME */
	bool trace_id;                    /* SPANPROF_TRACE_ID: label samples with trace_id */
	enum sp_attributes_mode attributes; /* SPANPROF_ATTRIBUTES */
	enum sp_log_level log_level;      /* SPANPROF_LOG_LEVEL, PYROSCOPE_LOG_LEVEL, OTEL_LOG_LEVEL */
	const char *output_dir;           /* SPANPROF_OUTPUT_DIR; absolute */
	/*
	 * SPANPROF_SERVER_ADDRESS, PYROSCOPE_ADHOC_SERVER_ADDRESS, PYROSCOPE_SERVER_ADDRESS. Without
	 * it and without output_dir: http://localhost:4040. NULL = do not push.
	 */
	const char *server_address;
	const char *service_name;         /* SPANPROF_APPLICATION_NAME, PYROSCOPE_APPLICATION_NAME,
	                                     OTEL_SERVICE_NAME, service.name of
	                                     OTEL_RESOURCE_ATTRIBUTES, "unknown_service:<exe>" */
	const char *service_namespace;    /* from OTEL_RESOURCE_ATTRIBUTES */
	bool add_profile_url;             /* OTEL_PYROSCOPE_ADD_PROFILE_URL; false makes profile_url NULL */
	/*
	 * SPANPROF_PROFILE_URL: template or preset name. With a base URL alone it is
	 * SP_PROFILE_URL_DEFAULT.
	 */
	const char *profile_url;
	const char *profile_base_url;     /* SPANPROF_PROFILE_BASE_URL: what the presets start with */
	const char *basic_auth_user;      /* SPANPROF_BASIC_AUTH_USER, PYROSCOPE_BASIC_AUTH_USER */
	const char *basic_auth_password;  /* ..._PASSWORD; secret: never logged */
	const char *auth_token;           /* SPANPROF_AUTH_TOKEN, PYROSCOPE_AUTH_TOKEN; secret */
	const char *tenant_id;            /* SPANPROF_TENANT_ID, PYROSCOPE_TENANT_ID */
	const char *http_headers;         /* SPANPROF_HTTP_HEADERS, PYROSCOPE_HTTP_HEADERS: JSON object of
	                                     strings; parsed by the exporter; secret */
	/*
	 * Absolute paths of files that hold the secret (Kubernetes secret mounts, systemd
	 * credentials). The exporter reads them; a file wins over the value above it.
	 */
	const char *basic_auth_password_file; /* SPANPROF_BASIC_AUTH_PASSWORD_FILE */
	const char *auth_token_file;          /* SPANPROF_AUTH_TOKEN_FILE */
	const char *http_headers_file;        /* SPANPROF_HTTP_HEADERS_FILE */
	const char *labels;               /* SPANPROF_LABELS, PYROSCOPE_LABELS: k=v,k=v (k:v accepted) */
	const char *resource_attributes;  /* OTEL_RESOURCE_ATTRIBUTES as given (validated) */
};

/*
 * INIT context. Copies the variables that the table names out of envp. Values longer than 8 KiB or
 * beyond the 32 KiB of the copy are remembered as "too long". Never allocates, logs or fails.
 */
void sp_config_capture(char *const *envp);

/*
 * INIT context, after capture: a kill switch is set (SPANPROF_DISABLED=true, OTEL_SDK_DISABLED=true,
 * PYROSCOPE_AGENT_ENABLED=false, OTEL_PYROSCOPE_START_PROFILING=false). Each of them suffices.
 */
bool sp_config_disabled(void);

/* INIT context, after capture: SPANPROF_PROFILE=always. Cheap, logs nothing. */
bool sp_config_wants_start(void);

/*
 * APP or BG context. Parses the copy into *cfg: each bad value gets one warning that names the
 * variable and what is wrong with it (never a secret's value) and falls to its default, not to the
 * next source, so that what applies can be read off the message. Sets the log level first. cfg is
 * complete whatever the input. Called at activation by one thread; a later call gives the same
 * values and repeats no warning.
 */
void sp_config_parse(struct sp_config *cfg);

/*
 * Calls fn once per variable, in table order, for help output; *h is valid during the call. Tools
 * only, never inside a host.
 */
struct sp_config_help {
	const char *name;
	const char *aliases; /* comma-separated in the order they are asked, may be "" */
	const char *type;    /* "bool", "enum: a|b", "duration", "integer 1..1000", "string", "secret" */
	const char *fallback; /* the default in words */
	const char *help;
};
void sp_config_each(void (*fn)(const struct sp_config_help *h, void *arg), void *arg);

#endif
