/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the summary's files. A missing part is an error here, so that the checks never pass for lack of data. */
#define _GNU_SOURCE
#include "test/rideshare/input.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void require(const json_t *object, const char *path, const char *key)
{
	if (json_object_get(object, key) == NULL)
		errx(1, "%s: no \"%s\" in it", path, key);
}

static json_t *read_object(const char *path)
{
	json_error_t error;
	json_t *object = json_load_file(path, 0, &error);

	if (!json_is_object(object))
		errx(1, "%s: %s", path, object != NULL ? "not an object" : error.text);
	return object;
}

static json_t *read_spans(const char *path)
{
	json_t *by_id = json_object();
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;

	if (file == NULL)
		err(1, "%s", path);
	while (getline(&line, &size, file) > 0) {
		json_t *span = json_loads(line, 0, NULL);

		if (!json_is_object(span))
			errx(1, "%s: a line that is not a span: %.60s", path, line);
		require(span, path, "span_id");
		json_object_set_new(by_id, input_text(span, "span_id"), span);
	}
	free(line);
	fclose(file);
	return by_id;
}

void input_read(struct input *in, const char *report, const char *truth, const char *spans)
{
	static const char *const KEYS[] = {"total", "labelled", "span_names", "spans", "functions"};

	*in = (struct input){.report = report != NULL ? read_object(report) : NULL};
	for (size_t i = 0; report != NULL && i < sizeof(KEYS) / sizeof(KEYS[0]); i++)
		require(in->report, report, KEYS[i]);
	if (truth != NULL) {
		in->truth = read_object(truth);
		require(in->truth, truth, "vehicles");
	}
	if (spans != NULL)
		in->spans = read_spans(spans);
}

void input_read_slowest(struct input *in, const char *slowest)
{
	in->slowest = read_object(slowest);
	require(in->slowest, slowest, "requests");
}

double input_nested(const json_t *object, const char *outer, const char *key)
{
	return input_number(json_object_get(object, outer), key);
}

double input_number(const json_t *object, const char *key)
{
	return json_number_value(json_object_get(object, key));
}

const char *input_text(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "";
}

const json_t *input_find(const json_t *array, const char *key, const char *value)
{
	const json_t *element;
	size_t i;

	json_array_foreach(array, i, element) if (strcmp(input_text(element, key), value) ==
						  0) return element;
	return NULL;
}
