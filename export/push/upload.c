/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connects the parts of delivery: encoding, the message around a profile, the queues and their
 * transport, the folder.
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
#include "export/profile/otlp.h"
#include "export/push/file_sink.h"
#include "export/push/http.h"
#include "export/push/push.h"
#include "export/push/request.h"
#include "export/push/server_config.h"
#include "export/util/clock.h"
#include "export/util/log.h"
#include "export/util/turn.h"

struct server {
	struct sp_upload *upload;
	struct sp_server_config settings;
	char *name; /* its address for messages; NULL = it is the only one */
	struct sp_http *http;
};

struct sp_upload {
	const struct sp_core_ops *ops;
	struct server server[SP_SERVERS_MAX];
	unsigned servers;
	struct sp_push *push; /* NULL = no server */
	/*
	 * Number of processes that got the label pid in the hour that began at pids_since_ns.
	 * said_pids: a message reported that further ones do not get it.
	 */
	uint64_t pids_since_ns;
	uint32_t pids;
	bool said_pids;
	/*
	 * The process whose interval sp_upload_put() works on, and the samples that are in no
	 * profile yet.
	 */
	struct sp_origin *origin;
	struct sp_encode_range left[SP_PROFILE_TYPES];
	unsigned lefts;
	uint64_t random_state;
};

/* A program that forks a child for each request would have a series for each child. */
#define PIDS_PER_HOUR 32U
#define HOUR_NS (UINT64_C(3600) * SP_NS_PER_S)

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
	const struct server *s = arg;
	const struct sp_core_ops *ops = s->upload->ops;
	bool had = sp_turn_set(true);

	if (s->name != NULL)
		sp_export_log(ops, SP_LOG_WARN, "%s: %s", s->name, text);
	else
		ops->log(ops->arg, SP_LOG_WARN, text);
	(void)sp_turn_set(had);
}

static void label_refused(void *arg, const char *name, size_t len, const char *reason)
{
	const struct sp_origin *origin = arg;
	char clean[64];

	/*
	 * Only the process whose log gets messages that concern all reports this
	 * (sp_upload_serve()).
	 */
	if (origin == NULL)
		return;
	sp_export_log_clean(clean, sizeof(clean), name, len);
	sp_export_log(origin->ops, SP_LOG_WARN, "label \"%s\" is left out: %s", clean, reason);
}

/* Whether servers get profiles in OTLP; to_folder(): whether the folder does. */
static bool to_server(const struct sp_config *c)
{
	return c->protocol == SP_PROTOCOL_OTLP;
}

static bool to_folder(const struct sp_config *c)
{
	return c->output_format == SP_FORMAT_OTLP;
}

/* Makes the message with the encoded profile. */
static int make(struct sp_origin *origin, enum sp_profile_type type, struct sp_encoded *profile,
		int64_t from_ns, int64_t until_ns, struct sp_message *out)
{
	const struct sp_config *c = origin->ops->config;
	char id[64];
	const struct sp_request request = {
		.protocol = c->protocol,
		.compression = c->compression,
		.series = &origin->series,
		.resource = &origin->resource,
		.type = type,
		.id = id,
		.from_ns = from_ns,
		.until_ns = until_ns,
		.rate_hz = c->sample_rate_hz,
	};

	(void)snprintf(id, sizeof(id), "%" PRIu32 "-%" PRId64 "-%" PRIu32, origin->ops->pid,
		       request.from_ns, ++origin->requests);
	return sp_request_make(&request, profile, out);
}

/*
 * Joins requests of push into one. The body of each is a protobuf message, and several such
 * messages in a row are one message with the series of all.
 */
static int join_requests(void *arg, const struct sp_message *const part[], uint32_t n,
			 struct sp_bytes *out)
{
	const struct sp_bytes **body = malloc(n * sizeof(const struct sp_bytes *));
	bool had;
	int err;

	(void)arg;
	if (body == NULL)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		body[i] = &part[i]->body;
	had = sp_turn_set(false);
	err = sp_gzip_join(body, n, out);
	(void)sp_turn_set(had);
	free(body);
	return err;
}

/*
 * Removes pid from the labels and the resource of a process. In a folder, the names of files have
 * it.
 */
static void leave_out_pid(struct sp_origin *origin)
{
	const struct sp_core_ops *ops = origin->ops;
	struct sp_bytes resource = {NULL, 0};

	sp_series_remove_pid(&origin->series);
	if (origin->resource.data == NULL ||
	    sp_resource_make(ops->config, 0, ops->version, &resource) != 0)
		return;
	free(origin->resource.data);
	origin->resource = resource;
}

