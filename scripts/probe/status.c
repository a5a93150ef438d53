/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of SPANPROF_STATUS_FILE as lines. Knows nothing of its keys, so that it need not change
 * with them. Runs in spanprof-probe only. Caller: main.c.
 */
#include <jansson.h>
#include <stdio.h>

#include "scripts/probe/probe.h"

#define DEPTH_MAX 8
#define KEY_MAX 256

static void say(const char *key, const json_t *value)
{
	char text[64];

	switch (json_typeof(value)) {
	case JSON_STRING:
		sp_probe_say(key, json_string_value(value));
		return;
	case JSON_INTEGER:
		(void)snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT,
			       json_integer_value(value));
		break;
	case JSON_REAL:
		(void)snprintf(text, sizeof(text), "%.0f", json_real_value(value));
		break;
	case JSON_TRUE:
		(void)snprintf(text, sizeof(text), "yes");
		break;
	case JSON_FALSE:
		(void)snprintf(text, sizeof(text), "no");
		break;
	case JSON_NULL:
	case JSON_OBJECT:
	case JSON_ARRAY:
	default:
		return;
	}
	sp_probe_say(key, text);
}

/* Depth is bounded: whoever may write the file may write anything. */
// NOLINTNEXTLINE(misc-no-recursion)
static void flatten(const char *prefix, json_t *value, int depth)
{
	char key[KEY_MAX];
	const char *name;
	json_t *item;
	size_t i;

	if (depth == DEPTH_MAX)
		return;
	if (json_is_object(value)) {
		json_object_foreach(value, name, item)
		{
			(void)snprintf(key, sizeof(key), "%s%s%s", prefix, depth != 0 ? "." : "",
				       name);
			flatten(key, item, depth + 1);
		}
	} else if (json_is_array(value)) {
		json_array_foreach(value, i, item)
		{
			(void)snprintf(key, sizeof(key), "%s.%zu", prefix, i);
			flatten(key, item, depth + 1);
		}
	} else {
		say(prefix, value);
	}
}

bool sp_probe_status(const char *path)
{
	json_error_t error;
	json_t *root = json_load_file(path, 0, &error);

	if (!json_is_object(root)) {
		fprintf(stderr, "spanprof-probe: %s: %s\n", path,
			root != NULL ? "not a JSON object" : error.text);
		json_decref(root);
		return false;
	}
	flatten("status", root, 1);
	json_decref(root);
	return true;
}
