/* SPDX-License-Identifier: Apache-2.0 */
/* The table as text, for tools that print it. Never runs in a host. */
#include "sampler/base/fmt.h"
#include "sampler/config/config_parse.h"
#include "sampler/config/config_table.h"

#define WORDS_MAX 192U

static void choices_in_words(const struct sp_config_var *var, const char *prefix, char *out)
{
	uint32_t shown = 0;
	size_t len = sp_fmt_snprintf(out, WORDS_MAX, "%s", prefix);

	for (const struct sp_config_choice *c = var->choices; c->word != NULL; c++) {
		if ((shown & (1U << c->value)) != 0)
			continue;
		len += sp_fmt_snprintf(out + len, WORDS_MAX - len, "%s%s", shown != 0 ? "|" : "",
				       c->word);
		shown |= 1U << c->value;
	}
}

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
		[SP_TYPE_SECRET] = "secret",
		[SP_TYPE_HEADERS] = "secret: JSON object of strings",
	};
	char min[16];
	char max[16];

	if (var->type == SP_TYPE_ENUM)
		choices_in_words(var, "enum: ", out);
	else if (var->type == SP_TYPE_LINK)
		choices_in_words(var, "URL template or ", out);
	else if (var->type == SP_TYPE_INTEGER)
		(void)sp_fmt_snprintf(out, WORDS_MAX, "integer %u..%u", var->min, var->max);
	else if (var->type == SP_TYPE_DURATION)
		(void)sp_fmt_snprintf(out, WORDS_MAX, "duration %s..%s",
				      sp_config_duration(var->min, min),
				      sp_config_duration(var->max, max));
	else
		return plain[var->type];
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