/* The label pid goes to the first processes of each hour that have a profile. */
static void begin_at_server(struct sp_upload *u, struct sp_origin *origin)
{
	uint64_t now = sp_clock_mono_ns();

	if (origin->is_at_server)
		return;
	origin->is_at_server = true;
	if (!sp_series_has_pid(&origin->series))
		return;
	if (now - u->pids_since_ns >= HOUR_NS) {
		u->pids_since_ns = now;
		u->pids = 0;
	}
	if (u->pids < PIDS_PER_HOUR) {
		u->pids++;
		return;
	}
	leave_out_pid(origin);
	if (!u->said_pids)
		sp_export_log(
			u->ops, SP_LOG_WARN,
			"more than %u processes have profiles within an hour: profiles of the "
			"others have "
			"no label pid at the server; SPANPROF_LABELS=pid= leaves it out of all",
			PIDS_PER_HOUR);
	u->said_pids = true;
}

static int cut(void *arg, struct sp_origin *origin, const struct sp_message *of,
	       const struct sp_part *part, struct sp_message *out)
{
	uint32_t end = part->end - part->first > part->most ? part->first + part->most : part->end;
	struct sp_encoded profile = {.bytes = {NULL, 0}};
	bool had = sp_turn_set(false);
	int err = sp_message_cut(of, part->first, end, &profile);

	(void)arg;
	if (err == 0)
		err = make(origin, of->type, &profile, of->from_ns, of->until_ns, out);
	(void)sp_turn_set(had);
	if (err == 0)
		sp_message_set_part(out, of, part->first, end, profile.samples);
	sp_encoded_fini(&profile);
	return err;
}

/* Opens server k of n. */
static int open_server(struct sp_upload *u, unsigned k, unsigned n)
{
	struct server *s = &u->server[k];
	const struct sp_http_hooks hooks = {warn, s};
	struct sp_address address;
	const char *why;
	int err;

	s->upload = u;
	u->servers = k + 1;
	err = sp_server_config_make(u->ops->config, k, &s->settings);
	if (err == 0 && n > 1 &&
	    sp_address_parse(s->settings.config.server_address, &address, &why) == 0) {
		s->name = strdup(address.shown);
		sp_address_fini(&address);
		err = s->name != NULL ? 0 : -ENOMEM;
	}
	if (err == 0)
		err = sp_http_new(&s->settings.config, u->ops->version, &hooks, &s->http);
	if (err == 0 && k != 0)
		sp_http_join(s->http, u->server[0].http);
	return err;
}

static uint32_t wanted_types(const struct sp_config *c)
{
	uint32_t n = 0;

	for (unsigned type = 0; type < SP_PROFILE_TYPES; type++)
		n += sp_profile_type_is_wanted((enum sp_profile_type)type, c);
	return n;
}

static int open_servers(struct sp_upload *u)
{
	const struct sp_config *c = u->ops->config;
	const unsigned n = c->servers != 0 ? c->servers : 1;
	const uint32_t types = wanted_types(c);
	const struct sp_push_limits limits = {
		.capacity = c->push_queue_capacity * types,
		.types = types,
		.max_tries = c->push_max_tries,
		.timeout_ms = c->push_timeout_ms,
		.interval_ms = c->upload_interval_ms,
		.lasts_ms = (uint64_t)c->upload_interval_ms * c->push_queue_capacity,
	};
	struct sp_push_env env[SP_SERVERS_MAX];
	int err = 0;

	for (unsigned k = 0; k < n && err == 0; k++) {
		err = open_server(u, k, n);
		env[k] = (struct sp_push_env){
			.name = u->server[k].name,
			.start = sp_http_start,
			.poll = sp_http_poll,
			.stop = sp_http_stop,
			.transport_arg = u->server[k].http,
			.join = c->protocol == SP_PROTOCOL_PUSH ? join_requests : NULL,
			.cut = cut,
			.now_ns = now_ns,
			.random = next_random,
			.random_arg = u,
		};
	}
	if (err != 0)
		return err;
	u->push = sp_push_new(u->ops, env, n, &limits);
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
		err = open_servers(u);
		/* If the address is wrong, files are still written. */
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
	for (unsigned i = 0; i < u->servers; i++) {
		sp_http_free(u->server[i].http);
		sp_server_config_fini(&u->server[i].settings);
		free(u->server[i].name);
	}
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
	origin->labels = sp_series_labels_new(ops->config->labels, ops->config->max_series);
	if (origin->labels == NULL)
		return -ENOMEM;
	return sp_series_init(&origin->series, ops->config, ops->pid, label_refused,
			      ops == u->ops ? origin : NULL);
}

