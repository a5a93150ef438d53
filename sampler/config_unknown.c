/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mistyped variable is otherwise silent: the program runs with the default and nobody knows.
 * Contexts APP, once; called by config.c. Names only, values are never looked at here.
 */
#include "sampler/config_unknown.h"

#include <string.h>

#include "sampler/config_copy.h"
#include "sampler/log.h"

#define PREFIX "SPANPROF_"
#define FAR 255U

/*
 * Damerau's distance with neighbours swapped as one step: the usual slips of a hand. Three rows are
 * enough because a step looks back two at most.
 */
static unsigned distance(const char *a, const char *b)
{
	unsigned char rows[3][SP_CONFIG_NAME_MAX + 1];
	size_t na = strlen(a);
	size_t nb = strlen(b);

	if (na > SP_CONFIG_NAME_MAX || nb > SP_CONFIG_NAME_MAX)
		return FAR;
	for (size_t j = 0; j <= nb; j++)
		rows[0][j] = (unsigned char)j;
	for (size_t i = 1; i <= na; i++) {
		unsigned char *row = rows[i % 3];
		const unsigned char *up = rows[(i + 2) % 3];
		const unsigned char *up2 = rows[(i + 1) % 3];

		row[0] = (unsigned char)i;
		for (size_t j = 1; j <= nb; j++) {
			unsigned best = up[j - 1] + (a[i - 1] != b[j - 1] ? 1U : 0U);

			if (up[j] + 1U < best)
				best = up[j] + 1U;
			if (row[j - 1] + 1U < best)
				best = row[j - 1] + 1U;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    up2[j - 2] + 1U < best)
				best = up2[j - 2] + 1U;
			row[j] = (unsigned char)best;
		}
	}
	return rows[na % 3][nb];
}

/* What follows OTEL_, PYROSCOPE_ or OTEL_PYROSCOPE_; NULL for our own names. */
static const char *foreign_words(const char *name)
{
	static const char *const prefixes[] = {"OTEL_PYROSCOPE_", "OTEL_", "PYROSCOPE_"};

	for (size_t i = 0; name != NULL && i < SP_ARRAY_LEN(prefixes); i++)
		if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
			return name + strlen(prefixes[i]);
	return NULL;
}

/* SPANPROF_INGEST_MAX_TRIES: the right words, but only behind somebody else's prefix. */
static const char *same_words(const char *rest)
{
	for (unsigned id = 0; id < SP_VAR_N; id++) {
		for (unsigned i = 0; i < SP_CONFIG_SOURCES; i++) {
			const char *words = foreign_words(sp_config_vars[id].source[i].name);

			if (words != NULL && strcmp(words, rest) == 0)
				return sp_config_vars[id].source[0].name;
		}
	}
	return NULL;
}

const char *sp_config_unknown_meant(const char *name)
{
	const char *rest = name + strlen(PREFIX);
	const char *best = same_words(rest);
	unsigned closest = 2 + (unsigned)strlen(rest) / 5;

	if (best != NULL)
		return best;
	for (unsigned id = 0; id < SP_VAR_N; id++) {
		const char *known = sp_config_vars[id].source[0].name;
		unsigned d;

		if (strncmp(known, PREFIX, strlen(PREFIX)) != 0)
			continue;
		d = distance(rest, known + strlen(PREFIX));
		if (d < closest) {
			best = known;
			closest = d;
		}
	}
	return best;
}

void sp_config_unknown_tell(void)
{
	unsigned more = sp_config_copy_unknown_more();
	const char *name;

	for (unsigned i = 0; (name = sp_config_copy_unknown(i)) != NULL; i++) {
		const char *meant = sp_config_unknown_meant(name);

		if (meant != NULL)
			sp_log(SP_LOG_WARN, "%s is not a variable of ours; did you mean %s?", name,
			       meant);
		else
			sp_log(SP_LOG_WARN, "%s is not a variable of ours; ignored", name);
	}
	if (more > 0)
		sp_log(SP_LOG_WARN, "%u more SPANPROF_ variables are not ours either", more);
}
