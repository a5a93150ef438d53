/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps for one profile: unpack, check the burst limit, check the server's rules and ours,
 * split, store.
 */
#include <string.h>

#include "test/pyroscope/codec.h"
#include "test/pyroscope/double.h"

/* Writes a size as Go's humanize.IBytes does, for the sizes that occur. */
static void add_size(struct pd_text *out, size_t bytes)
{
	if (bytes < 1024)
		pd_text_addf(out, "%zu B", bytes);
	else if (bytes < 1024 * 1024)
		pd_text_addf(out, "%.1f KiB", (double)bytes / 1024);
	else
		pd_text_addf(out, "%.1f MiB", (double)bytes / (1024 * 1024));
}

static int check_rate(const struct pd_double *d, const struct pd_record *r, size_t bytes,
		      struct pd_error *e)
{
	struct pd_text message = {0};

	for (size_t i = 0; i < r->labels.len; i++)
		bytes += r->labels.at[i].name.len + r->labels.at[i].value.len;
	/* A profile larger than the burst never passes, however long the client waits. */
	if (bytes <= d->limits.burst_bytes)
		return 0;
	pd_text_adds(&message, "push rate limit (");
	add_size(&message, d->limits.rate_bytes);
	pd_text_adds(&message, ") exceeded while adding ");
	add_size(&message, bytes);
	pd_error_set(e, PD_RESOURCE_EXHAUSTED, "rate_limited", "%s", message.at);
	pd_text_fini(&message);
	return -1;
}

static int undecodable(struct pd_error *e, const char *what)
{
	/* For the server this is no validation error, so it answers "unknown", HTTP 500. */
	return pd_error_set(e, PD_UNKNOWN, "undecodable", "%s", what);
}

/* The size is written as by Go's humanize.Bytes, in thousands. */
static int too_large(struct pd_error *e, size_t limit)
{
	static const char *const unit[] = {"B", "kB", "MB", "GB"};
	double n = (double)limit;
	unsigned i = 0;

	for (; n >= 1000 && i < 3; i++)
		n /= 1000;
	return pd_error_set(e, PD_INVALID_ARGUMENT, "profile_size_limit",
			    "uncompressed profile payload size exceeds limit of %.*f %s",
			    i > 0 && n < 10 ? 1 : 0, n, unit[i]);
}

static int unpack(const struct pd_double *d, struct pd_bytes raw, struct pd_record *r,
		  struct pd_error *e)
{
	struct pd_text plain = {0};
	int rc = 0;

	if (raw.len == 0)
		return undecodable(e, "gzip reset: EOF");
	if (pd_gzip_is(raw))
		rc = pd_gunzip(raw, d->limits.profile_bytes, &plain);
	else
		pd_text_add(&plain, raw.at, raw.len);
	r->raw = pd_arena_copy(&r->arena, pd_text_bytes(&plain));
	pd_text_fini(&plain);
	if (rc == 0 && r->raw.len <= d->limits.profile_bytes)
		return pd_profile_decode(&r->arena, r->raw, &r->profile) == 0
			       ? 0
			       : undecodable(e, "failed to unmarshal profile: not a pprof");
	if (rc == 0 || r->raw.len > d->limits.profile_bytes)
		return too_large(e, d->limits.profile_bytes);
	return undecodable(e, "gzip: invalid data");
}

/* An empty name does not count as missing: no default replaces it, and the set is refused later. */
static void take_labels(const struct pd_delivery *in, struct pd_record *r)
{
	r->labels = pd_labels_copy(&r->arena, in->labels, 1);
	if (!pd_labels_has(r->labels, pd_bytes_of("service_name"))) {
		r->losses.default_service_names++;
		pd_labels_add(&r->labels, "service_name", pd_bytes_of("unknown_service"));
	}
	pd_labels_sort(&r->labels);
}

static int accept_record(struct pd_double *d, const struct pd_delivery *in, struct pd_record *r,
			 struct pd_error *e)
{
	struct pd_candidate c = {.profile = &r->profile, .losses = &r->losses};

	if (in->made == NULL && unpack(d, in->raw, r, e) != 0)
		return -1;
	if (in->made != NULL) {
		r->profile = in->profile;
		r->raw = in->raw;
		r->arena = *in->made;
		*in->made = (struct pd_arena){0};
	}
	r->tenant = pd_arena_string(&r->arena, pd_bytes_of(in->tenant));
	r->id = pd_arena_string(&r->arena, in->id);
	take_labels(in, r);
	c.bytes = in->made != NULL ? in->bytes : r->raw.len;
	c.series = r->labels;
	if (check_rate(d, r, c.bytes, e) != 0 ||
	    pd_validate_profile(&d->limits, &c, pd_double_now(d), e) != 0)
		return -1;
	if (!d->options.lenient && in->made == NULL && pd_validate_strict(&r->profile, e) != 0)
		return -1;
	return pd_record_split(&d->limits, r, e);
}

int pd_push(struct pd_double *d, const struct pd_delivery *in, struct pd_error *e)
{
	struct pd_record *r = pd_record_new();

	r->headers = json_incref(in->headers);
	if (accept_record(d, in, r, e) != 0 || (r->rows > 0 && pd_store_add(d, r, e) != 0)) {
		pd_stats_reject(&d->stats, e);
		pd_record_free(r);
		return -1;
	}
	pd_losses_add(&d->stats.losses, &r->losses);
	if (r->rows == 0)
		pd_record_free(r);
	return 0;
}
