/* SPDX-License-Identifier: Apache-2.0 */
/* The server's profile checks; see validate.h. */
#include "test/pyroscope/validate.h"

#include <string.h>
#include <time.h>

#include "test/pyroscope/codec.h"

#define NS_PER_S INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

const struct pd_limits pd_limits_default = {
	.profile_bytes = 4U << 20,
	.samples = 16000,
	.sample_labels = 100,
	.stack_depth = 1000,
	.string_bytes = 65535,
	.label_name_bytes = 1024,
	.label_value_bytes = 2048,
	.label_names = 30,
	.burst_bytes = 2U << 20,
	.rate_bytes = 4U << 20,
	.body_bytes = 256U << 20,
	.older_ns = 3600 * NS_PER_S,
	.newer_ns = 600 * NS_PER_S,
	.stored_bytes = 512U << 20,
};

static int malformed(struct pd_error *e, const char *what)
{
	return pd_error_set(e, PD_INVALID_ARGUMENT, "malformed_profile", "%s", what);
}

/* Writes a time as Go does, in UTC, to the millisecond. */
static void add_time(struct pd_text *out, int64_t ms)
{
	time_t s = (time_t)(ms / 1000);
	struct tm tm;
	char text[64] = "";

	if (gmtime_r(&s, &tm) != NULL)
		strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &tm);
	pd_text_adds(out, text);
	if (ms % 1000 != 0)
		pd_text_addf(out, ".%03d", (int)(ms % 1000));
	pd_text_adds(out, " +0000 UTC");
}

static int check_window(const struct pd_limits *limits, const struct pd_candidate *c,
			int64_t now_ns, struct pd_error *e)
{
	int64_t time = c->profile->time_nanos / NS_PER_MS;
	int64_t from = (now_ns - limits->older_ns) / NS_PER_MS;
	int64_t to = (now_ns + limits->newer_ns) / NS_PER_MS;
	struct pd_text text = {0};

	if (c->profile->time_nanos <= 0) {
		c->profile->time_nanos = now_ns;
		c->losses->replaced_times++;
		return 0;
	}
	if (time > from && time < to)
		return 0;
	pd_text_adds(&text, "profile with labels '");
	pd_labels_text(c->series, &text);
	pd_text_adds(&text, "' is outside of ingestion window (profile timestamp: ");
	add_time(&text, time);
	pd_text_adds(&text, ", the ingestion window starts at ");
	add_time(&text, from);
	pd_text_adds(&text, " and ends at ");
	add_time(&text, to);
	pd_text_adds(&text, ")");
	pd_error_set(e, PD_INVALID_ARGUMENT, "not_in_ingestion_window", "%s", text.at);
	pd_text_fini(&text);
	return -1;
}

static int over_limit(const struct pd_candidate *c, struct pd_error *e, const char *reason,
		      const char *what, size_t actual, size_t limit)
{
	struct pd_text labels = {0};

	pd_labels_text(c->series, &labels);
	pd_error_set(e, PD_INVALID_ARGUMENT, reason,
		     "the profile with labels '%s' exceeds the %s, actual: %zu, limit: %zu)",
		     labels.at, what, actual, limit);
	pd_text_fini(&labels);
	return -1;
}

static int check_samples(const struct pd_limits *limits, const struct pd_candidate *c,
			 struct pd_error *e)
{
	struct pd_profile *p = c->profile;

	if (p->samples > limits->samples)
		return over_limit(c, e, "samples_limit",
				  "samples count limit (max_profile_stacktrace_samples", p->samples,
				  limits->samples);
	for (size_t i = 0; i < p->samples; i++) {
		struct pd_sample *s = &p->sample[i];

		if (s->locations > limits->stack_depth) {
			size_t cut = s->locations - limits->stack_depth;

			/* location_id[0] is the leaf: the frames nearest to the root stay. */
			s->location_id += cut;
			s->locations -= cut;
			c->losses->truncated_stacks++;
			c->losses->truncated_frames += cut;
		}
		if (s->labels > limits->sample_labels)
			return over_limit(c, e, "sample_labels_limit",
					  "sample labels limit "
					  "(max_profile_stacktrace_sample_labels",
					  s->labels, limits->sample_labels);
	}
	return 0;
}

