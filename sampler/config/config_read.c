/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills struct sp_config from the environment, or from the file of the machine's settings, in two
 * steps.
 *
 * The constructor copies our variables before the host can wipe or rewrite the environment. INIT
 * context: no heap, no log, and no system call except to read that file. It runs in every process
 * of a container, so another program's variable costs only a comparison of a few first letters. The
 * copy is written while there is one thread, and once more before it is parsed, by
 * sp_config_copy_resource(); after that it is read-only.
 *
 * The copy is parsed at activation (APP): this decides which of a variable's names counts, what is
 * wrong with its value, and which defaults depend on other variables. A few questions before
 * activation read the copy alone.
 */
#include "sampler/config/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>

#include "sampler/base/compiler.h"
#include "sampler/base/syscall.h"
#include "sampler/base/text.h"
#include "sampler/config/config_file.h"
#include "sampler/config/config_table.h"

#define COPY_MAX 32768U
#define SERVICE_MAX 255U
#define UNKNOWN_BYTES 64U /* bytes of an unknown variable's name that are stored, with the NUL */
#define SHOWN_MAX 60      /* bytes of a bad value that a message quotes */
#define EXE_MAX 256U
#define WHY_BYTES 160U /* what is wrong with one of several credentials */

enum state {
	UNSET, /* absent or empty, which OTel treats the same */
	SET,
	TOO_LONG, /* more than SP_CONFIG_VALUE_MAX bytes */
	NO_ROOM,  /* does not fit into the copy */
};

struct copied {
	unsigned char
		seen; /* also for an empty value: as in getenv(), the first occurrence counts */
	unsigned char state;
	unsigned short value; /* offset in entries */
};

/* The table's variables, and then those of the exporter's libraries. */
#define COPIED (SP_VAR_N + 2U)
static struct copied copied[COPIED][SP_CONFIG_SOURCES];
static char entries[COPY_MAX]; /* name=value, each with its NUL, as the exporter gets it */
static size_t used;
static atomic_bool looked_at;

/* SPANPROF_ names that are not in the table: the first ones, cut at UNKNOWN_BYTES - 1 bytes. */
static struct {
	unsigned n; /* number of unknown names */
	char name[SP_CONFIG_UNKNOWN_MAX][UNKNOWN_BYTES];
} unknown;

/* Whether the resource of the program's SDK is known, and its service.name; "" = none. */
static bool sdk_known;
static char sdk_service[SERVICE_MAX + 1];
/*
 * Why OTEL_RESOURCE_ATTRIBUTES was not added to the SDK's attributes; NULL = it was, or it is not
 * set.
 */
static const char *resource_refused;

_Static_assert(COPY_MAX <= 65536, "a place in it has 16 bits");

