/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inputs of the summary as JSON: the profile and the slow requests by spanprof-report, the
 * truth by the server, and the exported spans. Caller: summary.c, once at its start.
 */
#ifndef RIDESHARE_INPUT_H
#define RIDESHARE_INPUT_H

#include <jansson.h>

struct input {
	json_t *report;  /* object: samples, cpu_ns, labelled_*, span_names, spans, functions */
	json_t *truth;   /* object: process_cpu_ns, vehicles */
	json_t *spans;   /* object: span id -> exported span */
	json_t *slowest; /* object: requests, the slowest first */
};

/* A missing or malformed file ends the program with a message. A NULL path leaves its part NULL. */
void input_read(struct input *in, const char *report, const char *truth, const char *spans);

/* The same for the report of slow requests. */
void input_read_slowest(struct input *in, const char *slowest);

/* Numbers and texts of an object; 0 and "" when absent. */
double input_number(const json_t *object, const char *key);

/* The number under key in the object under outer. */
double input_nested(const json_t *object, const char *outer, const char *key);
const char *input_text(const json_t *object, const char *key);

/* The element of an array of objects whose key has this text, or NULL. */
const json_t *input_find(const json_t *array, const char *key, const char *value);

#endif
