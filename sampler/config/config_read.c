/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the environment to struct sp_config, in two steps.
 *
 * The constructor copies our variables before the host can wipe or rewrite the environment. INIT context: no
 * heap, no log, no system call. It runs in every process of a container, so a foreign variable costs only a
 * comparison of a few first letters. The copy is written by the only thread there is, and once more before it
 * is parsed, by sp_config_copy_resource(); it is read-only afterwards.
 *
 * The copy is parsed at activation (APP): which of a variable's names decides, what is wrong with its value,
 * and what follows from others. The few questions that have to be answered before read the copy alone.
 */
#include "sampler/config/config.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "sampler/base/compiler.h"
#include "sampler/base/text.h"
#include "sampler/config/config_table.h"

#define COPY_MAX 32768U
#define SERVICE_MAX 255U
#define UNKNOWN_BYTES 64U /* bytes of an unknown variable's name that are kept, with the NUL */
#define SHOWN_MAX 60      /* bytes of a bad value that a message quotes */
#define EXE_MAX 256U

enum state {
	UNSET, /* absent or empty: the same, as OTel demands */
	SET,
	TOO_LONG, /* more than SP_CONFIG_VALUE_MAX bytes */
	NO_ROOM,  /* the copy was full */
};

struct copied {
	unsigned char
		seen; /* also of an empty value: the first occurrence decides, as for getenv */
	unsigned char state;
	unsigned short value; /* where it begins in the copied entries */
};

/* The table's variables, and behind them those for libraries of the exporter. */
#define COPIED (SP_VAR_N + 1U)
static struct copied copied[COPIED][SP_CONFIG_SOURCES];
static char entries[COPY_MAX]; /* name=value, each with its NUL, as the exporter gets them */
static size_t used;
static atomic_bool looked_at;

/* SPANPROF_ names that are in no table: the first of them, cut at UNKNOWN_BYTES - 1 bytes. */
static struct {
	unsigned n; /* how many there were */
	char name[SP_CONFIG_UNKNOWN_MAX][UNKNOWN_BYTES];
} unknown;

/* Whether the program's own resource is known, and its service.name; "" = none. */
static bool sdk_known;
static char sdk_service[SERVICE_MAX + 1];
/* Why OTEL_RESOURCE_ATTRIBUTES is not among its attributes; NULL = it is, or there is none. */
static const char *resource_refused;

_Static_assert(COPY_MAX <= 65536, "a place in it has 16 bits");