static bool has_prefix(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Variables that the exporter's libraries read: libdebuginfod's cache, limits, request headers and certificates. */
static const char *const for_libraries[COPIED - SP_VAR_N][SP_CONFIG_SOURCES] = {
	{"HOME", "XDG_CACHE_HOME", "DEBUGINFOD_CACHE_PATH", "DEBUGINFOD_TIMEOUT"},
	{"DEBUGINFOD_MAXSIZE", "DEBUGINFOD_MAXTIME", "DEBUGINFOD_HEADERS_FILE",
	 "DEBUGINFOD_IMA_CERT_PATH"}};

static const char *name_of(unsigned id, unsigned source)
{
	return id < SP_VAR_N ? sp_config_vars[id].source[source].name
			     : for_libraries[id - SP_VAR_N][source];
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

/* Copies one entry. front: the length of the name with its "=". */
static void keep_entry(struct copied *c, const char *entry, size_t front)
{
	size_t len = strnlen(entry + front, SP_CONFIG_VALUE_MAX + 1);

	if (c->seen)
		return;
	c->seen = 1;
	/* A value from a Kubernetes Secret that was made with echo ends in a newline. */
	while (len != 0 && len <= SP_CONFIG_VALUE_MAX &&
	       (entry[front + len - 1] == '\n' || entry[front + len - 1] == '\r'))
		len--;
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

/*
 * Variables that other programs know as well. Their first letters are rare, so the test is quick.
 */
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

/* The author of an entry. */
enum author {
	STARTER, /* the user who started the program with LD_PRELOAD, and so chose its code */
	ANYBODY, /* possibly a user with fewer rights than the program */
	ROOT,    /* root, in a file that every user can read */
};

/* The first setting of each author that was ignored. */
static struct {
	char name[UNKNOWN_BYTES]; /* "" = none */
} left_out[ROOT + 1];
static const char *config_file; /* path of the file; NULL = no file was read */
static const char *config_file_refused;

static void leave_out(enum author author, const char *name, size_t len)
{
	if (left_out[author].name[0] == '\0')
		(void)sp_fmt_snprintf(left_out[author].name, UNKNOWN_BYTES, "%.*s", (int)len, name);
}

/* Settings that may come from any environment, because they give nobody a right or a file. */
static bool is_harmless(unsigned id)
{
	return id == SP_VAR_DISABLED || id == SP_VAR_SERVICE_NAME || id == SP_VAR_LABELS ||
	       id == SP_VAR_RESOURCE_ATTRIBUTES;
}

bool sp_config_is_secret(enum sp_config_id id, const char *value)
{
	bool is_address = id == SP_VAR_SERVER_ADDRESS || id == SP_VAR_HTTP_PROXY ||
			  id == SP_VAR_HTTPS_PROXY || id == SP_VAR_ALL_PROXY;

	/* An address is secret if it has a user and a password. */
	if (is_address)
		return strchr(value, '@') != NULL;
	return sp_config_vars[id].type == SP_TYPE_SECRET ||
	       sp_config_vars[id].type == SP_TYPE_HEADERS;
}

static bool may_say(enum author author, unsigned id, const char *value)
{
	if (author == STARTER)
		return true;
	if (author == ANYBODY)
		return is_harmless(id);
	return id >= SP_VAR_N || !sp_config_is_secret((enum sp_config_id)id, value);
}

static void keep(const char *entry, enum author author)
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
	if (c != NULL && may_say(author, (unsigned)(c - copied[0]) / SP_CONFIG_SOURCES, equals + 1))
		keep_entry(c, entry, len + 1);
	else if (ours && (c != NULL || author == ANYBODY))
		leave_out(author, entry, len);
	else if (ours && !has_prefix(entry, "SPANPROF_DEBUG=")) /* for spanprof-entrypoint */
		keep_unknown(entry, len);
}

/*
 * At the first capture all these variables are zero. forget() is not called then, because its
 * writes would make the kernel allocate their pages.
 */
static bool captured;

static void forget(void)
{
	memset(copied, 0, sizeof(copied));
	memset(&unknown, 0, sizeof(unknown));
	memset(left_out, 0, sizeof(left_out));
	config_file = NULL;
	config_file_refused = NULL;
	used = 0;
	sdk_known = false;
	sdk_service[0] = '\0';
	resource_refused = NULL;
	atomic_store_explicit(&looked_at, false, memory_order_relaxed);
}

static void capture(char *const *envp, enum author author)
{
	if (captured)
		forget();
	captured = true;
	for (; envp != NULL && *envp != NULL; envp++)
		keep(*envp, author);
}

void sp_config_capture(char *const *envp)
{
	capture(envp, STARTER);
}

/* Whether the loader's list has an entry with the name of the object's file. */
static bool lists(const char *list, const char *object)
{
	const char *slash = strrchr(object, '/');
	const char *name = slash != NULL ? slash + 1 : object;
	size_t len = strlen(name);

	while (len != 0 && *list != '\0') {
		size_t entry = strcspn(list, " :");

		if (entry >= len && memcmp(list + entry - len, name, len) == 0 &&
		    (entry == len || list[entry - len - 1] == '/'))
			return true;
		list += entry;
		list += strspn(list, " :");
	}
	return false;
}

bool sp_config_is_preloaded(char *const *envp, const char *object)
{
	static const char variable[] = "LD_PRELOAD=";

	for (; *envp != NULL; envp++)
		if ((*envp)[0] == 'L' && has_prefix(*envp, variable) &&
		    lists(*envp + sizeof(variable) - 1, object))
			return true;
	return false;
}

/* The machine's file is not read if the program's environment switches us off. */
static void read_file(const char *path)
{
	static char text[SP_CONFIG_FILE_MAX + 1];
	size_t len = sp_config_file_read(path, text, &config_file_refused);
	char *at = text;
	const char *line;

	config_file = path;
	while ((line = sp_config_file_line(&at, text + len)) != NULL)
		keep(line, ROOT);
}

void sp_config_load(char *const *envp, const char *object, const char *path)
{
	if (sp_config_is_preloaded(envp, object)) {
		capture(envp, STARTER);
		return;
	}
	capture(envp, ANYBODY);
	if (sp_config_disabled())
		return;
	/*
	 * The file alone decides about SPANPROF_DISABLED: the environment cannot undo root's
	 * switch-off.
	 */
	memset(copied[SP_VAR_DISABLED], 0, sizeof(copied[SP_VAR_DISABLED]));
	read_file(path);
}

/* The value of one name of a variable; *text is "" unless the state is SET. */
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
 * Whether profiles are sent in OTLP. The general endpoint alone does not mean so: most programs set
 * it for their traces, and the collector there may not know profiles.
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

/* The value of a name if the name has an effect, else UNSET. */
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

	/* The first entry of a name counts. */
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
	/*
	 * An SDK ignores a variable that it cannot read, and uses the attributes from the program's
	 * code nevertheless.
	 */
	if (c->state == TOO_LONG)
		why = too_long;
	else if (c->state == NO_ROOM)
		why = no_room;
	else if (c->state == SET)
		why = sp_config_resource_read(variable, NULL, resource, &r);
	if (why != NULL)
		variable = "";
	len = strlen(variable) + 1 + strlen(attributes);
	if (len > SP_CONFIG_VALUE_MAX || front + len >= room)
		return;
	resource_refused = why;
	/*
	 * Of equal keys the last one counts: the attributes of the program's code come last, as in
	 * its SDK.
	 */
	(void)sp_fmt_snprintf(entries + used, room, "%s=%s%s%s", name, variable,
			      variable[0] != '\0' ? "," : "", attributes);
	c->value = (unsigned short)(used + front);
	c->state = SET;
	used += front + len + 1;
}

static char program[4096]; /* not on the stack: a host's thread may have a small one */
static char unknown_service[sizeof(SP_CONFIG_UNKNOWN_SERVICE ":") + EXE_MAX];

/*
 * In doubt a kill switch switches off. So SPANPROF_DISABLED switches off with any value that is
 * not a word for no, such as 1 or yes, though such a value gets a warning; the switches that are on
 * by default obey every plain word for no. OTel's switch is read as OTel defines it.
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
 * One warning: the fault, the reason, and the value in effect. With value NULL the value is not
 * shown. A default that is described in words may depend on other variables, so the words are for
 * the documentation and are not printed as the value in effect.
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
	else if (id == SP_VAR_SERVER_ADDRESS)
		sp_fmt_snprintf(effect, sizeof(effect), "nothing is pushed");
	else if (var->words != NULL)
		sp_fmt_snprintf(effect, sizeof(effect), "ignored, the default applies");
	sp_log(id == SP_VAR_SERVER_ADDRESS ? SP_LOG_ERROR : SP_LOG_WARN, "%s:%s %s; %s", name,
	       quoted, why, effect);
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

/* Each server has its own credentials, so with several servers these are lists. */
static const enum sp_config_id of_server[] = {
	SP_VAR_BASIC_AUTH_USER,     SP_VAR_BASIC_AUTH_USER_FILE,
	SP_VAR_BASIC_AUTH_PASSWORD, SP_VAR_BASIC_AUTH_PASSWORD_FILE,
	SP_VAR_AUTH_TOKEN,          SP_VAR_AUTH_TOKEN_FILE,
	SP_VAR_TENANT_ID,           SP_VAR_TENANT_ID_FILE,
	SP_VAR_HTTP_HEADERS_FILE,   SP_VAR_TLS_CERT_FILE,
	SP_VAR_TLS_KEY_FILE,
};

static bool is_of_server(enum sp_config_id id)
{
	for (size_t i = 0; i < SP_ARRAY_LEN(of_server); i++)
		if (of_server[i] == id)
			return true;
	return false;
}

/* The first name of the variable that is set; SP_CONFIG_SOURCES = no name is. */
static unsigned deciding_source(enum sp_config_id id)
{
	unsigned source = 0;
	const char *text;

	while (source < SP_CONFIG_SOURCES && value_of(id, source, &text) == UNSET)
		source++;
	return source;
}

static unsigned count_servers(const char *addresses)
{
	unsigned n = 0;
	size_t len;

	while (n <= SP_SERVERS_MAX && sp_config_element(addresses, true, n, &len) != NULL)
		n++;
	return n;
}

/* Whether the user has listed several addresses, valid or not. */
static bool names_several(void)
{
	unsigned source = deciding_source(SP_VAR_SERVER_ADDRESS);
	const char *text;

	return source < SP_CONFIG_SOURCES &&
	       value_of(SP_VAR_SERVER_ADDRESS, source, &text) == SET && count_servers(text) > 1;
}

/* Whether the value of one name is valid, with a warning if not. */
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
	else if (is_of_server(id) && names_several()) {
		/* check_elements() looks at its elements. */
		v->text = text;
		return true;
	} else if (sp_config_parse_value(var, var->source[source].form, text, v) == 0)
		return true;
	/*
	 * Values of these types are never secret or long, and a mistake hardly puts a secret there.
	 */
	if (tell)
		warn(id, source, why == NULL && var->type <= SP_TYPE_PATH ? text : NULL,
		     why != NULL ? why : v->why);
	return false;
}

