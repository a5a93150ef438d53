/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes struct sp_config from the captured variables and the table. What config.h says of INIT runs
 * there, the rest at activation (APP).
 */
#include "sampler/config/config.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "sampler/base/fmt.h"
#include "sampler/base/text.h"
#include "sampler/config/config_copy.h"
#include "sampler/config/config_parse.h"

#define SHOWN_MAX 60 /* bytes of a bad value that a message quotes */
#define EXE_MAX 256U

static char resource[SP_CONFIG_VALUE_MAX + 2];
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
	enum sp_config_state state = sp_config_copy_get(SP_VAR_DISABLED, source, &text);
	bool set = state != SP_STATE_UNSET;

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

bool sp_config_wants_start(void)
{
	const char *text;

	(void)sp_config_copy_get(SP_VAR_PROFILE, 0, &text);
	return sp_config_is_word(text, "always");
}

bool sp_config_trusts_seccomp(void)
{
	const char *text;

	(void)sp_config_copy_get(SP_VAR_SECCOMP, 0, &text);
	return sp_config_is_word(text, "trust");
}

bool sp_config_wants_context(void)
{
	const char *text;

	(void)sp_config_copy_get(SP_VAR_ACTIVE_SPAN, 0, &text);
	return sp_config_is_word(text, "context");
}

/* A bad value means the default. */
bool sp_config_allows_context(void)
{
	const char *text;

	(void)sp_config_copy_get(SP_VAR_ACTIVE_SPAN, 0, &text);
	return !sp_config_is_word(text, "scope") && !sp_config_is_word(text, "start");
}

static bool is_true(enum sp_config_id id)
{
	const char *text;

	(void)sp_config_copy_get(id, 0, &text);
	return sp_config_is_word(text, "true");
}

bool sp_config_wants_hook_dlsym(void)
{
	return is_true(SP_VAR_HOOK_DLSYM);
}

bool sp_config_names_sink(void)
{
	const char *text;

	for (unsigned source = 0; source < SP_CONFIG_SOURCES; source++)
		if (sp_config_copy_get(SP_VAR_SERVER_ADDRESS, source, &text) == SP_STATE_SET ||
		    sp_config_copy_get(SP_VAR_OUTPUT_DIR, source, &text) == SP_STATE_SET)
			return true;
	return false;
}

/* Types whose values are never secret, nor long, nor hold one by the usual mistakes. */
static bool may_show(enum sp_config_type type)
{
	return type <= SP_TYPE_PATH;
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
			       sizeof(int) == 4,
		       "every number but a bool is written as four bytes");
	if (var->type == SP_TYPE_BOOL || var->type == SP_TYPE_SWITCH)
		memcpy(field, &flag, sizeof(flag));
	else if (var->type < SP_TYPE_PATH)
		memcpy(field, &v->number, sizeof(v->number));
	else
		memcpy(field, &v->text, sizeof(v->text));
}

static const char *why_lost(enum sp_config_state state)
{
	if (state == SP_STATE_TOO_LONG)
		return "is longer than 8192 bytes";
	return state == SP_STATE_NO_ROOM ? "does not fit beside the other settings (32 KiB)" : NULL;
}

/* Whether the value of one name is good, with a warning if not. */
static bool take(enum sp_config_id id, unsigned source, bool tell, struct sp_config_value *v)
{
	const struct sp_config_var *var = &sp_config_vars[id];
	const char *text;
	const char *why = why_lost(sp_config_copy_get(id, source, &text));

	if (why == NULL && sp_config_parse_value(var, var->source[source].form, text, v) == 0)
		return true;
	if (tell)
		warn(id, source, why == NULL && may_show(var->type) ? text : NULL,
		     why != NULL ? why : v->why);
	return false;
}

/* The name that decides: the first one set. SP_CONFIG_SOURCES = none. */
static unsigned deciding_source(enum sp_config_id id)
{
	const char *text;
	unsigned i;

	for (i = 0; i < SP_CONFIG_SOURCES; i++)
		if (sp_config_copy_get(id, i, &text) != SP_STATE_UNSET)
			break;
	return i;
}

static void read_var(struct sp_config *cfg, enum sp_config_id id, bool tell)
{
	const struct sp_config_var *var = &sp_config_vars[id];
	struct sp_config_value v = {.text = NULL};
	unsigned source = deciding_source(id);
	bool good = source < SP_CONFIG_SOURCES && take(id, source, tell, &v);

	if (!good) {
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
		if (sp_config_copy_get(SP_VAR_DISABLED, i, &text) != SP_STATE_UNSET)
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
	if (why != NULL) {
		cfg->resource_attributes = NULL;
		if (tell)
			warn(SP_VAR_RESOURCE_ATTRIBUTES, 0, NULL, why);
	}
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

/* Links lead from a span to the profiles of the service that the span names. */
static void compare_service(const struct sp_config *cfg)
{
	const char *own = sp_config_copy_sdk_service();

	if (own != NULL && strcmp(own, cfg->service_name) != 0)
		sp_log(SP_LOG_WARN, SP_CONFIG_OTHER_SERVICE, cfg->service_name, own);
}

/* Defaults that depend on other variables. */
static void complete(struct sp_config *cfg)
{
	if (cfg->service_name == NULL)
		cfg->service_name = name_by_program();
	if (cfg->span_name_scope == SP_SCOPE_AUTO)
		cfg->span_name_scope =
			cfg->span_id_scope == SP_SCOPE_ALL ? SP_SCOPE_ALL : SP_SCOPE_ROOT;
	if (cfg->server_address == NULL && cfg->output_dir == NULL)
		cfg->server_address = "http://localhost:4040";
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
	unsigned row[SP_CONFIG_NAME_MAX]; /* from what is read of a to the begins of b */
	size_t len = strnlen(b, SP_CONFIG_NAME_MAX - 1);

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
static void tell_unknown(const struct sp_config_unknown *u)
{
	for (unsigned i = 0; i < u->n && i < SP_CONFIG_UNKNOWN_MAX; i++) {
		const char *meant = meant_by(u->name[i]);

		sp_log(SP_LOG_WARN, "%s is not a variable of spanprof; %s%s%s", u->name[i],
		       meant != NULL ? "did you mean " : "ignored", meant != NULL ? meant : "",
		       meant != NULL ? "?" : "");
	}
	if (u->n > SP_CONFIG_UNKNOWN_MAX)
		sp_log(SP_LOG_WARN, "%u more SPANPROF_ variables are unknown, too",
		       u->n - SP_CONFIG_UNKNOWN_MAX);
}

void sp_config_parse_log_level(void)
{
	struct sp_config cfg;

	read_var(&cfg, SP_VAR_LOG_LEVEL, false);
	sp_log_set_level(cfg.log_level);
}

void sp_config_parse(struct sp_config *cfg)
{
	bool tell = sp_config_copy_first_look();
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
		compare_service(cfg);
		tell_unknown(sp_config_copy_unknown());
	}
	errno = saved;
}
