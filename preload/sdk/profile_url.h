/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The URLs of a span's profile, and of the baseline: the usual profile of spans with its name. A
 * URL is a template whose {placeholders} are replaced by values, all percent-encoded; presets are
 * templates with names. APP context: no heap, bounded.
 */
#ifndef SP_PROFILE_URL_H
#define SP_PROFILE_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_PROFILE_URL_MAX 2048U

enum sp_profile_url_kind {
	SP_URL_PROFILE,
	SP_URL_BASELINE, /* the same service and span name before the span */
	SP_URL_DIFF,     /* a comparison of the two; only pyroscope-legacy has it */
};

struct sp_profile_url {
	enum sp_profile_url_kind kind;
	const char *form; /* SPANPROF_PROFILE_URL or SPANPROF_BASELINE_URL: template or preset */
	const char *base; /* SPANPROF_PROFILE_BASE_URL, NULL = the preset's usual one */
	const char *datasource;   /* SPANPROF_PROFILE_DATASOURCE; may be NULL */
	const char *service;      /* may be NULL */
	const char *profile_type; /* as Pyroscope calls it */
	const char *span_name;
	size_t span_name_len;
	bool name_is_label;          /* samples carry the name as span_name */
	const char *baseline_labels; /* SPANPROF_BASELINE_LABELS, k=v,k=v; may be NULL */
	char span_id[17];            /* 16 hex digits */
	char trace_id[33];           /* 32 hex digits */
	uint64_t from_ns;            /* CLOCK_REALTIME: the range in the URL, padding included */
	uint64_t until_ns;
	uint64_t start_ns; /* the span itself */
	uint64_t end_ns;
};

/*
 * Writes the URL, NUL-terminated, and returns its length. Returns 0 if the preset has no URL of
 * that kind, or if the URL does not fit in SP_PROFILE_URL_MAX: the span then gets no URL instead of
 * a broken one. Unknown placeholders are not replaced.
 */
size_t sp_profile_url_format(const struct sp_profile_url *l, char out[SP_PROFILE_URL_MAX]);

#endif
