/* SPDX-License-Identifier: Apache-2.0 */
/* POST /ingest: the older protocol, with labels in the query's name and plain pprof. */
#include <string.h>

#include "test/pyroscope/codec.h"
#include "test/pyroscope/labelset.h"
#include "test/pyroscope/routes.h"

static const char *parameter(const struct pd_request *in, const char *name)
{
	const char *value = json_string_value(json_object_get(in->query, name));

	return value != NULL ? value : "";
}

static int read_profile(const struct pd_request *in, struct pd_bytes *raw, struct pd_error *e)
{
	const char *format = parameter(in, "format");

	*raw = in->body;
	if (strcmp(format, "pprof") == 0)
		return 0;
	/* The server reads forms and folded stacks as well, but no test sends them. */
	return pd_error_set(e, PD_INVALID_ARGUMENT, "format",
			    "the double reads pprof only, not format '%s'", format);
}

static bool contains(struct pd_bytes text, const char *word)
{
	return text.len > 0 && memmem(text.at, text.len, word, strlen(word)) != NULL;
}

/* "samples" is called "cpu". */
static struct pd_bytes shown_type(const struct pd_profile *p, size_t i)
{
	struct pd_bytes type = pd_profile_string(p, p->sample_type[i].type);

	return pd_bytes_is(type, "samples") ? pd_bytes_of("cpu") : type;
}

/* The server's name for the metric: that of the first sample type that it knows. */
static const char *metric_name(const struct pd_profile *p, struct pd_arena *a)
{
	static const struct {
		const char *part;
		const char *metric;
	} known[] = {
		{"cpu", "process_cpu"}, {"alloc_", "memory"}, {"inuse_", "memory"},
		{"mutex_", "mutex"},    {"block_", "block"},  {"goroutines", "goroutines"},
	};

	for (size_t i = 0; i < p->sample_types; i++)
		if (pd_bytes_is(pd_profile_string(p, p->sample_type[i].type), "wall"))
			return "wall";
	for (size_t i = 0; i < p->sample_types; i++) {
		struct pd_bytes type = shown_type(p, i);

		if (pd_bytes_is(type, "space") || pd_bytes_is(type, "objects"))
			return "memory";
		for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
			if (contains(type, known[k].part))
				return known[k].metric;
	}
	if (p->sample_types == 0)
		return "";
	return pd_arena_string(a, shown_type(p, p->sample_types - 1));
}

/* The profile must be read for its metric name; what is wrong with it pd_push() will say. */
static const char *guess_metric(const struct pd_double *d, struct pd_bytes raw, struct pd_arena *a)
{
	struct pd_profile p = {0};
	struct pd_text plain = {0};

	if (pd_gzip_is(raw)) {
		pd_gunzip(raw, d->limits.profile_bytes, &plain);
		raw = pd_arena_copy(a, pd_text_bytes(&plain));
		pd_text_fini(&plain);
	}
	if (pd_profile_decode(a, raw, &p) != 0)
		return "";
	return metric_name(&p, a);
}

static void make_labels(const struct pd_request *in, const char *metric, struct pd_labels *labels)
{
	const char *spy = parameter(in, "spyName");
	struct pd_bytes app = pd_labels_get(*labels, "__name__");
	size_t kept = 0;

	for (size_t i = 0; i < labels->len; i++) {
		struct pd_bytes name = labels->at[i].name;
		bool private = name.len >= 2 && memcmp(name.at, "__", 2) == 0;

		if (!private || pd_bytes_is(name, "__session_id__"))
			labels->at[kept++] = labels->at[i];
	}
	labels->len = kept;
	pd_labels_add(labels, "__name__", pd_bytes_of(metric));
	pd_labels_add(labels, "__delta__", pd_bytes_of("false"));
	pd_labels_add(labels, "pyroscope_spy", pd_bytes_of(spy[0] != '\0' ? spy : "unknown"));
	if (!pd_labels_has(*labels, pd_bytes_of("service_name")))
		pd_labels_add(labels, "service_name", app);
}

static void ingest(struct pd_double *d, const struct pd_request *in, struct pd_delivery *delivery,
		   struct pd_error *e)
{
	struct pd_arena a = {0};
	struct pd_labels named = {0};
	const char *metric = NULL;

	if (pd_labelset_parse(&a, pd_bytes_of(parameter(in, "name")), &named, e) != 0 ||
	    read_profile(in, &delivery->raw, e) != 0) {
		pd_stats_reject(&d->stats, e);
	} else if (delivery->raw.len == 0) {
		/* The server answers 200, and logs this only at level debug. */
		d->stats.losses.empty_ingests++;
	} else {
		metric = guess_metric(d, delivery->raw, &a);
		delivery->labels = pd_labels_copy(&a, named, 4);
		make_labels(in, metric, &delivery->labels);
		pd_push(d, delivery, e);
	}
	pd_arena_fini(&a);
}

/*
 * The status is 400 for a bad name, and 422 for anything wrong with the profile. 422 has no code of
 * connect, so the code is "unknown". The message shows the path of the error through the server.
 */
static void answer(const struct pd_double *d, const struct pd_request *in, const struct pd_error *e,
		   struct pd_response *out)
{
	struct pd_error shown = {0};

	if (in->body_too_large || strcmp(e->reason, "bad_name") == 0)
		pd_error_set(&shown, e->code, e->reason, "%s%s",
			     in->body_too_large ? "" : "name: ", e->message.at);
	else if (strcmp(e->reason, "profile_size_limit") == 0)
		pd_error_set(&shown, PD_UNKNOWN, e->reason,
			     "parsing IngestInput-pprof failed invalid_argument: decompressed size "
			     "exceeds maximum allowed size of %zu bytes",
			     d->limits.profile_bytes);
	else if (strcmp(e->reason, "undecodable") == 0 || strcmp(e->reason, "format") == 0)
		pd_error_set(&shown, PD_UNKNOWN, e->reason, "parsing IngestInput-pprof failed %s",
			     e->message.at);
	else
		pd_error_set(&shown, e->code == PD_RESOURCE_EXHAUSTED ? e->code : PD_UNKNOWN,
			     e->reason,
			     "pushing IngestInput-pprof failed push series with index 0 and id "
			     " failed: %s: %s",
			     pd_code_name(e->code), e->message.at);
	pd_response_error(out, &shown);
	if (in->body_too_large)
		out->status = 413;
	else if (shown.code == PD_UNKNOWN)
		out->status = 422;
	pd_error_fini(&shown);
}

void pd_route_ingest(struct pd_double *d, const struct pd_request *in, struct pd_response *out)
{
	struct pd_delivery delivery = {.headers = in->headers};
	struct pd_error e = {0};

	delivery.tenant = pd_request_tenant(d, in, out);
	if (delivery.tenant == NULL)
		return;
	if (in->body_too_large) {
		pd_error_set(&e, PD_INVALID_ARGUMENT, "body_limit",
			     "request body too large: limit %zu", d->limits.body_bytes);
		pd_stats_reject(&d->stats, &e);
	} else {
		ingest(d, in, &delivery, &e);
	}
	out->status = 200;
	if (e.code != PD_OK)
		answer(d, in, &e, out);
	pd_error_fini(&e);
}
