/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins the sinks: compression, the request around a profile, the queue and its transport, the
 * folder.
 */
#define _GNU_SOURCE
#include "export/push/upload.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/profile/encode.h"
#include "export/profile/gzip.h"
#include "export/push/file_sink.h"
#include "export/push/http.h"
#include "export/push/push.h"
#include "export/push/request.h"
#include "export/util/clock.h"
#include "export/util/log.h"
#include "export/util/turn.h"

struct sp_upload {
	const struct sp_core_ops *ops;
	struct sp_http *http; /* NULL = no server */
	struct sp_push *push;
	struct sp_interval_store kept;
	/* What is being put, and what of it is in no profile yet. */
	struct sp_origin *origin;
	struct sp_encode_range left[SP_PROFILE_TYPES];
	unsigned lefts;
	uint64_t random_state;
};

static uint64_t now_ns(void *arg)
{
	(void)arg;
	return sp_clock_mono_ns();
}

static uint64_t next_random(void *arg)
{
	struct sp_upload *u = arg;

	return sp_random_next(&u->random_state);
}

static void warn(void *arg, const char *text)
{
	struct sp_upload *u = arg;
	bool had = sp_turn_set(true);

	u->ops->log(u->ops->arg, SP_LOG_WARN, text);
	(void)sp_turn_set(had);
}

static void label_refused(void *arg, const char *name, size_t len, const char *reason)
{
	const struct sp_origin *origin = arg;
	char clean[64];

	/* Told by one process, not by each of them. */
	if (origin == NULL)
		return;
	sp_export_log_clean(clean, sizeof(clean), name, len);
	sp_export_log(origin->ops, SP_LOG_WARN, "label \"%s\" is left out: %s", clean, reason);
}

/* The request that carries what was encoded of that range. */
static int make(struct sp_origin *origin, const struct sp_encode_range *range,
		const struct sp_encoded *encoded, int64_t until_ns, struct sp_message *out)
{
	const struct sp_config *c = origin->ops->config;
	char id[64];
	const struct sp_request request = {
		.protocol = c->protocol,
		.compression = c->compression,
		.series = &origin->series,
		.type = range->type,
		.id = id,
		.from_ns = range->interval->time_ns,
		.until_ns = until_ns,
		.rate_hz = c->sample_rate_hz,
	};
	int err;

	(void)snprintf(id, sizeof(id), "%" PRIu32 "-%" PRId64 "-%" PRIu32, origin->ops->pid,
		       request.from_ns, ++origin->requests);
	err = sp_request_make(&request, &encoded->bytes, out);
	if (err != 0)
		return err;
	out->samples = encoded->samples;
	out->first = range->from;
	out->end = encoded->end;
	out->records = encoded->records;
	return 0;
}

static void hold(struct sp_message *m, struct sp_interval *interval)
{
	m->interval = interval;
	sp_interval_hold(interval);
}

/* Whether the server, or the folder, gets profiles in OTLP. */
static bool to_server(const struct sp_config *c)
{
	return c->protocol == SP_PROTOCOL_OTLP;
}

static bool to_folder(const struct sp_config *c)
{
	return c->output_format == SP_FORMAT_OTLP;
}

static const struct sp_bytes *resource_of(const struct sp_origin *origin, bool is_otlp)
{
	return is_otlp ? &origin->resource : NULL;
}

static int encode_again(void *arg, struct sp_origin *origin, const struct sp_message *of,
			const struct sp_part *part, struct sp_message *out)
{
	const struct sp_pprof_limits limits = {part->most, SP_ENCODE_BYTES};
	const struct sp_encode_range range = {
		.interval = of->interval,
		.type = of->type,
		.from = part->first,
		.end = part->end,
		.resource = resource_of(origin, to_server(origin->ops->config)),
	};
	struct sp_encoded encoded;
	bool had = sp_turn_set(false);
	int err = sp_encode(&range, &limits, &encoded);

	(void)arg;
	if (err == 0)
		err = make(origin, &range, &encoded, of->until_ns, out);
	(void)sp_turn_set(had);
	if (err == 0)
		hold(out, of->interval);
	free(encoded.bytes.data);
	return err;
}

