/* SPDX-License-Identifier: Apache-2.0 */
/* The report tool's main() under a name that a test can call, and profiles for it. */
#define _GNU_SOURCE
#include "report_unit.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio_ext.h>

int sp_report_main(int argc, char **argv);

#define main sp_report_main
#include "export/report/main.c"
#undef main

#define ARGUMENTS_MAX 15
#define FRAMES_MAX 2000

const char *(*report_route)(const struct report_stack *stack);

const char *report_stdout;

int report_run(const char *const *argument, char *out, size_t cap)
{
	/* getopt reorders its arguments. */
	char *argv[ARGUMENTS_MAX + 2] = {strdup("spanprof-report")};
	char *given[ARGUMENTS_MAX + 2] = {argv[0]};
	FILE *f = tmpfile();
	int stdout_copy = dup(1);
	int stderr_copy = dup(2);
	int argc = 1;
	int rc;

	for (; argument[argc - 1] != NULL && argc <= ARGUMENTS_MAX; argc++)
		argv[argc] = given[argc] = strdup(argument[argc - 1]);
	fflush(NULL);
	dup2(fileno(f), 1);
	dup2(fileno(f), 2);
	if (report_stdout != NULL) {
		int fd = open(report_stdout, O_WRONLY);

		dup2(fd, 1);
		close(fd);
	}
	optind = 0;
	rc = sp_report_main(argc, argv);
	fflush(NULL);
	__fpurge(stdout);
	dup2(stdout_copy, 1);
	dup2(stderr_copy, 2);
	close(stdout_copy);
	close(stderr_copy);
	rewind(f);
	out[fread(out, 1, cap - 1, f)] = '\0';
	fclose(f);
	for (int i = 0; i < argc; i++)
		free(given[i]);
	return rc;
}

static uint64_t location_of(struct sp_pprof *p, uint64_t mapping, uint64_t address,
			    const char *frame)
{
	const char *at = strchr(frame, '@');
	const char *colon = at != NULL ? strchr(at, ':') : NULL;
	char *name = at != NULL ? strndup(frame, (size_t)(at - frame)) : strdup(frame);
	char *file = colon != NULL ? strndup(at + 1, (size_t)(colon - at - 1)) : strdup("");
	struct sp_pprof_line line = {.line = colon != NULL ? atol(colon + 1) : 0};
	uint64_t id;

	cr_assert_eq(sp_pprof_function(p, name, name, file, &line.function), 0);
	cr_assert_eq(sp_pprof_location(p, mapping, address, &line, 1, &id), 0);
	free(name);
	free(file);
	return id;
}

static void add_stack(struct sp_pprof *p, enum sp_profile_type type,
		      const struct report_stack *stack, uint64_t address)
{
	static const struct sp_pprof_mapping m = {0x1000, 0x2000, 0, "/bin/x", "", true, true};
	static const struct sp_pprof_mapping markers = {0, 0, 0, "[spanprof]", "", true, false};
	static uint64_t id[FRAMES_MAX];
	const struct sp_label label[] = {
		{"span_id", stack->span_id},
		{"span_name", stack->span_name},
		{"trace_id", stack->trace_id},
		{"thread_name", stack->thread_name},
		{"blocked_by_span_id", stack->blocked_by_span_id},
		{"http_route", report_route != NULL ? report_route(stack) : NULL},
	};
	struct sp_pprof_sample s = {
		.location = id,
		.locations = stack->frames,
		.count = stack->samples,
		.ns = stack->ns != 0 ? stack->ns : stack->samples * 10000000,
		.label = label,
		.labels = sizeof(label) / sizeof(label[0]),
	};
	bool waits = sp_profile_type_row(type)->is_of_waits && strchr(stack->frame[0], '@') == NULL;
	uint64_t mapping;
	uint64_t leaf;
	bool is_held;

	cr_assert_leq(stack->frames, FRAMES_MAX);
	cr_assert_eq(sp_pprof_mapping(p, &m, &mapping), 0);
	leaf = mapping;
	if (waits)
		cr_assert_eq(sp_pprof_mapping(p, &markers, &leaf), 0);
	/* Behind who holds a lock is the wait itself. */
	is_held = strncmp(stack->frame[0], "held by ", strlen("held by ")) == 0;
	for (size_t i = 0; i < stack->frames; i++)
		id[i] = location_of(p, i == 0 || (i == 1 && is_held) ? leaf : mapping, address + i,
				    stack->frame[i]);
	cr_assert_eq(sp_pprof_sample(p, &s), 0);
}

static struct sp_bytes profile_of(enum sp_profile_type type, const struct report_stack *stack,
				  size_t n, int64_t time_s)
{
	static const struct sp_pprof_limits limits = {1000, 8 << 20};
	const struct sp_pprof_times times = {.period_ns = 10000000,
					     .time_ns = time_s != 0 ? time_s * 1000000000 : 1,
					     .duration_ns = time_s != 0 ? 10000000000 : 1,
					     .type = type};
	struct sp_pprof *p = sp_pprof_new(&limits, &times);
	struct sp_bytes b;

	for (size_t i = 0; i < n; i++)
		add_stack(p, type, &stack[i], 0x1000 + 0x10000 * i);
	cr_assert_eq(sp_pprof_pack(p, &b), 0);
	sp_pprof_free(p);
	return b;
}

struct sp_bytes report_profile(const struct report_stack *stack, size_t n)
{
	return profile_of(SP_PROFILE_CPU, stack, n, 0);
}

struct sp_bytes report_profile_at(const struct report_stack *stack, size_t n, int64_t time_s)
{
	return profile_of(SP_PROFILE_CPU, stack, n, time_s);
}

struct sp_bytes report_profile_of(enum sp_profile_type type, const struct report_stack *stack,
				  size_t n)
{
	return profile_of(type, stack, n, 0);
}

struct sp_bytes report_profile_of_at(enum sp_profile_type type, const struct report_stack *stack,
				     size_t n, int64_t time_s)
{
	return profile_of(type, stack, n, time_s);
}

char *report_file(const char *path)
{
	char *text = calloc(1, 4 << 20);
	FILE *f = fopen(path, "r");

	cr_assert_not_null(f, "%s", path);
	(void)!fread(text, 1, (4 << 20) - 1, f);
	fclose(f);
	return text;
}

struct sp_bytes report_small_profile(void)
{
	static const char trace[] = "0102030405060708090a0b0c0d0e0f10";
	static const char *const parse[] = {"parse", "handle", "main", "main"};
	static const char *const render[] = {"render", "handle", "main", "main"};
	static const char *const idle[] = {"main", "handle", "main", "main"};
	static const struct report_stack stacks[] = {
		{parse, 4, "00000000000000aa", "GET /", trace, 3, 0, NULL, NULL},
		{render, 4, "00000000000000aa", "GET /", trace, 2, 0, NULL, NULL},
		{parse, 4, "00000000000000bb", "GET /", trace, 1, 0, NULL, NULL},
		{parse, 4, "00000000000000cc", "POST /", trace, 10, 0, NULL, NULL},
		{idle, 4, NULL, NULL, NULL, 4, 0, NULL, NULL},
	};

	return report_profile(stacks, sizeof(stacks) / sizeof(stacks[0]));
}
