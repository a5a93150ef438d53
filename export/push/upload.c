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

#include "export/profile/gzip.h"
#include "export/profile/pprof_split.h"
#include "export/push/file_sink.h"
#include "export/push/http.h"
#include "export/push/push.h"
#include "export/push/request.h"
#include "export/push/series.h"
#include "export/util/clock.h"
#include "export/util/log.h"

struct sp_upload {
	const struct sp_core_ops *ops;
	struct sp_http *http; /* NULL = no server */
	struct sp_push *push;
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

	return sp_clock_random(&u->random_state);
}

static void warn(void *arg, const char *text)
{
	struct sp_upload *u = arg;

	u->ops->log(u->ops->arg, SP_LOG_WARN, text);
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

/* The profile of that message: its type and times are set. */
static int make(struct sp_origin *origin, const struct sp_bytes *profile,
		const struct sp_message *of, struct sp_message *out)
{
	const struct sp_config *c = origin->ops->config;
	char id[64];
	const struct sp_request request = {
		.protocol = c->protocol,
		.series = &origin->series,
		.type = of->type,
		.id = id,
		.from_ns = of->from_ns,
		.until_ns = of->until_ns,
		.rate_hz = c->sample_rate_hz,
	};

	(void)snprintf(id, sizeof(id), "%" PRIu32 "-%" PRId64 "-%" PRIu32, origin->ops->pid,
		       of->from_ns, ++origin->requests);
	return sp_request_make(&request, profile, out);
}

static int make_half(struct sp_origin *origin, const struct sp_bytes *profile, size_t from,
		     size_t to, const struct sp_message *whole, struct sp_half *out)
{
	struct sp_pprof_count count;
	struct sp_bytes part;
	int err = sp_pprof_part(profile, from, to, &part);

	if (err == 0)
		err = sp_pprof_count(&part, &count);
	if (err == 0) {
		out->samples = count.samples;
		err = make(origin, &part, whole, &out->message);
	}
	free(part.data);
	return err;
}

static int halve(void *arg, struct sp_origin *origin, const struct sp_message *whole,
		 struct sp_half half[2])
{
	struct sp_pprof_count count;
	struct sp_bytes profile;
	int err = sp_message_profile(origin->ops->config->protocol, whole, &profile);

	(void)arg;
	if (err != 0)
		return err;
	err = sp_pprof_count(&profile, &count);
	if (err == 0 && count.records < 2)
		err = -ERANGE;
	if (err == 0)
		err = make_half(origin, &profile, 0, count.records / 2, whole, &half[0]);
	if (err == 0) {
		err = make_half(origin, &profile, count.records / 2, count.records, whole,
				&half[1]);
		if (err != 0)
			sp_message_fini(&half[0].message);
	}
	free(profile.data);
	return err;
}

static int open_server(struct sp_upload *u, sp_upload_idle idle, void *arg)
{
	const struct sp_config *c = u->ops->config;
	const struct sp_http_hooks hooks = {warn, u};
	const struct sp_push_limits limits = {
		.capacity = c->push_queue_capacity * (1U + c->off_cpu + c->wall),
		.max_tries = c->push_max_tries,
		.timeout_ms = c->push_timeout_ms,
		.interval_ms = c->upload_interval_ms,
		.lasts_ms = (uint64_t)c->upload_interval_ms * c->push_queue_capacity,
	};
	struct sp_push_env env = {
		.start = sp_http_start,
		.poll = sp_http_poll,
		.stop = sp_http_stop,
		.idle = idle,
		.idle_arg = arg,
		.halve = halve,
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

int sp_upload_new(const struct sp_core_ops *ops, sp_upload_idle idle, void *arg,
		  struct sp_upload **out)
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
		err = open_server(u, idle, arg);
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
	if (u->push == NULL)
		return 0;
	return sp_series_init(&origin->series, ops->config, ops->pid, label_refused,
			      ops == u->ops ? origin : NULL);
}

void sp_upload_forget(struct sp_origin *origin)
{
	sp_file_sink_free(origin->files);
	sp_series_fini(&origin->series);
}

static int queue(struct sp_upload *u, struct sp_origin *origin,
		 const struct sp_upload_profile *profile)
{
	const struct sp_message of = {
		.type = profile->type,
		.from_ns = profile->time_ns,
		/* Not by the clock of time_ns, which may have been set meanwhile. */
		.until_ns = profile->time_ns + (int64_t)(sp_clock_mono_ns() - profile->begun_ns),
	};
	struct sp_message message;
	int err = make(origin, profile->bytes, &of, &message);

	if (err == 0)
		sp_push_put(u->push, origin, &message, profile->samples, profile->begun_ns);
	return err;
}

static void count_unsent(const struct sp_core_ops *ops, const struct sp_upload_profile *profile)
{
	ops->counter_add(ops->arg,
			 profile->type == SP_PROFILE_CPU ? SP_COUNT_SAMPLES_UNSENT
							 : SP_COUNT_WAITS_UNSENT,
			 profile->samples);
}

/* -ENOMEM: it was not tried. */
static int write_file(struct sp_origin *origin, const struct sp_upload_profile *profile)
{
	const struct sp_file_sink_item item = {
		.suffix = sp_profile_type_names(profile->type)->suffix,
		.time_ns = profile->time_ns,
		.samples = profile->samples,
	};
	struct sp_bytes packed;
	int err = sp_gzip_pack(profile->bytes, &packed);

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
static void count_file(struct sp_origin *origin, const struct sp_upload_profile *profile, int err)
{
	const struct sp_core_ops *ops = origin->ops;
	bool is_of_waits = profile->type != SP_PROFILE_CPU;
	const struct sp_loss loss = {
		.cause = SP_LOSS_UNWRITTEN,
		.profiles = 1,
		.samples = is_of_waits ? 0 : profile->samples,
		.waits = is_of_waits ? profile->samples : 0,
	};

	if (err == 0)
		ops->counter_add(ops->arg,
				 is_of_waits ? SP_COUNT_WAITS_SENT : SP_COUNT_SAMPLES_SENT,
				 profile->samples);
	else if (err == -ENOMEM)
		count_unsent(ops, profile);
	else
		sp_losses_add(&origin->losses, ops, &loss);
}

void sp_upload_put(struct sp_upload *u, struct sp_origin *origin,
		   const struct sp_upload_profile *profile)
{
	const struct sp_core_ops *ops = origin->ops;

	if (!ops->may_open(ops->arg)) {
		count_unsent(ops, profile);
		return;
	}
	if (origin->files != NULL) {
		int err = write_file(origin, profile);

		if (u->push == NULL)
			count_file(origin, profile, err);
	}
	if (u->push != NULL && queue(u, origin, profile) != 0) {
		ops->counter_add(ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
		count_unsent(ops, profile);
	}
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

void sp_upload_abandon(struct sp_upload *u)
{
	if (u->push != NULL)
		sp_push_abandon(u->push);
}

uint32_t sp_upload_due_ms(const struct sp_upload *u)
{
	return u->push != NULL ? sp_push_due_ms(u->push) : UINT32_MAX;
}

const struct sp_push_news *sp_upload_news(const struct sp_upload *u)
{
	return u->push != NULL ? sp_push_news(u->push) : NULL;
}

const char *sp_upload_address(const struct sp_upload *u)
{
	return u->http != NULL ? sp_http_shown(u->http) : NULL;
}
