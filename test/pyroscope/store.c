/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Beginning and end of the double, its statistics and its store: accepted records stay in memory
 * for queries; with --store they are also written to <n>.pb and <n>.json.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/pyroscope/codec.h"
#include "test/pyroscope/double.h"

#define NS_PER_S INT64_C(1000000000)
#define REASONS_KEPT 100

void pd_double_init(struct pd_double *d, const struct pd_options *options)
{
	*d = (struct pd_double){.options = *options, .limits = pd_limits_default};
	d->stats.rejected = json_object();
	d->stats.statuses = json_object();
	d->stats.reasons = json_array();
}

void pd_double_fini(struct pd_double *d)
{
	while (d->first != NULL) {
		struct pd_record *next = d->first->next;

		pd_record_free(d->first);
		d->first = next;
	}
	pd_faults_fini(&d->faults);
	json_decref(d->stats.rejected);
	json_decref(d->stats.statuses);
	json_decref(d->stats.reasons);
}

int64_t pd_double_now(const struct pd_double *d)
{
	struct timespec t;

	if (d->options.now_ns != 0)
		return d->options.now_ns;
	clock_gettime(CLOCK_REALTIME, &t);
	return (t.tv_sec + d->options.now_offset_s) * NS_PER_S + t.tv_nsec;
}

void pd_stats_count(json_t *counters, const char *name)
{
	json_int_t n = json_integer_value(json_object_get(counters, name));

	json_object_set_new(counters, name, json_integer(n + 1));
}

void pd_stats_reject(struct pd_stats *s, const struct pd_error *e)
{
	pd_stats_count(s->rejected, e->reason);
	if (json_array_size(s->reasons) >= REASONS_KEPT)
		json_array_remove(s->reasons, 0);
	json_array_append_new(s->reasons, pd_json_bytes(pd_text_bytes(&e->message)));
}

/*
 * The server makes a series for each set of labels and each type of value that is not 0 everywhere.
 * span_id and trace_id of samples are no labels there (pkg/model/pprofsplit,
 * pkg/segmentwriter/memdb, 2026-08).
 */
static void add_series(json_t *of, const struct pd_record *r, size_t type)
{
	struct pd_text name = {0};
	bool *is_used = calloc(r->series_count + 1, sizeof(*is_used));

	for (size_t i = 0; is_used != NULL && i < r->rows; i++)
		if (r->row[i].value[type] != 0)
			is_used[r->row[i].series] = true;
	for (size_t i = 0; is_used != NULL && i < r->series_count; i++) {
		if (!is_used[i])
			continue;
		name.len = 0;
		pd_record_type(r, type, &name);
		pd_labels_text(r->series[i].labels, &name);
		json_object_set_new(of, name.at, json_true());
	}
	free(is_used);
	pd_text_fini(&name);
}

static json_int_t count_series(const struct pd_double *d)
{
	json_t *all = json_object();
	json_int_t n;

	for (const struct pd_record *r = d->first; r != NULL; r = r->next)
		for (size_t i = 0; i < r->profile.sample_types; i++)
			add_series(all, r, i);
	n = (json_int_t)json_object_size(all);
	json_decref(all);
	return n;
}

json_t *pd_stats_json(const struct pd_double *d)
{
	const struct pd_stats *s = &d->stats;

	return json_pack("{s:I,s:I,s:{s:I,s:I,s:I,s:I},s:O,s:O,s:O,s:o,s:o,s:{s:I,s:I}}", "series",
			 count_series(d), "connections", (json_int_t)s->connections, "accepted",
			 "profiles", (json_int_t)s->profiles, "requests", (json_int_t)s->requests,
			 "samples", (json_int_t)s->samples, "bytes", (json_int_t)s->bytes,
			 "rejected", s->rejected, "reasons", s->reasons, "requests", s->statuses,
			 "silently_dropped", pd_losses_json(&s->losses), "noted",
			 pd_losses_notes_json(&s->losses), "faults", "pending",
			 (json_int_t)d->faults.len, "served", (json_int_t)d->faults.served);
}

