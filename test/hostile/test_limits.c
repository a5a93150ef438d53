/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each limit of the server that our input can reach: one less, exactly, one more. The numbers are the server's
 * defaults, written down once more, so that a change on either side is noticed. test_push.c tests the age of a
 * profile, with a clock.
 */
#define _GNU_SOURCE
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/hostile/way.h"

#define SERVER_SAMPLES 16000
#define SERVER_BURST ((size_t)2 << 20)
#define SERVER_VALUE 2048
#define SERVER_NAME 1024
#define SERVER_LABELS 30

static struct way w;

static void start(void)
{
	way_start(&w);
}

static void end(void)
{
	way_end(&w);
	way_fini();
}

TestSuite(limits, .init = start, .fini = end);

static void put_entry(uint64_t i, unsigned depth)
{
	struct sp_sample s = {.weight = 1, .flags = SP_SAMPLE_ROOTED, .span_id = i};

	s.depth = (uint16_t)depth;
	for (unsigned d = 0; d < depth; d++)
		s.pc[d] = (uintptr_t)&malloc + d + i % 64;
	s.name_id = w.name_text != NULL ? (uint32_t)i : 0;
	way_put(&w, &s);
}

Test(limits, samples_of_one_profile, .timeout = 60)
{
	static const struct {
		unsigned samples, profiles;
	} at[] = {{SERVER_SAMPLES - 1, 1}, {SERVER_SAMPLES, 1}, {SERVER_SAMPLES + 1, 2}};

	for (size_t i = 0; i < 3; i++) {
		way_end(&w);
		way_start(&w);
		for (unsigned n = 1; n <= at[i].samples; n++)
			put_entry(n, 1);
		way_send(&w, "samples");
		way_expect_all(&w, "samples");
		cr_expect_eq(w.profiles, at[i].profiles, "%u samples", at[i].samples);
	}
}

static const char *long_name(uint32_t id, size_t *len)
{
	static char text[SERVER_VALUE + 1];

	(void)snprintf(text, sizeof(text), "%08u", id);
	memset(text + 8, 'n', SERVER_VALUE - 8);
	*len = SERVER_VALUE;
	return text;
}

/* Profiles of the greatest size: a new long name with each sample, and all possible labels. */
Test(limits, bytes_of_one_profile_with_its_labels, .timeout = 120)
{
	char *labels = calloc(40, SERVER_VALUE + SERVER_NAME + 16);
	size_t used = 0;
	uint64_t before;

	for (unsigned i = 0; i < 40; i++) {
		used += (size_t)sprintf(labels + used, "%sl%02u", i != 0 ? "," : "", i);
		memset(labels + used, 'k', SERVER_NAME - 4);
		used += SERVER_NAME - 4;
		labels[used++] = '=';
		memset(labels + used, 'v', SERVER_VALUE);
		used += SERVER_VALUE;
	}
	w.config.labels = labels;
	w.name_text = long_name;
	for (unsigned n = 1; n <= 3000; n++)
		put_entry(n, 8);
	way_send(&w, "bytes");
	way_expect_all(&w, "bytes");
	cr_expect_geq(w.profiles, 3);
	before = w.server.stats.bytes;
	cr_expect_leq(before / w.profiles, SERVER_BURST);
	/* The profiles are filled: each has more than nine tenths of its limit. */
	cr_expect_gt(before, (w.profiles - 1) * (SERVER_BURST * 9 / 10));
	free(labels);
}

static size_t name_len;

static const char *name_of_len(uint32_t id, size_t *len)
{
	static char text[SERVER_VALUE + 2];

	(void)id;
	memset(text, 'n', sizeof(text) - 1);
	/* A character of two bytes at the limit. */
	memcpy(text + SERVER_VALUE - 1, "\xc3\xa4", 2);
	*len = name_len;
	return text;
}

Test(limits, bytes_of_a_label_value, .timeout = 60)
{
	for (name_len = SERVER_VALUE - 1; name_len <= SERVER_VALUE + 1; name_len++) {
		char *label = NULL;
		char what[32];
		size_t len;

		cr_assert_gt(asprintf(&label, "zone=%.*s", (int)name_len, name_of_len(1, &len)), 0);
		(void)snprintf(what, sizeof(what), "%zu bytes", name_len);
		way_end(&w);
		way_start(&w);
		w.name_text = name_of_len;
		w.config.labels = label;
		w.config.service_name = label + strlen("zone=");
		put_entry(1, 1);
		way_send(&w, what);
		w.config.protocol = SP_PROTOCOL_INGEST;
		put_entry(2, 1);
		way_send(&w, what);
		way_expect_all(&w, what);
		free(label);
	}
}

Test(limits, bytes_of_a_label_name, .timeout = 60)
{
	for (size_t len = SERVER_NAME - 1; len <= SERVER_NAME + 1; len++) {
		char label[SERVER_NAME + 4];
		char what[32];

		memset(label, 'k', len);
		strcpy(label + len, "=v");
		(void)snprintf(what, sizeof(what), "%zu bytes", len);
		way_end(&w);
		way_start(&w);
		w.config.labels = label;
		put_entry(1, 1);
		way_send(&w, what);
		w.config.protocol = SP_PROTOCOL_INGEST;
		put_entry(2, 1);
		way_send(&w, what);
		way_expect_all(&w, what);
		cr_expect_eq(w.refused, 0, "%s", what);
	}
}

/* Our own labels and those of samples count as well. */
Test(limits, label_names_of_a_series, .timeout = 60)
{
	static const char *const own[] = {"__name__", "__delta__", "pyroscope_spy", "service_name",
					  "pid",      "hostname",  "span_name",     "thread_name"};

	for (unsigned n = 1; n <= SERVER_LABELS + 1; n++) {
		char labels[40 * 8] = "";
		char what[32];

		for (unsigned i = 0; i < n; i++)
			(void)sprintf(labels + strlen(labels), "k%u=v,", i);
		(void)snprintf(what, sizeof(what), "%u labels", n);
		way_end(&w);
		way_start(&w);
		w.name_text = long_name;
		w.config.labels = labels;
		w.config.thread_name = true;
		put_entry(1, 1);
		way_send(&w, what);
		w.config.protocol = SP_PROTOCOL_INGEST;
		put_entry(2, 1);
		way_send(&w, what);
		way_expect_all(&w, what);
		if (n + sizeof(own) / sizeof(own[0]) < SERVER_LABELS - 2)
			cr_expect_eq(w.refused, 0, "%s", what);
	}
	cr_expect_gt(w.refused, 0, "more than fit were not told");
}

Test(limits, depth_of_a_stack, .timeout = 60)
{
	for (unsigned depth = SP_FRAMES_MAX - 1; depth <= SP_FRAMES_MAX; depth++)
		put_entry(depth, depth);
	for (unsigned flags = 0; flags <= SP_SAMPLE_TRUNCATED; flags++) {
		struct sp_sample s = {
			.weight = 1, .depth = SP_FRAMES_MAX, .flags = (uint16_t)flags};

		way_put(&w, &s);
	}
	way_send(&w, "depth");

	way_expect_all(&w, "depth");
}
