/* SPDX-License-Identifier: Apache-2.0 */
/* Subtracts the stacks of spans from all stacks, and groups the rest by owner. */
#define _GNU_SOURCE
#include "test/rideshare/outside.h"

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

/* The first owner whose part occurs in a stack gets it. */
static const struct owner {
	const char *part; /* of a frame's name */
	const char *who;
} OWNERS[] = {
	{"[unsampled cpu]", "between two samples: how much is known, not where"},
	{"answer_request", "the server: an order before its span begins and after it ends"},
	{"opentelemetry::", "the OpenTelemetry SDK: its threads that export spans"},
	{"libmicrohttpd", "libmicrohttpd: taking connections, reading requests, sending answers"},
	{"main", "the server: its start and its end"},
	{"", "others"},
};

#define SHOWN_NS 5000000 /* less than this is shown as 0.00 s */
#define OWNERS_N (sizeof(OWNERS) / sizeof(OWNERS[0]))

static void add(json_t *stacks, const char *path, json_int_t sign)
{
	FILE *file = fopen(path, "re");
	char *line = NULL;
	size_t size = 0;

	if (file == NULL)
		err(1, "%s", path);
	while (getline(&line, &size, file) > 0) {
		char *space = strrchr(line, ' ');

		if (space == NULL)
			errx(1, "%s: a line that is no stack: %.60s", path, line);
		*space = '\0';
		json_int_t before = json_integer_value(json_object_get(stacks, line));

		json_object_set_new(stacks, line,
				    json_integer(before + sign * strtoll(space + 1, NULL, 10)));
	}
	free(line);
	fclose(file);
}

static size_t owner_of(const char *stack)
{
	size_t i = 0;

	while (strstr(stack, OWNERS[i].part) == NULL)
		i++;
	return i;
}

void outside_print(const char *all, const char *in_spans)
{
	json_int_t ns[OWNERS_N] = {0};
	json_t *stacks = json_object();
	const char *stack;
	json_t *left;

	add(stacks, all, 1);
	add(stacks, in_spans, -1);
	json_object_foreach(stacks, stack, left) ns[owner_of(stack)] += json_integer_value(left);
	json_decref(stacks);
	for (size_t i = 0; i < OWNERS_N; i++)
		if (ns[i] >= SHOWN_NS)
			printf("  %-38s %8.2f   %s\n", "", (double)ns[i] / 1e9, OWNERS[i].who);
}
