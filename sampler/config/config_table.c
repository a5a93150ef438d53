/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of config_table.h as constant data, read in INIT and APP; and as text, for tools that
 * print them. The text is never made in a host.
 */
#include "sampler/config/config_table.h"

#include "sampler/base/text.h"

/* The presets of preload/sdk/profile_url.c. */
static const struct sp_config_choice sp_config_link_choices[] = {
	{SP_PROFILE_URL_DEFAULT, 0},
	{"grafana-explore", 1},
	{"pyroscope-legacy", 2},
	{NULL, 0},
};

/* The later words are those that other SDKs accept in OTEL_LOG_LEVEL and PYROSCOPE_LOG_LEVEL. */
static const struct sp_config_choice sp_config_level_choices[] = {
	{"none", SP_LOG_NONE},
	{"error", SP_LOG_ERROR},
	{"warn", SP_LOG_WARN},
	{"info", SP_LOG_INFO},
	{"debug", SP_LOG_DEBUG},
	{"off", SP_LOG_NONE},
	{"warning", SP_LOG_WARN},
	{"trace", SP_LOG_DEBUG},
	{"verbose", SP_LOG_DEBUG},
	{"all", SP_LOG_DEBUG},
	{NULL, 0},
};

// clang-format off
#define ROW_(id, type_, field_, ...) [SP_VAR_##id] = { \
	.type = SP_TYPE_##type_, .field = offsetof(struct sp_config, field_), __VA_ARGS__ },
// clang-format on

const struct sp_config_var sp_config_vars[SP_VAR_N] = {SP_FOR_EACH_CONFIG(ROW_)};

#define WORDS_MAX 192U

static const char *type_in_words(const struct sp_config_var *var, char *out)
{
	static const char *const plain[] = {
		[SP_TYPE_SWITCH] = "bool",
		[SP_TYPE_BOOL] = "bool",
		[SP_TYPE_SIGNAL] = "signal or auto",
		[SP_TYPE_PATH] = "absolute path",
		[SP_TYPE_SECRET_FILE] = "absolute path",
		[SP_TYPE_ADDRESS] = "URL: http, https or unix",
		[SP_TYPE_BASE_URL] = "URL: http or https",
		[SP_TYPE_TEXT] = "string",
		[SP_TYPE_PAIRS] = "list: k=v,k=v",
		[SP_TYPE_RESOURCE] = "list: k=v,k=v, percent-encoded",
		[SP_TYPE_ATTRIBUTES] = "list: key,key",
		[SP_TYPE_SLOW] = "off, auto, duration, or list of these with names",
		[SP_TYPE_SECRET] = "secret",
		[SP_TYPE_HEADERS] = "secret: JSON object of strings",
	};
	char min[16];
	char max[16];

	if (var->type == SP_TYPE_ENUM || var->type == SP_TYPE_LINK) {
		size_t len = sp_fmt_snprintf(
			out, WORDS_MAX, var->type == SP_TYPE_ENUM ? "enum: " : "URL template or ");

		(void)sp_config_choices(var, "|", out + len, WORDS_MAX - len);
	} else if (var->type == SP_TYPE_INTEGER) {
		(void)sp_fmt_snprintf(out, WORDS_MAX, "integer %u..%u", var->min, var->max);
	} else if (var->type == SP_TYPE_DURATION) {
		(void)sp_fmt_snprintf(out, WORDS_MAX, "duration %s..%s",
				      sp_config_duration(var->min, min),
				      sp_config_duration(var->max, max));
	} else {
		return plain[var->type];
	}
	return out;
}

static const char *aliases_in_words(const struct sp_config_var *var, char *out)
{
	size_t len = 0;

	out[0] = '\0';
	for (unsigned i = 1; i < SP_CONFIG_SOURCES && var->source[i].name != NULL; i++)
		len += sp_fmt_snprintf(out + len, WORDS_MAX - len, "%s%s", i > 1 ? "," : "",
				       var->source[i].name);
	return out;
}

void sp_config_each(void (*fn)(const struct sp_config_help *h, void *arg), void *arg)
{
	char aliases[WORDS_MAX];
	char type[WORDS_MAX];

	for (unsigned id = 0; id < SP_VAR_N; id++) {
		const struct sp_config_var *var = &sp_config_vars[id];
		struct sp_config_help h = {
			.name = var->source[0].name,
			.aliases = aliases_in_words(var, aliases),
			.type = type_in_words(var, type),
			.fallback = var->fallback,
			.help = var->help,
		};

		if (h.fallback == NULL)
			h.fallback = var->words != NULL ? var->words : "not set";
		fn(&h, arg);
	}
}
