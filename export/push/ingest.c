/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the query of the older endpoint, /ingest. Its parameter "name" is "app{label=value,...}"
 * without any escaping (Pyroscope api/model/labelset/labelset.go): the application may contain
 * letters, digits and _.-/ only, and a comma or brace in a value would end it, so these become
 * underscores. The full service name is in the label service_name, which the server prefers.
 * Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/push/ingest.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/base/compiler.h"
#include "sampler/base/text.h"

static bool is_plain(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || c == '-' || c == '.';
}

static void put_encoded(FILE *f, char c)
{
	char text[3];

	(void)fwrite(text, 1, sp_text_percent(text, c), f);
}

static const char *service_of(const struct sp_series *s)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->label[i].name, "service_name") == 0)
			return s->label[i].value;
	return SP_CONFIG_UNKNOWN_SERVICE;
}

/*
 * The server trims white space at both ends, and silently drops an empty value, so such a value
 * begins with an underscore instead.
 */
static void put_label(FILE *f, const struct sp_label *l, bool first)
{
	const char *c = l->value;

	put_encoded(f, first ? '{' : ',');
	(void)fprintf(f, "%s%%3D", l->name);
	if (*c != '\0' && (unsigned char)*c <= ' ') {
		put_encoded(f, '_');
		c++;
	}
	for (; *c != '\0'; c++)
		put_encoded(f, *c == ',' || *c == '}' ? '_' : *c);
}

static void put_name(FILE *f, const struct sp_series *s)
{
	bool first = true;

	for (const char *c = service_of(s); *c != '\0'; c++)
		(void)fputc(is_plain(*c) || *c == '/' ? *c : '_', f);
	for (size_t i = 0; i < s->n; i++) {
		/* The server makes these two itself, from the sample types and spyName. */
		if (strcmp(s->label[i].name, "__name__") == 0 ||
		    strcmp(s->label[i].name, "pyroscope_spy") == 0)
			continue;
		put_label(f, &s->label[i], first);
		first = false;
	}
	put_encoded(f, '}');
}

int sp_ingest_query(const struct sp_request *r, char **out)
{
	size_t len = 0;
	FILE *f = open_memstream(out, &len);
	bool bad;

	if (f == NULL)
		return -ENOMEM;
	(void)fputs("?name=", f);
	put_name(f, r->series);
	/* Whole seconds: every server version reads ten digits as such. */
	(void)fprintf(f,
		      "&format=pprof&spyName=spanprof&sampleRate=%" PRIu32
		      "&units=samples&aggregationType=sum&from=%" PRId64 "&until=%" PRId64,
		      r->rate_hz, r->from_ns / (int64_t)SP_NS_PER_S,
		      r->until_ns / (int64_t)SP_NS_PER_S);
	bad = ferror(f) != 0;
	if (fclose(f) != 0 || bad) {
		free(*out);
		*out = NULL;
		return -ENOMEM;
	}
	return 0;
}