static int open_server(struct sp_upload *u)
{
	const struct sp_config *c = u->ops->config;
	const struct sp_http_hooks hooks = {warn, u};
	const uint32_t types = 1U + c->off_cpu + c->wall + 2U * c->alloc;
	const struct sp_push_limits limits = {
		.capacity = c->push_queue_capacity * types,
		.types = types,
		.max_tries = c->push_max_tries,
		.timeout_ms = c->push_timeout_ms,
		.interval_ms = c->upload_interval_ms,
		.lasts_ms = (uint64_t)c->upload_interval_ms * c->push_queue_capacity,
	};
	struct sp_push_env env = {
		.start = sp_http_start,
		.poll = sp_http_poll,
		.stop = sp_http_stop,
		.rest = sp_http_rest,
		.encode = encode_again,
		.now_ns = now_ns,
		.random = next_random,
		.random_arg = u,
	};
	int err = sp_http_new(c, u->ops->version, &hooks, &u->http);

	if (err != 0)
		return err;
	env.transport_arg = u->http;
	u->push = sp_push_new(u->ops, &env, &limits);
	return u->push != NULL ? 0 : -ENOMEM;
}

int sp_upload_new(const struct sp_core_ops *ops, struct sp_upload **out)
{
	bool files = ops->config->output_dir != NULL;
	struct sp_upload *u = calloc(1, sizeof(*u));
	int err = u != NULL ? 0 : -ENOMEM;

	*out = NULL;
	if (u == NULL)
		return err;
	u->ops = ops;
	u->random_state = sp_clock_seed(ops->pid);
	if (ops->config->server_address != NULL) {
		err = open_server(u);
		/* Files are still worth having when the address is wrong. */
		if (err == -EINVAL && files)
			err = 0;
	}
	if (err == 0 && !files && u->push == NULL)
		err = -EINVAL;
	if (err != 0)
		sp_upload_free(u);
	else
		*out = u;
	return err;
}

void sp_upload_free(struct sp_upload *u)
{
	if (u == NULL)
		return;
	sp_push_free(u->push);
	sp_http_free(u->http);
	free(u);
}

void sp_upload_serve(struct sp_upload *u, const struct sp_core_ops *ops, uint32_t living,
		     uint32_t ended)
{
	u->ops = ops;
	if (u->push != NULL)
		sp_push_serve(u->push, ops, living, ended);
}

int sp_upload_know(struct sp_upload *u, struct sp_origin *origin, const struct sp_core_ops *ops)
{
	memset(origin, 0, sizeof(*origin));
	origin->ops = ops;
	sp_losses_init(&origin->losses, ops);
	if (ops->config->output_dir != NULL) {
		origin->files = sp_file_sink_new(ops);
		if (origin->files == NULL)
			return -ENOMEM;
	}
	if ((to_server(ops->config) || to_folder(ops->config)) &&
	    sp_resource_make(ops->config, ops->pid, ops->version, &origin->resource) != 0)
		return -ENOMEM;
	if (u->push == NULL)
		return 0;
	return sp_series_init(&origin->series, ops->config, ops->pid, label_refused,
			      ops == u->ops ? origin : NULL);
}

void sp_upload_forget(struct sp_origin *origin)
{
	sp_file_sink_free(origin->files);
	sp_series_fini(&origin->series);
	free(origin->resource.data);
}

static void count_unsent(const struct sp_core_ops *ops, enum sp_profile_type type, uint64_t samples)
{
	ops->counter_add(ops->arg,
			 sp_profile_type_is_of_waits(type) ? SP_COUNT_WAITS_UNSENT
							   : SP_COUNT_SAMPLES_UNSENT,
			 samples);
}

