/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /push.v1.PusherService/Push: connect's unary call with a PushRequest in protobuf, gzipped or
 * plain.
 */
#include <errno.h>
#include <string.h>

#include "test/pyroscope/codec.h"
#include "test/pyroscope/routes.h"
#include "test/pyroscope/wire.h"

/* One RawSample of the request with its series' labels. */
struct sample {
	struct pd_labels labels;
	struct pd_bytes raw;
	struct pd_bytes id;
};

struct envelope {
	struct pd_arena arena;
	struct sample *sample;
	size_t samples;
	size_t cap;
};

static struct sample *add_sample(struct envelope *env, struct pd_labels labels)
{
	if (env->samples == env->cap) {
		size_t cap = env->cap > 0 ? 2 * env->cap : 8;
		struct sample *more = pd_arena_calloc(&env->arena, cap, sizeof(*more));

		if (env->samples > 0)
			memcpy(more, env->sample, env->samples * sizeof(*more));
		env->sample = more;
		env->cap = cap;
	}
	env->sample[env->samples] = (struct sample){.labels = labels};
	return &env->sample[env->samples++];
}

/* Reads a LabelPair or a RawSample: both have two fields of bytes. */
static int read_two(struct pd_bytes in, struct pd_bytes *one, struct pd_bytes *two)
{
	struct pd_field f;
	int rc;

	while ((rc = pd_wire_next(&in, &f)) > 0) {
		if (f.number > 2)
			continue;
		if (f.type != PD_WIRE_BYTES)
			return -EBADMSG;
		*(f.number == 1 ? one : two) = f.bytes;
	}
	return rc;
}

static int read_labels(struct pd_arena *a, struct pd_bytes in, struct pd_labels *labels)
{
	int64_t n = pd_wire_count(in, 1);
	struct pd_field f;

	if (n < 0)
		return -EBADMSG;
	labels->at = pd_arena_calloc(a, (size_t)n, sizeof(*labels->at));
	while (pd_wire_next(&in, &f) > 0) {
		struct pd_pair *p = &labels->at[labels->len];

		if (f.number != 1)
			continue;
		if (f.type != PD_WIRE_BYTES || read_two(f.bytes, &p->name, &p->value) != 0)
			return -EBADMSG;
		labels->len++;
	}
	return 0;
}

static int read_series(struct envelope *env, struct pd_bytes in)
{
	struct pd_labels labels = {0};
	struct pd_field f;

	if (read_labels(&env->arena, in, &labels) != 0)
		return -EBADMSG;
	while (pd_wire_next(&in, &f) > 0) {
		struct sample *s = NULL;

		if (f.number != 2)
			continue;
		s = add_sample(env, labels);
		if (f.type != PD_WIRE_BYTES || read_two(f.bytes, &s->raw, &s->id) != 0)
			return -EBADMSG;
	}
	return 0;
}

static int read_proto(struct envelope *env, struct pd_bytes in)
{
	struct pd_field f;
	int rc;

	while ((rc = pd_wire_next(&in, &f)) > 0)
		if (f.number == 1 && (f.type != PD_WIRE_BYTES || read_series(env, f.bytes) != 0))
			return -EBADMSG;
	return rc;
}

/*
 * Stores every good sample. If one failed, the answer is an error, although others are stored: the
 * first error that has a code in the server, unchanged; if there is none, all errors in a row.
 */
static void push_all(struct pd_double *d, const struct envelope *env, struct pd_delivery *in,
		     struct pd_error *all)
{
	struct pd_text joined = {0};
	bool known = false;
	unsigned failed = 0;

	for (size_t i = 0; i < env->samples; i++) {
		struct pd_error e = {0};

		in->labels = env->sample[i].labels;
		in->raw = env->sample[i].raw;
		in->id = env->sample[i].id;
		if (pd_push(d, in, &e) != 0) {
			pd_text_adds(&joined, failed++ > 0 ? "; " : "");
			pd_text_add(&joined, e.message.at, e.message.len);
			if (!known) {
				known = e.code != PD_UNKNOWN;
				pd_error_set(all, e.code, e.reason, "%s", e.message.at);
			}
		}
		pd_error_fini(&e);
	}
	if (failed > 1 && !known)
		pd_error_set(all, all->code, all->reason, "%u errors: %s", failed, joined.at);
	pd_text_fini(&joined);
}

