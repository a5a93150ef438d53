/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of SPANPROF_STATUS_FILE as lines. Knows nothing of its keys, so that it need not change
 * with them. Runs in spanprof-probe only. Caller: main.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "scripts/probe/probe.h"

#define DEPTH_MAX 8
#define KEY_MAX 256
#define SKEW_MAX_MS 600000
#define FILE_MAX ((size_t)1 << 20)

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

/* Anybody's file: not one that is waited for, and of a size that fits. NULL = *why. written may be NULL. */
static json_t *load(const char *path, time_t *written, const char **why)
{
	static json_error_t error;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	char *data = fd >= 0 ? malloc(FILE_MAX) : NULL;
	json_t *root = NULL;
	size_t len = 0;
	ssize_t got = 1;
	struct stat st;

	*why = strerror(errno);
	if (data != NULL && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
		*why = "not a regular file";
	} else if (data != NULL) {
		while (len < FILE_MAX && (got = read(fd, data + len, FILE_MAX - len)) > 0)
			len += (size_t)got;
		root = len < FILE_MAX ? json_loadb(data, len, 0, &error) : NULL;
		if (written != NULL)
			*written = st.st_mtime;
		*why = len < FILE_MAX ? error.text : "too large for a status file";
	}
	if (root != NULL && !json_is_object(root)) {
		*why = "not a JSON object";
		json_decref(root);
		root = NULL;
	}
	free(data);
	if (fd >= 0)
		(void)close(fd);
	return root;
}

bool sp_probe_status(const char *path)
{
	const char *why;
	json_t *root = load(path, NULL, &why);

	if (root == NULL) {
		sp_line(stderr, "spanprof-probe: %s: %s", path, why);
		return false;
	}
	flatten("status", root, 1);
	json_decref(root);
	return true;
}

static json_int_t number(const json_t *root, const char *group, const char *name)
{
	return json_integer_value(json_object_get(json_object_get(root, group), name));
}

static void say_losses(const json_t *root)
{
	const char *name;
	json_t *count;

	json_object_foreach(json_object_get(root, "loss"), name, count)
	{
		if (json_integer_value(count) != 0)
			sp_line_say("status", "note", "lost: %" JSON_INTEGER_FORMAT " times %s",
				    json_integer_value(count), name);
	}
}

static void say_where(const json_t *root)
{
	size_t i;
	const json_t *sdk;

	json_array_foreach(json_object_get(root, "sdks"), i, sdk)
	{
		const char *name = json_string_value(json_object_get(sdk, "name"));
		const char *method = json_string_value(json_object_get(sdk, "method"));
		const char *object = json_string_value(json_object_get(sdk, "object"));
		const char *release = json_string_value(json_object_get(sdk, "release"));

		if (name != NULL && method != NULL && object != NULL)
			sp_line_say("status", "note", "%s%s%s in %s: its %s", name,
				    release != NULL ? ", release " : "",
				    release != NULL ? release : "", object, method);
	}
}

/* What of its SDKs is not as in the releases that we know, and what happens instead. */
static void say_unknowns(const json_t *root)
{
	size_t i, j;
	const json_t *sdk;
	const json_t *unknown;

	json_array_foreach(json_object_get(root, "sdks"), i, sdk)
	{
		const char *name = json_string_value(json_object_get(sdk, "name"));

		json_array_foreach(json_object_get(sdk, "not_understood"), j, unknown)
		{
			const char *fact = json_string_value(json_object_get(unknown, "fact"));
			const char *instead =
				json_string_value(json_object_get(unknown, "instead"));
			/* There is another way to the same: preload/lifecycle/sdk.c. */
			bool harmless =
				instead != NULL && strstr(instead, "asked for the ids") != NULL;

			sp_line_say("status", harmless ? "note" : "wrong",
				    "%s: %s not understood, %s", name != NULL ? name : "an SDK",
				    fact != NULL ? fact : "something",
				    instead != NULL ? instead : "with an unknown consequence");
			if (!harmless)
				sp_line_say("status", "change",
					    "use a newer spanprof, or a release of the SDK that "
					    "this one knows");
		}
	}
}

/* The file is written with the profiles, so in a young process it tells of less than can be seen now. */
static void say_status(const json_t *root, time_t written)
{
	const char *state = json_string_value(json_object_get(root, "state"));
	const json_t *push = json_object_get(root, "push");
	const char *error = json_string_value(json_object_get(push, "last_error"));
	const char *service = json_string_value(json_object_get(root, "service"));
	const char *refusal = json_string_value(
		json_object_get(json_object_get(root, "off_cpu"), "no_stacks_because"));
	json_int_t skew = number(root, "push", "server_time_skew_ms");
	json_int_t drained = number(root, "samples", "drained");
	time_t now = time(NULL);

	sp_line_say("status", "note",
		    "%lld s ago the status file said: state: %s, %" JSON_INTEGER_FORMAT
		    " threads sampled, %" JSON_INTEGER_FORMAT " not",
		    now > written ? (long long)(now - written) : 0,
		    state != NULL ? state : "unknown", number(root, "threads", "armed"),
		    number(root, "threads", "unarmed"));
	sp_line_say("status", "note",
		    "samples: %" JSON_INTEGER_FORMAT " taken, %" JSON_INTEGER_FORMAT
		    " in spans, %" JSON_INTEGER_FORMAT " outside; %" JSON_INTEGER_FORMAT " spans",
		    drained, number(root, "samples", "with_span"),
		    number(root, "samples", "without_span"), number(root, "spans", "started"));
	if (drained != 0 && number(root, "samples", "with_span") == 0) {
		sp_line_say("status", "wrong", "no sample was taken in a span");
		sp_line_say("status", "change", "attach the spans on the threads that do the work");
	}
	if (service != NULL)
		sp_line_say("status", "note", "service: %s", service);
	say_where(root);
	say_unknowns(root);
	if (error != NULL && error[0] != '\0')
		sp_line_say("status", "note", "last push: %" JSON_INTEGER_FORMAT " %s",
			    number(root, "push", "last_status"), error);
	if (refusal != NULL) {
		sp_line_say("status", "wrong", "waits have no stacks: %s", refusal);
		sp_line_say("status", "change",
			    "make the process dumpable, and let its own user trace it");
	}
	say_losses(root);
	if (skew > SKEW_MAX_MS || skew < -SKEW_MAX_MS) {
		sp_line_say(
			"status", "wrong",
			"the server's clock differs from this machine's by %" JSON_INTEGER_FORMAT
			" s",
			skew / 1000);
		sp_line_say("status", "change", "set the clocks");
	}
}

void sp_probe_status_of(const char *pattern, unsigned pid)
{
	char path[PATH_MAX] = "";
	size_t n = 0;
	const char *why;
	time_t written;
	json_t *root;

	for (; *pattern != '\0' && n < sizeof(path) - 1; pattern++) {
		if (pattern[0] == '%' && pattern[1] == 'p') {
			n += (size_t)snprintf(path + n, sizeof(path) - n, "%u", pid);
			pattern++;
		} else {
			path[n++] = *pattern;
			path[n] = '\0';
		}
	}
	root = load(path, &written, &why);
	if (root == NULL)
		sp_line_say("status", "note", "no status file yet: %s: %s", path, why);
	else
		say_status(root, written);
	json_decref(root);
}
