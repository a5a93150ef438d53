/* SPDX-License-Identifier: Apache-2.0 */
/* Reads SPANPROF_HTTP_HEADERS by jansson. Context: the exporter, at start. */
#include "export/push/headers_json.h"

#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "sampler/base/text.h"

#define SP_HEADER_MAX 8192

/* RFC 9110 tokens. */
static bool name_ok(const char *name)
{
	return name[0] != '\0' &&
	       name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				 "!#$%&'*+-.^_`|~")] == '\0';
}

/* A line break in a value would begin another header, or the body. */
static bool value_ok(const char *value)
{
	for (; *value != '\0'; value++)
		if (sp_text_is_control(*value) && *value != '\t')
			return false;
	return true;
}

int sp_headers_parse(const char *json, void (*each)(void *arg, const char *header), void *arg,
		     unsigned *refused)
{
	json_t *root = json_loads(json, JSON_REJECT_DUPLICATES, NULL);
	const char *name;
	json_t *item;

	*refused = 0;
	if (!json_is_object(root)) {
		json_decref(root);
		return -EINVAL;
	}
	json_object_foreach(root, name, item)
	{
		const char *value = json_string_value(item);
		char header[SP_HEADER_MAX];
		int n = -1;

		/* libcurl sends a header without value only when it is written with ';'. */
		if (value != NULL && name_ok(name) && value_ok(value))
			n = snprintf(header, sizeof(header), "%s%s%s", name,
				     value[0] != '\0' ? ": " : ";", value);
		if (n < 0 || (size_t)n >= sizeof(header))
			(*refused)++;
		else
			each(arg, header);
	}
	json_decref(root);
	return 0;
}
