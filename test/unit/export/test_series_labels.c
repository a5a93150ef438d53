/* SPDX-License-Identifier: Apache-2.0 */
/* The labels of samples that a server gets, and the number of their sets. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "export/profile/series_labels.h"

static struct sp_series_labels *series;
static struct sp_record_labels sample;

static void set_up(void)
{
	series = sp_series_labels_new("thread_name=mine,user=,x", 8);
	cr_assert_not_null(series);
}

static void tear_down(void)
{
	sp_series_labels_free(series);
}

TestSuite(series_labels, .init = set_up, .fini = tear_down, .timeout = 20);

static void put(const char *name, const char *value)
{
	sample.label[sample.n++] = (struct sp_label){name, value};
}

static const char *value(const char *name)
{
	for (size_t i = 0; i < sample.n; i++)
		if (strcmp(sample.label[i].name, name) == 0)
			return sample.label[i].value;
	return NULL;
}

/* Applies the labels of a sample, except NULL ones; returns whether one of them was replaced. */
static bool apply(const char *span, const char *thread, const char *route)
{
	static char id[32];
	static unsigned samples;

	/* Each sample has a span and a trace of its own. */
	(void)snprintf(id, sizeof(id), "%016x", ++samples);
	sample.n = 0;
	put("span_id", id);
	if (span != NULL)
		put("span_name", span);
	put("trace_id", id);
	if (thread != NULL)
		put("thread_name", thread);
	if (route != NULL)
		put("http_route", route);
	return sp_series_labels_apply(series, &sample);
}

static const char *numbered(unsigned n)
{
	static char text[16];

	(void)snprintf(text, sizeof(text), "n%u", n);
	return text;
}

Test(series_labels, leave_out_who_held_a_lock_and_what_the_user_wants)
{
	sample.n = 0;
	put("span_id", "1");
	put("blocked_by_span_id", "2");
	put("user", "me");
	put("thread_name", "worker");

	cr_expect_not(sp_series_labels_apply(series, &sample));
	cr_expect_eq(sample.n, 2);
	cr_expect_str_eq(value("span_id"), "1");
	cr_expect_str_eq(value("thread_name"), "worker", "a value leaves nothing out");
}

Test(series_labels, do_not_bound_spans_and_traces)
{
	for (unsigned i = 0; i < 1000; i++)
		cr_expect_not(apply("GET /", "worker", "/"));
	cr_expect_str_eq(value("span_name"), "GET /");
}

Test(series_labels, leave_half_of_the_room_to_names)
{
	unsigned whole = 0;

	for (unsigned i = 0; i < 100; i++)
		whole += !apply("GET /", NULL, numbered(i));
	cr_expect_eq(whole, 4, "half of 8");
	cr_expect_str_eq(value("http_route"), "(other)");
	cr_expect_str_eq(value("span_name"), "GET /");
	cr_expect_not(apply("GET /", NULL, "n1"), "a set that is known stays whole");
	cr_expect_str_eq(value("http_route"), "n1");
	cr_expect_not(apply("POST /", NULL, NULL), "a new span without it, too");
}

Test(series_labels, keep_names_of_spans_longest)
{
	unsigned whole = 0;

	for (unsigned i = 0; i < 100; i++)
		whole += !apply("GET /", numbered(i), NULL);
	cr_expect_eq(whole, 6, "three quarters of 8");
	cr_expect_str_eq(value("thread_name"), "(other)");
	cr_expect_str_eq(value("span_name"), "GET /");
}

/* There are never more than 8 sets, and those in which all values are "(other)". */
Test(series_labels, are_bounded)
{
	static char set[1000][64];
	unsigned sets = 0;

	for (unsigned i = 0; i < 3000; i++) {
		char text[64], a[16], b[16], c[16];
		unsigned k = 0;

		(void)strcpy(a, numbered(i * 7 % 31));
		(void)strcpy(b, numbered(i * 11 % 29));
		(void)strcpy(c, numbered(i * 13 % 37));
		(void)apply(i % 5 != 0 ? a : NULL, i % 2 != 0 ? b : NULL, i % 3 != 0 ? c : NULL);
		(void)snprintf(text, sizeof(text), "%s|%s|%s",
			       value("span_name") != NULL ? value("span_name") : "",
			       value("thread_name") != NULL ? value("thread_name") : "",
			       value("http_route") != NULL ? value("http_route") : "");
		while (k < sets && strcmp(set[k], text) != 0)
			k++;
		if (k == sets)
			strcpy(set[sets++], text);
	}
	cr_expect_geq(sets, 8);
	cr_expect_leq(sets, 8 + 8);
}