static json_t *labels_json(struct pd_labels l)
{
	json_t *j = json_object();

	for (size_t i = 0; i < l.len; i++) {
		struct pd_text name = {0};

		pd_text_add(&name, l.at[i].name.at, l.at[i].name.len);
		json_object_set_new(j, name.at, pd_json_bytes(l.at[i].value));
		pd_text_fini(&name);
	}
	return j;
}

/* Credentials must not be in files, so only their scheme is written. */
static json_t *headers_json(json_t *headers)
{
	json_t *copy = json_copy(headers);
	const char *secret = json_string_value(json_object_get(copy, "authorization"));

	if (secret != NULL)
		json_object_set_new(copy, "authorization",
				    json_stringn(secret, strcspn(secret, " ")));
	return copy;
}

static json_t *record_json(const struct pd_record *r)
{
	json_t *series = json_array();
	json_t *types = json_array();

	for (size_t i = 0; i < r->series_count; i++)
		json_array_append_new(series, labels_json(r->series[i].labels));
	for (size_t i = 0; i < r->profile.sample_types; i++) {
		struct pd_text type = {0};

		pd_record_type(r, i, &type);
		json_array_append_new(types, pd_json_bytes(pd_text_bytes(&type)));
		pd_text_fini(&type);
	}
	return json_pack("{s:I,s:o,s:o,s:o,s:o,s:o,s:o,s:I,s:I,s:I,s:I,s:I,s:I,s:o,s:o}", "number",
			 (json_int_t)r->number, "id", pd_json_bytes(pd_bytes_of(r->id)), "tenant",
			 pd_json_bytes(pd_bytes_of(r->tenant)), "labels", labels_json(r->labels),
			 "series", series, "types", types, "headers", headers_json(r->headers),
			 "samples_sent", (json_int_t)r->profile.samples, "samples",
			 (json_int_t)r->rows, "bytes", (json_int_t)r->raw.len, "time_nanos",
			 (json_int_t)r->profile.time_nanos, "duration_nanos",
			 (json_int_t)r->profile.duration_nanos, "period",
			 (json_int_t)r->profile.period, "silently_dropped",
			 pd_losses_json(&r->losses), "noted", pd_losses_notes_json(&r->losses));
}

/* Writes a file under another name and renames it, so that a reader never sees a part of it. */
static bool write_file(const char *path, const void *data, size_t len)
{
	struct pd_text partial = {0};
	FILE *f = NULL;
	bool ok = false;

	pd_text_addf(&partial, "%s.partial", path);
	f = fopen(partial.at, "we");
	if (f != NULL) {
		ok = fwrite(data, 1, len, f) == len;
		ok = fclose(f) == 0 && ok && rename(partial.at, path) == 0;
	}
	pd_text_fini(&partial);
	return ok;
}

static bool write_record(const char *dir, const struct pd_record *r)
{
	struct pd_text path = {0};
	struct pd_text text = {0};
	json_t *j = record_json(r);
	bool ok = false;

	pd_json_add(&text, j);
	pd_text_addf(&path, "%s/%" PRIu64 ".pb", dir, r->number);
	ok = write_file(path.at, r->raw.at, r->raw.len);
	path.len = 0;
	pd_text_addf(&path, "%s/%" PRIu64 ".json", dir, r->number);
	/* The .json file is written last, so if it exists, the .pb file exists, too. */
	ok = ok && write_file(path.at, text.at, text.len);
	json_decref(j);
	pd_text_fini(&path);
	pd_text_fini(&text);
	return ok;
}

int pd_store_add(struct pd_double *d, struct pd_record *r, struct pd_error *e)
{
	if (d->stored_bytes + r->raw.len > d->limits.stored_bytes)
		return pd_error_set(e, PD_UNKNOWN, "store_full",
				    "the double holds %zu bytes and takes no more",
				    d->stored_bytes);
	r->number = d->stats.profiles + 1;
	if (d->options.store != NULL && !write_record(d->options.store, r))
		return pd_error_set(e, PD_UNKNOWN, "store_failed",
				    "the double cannot write to its store");
	if (d->last != NULL)
		d->last->next = r;
	else
		d->first = r;
	d->last = r;
	d->stored_bytes += r->raw.len;
	d->stats.profiles++;
	d->stats.samples += r->rows;
	d->stats.bytes += r->raw.len;
	return 0;
}
