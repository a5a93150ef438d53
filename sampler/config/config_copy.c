/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies our variables out of the environment before the host can wipe or rewrite it. INIT context:
 * no heap, no log, no system call. It runs in every process of a container, so a foreign variable
 * costs only a comparison of a few first letters.
 */
#include "sampler/config/config_copy.h"

#include <stdatomic.h>
#include <string.h>

#include "sampler/base/compiler.h"
#include "sampler/base/fmt.h"

struct copied {
	unsigned char
		seen; /* also of an empty value: the first occurrence decides, as for getenv */
	unsigned char state;
	unsigned short offset;
};

static struct copied copied[SP_VAR_N][SP_CONFIG_SOURCES];
static char values[SP_CONFIG_COPY_MAX];
static size_t used;
static struct sp_config_unknown unknown;
static atomic_bool looked_at;

/* What the program told its SDK. */
static struct {
	bool known;
	char service[SP_CONFIG_SERVICE_MAX + 1]; /* "" = none */
} sdk;

_Static_assert(SP_CONFIG_COPY_MAX <= 65536, "an offset is 16 bits");

static bool has_prefix(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

static struct copied *find(const char *name, size_t len)
{
	for (unsigned id = 0; id < SP_VAR_N; id++) {
		for (unsigned i = 0; i < SP_CONFIG_SOURCES; i++) {
			const char *known = sp_config_vars[id].source[i].name;

			if (known != NULL && strncmp(known, name, len) == 0 && known[len] == '\0')
				return &copied[id][i];
		}
	}
	return NULL;
}

static void keep_value(struct copied *c, const char *value)
{
	size_t len = strnlen(value, SP_CONFIG_VALUE_MAX + 1);

	if (c->seen)
		return;
	c->seen = 1;
	if (len == 0) {
		c->state = SP_STATE_UNSET;
	} else if (len > SP_CONFIG_VALUE_MAX) {
		c->state = SP_STATE_TOO_LONG;
	} else if (len >= sizeof(values) - used) {
		c->state = SP_STATE_NO_ROOM;
	} else {
		c->state = SP_STATE_SET;
		c->offset = (unsigned short)used;
		memcpy(values + used, value, len);
		values[used + len] = '\0';
		used += len + 1;
	}
}

static void keep_unknown(const char *name, size_t len)
{
	if (len > SP_CONFIG_NAME_MAX - 1)
		len = SP_CONFIG_NAME_MAX - 1;
	if (unknown.n < SP_CONFIG_UNKNOWN_MAX)
		memcpy(unknown.name[unknown.n], name, len);
	unknown.n++;
}

/* Variables that the exporter's libraries read: libdebuginfod's cache and timeout. */
static const char *const for_libraries[] = {
	"HOME",
	"XDG_CACHE_HOME",
	"DEBUGINFOD_CACHE_PATH",
	"DEBUGINFOD_TIMEOUT",
};
static struct copied kept[SP_ARRAY_LEN(for_libraries)];

/* Variables that all HTTP clients know. Their first letters are rare, so the test is quick. */
static bool is_common(const char *entry)
{
	static const char *const names[] = {
		"http_proxy=", "https_proxy=", "HTTPS_PROXY=",   "all_proxy=",       "ALL_PROXY=",
		"no_proxy=",   "NO_PROXY=",    "SSL_CERT_FILE=", "DEBUGINFOD_URLS=",
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

	for (size_t i = 0; i < SP_ARRAY_LEN(for_libraries); i++)
		if (has_prefix(entry, for_libraries[i]) && entry[strlen(for_libraries[i])] == '=')
			keep_value(&kept[i], entry + strlen(for_libraries[i]) + 1);
	if (!ours && !has_prefix(entry, "PYROSCOPE_") && !has_prefix(entry, "OTEL_") &&
	    !is_common(entry))
		return;
	equals = strchr(entry, '=');
	if (equals == NULL)
		return;
	len = (size_t)(equals - entry);
	c = find(entry, len);
	if (c != NULL)
		keep_value(c, equals + 1);
	else if (ours)
		keep_unknown(entry, len);
}

/* In the first place all of it is zero, and pages that nobody writes to take no memory. */
static bool captured;

static void forget(void)
{
	memset(copied, 0, sizeof(copied));
	memset(kept, 0, sizeof(kept));
	memset(&unknown, 0, sizeof(unknown));
	used = 0;
	sdk.known = false;
	sdk.service[0] = '\0';
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

#define ENTRIES_MAX ((size_t)SP_VAR_N * SP_CONFIG_SOURCES + SP_ARRAY_LEN(for_libraries) + 3U)

static struct {
	char *entry[ENTRIES_MAX];
	unsigned entries;
	char text[(size_t)2 * SP_CONFIG_COPY_MAX];
	size_t used;
} environment;

static void add_entry(const char *name, const char *value)
{
	char *at = environment.text + environment.used;
	size_t room = sizeof(environment.text) - environment.used;

	if (environment.entries == ENTRIES_MAX - 1 || strlen(name) + strlen(value) + 2 > room)
		return;
	environment.used += sp_fmt_snprintf(at, room, "%s=%s", name, value) + 1;
	environment.entry[environment.entries++] = at;
}

char *const *sp_config_copy_environment(const char *service_name)
{
	environment.entries = 0;
	environment.used = 0;
	/* the first one of a name counts */
	add_entry("SPANPROF_DISABLED", "true");
	if (service_name != NULL)
		add_entry("SPANPROF_APPLICATION_NAME", service_name);
	for (unsigned id = 0; id < SP_VAR_N; id++) {
		for (unsigned i = 0; i < SP_CONFIG_SOURCES; i++) {
			const char *name = sp_config_vars[id].source[i].name;

			if (name != NULL && copied[id][i].state == SP_STATE_SET)
				add_entry(name, values + copied[id][i].offset);
		}
	}
	for (size_t i = 0; i < SP_ARRAY_LEN(for_libraries); i++)
		if (kept[i].state == SP_STATE_SET)
			add_entry(for_libraries[i], values + kept[i].offset);
	environment.entry[environment.entries] = NULL;
	return environment.entry;
}

enum sp_config_state sp_config_copy_get(enum sp_config_id id, unsigned source, const char **text)
{
	const struct copied *c = &copied[id][source];

	*text = c->state == SP_STATE_SET ? values + c->offset : "";
	return (enum sp_config_state)c->state;
}

const char *sp_config_copy_name(enum sp_config_id id, enum sp_config_id other)
{
	const enum sp_config_id ids[] = {id, other};

	for (size_t i = 0; i < 2; i++)
		for (unsigned source = 0; source < SP_CONFIG_SOURCES; source++)
			if (copied[ids[i]][source].state != SP_STATE_UNSET)
				return sp_config_vars[ids[i]].source[source].name;
	return sp_config_vars[other].source[0].name;
}

void sp_config_copy_resource(const char *attributes, const char *service)
{
	struct copied *c = &copied[SP_VAR_RESOURCE_ATTRIBUTES][0];
	const char *variable = c->state == SP_STATE_SET ? values + c->offset : "";
	size_t room = sizeof(values) - used;
	size_t len;

	if (sdk.known)
		return;
	sdk.known = true;
	if (service != NULL)
		(void)sp_fmt_snprintf(sdk.service, sizeof(sdk.service), "%s", service);
	len = strlen(attributes) + 1 + strlen(variable);
	/* a variable that is too long is told and dropped, and so it stays */
	if (len > SP_CONFIG_VALUE_MAX || len >= room ||
	    (c->state != SP_STATE_SET && c->state != SP_STATE_UNSET))
		return;
	/* of two values of one key the last one counts */
	(void)sp_fmt_snprintf(values + used, room, "%s%s%s", attributes,
			      variable[0] != '\0' ? "," : "", variable);
	c->offset = (unsigned short)used;
	c->state = SP_STATE_SET;
	used += len + 1;
}

const char *sp_config_copy_sdk_service(void)
{
	return sdk.service[0] != '\0' ? sdk.service : NULL;
}

const struct sp_config_unknown *sp_config_copy_unknown(void)
{
	return &unknown;
}

bool sp_config_copy_first_look(void)
{
	return !atomic_exchange_explicit(&looked_at, true, memory_order_relaxed);
}