void sp_upload_forget(struct sp_origin *origin)
{
	sp_file_sink_free(origin->files);
	sp_series_fini(&origin->series);
	sp_series_labels_free(origin->labels);
	free(origin->resource.data);
	sp_missing_fini(&origin->missing);
	sp_recent_fini(&origin->recent);
}

static void count_unsent(const struct sp_core_ops *ops, enum sp_profile_type type, uint64_t samples)
{
	ops->counter_add(ops->arg,
			 sp_profile_type_row(type)->is_of_waits ? SP_COUNT_WAITS_UNSENT
								: SP_COUNT_SAMPLES_UNSENT,
			 samples);
}

static void queue(struct sp_upload *u, struct sp_origin *origin,
		  const struct sp_encode_range *range, const struct sp_interval *interval,
		  struct sp_encoded *encoded)
{
	/*
	 * The end is computed with the monotonic clock, because the clock of time_ns may have been
	 * set.
	 */
	int64_t until_ns = interval->time_ns + (int64_t)(sp_clock_mono_ns() - interval->begun_ns);
	struct sp_message message;
	bool had = sp_turn_set(false);
	int err = make(origin, range->type, encoded, interval->time_ns, until_ns, &message);

	if (err == 0)
		sp_message_set_whole(&message, origin->ops->config->protocol, encoded);
	(void)sp_turn_set(had);
	if (err != 0) {
		origin->ops->counter_add(origin->ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
		count_unsent(origin->ops, range->type, encoded->samples);
		return;
	}
	sp_push_put(u->push, origin, &message, interval->begun_ns);
}

/* Writes a profile into the folder. -ENOMEM: there was no attempt. */
static int write_file(struct sp_origin *origin, const struct sp_encode_range *range,
		      struct sp_encoded *encoded)
{
	const struct sp_file_sink_item item = {
		.suffix = sp_profile_type_row(range->type)->names.suffix,
		.time_ns = range->interval->time_ns,
		.samples = encoded->samples,
	};
	struct sp_bytes otlp = {NULL, 0}, packed = {NULL, 0};
	bool is_otlp = to_folder(origin->ops->config);
	bool had = sp_turn_set(false);
	int err = is_otlp ? sp_otlp_make(&encoded->bytes, range->type, &origin->resource, &otlp)
			  : sp_encoded_pack(encoded);