static void queue(struct sp_upload *u, struct sp_origin *origin,
		  const struct sp_encode_range *range, struct sp_interval *interval,
		  const struct sp_encoded *encoded)
{
	/* Not by the clock of time_ns, which may have been set meanwhile. */
	int64_t until_ns = interval->time_ns + (int64_t)(sp_clock_mono_ns() - interval->begun_ns);
	struct sp_message message;
	bool had = sp_turn_set(false);
	int err = make(origin, range, encoded, until_ns, &message);

	(void)sp_turn_set(had);
	if (err != 0) {
		origin->ops->counter_add(origin->ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
		count_unsent(origin->ops, range->type, encoded->samples);
		return;
	}
	hold(&message, interval);
	sp_push_put(u->push, origin, &message, interval->begun_ns);
}

/* -ENOMEM: it was not tried. */
static int write_file(struct sp_origin *origin, const struct sp_encode_range *range,
		      const struct sp_encoded *encoded)
{
	const struct sp_file_sink_item item = {
		.suffix = sp_profile_type_names(range->type)->suffix,
		.time_ns = range->interval->time_ns,
		.samples = encoded->samples,
	};
	struct sp_bytes packed;
	bool had = sp_turn_set(false);
	int err = sp_gzip_pack(&encoded->bytes, &packed);

	(void)sp_turn_set(had);
	if (err != 0) {
		origin->ops->counter_add(origin->ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
		return -ENOMEM;
	}
	/* Its failures are counted there. */
	err = sp_file_sink_write(origin->files, &packed, &item, sp_clock_mono_ns());
	free(packed.data);
	return err;
}

/* Where there is no server, what is in the folder was sent. */
static void count_file(struct sp_origin *origin, enum sp_profile_type type, uint64_t samples,
		       int err)
{
	const struct sp_core_ops *ops = origin->ops;
	bool is_of_waits = sp_profile_type_is_of_waits(type);
	const struct sp_loss loss = {
		.cause = SP_LOSS_UNWRITTEN,
		.profiles = 1,
		.samples = is_of_waits ? 0 : samples,
		.waits = is_of_waits ? samples : 0,
	};

	if (err == 0)
		ops->counter_add(ops->arg,
				 is_of_waits ? SP_COUNT_WAITS_SENT : SP_COUNT_SAMPLES_SENT,
				 samples);
	else if (err == -ENOMEM)
		count_unsent(ops, type, samples);
	else
		sp_losses_add(&origin->losses, ops, &loss);
}

/* Where profiles of a range go. */
enum { TO_FOLDER = 1, TO_SERVER = 2 };

static void put_profile(struct sp_upload *u, struct sp_origin *origin,
			const struct sp_encode_range *range, struct sp_interval *interval,
			const struct sp_encoded *encoded, int where)
{
	const struct sp_core_ops *ops = origin->ops;
	bool counts = u->push == NULL || (where & TO_SERVER) != 0;

	if (counts)
		ops->counter_add(ops->arg, SP_COUNT_STACKS_OTHER, encoded->others);
	if (!ops->may_open(ops->arg)) {
		if (counts)
			count_unsent(ops, range->type, encoded->samples);
		return;
	}
	if ((where & TO_FOLDER) != 0) {
		int err = write_file(origin, range, encoded);

		if (u->push == NULL)
			count_file(origin, range->type, encoded->samples, err);
	}
	if ((where & TO_SERVER) != 0)
		queue(u, origin, range, interval, encoded);
}

/* Without memory for a profile all that is left is lost, so that nothing is counted twice. */
static void put_type(struct sp_upload *u, struct sp_origin *origin, struct sp_interval *interval,
		     struct sp_encode_range *range, int where)
{
	const struct sp_core_ops *ops = origin->ops;
	const struct sp_pprof_limits limits = {SP_ENCODE_SAMPLES, SP_ENCODE_BYTES};
	struct sp_encoded encoded;
	int err;

	do {
		bool had = sp_turn_set(false);

		err = sp_encode(range, &limits, &encoded);
		(void)sp_turn_set(had);
		if (err == 0)
			put_profile(u, origin, range, interval, &encoded, where);
		free(encoded.bytes.data);
		if (err == 0)
			range->from = encoded.end;
	} while (err == 0 && range->from < range->end);
	if (err != 0 && err != -ENOENT) {
		ops->counter_add(ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
		if (u->push == NULL || (where & TO_SERVER) != 0)
			count_unsent(ops, range->type, sp_encode_samples(range));
	}
	range->from = range->end;
}

/* What counts as sent is what goes to the server, where there is one; a folder beside it may want another format. */
static void put_range(struct sp_upload *u, struct sp_origin *origin, struct sp_interval *interval,
		      struct sp_encode_range *range)
{
	const struct sp_config *c = origin->ops->config;
	bool apart = origin->files != NULL && u->push != NULL && to_folder(c) != to_server(c);
	struct sp_encode_range copy = *range;

	if (apart) {
		copy.resource = resource_of(origin, to_folder(c));
		put_type(u, origin, interval, &copy, TO_FOLDER);
	}
	range->resource = resource_of(origin, u->push != NULL ? to_server(c) : to_folder(c));
	put_type(u, origin, interval, range,
		 (u->push != NULL ? TO_SERVER : 0) |
			 (origin->files != NULL && !apart ? TO_FOLDER : 0));
}

void sp_upload_put(struct sp_upload *u, struct sp_origin *origin, struct sp_interval *interval)
{
	const struct sp_config *c = origin->ops->config;

	sp_interval_keep(interval, &u->kept);
	u->origin = origin;
	u->lefts = 0;
	u->left[u->lefts++] = sp_encode_all(interval, SP_PROFILE_CPU);
	if (c->wall)
		u->left[u->lefts++] = sp_encode_all(interval, SP_PROFILE_WALL);
	if (c->off_cpu)
		u->left[u->lefts++] = sp_encode_all(interval, SP_PROFILE_OFF_CPU);
	if (interval->map[SP_MAP_ALLOCATIONS] != NULL)
		u->left[u->lefts++] = sp_encode_all(interval, SP_PROFILE_MEMORY);
	if (interval->map[SP_MAP_IN_USE] != NULL)
		u->left[u->lefts++] = sp_encode_all(interval, SP_PROFILE_IN_USE);
	for (unsigned i = 0; i < u->lefts; i++)
		put_range(u, origin, interval, &u->left[i]);
	u->lefts = 0;
}

void sp_upload_run(struct sp_upload *u)
{
	if (u->push != NULL)
		sp_push_run(u->push);
}

void sp_upload_flush(struct sp_upload *u, bool is_awaited)
{
	if (u->push != NULL)
		sp_push_flush(u->push, is_awaited);
}

bool sp_upload_flushed(struct sp_upload *u)
{
	return u->push == NULL || sp_push_flushed(u->push);
}

void sp_upload_resume(struct sp_upload *u)
{
	if (u->push != NULL)
		sp_push_resume(u->push);
}

void sp_upload_abandon(struct sp_upload *u)
{
	if (u->push != NULL)
		sp_push_abandon(u->push);
}

void sp_upload_count_unsent(struct sp_upload *u)
{
	for (unsigned i = 0; i < u->lefts; i++)
		count_unsent(u->origin->ops, u->left[i].type, sp_encode_samples(&u->left[i]));
	if (u->push != NULL)
		sp_push_count_unsent(u->push);
}

void sp_upload_wait(struct sp_upload *u, int wake, uint32_t wait_ms)
{
	sp_http_wait(u->http, wake, wait_ms);
}

uint32_t sp_upload_due_ms(const struct sp_upload *u)
{
	return u->push != NULL ? sp_push_due_ms(u->push) : UINT32_MAX;
}

uint64_t sp_upload_moves(const struct sp_upload *u)
{
	return u->push != NULL ? sp_push_moves(u->push) : 0;
}

const struct sp_push_news *sp_upload_news(const struct sp_upload *u)
{
	return u->push != NULL ? sp_push_news(u->push) : NULL;
}

const char *sp_upload_address(const struct sp_upload *u)
{
	return u->http != NULL ? sp_http_shown(u->http) : NULL;
}