/* The first name that is set counts. */
static void read_var(struct sp_config *cfg, enum sp_config_id id, bool tell)
{
	const struct sp_config_var *var = &sp_config_vars[id];
	struct sp_config_value v = {.text = NULL};
	unsigned source = deciding_source(id);

	if (source == SP_CONFIG_SOURCES || !take(id, source, tell, &v)) {
		v.number = 0;
		v.text = NULL;
		/* The defaults in the table are valid: a unit test reads each. */
		if (var->fallback != NULL)
			(void)sp_config_parse_value(var, SP_FORM_OWN, var->fallback, &v);
	}
	write_field(cfg, var, &v);
}

/* Each kill switch works alone (sp_config_disabled()), so the value of each is checked. */
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

/*
 * Whether the service has a name by a variable that only profilers read. It wins over
 * OTEL_SERVICE_NAME.
 */
static bool has_name_for_profiles(void)
{
	const char *text;

	for (unsigned i = 0; i < SP_CONFIG_SOURCES; i++)
		if (value_of(SP_VAR_SERVICE_NAME, i, &text) != UNSET &&
		    strcmp(name_of(SP_VAR_SERVICE_NAME, i), "OTEL_SERVICE_NAME") != 0)
			return true;
	return false;
}

/*
 * The copy also has the attributes of the program's SDK. The SDK uses the service.name of the code
 * instead of OTEL_SERVICE_NAME, and so do we.
 */