	if (err == 0 && is_otlp)
		err = sp_gzip_pack(&otlp, &packed);
	free(otlp.data);
	(void)sp_turn_set(had);
	if (err != 0) {
		origin->ops->counter_add(origin->ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
		return -ENOMEM;
	}
	/* sp_file_sink_write() counts its failures. */
	err = sp_file_sink_write(origin->files, is_otlp ? &packed : &encoded->packed, &item,
				 sp_clock_mono_ns());
	free(packed.data);
	return err;
}

/*
 * The receiver of a profile: the folder, with all labels, or all servers, which get the same
 * profile.
 */
enum kind { FOLDER, SERVERS };

/*
 * Whether samples of that receiver count as sent or lost: those for servers do; those for the
 * folder only if there is no server.
 */
static bool counts(const struct sp_upload *u, enum kind kind)
{
	return kind == SERVERS || u->push == NULL;
}

static void count_file(struct sp_origin *origin, enum sp_profile_type type, uint64_t samples,
		       int err)
{
	const struct sp_core_ops *ops = origin->ops;
	bool is_of_waits = sp_profile_type_row(type)->is_of_waits;
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

static void put_profile(struct sp_upload *u, struct sp_origin *origin,
			const struct sp_encode_range *range, const struct sp_interval *interval,
			struct sp_encoded *encoded, enum kind kind)
{
	const struct sp_core_ops *ops = origin->ops;
	int err;

	if (counts(u, kind))
		ops->counter_add(ops->arg, SP_COUNT_STACKS_OTHER, encoded->others);
	ops->counter_add(ops->arg, SP_COUNT_SERIES_OTHER, encoded->over_series);
	if (!ops->may_open(ops->arg)) {
		if (counts(u, kind))
			count_unsent(ops, range->type, encoded->samples);
	} else if (kind == SERVERS) {
		queue(u, origin, range, interval, encoded);
	} else {
		err = write_file(origin, range, encoded);
		if (counts(u, kind))
			count_file(origin, range->type, encoded->samples, err);
	}
}

static void put_type(struct sp_upload *u, struct sp_origin *origin,
		     const struct sp_interval *interval, struct sp_encode_range *range,
		     enum kind kind);

/*
 * Puts the records that the servers just got, from `from` on, into the folder: as the same profile,
 * or, if that lacks labels, as another one.
 */
// NOLINTNEXTLINE(misc-no-recursion): put_type() calls this for servers alone, and this calls it for the folder
static void put_in_folder(struct sp_upload *u, struct sp_origin *origin,
			  const struct sp_interval *interval, const struct sp_encode_range *range,
			  uint32_t from, struct sp_encoded *encoded)
{
	struct sp_encode_range copy = *range;

	copy.from = from;
	copy.end = encoded->end;
	copy.series = NULL;
	if (encoded->has_all_labels)
		put_profile(u, origin, &copy, interval, encoded, FOLDER);
	else
		put_type(u, origin, interval, &copy, FOLDER);
}

/*
 * Makes profiles from the range until it is empty. If there is no memory for a profile, the rest of
 * the range is lost, so that no sample counts twice. range->from moves on with each profile.
 */
// NOLINTNEXTLINE(misc-no-recursion): at most once
static void put_type(struct sp_upload *u, struct sp_origin *origin,
		     const struct sp_interval *interval, struct sp_encode_range *range,
		     enum kind kind)
{
	const struct sp_core_ops *ops = origin->ops;
	const struct sp_pprof_limits limits = {SP_ENCODE_SAMPLES, SP_ENCODE_BYTES};
	struct sp_encoded encoded;
	int err;

	do {
		uint32_t from = range->from;
		bool had = sp_turn_set(false);

		err = sp_encode(range, &limits, &encoded);
		(void)sp_turn_set(had);
		if (err == 0) {
			put_profile(u, origin, range, interval, &encoded, kind);
			range->from = encoded.end;
		}
		if (err == 0 && kind == SERVERS && origin->files != NULL)
			put_in_folder(u, origin, interval, range, from, &encoded);
		sp_encoded_fini(&encoded);
	} while (err == 0 && range->from < range->end);
	if (err != 0 && err != -ENOENT) {
		ops->counter_add(ops->arg, SP_COUNT_EXPORT_NOMEM, 1);
		if (counts(u, kind))
			count_unsent(ops, range->type, sp_encode_samples(range));
	}
	range->from = range->end;
}

static void put_range(struct sp_upload *u, struct sp_origin *origin,
		      const struct sp_interval *interval, struct sp_encode_range *range)
{
	const struct sp_config *c = origin->ops->config;
	enum kind kind = u->push != NULL ? SERVERS : FOLDER;
	bool is_otlp = (u->push != NULL && to_server(c)) || (origin->files != NULL && to_folder(c));

	range->resource = is_otlp ? &origin->resource : NULL;
	range->series = kind == SERVERS ? origin->labels : NULL;
	if (kind == SERVERS || origin->files != NULL)
		put_type(u, origin, interval, range, kind);
}

static bool has_type(const struct sp_interval *interval, enum sp_profile_type type)
{
	const struct sp_profile_type_row *row = sp_profile_type_row(type);

	return sp_profile_type_is_wanted(type, interval->ops->config) &&
	       (interval->map[row->first] != NULL || interval->map[row->last] != NULL);
}

void sp_upload_put(struct sp_upload *u, struct sp_origin *origin,
		   const struct sp_interval *interval)
{
	if (u->push != NULL)
		begin_at_server(u, origin);
	u->origin = origin;
	u->lefts = 0;
	for (unsigned type = 0; type < SP_PROFILE_TYPES; type++)
		if (has_type(interval, (enum sp_profile_type)type))
			u->left[u->lefts++] = sp_encode_all(interval, (enum sp_profile_type)type);
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
	sp_http_wait(u->push != NULL ? u->server[0].http : NULL, wake, wait_ms);
}

uint32_t sp_upload_due_ms(const struct sp_upload *u)
{
	return u->push != NULL ? sp_push_due_ms(u->push) : UINT32_MAX;
}

uint64_t sp_upload_moves(const struct sp_upload *u)
{
	return u->push != NULL ? sp_push_moves(u->push) : 0;
}

unsigned sp_upload_servers(const struct sp_upload *u)
{
	return u->push != NULL ? u->servers : 0;
}

const char *sp_upload_address(const struct sp_upload *u, unsigned server)
{
	return sp_http_shown(u->server[server].http);
}

const struct sp_push_results *sp_upload_results(const struct sp_upload *u, unsigned server)
{
	return sp_push_results(u->push, server);
}