static int read_body(const struct pd_double *d, const struct pd_request *in, struct pd_text *plain,
		     struct pd_error *e)
{
	const char *encoding = pd_request_header(in, "content-encoding");

	if (in->body_too_large)
		return pd_error_set(e, PD_INVALID_ARGUMENT, "body_limit",
				    "request body too large: limit %zu", d->limits.body_bytes);
	if (encoding[0] == '\0' || strcmp(encoding, "identity") == 0) {
		pd_text_add(plain, in->body.at, in->body.len);
		return 0;
	}
	if (strcmp(encoding, "gzip") != 0)
		return pd_error_set(e, PD_UNIMPLEMENTED, "content_encoding",
				    "unknown compression \"%s\": supported encodings are gzip",
				    encoding);
	/* The server limits the packed size; this limit protects our own memory. */
	if (pd_gunzip(in->body, pd_limits_default.body_bytes, plain) != 0)
		return pd_error_set(e, PD_INVALID_ARGUMENT, "content_encoding",
				    "decompress: invalid gzip body or more than %zu bytes",
				    pd_limits_default.body_bytes);
	return 0;
}

static void handle(struct pd_double *d, const struct pd_request *in, const char *tenant,
		   struct pd_error *e)
{
	struct pd_delivery delivery = {.tenant = tenant, .headers = in->headers};
	struct envelope env = {0};
	struct pd_text plain = {0};
	bool refused = read_body(d, in, &plain, e) != 0;

	if (!refused && read_proto(&env, pd_text_bytes(&plain)) != 0)
		refused = pd_error_set(e, PD_INVALID_ARGUMENT, "envelope",
				       "unmarshal message: not a push.v1.PushRequest") != 0;
	if (!refused && env.samples == 0)
		refused = pd_error_set(e, PD_INVALID_ARGUMENT, "no_profiles",
				       "no profiles received") != 0;
	if (refused)
		pd_stats_reject(&d->stats, e);
	else
		push_all(d, &env, &delivery, e);
	pd_text_fini(&plain);
	pd_arena_fini(&env.arena);
}

/* A timeout is valid as in connect-go: a number of at most ten digits, perhaps with a sign. */
static bool timeout_valid(const char *text, struct pd_error *e)
{
	const char *digits = text[0] == '-' || text[0] == '+' ? text + 1 : text;

	if (text[0] == '\0')
		return true;
	if (strlen(text) > 10)
		pd_error_set(e, PD_INVALID_ARGUMENT, "timeout",
			     "parse timeout: \"%s\" has >10 digits", text);
	else if (digits[0] == '\0' || digits[strspn(digits, "0123456789")] != '\0')
		pd_error_set(e, PD_INVALID_ARGUMENT, "timeout",
			     "parse timeout: strconv.ParseInt: parsing \"%s\": invalid syntax",
			     text);
	return e->code == PD_OK;
}

void pd_route_push(struct pd_double *d, const struct pd_request *in, struct pd_response *out)
{
	const char *type = pd_request_header(in, "content-type");
	const char *version = pd_request_header(in, "connect-protocol-version");
	const char *tenant = NULL;
	struct pd_error e = {0};

	/* The server takes JSON as well, but no test sends it. */
	if (strcmp(type, "application/proto") != 0) {
		out->status = 415;
		pd_response_header(out, "Accept-Post", "application/proto");
		return;
	}
	tenant = pd_request_tenant(d, in, out);
	if (tenant == NULL)
		return;
	if (!timeout_valid(pd_request_header(in, "connect-timeout-ms"), &e)) {
		pd_stats_reject(&d->stats, &e);
	} else if (version[0] != '\0' && strcmp(version, "1") != 0) {
		pd_error_set(&e, PD_INVALID_ARGUMENT, "protocol_version",
			     "Connect-Protocol-Version must be \"1\": got \"%s\"", version);
	} else {
		handle(d, in, tenant, &e);
	}
	if (e.code != PD_OK) {
		pd_response_error(out, &e);
	} else {
		out->status = 200;
		out->type = "application/proto";
		pd_text_adds(&out->body, "");
	}
	pd_error_fini(&e);
}