static bool has_prefix(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Variables that the exporter's libraries read: libdebuginfod's cache and timeout. */
static const char *const for_libraries[SP_CONFIG_SOURCES] = {
	"HOME", "XDG_CACHE_HOME", "DEBUGINFOD_CACHE_PATH", "DEBUGINFOD_TIMEOUT"};

static const char *name_of(unsigned id, unsigned source)
{
	return id < SP_VAR_N ? sp_config_vars[id].source[source].name : for_libraries[source];
}

static struct copied *find(const char *name, size_t len)
{
	for (unsigned id = 0; id < COPIED; id++) {
		for (unsigned i = 0; i < SP_CONFIG_SOURCES; i++) {
			const char *known = name_of(id, i);

			if (known != NULL && strncmp(known, name, len) == 0 && known[len] == '\0')
				return &copied[id][i];
		}
	}
	return NULL;
}

/* front: the bytes before the value. */
static void keep_entry(struct copied *c, const char *entry, size_t front)
{
	size_t len = strnlen(entry + front, SP_CONFIG_VALUE_MAX + 1);

	if (c->seen)
		return;
	c->seen = 1;
	if (len == 0) {
		c->state = UNSET;
	} else if (len > SP_CONFIG_VALUE_MAX) {
		c->state = TOO_LONG;
	} else if (front + len >= sizeof(entries) - used) {
		c->state = NO_ROOM;
	} else {
		c->state = SET;
		c->value = (unsigned short)(used + front);
		memcpy(entries + used, entry, front + len);
		entries[used + front + len] = '\0';
		used += front + len + 1;
	}
}

static void keep_unknown(const char *name, size_t len)
{
	if (len > UNKNOWN_BYTES - 1)
		len = UNKNOWN_BYTES - 1;
	if (unknown.n < SP_CONFIG_UNKNOWN_MAX)
		memcpy(unknown.name[unknown.n], name, len);
	unknown.n++;
}

/* Variables that other programs know as well. Their first letters are rare, so the test is quick. */
static bool is_common(const char *entry)
{
	static const char *const names[] = {
		"http_proxy=", "https_proxy=", "HTTPS_PROXY=",    "all_proxy=",
		"ALL_PROXY=",  "no_proxy=",    "NO_PROXY=",       "SSL_CERT_FILE=",
		"HOME=",       "DEBUGINFOD_",  "XDG_CACHE_HOME=",
	};

	for (size_t i = 0; i < SP_ARRAY_LEN(names); i++)
		if (entry[0] == names[i][0] && has_prefix(entry, names[i]))
			return true;
	return false;
}

static void keep(const char *entry)
{
	bool ours = has_prefix(entry, "SPANPROF_");
	const char *equals;
	struct copied *c;
	size_t len;

	if (!ours && !has_prefix(entry, "PYROSCOPE_") && !has_prefix(entry, "OTEL_") &&
	    !is_common(entry))
		return;
	equals = strchr(entry, '=');
	if (equals == NULL)
		return;
	len = (size_t)(equals - entry);
	c = find(entry, len);
	if (c != NULL)
		keep_entry(c, entry, len + 1);
	else if (ours && !has_prefix(entry, "SPANPROF_DEBUG=")) /* spanprof-entrypoint's */
		keep_unknown(entry, len);
}

/* In the first place all of it is zero, and pages that nobody writes to take no memory. */
static bool captured;

static void forget(void)
{
	memset(copied, 0, sizeof(copied));
	memset(&unknown, 0, sizeof(unknown));
	used = 0;
	sdk_known = false;
	sdk_service[0] = '\0';
	resource_refused = NULL;
	atomic_store_explicit(&looked_at, false, memory_order_relaxed);
}

void sp_config_capture(char *const *envp)
{
	if (captured)
		forget();
	captured = true;
	for (; envp != NULL && *envp != NULL; envp++)
		keep(*envp);
}

/* The value of one name of a variable; *text is "" unless it is SET. */
static enum state copied_value(enum sp_config_id id, unsigned source, const char **text)
{
	const struct copied *c = &copied[id][source];

	*text = c->state == SET ? entries + c->value : "";
	return (enum state)c->state;
}

#define OTLP_PROFILES_ENDPOINT SP_OTLP_PREFIX "PROFILES_ENDPOINT"

static bool is_otlp_name(enum sp_config_id id, unsigned source)
{
	const char *name = sp_config_vars[id].source[source].name;

	return name != NULL && has_prefix(name, SP_OTLP_PREFIX);
}

/*
 * Whether profiles go out in OTLP. The general endpoint does not say so: it is where traces go in most programs, to
 * collectors that need not know profiles.
 */
static bool wants_otlp(void)
{
	bool endpoint = false;
	const char *text;

	if (copied_value(SP_VAR_PROTOCOL, 0, &text) != UNSET)
		return sp_config_is_word(text, "otlp");
	for (unsigned source = 0; source < SP_CONFIG_SOURCES; source++) {
		if (copied_value(SP_VAR_SERVER_ADDRESS, source, &text) == UNSET)
			continue;
		if (!is_otlp_name(SP_VAR_SERVER_ADDRESS, source))
			return false;
		endpoint = endpoint ||
			   strcmp(sp_config_vars[SP_VAR_SERVER_ADDRESS].source[source].name,
				  OTLP_PROFILES_ENDPOINT) == 0;
	}
	return endpoint;
}

/* The same where it counts. */
static enum state value_of(enum sp_config_id id, unsigned source, const char **text)
{
	*text = "";
	return is_otlp_name(id, source) && !wants_otlp() ? UNSET : copied_value(id, source, text);
}

char *const *sp_config_copy_environment(const char *service_name)
{
	static char disabled[] = "SPANPROF_DISABLED=true";
	static char service[sizeof("SPANPROF_APPLICATION_NAME=") + SP_CONFIG_VALUE_MAX];
	static char *entry[2 + COPIED * SP_CONFIG_SOURCES + 1];
	unsigned n = 2;

	/* the first one of a name counts */
	entry[0] = disabled;
	entry[1] = service;
	(void)sp_fmt_snprintf(service, sizeof(service), "SPANPROF_APPLICATION_NAME=%s",
			      service_name);
	for (unsigned id = 0; id < COPIED; id++)
		for (unsigned i = 0; i < SP_CONFIG_SOURCES; i++)
			if (copied[id][i].state == SET)
				entry[n++] =
					entries + copied[id][i].value - strlen(name_of(id, i)) - 1;
	entry[n] = NULL;
	return entry;
}

const char *sp_config_copy_name(enum sp_config_id id, enum sp_config_id other)
{
	const enum sp_config_id ids[] = {id, other};
	const char *text;

	for (size_t i = 0; i < 2; i++)
		for (unsigned source = 0; source < SP_CONFIG_SOURCES; source++)
			if (value_of(ids[i], source, &text) != UNSET)
				return sp_config_vars[ids[i]].source[source].name;
	return sp_config_vars[other].source[0].name;
}

static char resource[SP_CONFIG_VALUE_MAX + 2];
static const char too_long[] = "is longer than 8192 bytes";
static const char no_room[] = "does not fit beside the other settings (32 KiB)";

void sp_config_copy_resource(const char *attributes, const char *service)
{
	struct sp_config_resource r;
	const char *why = NULL;
	struct copied *c = &copied[SP_VAR_RESOURCE_ATTRIBUTES][0];
	const char *name = name_of(SP_VAR_RESOURCE_ATTRIBUTES, 0);
	size_t room = sizeof(entries) - used;
	size_t front = strlen(name) + 1;
	const char *variable;
	size_t len;

	if (sdk_known)
		return;
	sdk_known = true;
	(void)value_of(SP_VAR_RESOURCE_ATTRIBUTES, 0, &variable);
	if (service != NULL)
		(void)sp_fmt_snprintf(sdk_service, sizeof(sdk_service), "%s", service);
	/* An SDK does without a variable that it cannot read, and has what the program gave it all the same. */
	if (c->state == TOO_LONG)
		why = too_long;
	else if (c->state == NO_ROOM)
		why = no_room;
	else if (c->state == SET)
		why = sp_config_resource_read(variable, NULL, resource, &r);
	if (why != NULL)
		variable = "";
	len = strlen(attributes) + 1 + strlen(variable);
	if (len > SP_CONFIG_VALUE_MAX || front + len >= room)
		return;
	resource_refused = why;
	/* of two values of one key the last one counts */
	(void)sp_fmt_snprintf(entries + used, room, "%s=%s%s%s", name, attributes,
			      variable[0] != '\0' ? "," : "", variable);
	c->value = (unsigned short)(used + front);
	c->state = SET;
	used += front + len + 1;
}

static char program[4096]; /* not on the stack: a host's thread may have little of it */
static char unknown_service[sizeof(SP_CONFIG_UNKNOWN_SERVICE ":") + EXE_MAX];

/*
 * Off is the safe side of a kill switch. SPANPROF_DISABLED therefore also obeys 1, yes and whatever
 * else is not a word for no, though the warning rules call such a value bad; the switches that are
 * on by default obey every plain word for no. OTel's own switch is read as OTel demands.
 */
static bool means_no(const char *text)
{
	return sp_config_is_word(text, "false") || sp_config_is_word(text, "0") ||
	       sp_config_is_word(text, "no") || sp_config_is_word(text, "off");
}

static bool switched_off(unsigned source)
{
	const struct sp_config_source *s = &sp_config_vars[SP_VAR_DISABLED].source[source];
	const char *text;
	enum state state = value_of(SP_VAR_DISABLED, source, &text);
	bool set = state != UNSET;

	if (s->form == SP_FORM_NOT)
		return set && means_no(text);
	if (source == 0)
		return set && !means_no(text);
	return set && sp_config_is_word(text, "true");
}

bool sp_config_disabled(void)
{
	for (unsigned i = 0; i < SP_CONFIG_SOURCES; i++)
		if (switched_off(i))
			return true;
	return false;
}

bool sp_config_says(enum sp_config_id id, const char *word)
{
	const char *text;

	(void)value_of(id, 0, &text);
	return sp_config_is_word(text, word);
}

bool sp_config_allows_context(void)
{
	return !sp_config_says(SP_VAR_ACTIVE_SPAN, "scope") &&
	       !sp_config_says(SP_VAR_ACTIVE_SPAN, "start");
}

bool sp_config_names_sink(void)
{
	const char *text;

	for (unsigned source = 0; source < SP_CONFIG_SOURCES; source++)
		if (value_of(SP_VAR_SERVER_ADDRESS, source, &text) == SET ||
		    value_of(SP_VAR_OUTPUT_DIR, source, &text) == SET)
			return true;
	return false;
}

/*
 * One warning: what is wrong, why, and what applies instead. With value NULL the value is not
 * shown. A default that is described in words may depend on other variables, so the words are for
 * the documentation and are not printed as if they were the value in use.
 */
static void warn(enum sp_config_id id, unsigned source, const char *value, const char *why)
{
	const struct sp_config_var *var = &sp_config_vars[id];
	const char *name = var->source[source].name;
	const char *instead = var->fallback;
	char quoted[SHOWN_MAX + 16] = "";
	char effect[128] = "ignored";
	bool cut = value != NULL && strlen(value) > SHOWN_MAX;

	if (value != NULL)
		sp_fmt_snprintf(quoted, sizeof(quoted), " \"%.*s\"%s",
				cut ? (int)sp_text_boundary(value, SHOWN_MAX) : SHOWN_MAX, value,
				cut ? "..." : "");
	if (var->type == SP_TYPE_SWITCH)
		sp_fmt_snprintf(effect, sizeof(effect), "%s",
				switched_off(source) ? "profiling is off"
						     : "it does not turn profiling off");
	else if (source != 0 && instead != NULL)
		sp_fmt_snprintf(effect, sizeof(effect), "using %s=%s", var->source[0].name,
				instead);
	else if (instead != NULL)
		sp_fmt_snprintf(effect, sizeof(effect), "using %s", instead);
	else if (var->words != NULL)
		sp_fmt_snprintf(effect, sizeof(effect), "ignored, the default applies");
	sp_log(SP_LOG_WARN, "%s:%s %s; %s", name, quoted, why, effect);
}

static void write_field(struct sp_config *cfg, const struct sp_config_var *var,
			const struct sp_config_value *v)
{
	char *field = (char *)cfg + var->field;
	bool flag = v->number != 0;

	_Static_assert(sizeof(enum sp_profile_mode) == 4 && sizeof(enum sp_label_scope) == 4 &&
			       sizeof(enum sp_attributes_mode) == 4 &&
			       sizeof(enum sp_active_span) == 4 && sizeof(enum sp_log_level) == 4 &&
			       sizeof(enum sp_seccomp_mode) == 4 && sizeof(enum sp_protocol) == 4 &&
			       sizeof(enum sp_otlp_protocol) == 4 &&
			       sizeof(enum sp_compression) == 4 && sizeof(enum sp_format) == 4 &&
			       sizeof(int) == 4,
		       "every number but a bool is written as four bytes");
	if (var->type == SP_TYPE_BOOL || var->type == SP_TYPE_SWITCH)
		memcpy(field, &flag, sizeof(flag));
	else if (var->type < SP_TYPE_PATH)
		memcpy(field, &v->number, sizeof(v->number));
	else
		memcpy(field, &v->text, sizeof(v->text));
}

/* Whether the value of one name is good, with a warning if not. */
static bool take(enum sp_config_id id, unsigned source, bool tell, struct sp_config_value *v)
{
	const struct sp_config_var *var = &sp_config_vars[id];
	const char *why = NULL;
	const char *text;
	enum state state = value_of(id, source, &text);

	if (state == TOO_LONG)
		why = too_long;
	else if (state == NO_ROOM)
		why = no_room;
	else if (sp_config_parse_value(var, var->source[source].form, text, v) == 0)
		return true;
	/* Values of these types are never secret, nor long, nor hold a secret by the usual mistakes. */
	if (tell)
		warn(id, source, why == NULL && var->type <= SP_TYPE_PATH ? text : NULL,
		     why != NULL ? why : v->why);
	return false;
}

/* The first name that is set decides. */
static void read_var(struct sp_config *cfg, enum sp_config_id id, bool tell)
{
	const struct sp_config_var *var = &sp_config_vars[id];
	struct sp_config_value v = {.text = NULL};
	unsigned source = 0;
	const char *text;

	while (source < SP_CONFIG_SOURCES && value_of(id, source, &text) == UNSET)
		source++;
	if (source == SP_CONFIG_SOURCES || !take(id, source, tell, &v)) {
		v.number = 0;
		v.text = NULL;
		/* The defaults of the table are valid: a unit test reads each of them. */
		if (var->fallback != NULL)
			(void)sp_config_parse_value(var, SP_FORM_OWN, var->fallback, &v);
	}
	write_field(cfg, var, &v);
}

/* Each kill switch has an effect of its own (sp_config_disabled()), so each is checked. */
static void read_switches(struct sp_config *cfg, bool tell)
{
	struct sp_config_value v = {.text = NULL};
	const char *text;

	cfg->disabled = sp_config_disabled();
	for (unsigned i = 0; i < SP_CONFIG_SOURCES; i++) {
		if (value_of(SP_VAR_DISABLED, i, &text) != UNSET)
			(void)take(SP_VAR_DISABLED, i, tell, &v);
	}
}

/* The copy also has what the program gave its SDK, whose service.name comes before unknown_service. */
static void read_resource(struct sp_config *cfg, bool tell)
{
	struct sp_config_resource r;
	const char *why;

	if (cfg->resource_attributes == NULL)
		return;
	why = sp_config_resource_read(cfg->resource_attributes, cfg->resource_labels, resource, &r);
	if (why != NULL)
		cfg->resource_attributes = NULL;
	else
		why = resource_refused;
	if (why != NULL && tell)
		warn(SP_VAR_RESOURCE_ATTRIBUTES, 0, NULL, why);
	if (r.label_left_out && tell)
		sp_log(SP_LOG_WARN,
		       "%s: there are more than %u of its attributes; the first %u are labels",
		       name_of(SP_VAR_RESOURCE_LABELS, 0), SP_RESOURCE_LABELS_MAX - 1,
		       SP_RESOURCE_LABELS_MAX - 1);
	cfg->service_namespace = r.service_namespace;
	memcpy(cfg->resource_label, r.label, sizeof(cfg->resource_label));
	if (cfg->service_name == NULL)
		cfg->service_name = r.service_name;
}

/*
 * OTel's name for a service without one: "unknown_service:" and the program's file name. It is put together
 * on the stack, and stored without the C library: a thread sanitizer of the host sees calls of memcpy(), but not
 * our atomic operations, which order them with the other threads that read the name.
 */
static const char *name_by_program(void)
{
	static const char deleted[] = " (deleted)"; /* the kernel adds it to a replaced program */
	char name[sizeof(unknown_service)];
	ssize_t got = readlink("/proc/self/exe", program, sizeof(program));
	size_t len = got > 0 ? (size_t)got : 0;
	size_t base;
	size_t out;

	if (len > sizeof(deleted) &&
	    memcmp(program + len - (sizeof(deleted) - 1), deleted, sizeof(deleted) - 1) == 0)
		len -= sizeof(deleted) - 1;
	for (base = len; base > 0 && program[base - 1] != '/';)
		base--;
	if (base == len)
		return SP_CONFIG_UNKNOWN_SERVICE;
	out = sp_fmt_snprintf(name, sizeof(name), SP_CONFIG_UNKNOWN_SERVICE ":");
	out += sp_text_clean(name + out, EXE_MAX, program + base, len - base);
	for (size_t i = 0; i < out; i++)
		unknown_service[i] = sp_text_is_control(name[i]) ? '_' : name[i];
	unknown_service[out] = '\0';
	return unknown_service;
}

/* Defaults that depend on other variables. */
static void complete(struct sp_config *cfg)
{
	if (cfg->service_name == NULL)
		cfg->service_name = name_by_program();
	if (cfg->span_name_scope == SP_SCOPE_AUTO)
		cfg->span_name_scope =
			cfg->span_id_scope == SP_SCOPE_ALL ? SP_SCOPE_ALL : SP_SCOPE_ROOT;
	if (wants_otlp())
		cfg->protocol = SP_PROTOCOL_OTLP;
	cfg->server_path = cfg->server_address != NULL &&
			   strcmp(sp_config_copy_name(SP_VAR_SERVER_ADDRESS, SP_VAR_SERVER_ADDRESS),
				  OTLP_PROFILES_ENDPOINT) == 0;
	if (cfg->server_address == NULL && cfg->output_dir == NULL)
		cfg->server_address = cfg->protocol == SP_PROTOCOL_OTLP ? "http://localhost:4318"
									: "http://localhost:4040";
	if (cfg->profile_url == NULL && cfg->profile_base_url != NULL)
		cfg->profile_url = SP_PROFILE_URL_DEFAULT;
	if (cfg->baseline_url == NULL && cfg->profile_url != NULL &&
	    strstr(cfg->profile_url, "://") == NULL)
		cfg->baseline_url = cfg->profile_url;
	if (!cfg->add_profile_url)
		cfg->profile_url = NULL;
	if (!cfg->add_baseline_url)
		cfg->baseline_url = NULL;
}

/* What follows our prefix, or those of OTel and Pyroscope; all of a name that has none. */
static const char *words_of(const char *name)
{
	static const char *const prefixes[] = {"SPANPROF_", "OTEL_", "PYROSCOPE_"};

	for (size_t i = 0; i < SP_ARRAY_LEN(prefixes); i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			name += strlen(prefixes[i]);
	return name;
}

/* Levenshtein's distance: how many letters are too many, missing or others. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[UNKNOWN_BYTES]; /* from what is read of a to the begins of b */
	size_t len = strnlen(b, UNKNOWN_BYTES - 1);

	for (unsigned j = 0; j <= len; j++)
		row[j] = j;
	for (; *a != '\0'; a++) {
		unsigned before = row[0]++; /* of the row before, and the column before */

		for (size_t j = 1; j <= len; j++) {
			unsigned swapped = before + (*a != b[j - 1]);
			unsigned other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;

			before = row[j];
			row[j] = swapped < other ? swapped : other;
		}
	}
	return row[len];
}

/* The variable that was probably meant, also by the words of an alias of it; NULL = none is close. */
static const char *meant_by(const char *name)
{
	unsigned closest = 2 + (unsigned)strlen(words_of(name)) / 5;
	const char *best = NULL;

	for (unsigned i = 0; i < SP_VAR_N * SP_CONFIG_SOURCES; i++) {
		const struct sp_config_source *s = sp_config_vars[i / SP_CONFIG_SOURCES].source;
		const char *known = s[i % SP_CONFIG_SOURCES].name;
		unsigned d = known != NULL && words_of(known) != known
				     ? distance(words_of(name), words_of(known))
				     : closest;

		if (d < closest) {
			best = s[0].name;
			closest = d;
		}
	}
	return best;
}

/* A misspelt variable is otherwise silent: the program runs with the default and nobody knows. */
static void tell_unknown(void)
{
	for (unsigned i = 0; i < unknown.n && i < SP_CONFIG_UNKNOWN_MAX; i++) {
		const char *meant = meant_by(unknown.name[i]);

		sp_log(SP_LOG_WARN, "%s is not a variable of spanprof; %s%s%s", unknown.name[i],
		       meant != NULL ? "did you mean " : "ignored", meant != NULL ? meant : "",
		       meant != NULL ? "?" : "");
	}
	if (unknown.n > SP_CONFIG_UNKNOWN_MAX)
		sp_log(SP_LOG_WARN, "%u more SPANPROF_ variables are unknown, too",
		       unknown.n - SP_CONFIG_UNKNOWN_MAX);
}

void sp_config_parse_log_level(void)
{
	struct sp_config cfg;

	read_var(&cfg, SP_VAR_LOG_LEVEL, false);
	sp_log_set_level(cfg.log_level);
}

void sp_config_parse(struct sp_config *cfg)
{
	bool tell = !atomic_exchange_explicit(&looked_at, true, memory_order_relaxed);
	int saved = errno;

	memset(cfg, 0, sizeof(*cfg));
	read_var(cfg, SP_VAR_LOG_LEVEL, tell);
	sp_log_set_level(cfg->log_level);
	read_switches(cfg, tell);
	for (unsigned id = 0; id < SP_VAR_N; id++)
		if (id != SP_VAR_LOG_LEVEL && id != SP_VAR_DISABLED)
			read_var(cfg, (enum sp_config_id)id, tell);
	read_resource(cfg, tell);
	complete(cfg);
	if (tell) {
		/* Links lead from a span to the profiles of the service that the span names. */
		if (sdk_service[0] != '\0' && strcmp(sdk_service, cfg->service_name) != 0)
			sp_log(SP_LOG_WARN, SP_CONFIG_OTHER_SERVICE, cfg->service_name,
			       sdk_service);
		tell_unknown();
	}
	errno = saved;
}
