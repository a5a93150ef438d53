/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Documents and fields of spans in OTLP's JSON (otlp_json.h).
 *
 * jansson takes up to a hundred bytes for a byte of "{},", so the memory that a document may take
 * has a bound of its own.
 *
 * Context: the report tool.
 */
#define _GNU_SOURCE
#include "export/report/otlp_json.h"

#include <ctype.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sampler/base/text.h"

/* For one document. */
#define MEMORY_MAX ((size_t)1 << 30)

static size_t bytes;
static bool is_short;

static void *take(size_t size)
{
	void *p = size <= MEMORY_MAX && bytes <= MEMORY_MAX - size ? malloc(size) : NULL;

	is_short |= p == NULL;
	bytes += malloc_usable_size(p);
	return p;
}

static void give(void *p)
{
	bytes -= malloc_usable_size(p);
	free(p);
}

json_t *sp_otlp_json_load(const char *text, size_t len, size_t flags, char why[SP_REPORT_ERROR],
			  bool *too_large)
{
	char clean[SP_REPORT_TEXT_MAX + 1];
	json_error_t error;
	json_malloc_t usual_take;
	json_free_t usual_give;
	json_t *document;

	bytes = 0;
	is_short = false;
	json_get_alloc_funcs(&usual_take, &usual_give);
	json_set_alloc_funcs(take, give);
	document = json_loadb(text, len, flags, &error);
	/* The document is freed by the other functions, which come to the same free(). */
	json_set_alloc_funcs(usual_take, usual_give);
	*too_large = is_short;
	if (document != NULL && !is_short)
		return document;
	/*
	 * jansson 2.14 calls some of these cases an invalid token, and goes on with a shorter text
	 * in others.
	 */
	json_decref(document);
	if (is_short) {
		(void)snprintf(why, SP_REPORT_ERROR, "%s", SP_OTLP_JSON_TOO_LARGE);
		return NULL;
	}
	/* It may quote the file. */
	(void)sp_report_clean(error.text, clean);
	(void)snprintf(why, SP_REPORT_ERROR, "no JSON: line %d: %.150s", error.line, clean);
	return NULL;
}

bool sp_otlp_json_number(const json_t *value, uint64_t *n)
{
	const char *text = json_string_value(value);

	if (json_is_integer(value) && json_integer_value(value) >= 0) {
		*n = (uint64_t)json_integer_value(value);
		return true;
	}
	return text != NULL && sp_text_number(&text, 10, n) && *text == '\0' && *n <= INT64_MAX;
}

const json_t *sp_otlp_json_attribute(const json_t *attributes, const char *key, const char *kind)
{
	const json_t *one;
	size_t i;

	json_array_foreach(attributes, i, one)
	{
		const char *name = json_string_value(json_object_get(one, "key"));

		if (name != NULL && strcmp(name, key) == 0)
			return json_object_get(json_object_get(one, "value"), kind);
	}
	return NULL;
}

bool sp_otlp_json_id(const json_t *value, char *id, size_t digits)
{
	const char *text = json_string_value(value);

	if (text == NULL || strlen(text) != digits ||
	    strspn(text, "0123456789abcdefABCDEF") != digits)
		return false;
	for (size_t i = 0; i <= digits; i++)
		id[i] = (char)tolower((unsigned char)text[i]);
	return true;
}