static void cut_strings(const struct pd_limits *limits, const struct pd_candidate *c)
{
	for (size_t i = 0; i < c->profile->strings; i++) {
		struct pd_bytes *s = &c->profile->string[i];

		if (s->len > limits->string_bytes) {
			s->at += s->len - limits->string_bytes;
			s->len = limits->string_bytes;
			c->losses->cut_strings++;
		}
	}
}

static int check_ids(const struct pd_profile *p, struct pd_error *e)
{
	for (size_t i = 0; i < p->locations; i++)
		if (p->location[i].id == 0)
			return malformed(e, "location id is 0");
	for (size_t i = 0; i < p->functions; i++)
		if (p->function[i].id == 0)
			return malformed(e, "function id is 0");
	for (size_t i = 0; i < p->samples; i++)
		if (p->sample[i].values != p->sample_types)
			return malformed(e, "sample value length mismatch");
	return 0;
}

static int check_string_indexes(const struct pd_profile *p, struct pd_error *e)
{
	if (p->strings == 0 || p->string[0].len != 0)
		return malformed(e, "string 0 should be empty string");
	for (size_t i = 0; i < p->sample_types; i++) {
		if (!pd_profile_has_string(p, p->sample_type[i].type))
			return malformed(e, "sample type type string index out of range");
		if (!pd_profile_has_string(p, p->sample_type[i].unit))
			return malformed(e, "sample type unit string index out of range");
	}
	for (size_t i = 0; i < p->samples; i++)
		for (size_t j = 0; j < p->sample[i].labels; j++)
			if (!pd_profile_has_string(p, p->sample[i].label[j].key) ||
			    !pd_profile_has_string(p, p->sample[i].label[j].str))
				return malformed(e, "sample label string index out of range");
	for (size_t i = 0; i < p->functions; i++) {
		/* The server does not check a name below 0. */
		if (p->function[i].name >= 0 && !pd_profile_has_string(p, p->function[i].name))
			return malformed(e, "function name string index out of range");
		if (!pd_profile_has_string(p, p->function[i].system_name))
			return malformed(e, "function system name string index out of range");
		if (!pd_profile_has_string(p, p->function[i].filename))
			return malformed(e, "function file name string index out of range");
	}
	for (size_t i = 0; i < p->mappings; i++) {
		if (!pd_profile_has_string(p, p->mapping[i].filename))
			return malformed(e, "mapping file name string index out of range");
		if (!pd_profile_has_string(p, p->mapping[i].build_id))
			return malformed(e, "mapping build id string index out of range");
	}
	return 0;
}

static int check_text(const struct pd_profile *p, struct pd_error *e)
{
	for (size_t i = 0; i < p->sample_types; i++) {
		struct pd_bytes type = pd_profile_string(p, p->sample_type[i].type);

		if (type.len > 0 && memchr(type.at, '-', type.len) != NULL)
			return malformed(e, "sample type contains -");
	}
	for (size_t i = 0; i < p->strings; i++) {
		struct pd_text hex = {0};

		if (pd_utf8_valid(p->string[i]))
			continue;
		for (size_t j = 0; j < p->string[i].len; j++)
			pd_text_addf(&hex, "%02x", p->string[i].at[j]);
		pd_error_set(e, PD_INVALID_ARGUMENT, "malformed_profile",
			     "invalid utf8 string hex: %s", hex.at);
		pd_text_fini(&hex);
		return -1;
	}
	return 0;
}

int pd_validate_profile(const struct pd_limits *limits, const struct pd_candidate *c,
			int64_t now_ns, struct pd_error *e)
{
	if (c->profile->sample_types == 0)
		return malformed(e, "empty profile");
	if (check_window(limits, c, now_ns, e) != 0)
		return -1;
	if (c->bytes > limits->profile_bytes)
		return over_limit(c, e, "profile_size_limit", "size limit (max_profile_size_byte",
				  c->bytes, limits->profile_bytes);
	if (check_samples(limits, c, e) != 0)
		return -1;
	cut_strings(limits, c);
	if (check_ids(c->profile, e) != 0 || check_string_indexes(c->profile, e) != 0)
		return -1;
	return check_text(c->profile, e);
}
