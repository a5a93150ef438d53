/* SPDX-License-Identifier: Apache-2.0 */
/* spanprof-report's main(), for tests. */
#ifndef SP_REPORT_UNIT_H
#define SP_REPORT_UNIT_H

#include <criterion/criterion.h>
#include <jansson.h>
#include <stddef.h>
#include <string.h>

#include "export/profile/pprof.h"
#include "profile.pb-c.h"
#include "test/unit/scratch.h"

/*
 * Runs the tool with these arguments, NULL-terminated, without its own name. out gets the output of both streams,
 * NUL-terminated; returns the exit status.
 */
int report_run(const char *const *argument, char *out, size_t cap);

/* The file for its standard output; NULL = as above. */
extern const char *report_stdout;

struct report_stack {
	const char *const *frame; /* leaf first; "name" or "name@file:line" */
	size_t frames;
	const char *span_id; /* NULL = no labels */
	const char *span_name;
	const char *trace_id;
	int64_t samples;
	int64_t ns; /* 0 = 10 ms a sample */
	const char *thread_name;
	const char *blocked_by_span_id;
};

/* The label http_route of such a stack; NULL = no stack has one. */
extern const char *(*report_route)(const struct report_stack *stack);

#define TRACE "0102030405060708090a0b0c0d0e0f10"

/* A stack with count samples in that span, in the trace above. */
#define STACK(f, id, name, count)                                                                  \
	{                                                                                          \
		f, sizeof(f) / sizeof(f[0]), id, name, TRACE, count, 0, NULL, NULL                 \
	}

/* A plain profile of these stacks; free data. It covers the first second of 1970, or 10 s of that time. */
struct sp_bytes report_profile(const struct report_stack *stack, size_t n);
struct sp_bytes report_profile_at(const struct report_stack *stack, size_t n, int64_t time_s);
/*
 * The same for another type. Except for CPU time, a leaf without a file is the wait of the thread, among the
 * exporter's markers.
 */
struct sp_bytes report_profile_of(enum sp_profile_type type, const struct report_stack *stack,
				  size_t n);
struct sp_bytes report_profile_of_at(enum sp_profile_type type, const struct report_stack *stack,
				     size_t n, int64_t time_s);
/* A profile with spans aa and bb of one name and cc of another, and 4 of 20 samples outside of spans. */
struct sp_bytes report_small_profile(void);

/* The output of the test's last run. */
static char output[1 << 20];

/* Runs the tool with these options on the profiles in the scratch folder. */
#define run_scratch(...)                                                                           \
	report_run((const char *const[]){__VA_ARGS__, scratch, NULL}, output, sizeof(output))

static inline bool printed(const char *part)
{
	return strstr(output, part) != NULL;
}

#define must_report(...) cr_assert_eq(run_scratch(__VA_ARGS__), 0, "%s", output)
#define expect_printed(part) cr_expect(printed(part), "%s", output)
#define expect_not_printed(part) cr_expect_not(printed(part), "%s", output)

/* A number of a JSON object. */
static inline json_int_t number_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

static inline double real_of(const json_t *object, const char *key)
{
	return json_real_value(json_object_get(object, key));
}

static inline const char *text_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

static inline json_t *json(void)
{
	json_t *j = json_loads(output, 0, NULL);

	cr_assert_not_null(j, "%s", output);
	return j;
}

static inline void report_write_stacks(const char *name, const struct report_stack *stack, size_t n,
				       int64_t time_s)
{
	struct sp_bytes b = report_profile_at(stack, n, time_s);

	scratch_write(name, b.data, b.len);
	free(b.data);
}

/* How many times part is in text. */
static inline unsigned report_count(const char *text, const char *part)
{
	unsigned n = 0;

	while ((text = strstr(text, part)) != NULL) {
		text += strlen(part);
		n++;
	}
	return n;
}

/* Reads the whole file; free it. */
char *report_file(const char *path);

/* Writes a profile into the folder of the test. */
static inline void report_write(const char *name, const Spanprof__Pprof__Profile *p)
{
	size_t len = spanprof__pprof__profile__get_packed_size(p);
	uint8_t *data = malloc(len);

	spanprof__pprof__profile__pack(p, data);
	scratch_write(name, data, len);
	free(data);
}

#endif