static void read_resource(struct sp_config *cfg, bool tell)
{
	struct sp_config_resource r;
	const char *why;

	if (sdk_service[0] != '\0' && !has_name_for_profiles())
		cfg->service_name = sdk_service;
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
 * OTel's name for a service without one: "unknown_service:" and the program's file name. It is made
 * on the stack and stored byte by byte: a thread sanitizer in the host sees calls of memcpy(), but
 * not our atomic operations, which order the store with other threads' reads.
 */
static const char *name_by_program(void)
{
	static const char deleted[] = " (deleted)"; /* the kernel appends this to a replaced file */
	char name[sizeof(unknown_service)];
	ssize_t got = sp_syscall_always(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", program,
					sizeof(program));
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

/* Whether the user has set the variable by any of its names, even to an invalid value. */
static bool is_named(enum sp_config_id id)
{
	const char *text;

	for (unsigned i = 0; i < SP_CONFIG_SOURCES; i++)
		if (value_of(id, i, &text) != UNSET)
			return true;
	return false;
}

static const char *text_of(const struct sp_config *cfg, enum sp_config_id id)
{
	const char *text;

	memcpy(&text, (const char *)cfg + sp_config_vars[id].field, sizeof(text));
	return text;
}

/*
 * Why one element of the list is no value of the variable; NULL = each is valid or empty (no
 * credential).
 */
static const char *check_each_element(enum sp_config_id id, const char *list, char why[WHY_BYTES])
{
	static char element[SP_CONFIG_VALUE_MAX + 1]; /* not on the stack of a host's thread */
	const char *problem = NULL;
	struct sp_config_value v;
	const char *at;
	size_t len;

	for (unsigned k = 0; problem == NULL; k++) {
		at = sp_config_element(list, false, k, &len);
		if (at == NULL)
			break;
		memcpy(element, at, len);
		element[len] = '\0';
		if (len != 0 &&
		    sp_config_parse_value(&sp_config_vars[id], SP_FORM_OWN, element, &v) != 0) {
			sp_fmt_snprintf(why, WHY_BYTES, "element %u of the list %s", k + 1, v.why);
			problem = why;
		}
	}
	memset(element, 0, sizeof(element));
	return problem;
}

bool sp_config_is_list_of_credentials(enum sp_config_id id, const char *text)
{
	char why[WHY_BYTES];
	size_t len;

	return is_of_server(id) && strlen(text) <= SP_CONFIG_VALUE_MAX &&
	       sp_config_element(text, false, 1, &len) != NULL &&
	       sp_config_element(text, false, SP_SERVERS_MAX, &len) == NULL &&
	       check_each_element(id, text, why) == NULL;
}

/*
 * Returns a reason if the variable's list of credentials does not fit the servers. A single credential is not used for all
 * servers, because all but one of them must not know it.
 */
static const char *check_elements(const struct sp_config *cfg, enum sp_config_id id,
				  char why[WHY_BYTES])
{
	const char *list = text_of(cfg, id);
	size_t len;

	if (list == NULL)
		return NULL;
	if (sp_config_element(list, false, cfg->servers - 1, &len) == NULL ||
	    sp_config_element(list, false, cfg->servers, &len) != NULL) {
		sp_fmt_snprintf(why, WHY_BYTES,
				"is not a list with one element for each of the %u servers",
				cfg->servers);
		return why;
	}
	return check_each_element(id, list, why);
}

/* Whether both elements are the same text; if there is no list, they are. */
static bool is_same_element(const char *list, bool is_address, unsigned a, unsigned b)
{
	size_t a_len, b_len;
	const char *x, *y;

	if (list == NULL)
		return true;
	x = sp_config_element(list, is_address, a, &a_len);
	y = sp_config_element(list, is_address, b, &b_len);
	while (is_address && a_len != 0 && x[a_len - 1] == '/')
		a_len--;
	while (is_address && b_len != 0 && y[b_len - 1] == '/')
		b_len--;
	return a_len == b_len && memcmp(x, y, a_len) == 0;
}

/*
 * The list may name a server twice, for two tenants. With the same credentials it would get each
 * profile twice.
 */
static bool is_same_server(const struct sp_config *cfg, unsigned a, unsigned b)
{
	bool is_same = is_same_element(cfg->server_address, true, a, b);

	for (size_t i = 0; is_same && i < SP_ARRAY_LEN(of_server); i++)
		is_same = is_same_element(text_of(cfg, of_server[i]), false, a, b);
	return is_same;
}

/* What is wrong with the credentials of several servers, and in which variable. NULL = nothing. */
static const char *check_credentials(const struct sp_config *cfg, enum sp_config_id *id,
				     char why[WHY_BYTES])
{
	const char *problem = NULL;

	for (size_t i = 0; i < SP_ARRAY_LEN(of_server) && problem == NULL; i++) {
		*id = of_server[i];
		problem = check_elements(cfg, *id, why);
	}
	if (problem != NULL)
		return problem;
	*id = SP_VAR_HTTP_HEADERS;
	if (cfg->http_headers != NULL)
		return "cannot be for several servers: use SPANPROF_HTTP_HEADERS_FILE, with a "
		       "file for each";
	*id = SP_VAR_SERVER_ADDRESS;
	for (unsigned b = 1; b < cfg->servers; b++)
		for (unsigned a = 0; a < b; a++)
			if (is_same_server(cfg, a, b))
				return "names a server twice, with the same credentials";
	return NULL;
}

/*
 * Several servers: if a credential might go to a wrong server, nothing is pushed, and all
 * credentials are forgotten.
 */
static void tell_servers_apart(struct sp_config *cfg, bool tell)
{
	const char *none = NULL;
	enum sp_config_id id;
	char why[WHY_BYTES];
	const char *problem = cfg->servers != 0 ? check_credentials(cfg, &id, why) : NULL;

	if (problem != NULL && tell)
		sp_log(SP_LOG_ERROR, "%s: %s; nothing is pushed", sp_config_copy_name(id, id),
		       problem);
	if (problem == NULL && cfg->servers != 0)
		return;
	cfg->server_address = NULL;
	cfg->servers = 0;
	cfg->http_headers = NULL;
	for (size_t i = 0; i < SP_ARRAY_LEN(of_server); i++)
		memcpy((char *)cfg + sp_config_vars[of_server[i]].field, &none, sizeof(none));
}

/* Roots are compared with thresholds only if the folder or a label shows which roots are slow. */
static void complete_slow(struct sp_config *cfg, bool tell)
{
	if (sp_config_wants_latency(cfg))
		return;
	if (sp_config_is_word(cfg->slow, "off")) {
		cfg->slow = NULL;
		return;
	}
	if (cfg->output_dir != NULL)
		return;
	/* A bad value has its warning already, and the default has replaced it. */
	if (tell && !sp_config_is_word(cfg->slow, "auto"))
		sp_log(SP_LOG_WARN, "%s has no effect without %s", name_of(SP_VAR_SLOW, 0),
		       name_of(SP_VAR_OUTPUT_DIR, 0));
	cfg->slow = NULL;
}

/* Sets the defaults that depend on other variables. */
static void complete(struct sp_config *cfg)
{
	if (cfg->service_name == NULL)
		cfg->service_name = name_by_program();
	cfg->slow_ids = cfg->span_id_scope == SP_SCOPE_SLOW;
	if (cfg->slow_ids)
		cfg->span_id_scope = SP_SCOPE_ROOT;
	if (cfg->span_name_scope == SP_SCOPE_AUTO)
		cfg->span_name_scope =
			cfg->span_id_scope == SP_SCOPE_ALL ? SP_SCOPE_ALL : SP_SCOPE_ROOT;
	/*
	 * Without span ids, the trace ids would still split the samples, and take half of the
	 * bytes.
	 */
	if (cfg->span_id_scope == SP_SCOPE_NONE && !is_named(SP_VAR_TRACE_ID))
		cfg->trace_id = false;
	if (wants_otlp())
		cfg->protocol = SP_PROTOCOL_OTLP;
	cfg->server_path = cfg->server_address != NULL &&
			   strcmp(sp_config_copy_name(SP_VAR_SERVER_ADDRESS, SP_VAR_SERVER_ADDRESS),
				  OTLP_PROFILES_ENDPOINT) == 0;
	/* A user who names a server, even an invalid one, wants no other server. */
	if (cfg->server_address == NULL && cfg->output_dir == NULL &&
	    !is_named(SP_VAR_SERVER_ADDRESS))
		cfg->server_address = cfg->protocol == SP_PROTOCOL_OTLP ? "http://localhost:4318"
									: "http://localhost:4040";
	cfg->servers = cfg->server_address != NULL ? count_servers(cfg->server_address) : 0;
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

/* The name of a variable without our prefix, or without that of OTel or Pyroscope. */
static const char *words_of(const char *name)
{
	static const char *const prefixes[] = {"SPANPROF_", "OTEL_", "PYROSCOPE_"};

	for (size_t i = 0; i < SP_ARRAY_LEN(prefixes); i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			name += strlen(prefixes[i]);
	return name;
}

/* Levenshtein's distance: the number of letters to add, remove or replace. */
static unsigned distance(const char *a, const char *b)
{
	unsigned row[UNKNOWN_BYTES]; /* row[j]: from a so far to the first j letters of b */
	size_t len = strnlen(b, UNKNOWN_BYTES - 1);

	for (unsigned j = 0; j <= len; j++)
		row[j] = j;
	for (; *a != '\0'; a++) {
		unsigned before = row[0]++; /* the value of the row before, in the column before */

		for (size_t j = 1; j <= len; j++) {
			unsigned swapped = before + (*a != b[j - 1]);
			unsigned other = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;

			before = row[j];
			row[j] = swapped < other ? swapped : other;
		}
	}
	return row[len];
}

/* Whether name is the beginning of known up to a "_", as "OUTPUT" of "OUTPUT_DIR". */
static bool is_begin(const char *name, const char *known)
{
	size_t len = strnlen(name, UNKNOWN_BYTES);

	return len > 3 && strncmp(name, known, len) == 0 && known[len] == '_';
}

/* Such a name counts as two letters off, so that a name with one wrong letter is closer. */
#define BEGIN_DISTANCE 2U

static unsigned distance_to(const char *name, const char *known)
{
	return is_begin(name, known) ? BEGIN_DISTANCE : distance(name, known);
}

/*
 * The variable that the user probably meant, also by the words of an alias; NULL = none is close.
 */
static const char *meant_by(const char *name)
{
	unsigned closest = 2 + (unsigned)strlen(words_of(name)) / 5;
	const char *best = NULL;

	for (unsigned i = 0; i < SP_VAR_N * SP_CONFIG_SOURCES; i++) {
		const struct sp_config_source *s = sp_config_vars[i / SP_CONFIG_SOURCES].source;
		const char *known = s[i % SP_CONFIG_SOURCES].name;
		unsigned d = known != NULL && words_of(known) != known
				     ? distance_to(words_of(name), words_of(known))
				     : closest;

		if (d < closest) {
			best = s[0].name;
			closest = d;
		}
	}
	return best;
}

/* Without a message a misspelt variable would silently mean the default. */
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

/*
 * Logs settings that were ignored because of their author. This is no warning: a user with fewer
 * rights may have set variables to make a line appear on this program's stderr.
 */
static void tell_left_out(void)
{
	if (left_out[ANYBODY].name[0] != '\0')
		sp_log(SP_LOG_INFO,
		       "%s is ignored: LD_PRELOAD does not name this libspanprof.so, so only %s "
		       "counts (spanprof-preload enable --set)",
		       left_out[ANYBODY].name, config_file);
	if (left_out[ROOT].name[0] != '\0')
		sp_log(SP_LOG_WARN,
		       "%s is ignored in %s, which every user can read; name a file in the "
		       "variable that ends in _FILE",
		       left_out[ROOT].name, config_file);
	if (config_file_refused != NULL)
		sp_log(SP_LOG_WARN, "%s %s; it is ignored", config_file, config_file_refused);
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
	if (names_several())
		tell_servers_apart(cfg, tell);
	complete_slow(cfg, tell);
	if (tell) {
		/* A span's links lead to the profiles of the service that the span names. */
		if (sdk_service[0] != '\0' && strcmp(sdk_service, cfg->service_name) != 0)
			sp_log(SP_LOG_WARN, SP_CONFIG_OTHER_SERVICE, cfg->service_name,
			       sdk_service);
		tell_unknown();
		tell_left_out();
	}
	errno = saved;
}
