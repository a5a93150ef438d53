/* SPDX-License-Identifier: Apache-2.0 */
/* Sends samples all the way (way.h). Context: tests. Callers: test_hostile.c, test_limits.c. */
#define _GNU_SOURCE
#include "test/hostile/way.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/profile/encode.h"
#include "export/profile/gzip.h"
#include "test/pyroscope/codec.h"

static struct way *way;
/* Shared by all ways of a test, because reading symbols would take most of its time. */
static struct sp_modules *modules;
static struct sp_symbolizer *symbolizer;
static struct sp_bounded_names *names;

static const char *span_name_text(void *self, uint32_t id, size_t *len)
{
	(void)self;
	*len = 0;
	return way->name_text != NULL ? way->name_text(id, len) : "";
}

static uint64_t counter_read(void *self, enum sp_counter c)
{
	(void)self;
	return way->counter[c];
}

static void counter_add(void *self, enum sp_counter c, uint64_t n)
{
	(void)self;
	way->counter[c] += n;
}

static void no_log(void *self, enum sp_log_level level, const char *message)
{
	(void)self;
	(void)level;
	(void)message;
}

void way_start(struct way *w)
{
	const struct pd_options options = {.now_ns = WAY_NOW};

	way = w;
	memset(w, 0, sizeof(*w));
	w->limits = (struct sp_pprof_limits){SP_ENCODE_SAMPLES, SP_ENCODE_BYTES};
	w->config.service_name = "shop";
	w->config.sample_rate_hz = 100;
	w->ops = (struct sp_core_ops){
		.config = &w->config,
		.pid = 4711,
		.proc = "/proc/self",
		.maps = -1,
		.version = "0.1.0",
		.span_name_text = span_name_text,
		.counter_read = counter_read,
		.counter_add = counter_add,
		.log = no_log,
	};
	if (symbolizer == NULL) {
		modules = sp_modules_new("/proc/self", -1);
		cr_assert_eq(sp_modules_refresh(modules), 0);
		symbolizer = sp_symbolizer_new(modules, &sp_symbolizer_options_default);
	}
	names = sp_thread_names_new(&w->ops);
	cr_assert_not_null(names);
	w->map = sp_stack_map_new(&sp_stack_limits_default);
	pd_double_init(&w->server, &options);
}

void way_end(struct way *w)
{
	pd_double_fini(&w->server);
	sp_stack_map_free(w->map);
	sp_stack_map_free(w->waits);
	free(w->last.data);
	sp_bounded_names_free(names);
}

void way_put(struct way *w, struct sp_sample *s)
{
	uint32_t thread = w->config.thread_name ? sp_thread_names_put(names, s->thread_name) : 0;

	(void)sp_stack_map_put(w->map, s, 0, thread);
	w->put++;
}

static unsigned hex(char c)
{
	return (unsigned)(c <= '9' ? c - '0' : c - 'A' + 10);
}

/* The result of the server's own library for "?a=b&c=d". */
static json_t *decode_query(const char *query)
{
	json_t *all = json_object();
	char *copy = strdup(query != NULL ? query : "");
	char *rest = copy[0] == '?' ? copy + 1 : copy;
	char *pair;

	while (rest != NULL && *rest != '\0' && (pair = strsep(&rest, "&")) != NULL) {
		char *value = strchr(pair, '=');
		char *out;

		cr_assert_not_null(value, "%s", query);
		*value++ = '\0';
		out = value;
		for (const char *in = value; *in != '\0'; in++) {
			if (*in == '%') {
				*out++ = (char)(hex(in[1]) << 4 | hex(in[2]));
				in += 2;
			} else {
				*out++ = *in;
			}
		}
		*out = '\0';
		json_object_set_new(all, pair, pd_json_bytes(pd_bytes_of(value)));
	}
	free(copy);
	return all;
}

static void post(struct way *w, const struct sp_message *m, const char *what)
{
	static const char *const path[] = {
		[SP_PROTOCOL_PUSH] = "/push.v1.PusherService/Push",
		[SP_PROTOCOL_INGEST] = "/ingest",
		[SP_PROTOCOL_OTLP] = "/v1development/profiles",
	};
	struct pd_response r = {0};
	struct pd_request in = {
		.method = "POST",
		.path = path[w->config.protocol],
		.headers = json_object(),
		.query = decode_query(m->query),
		.body = {m->body.data, m->body.len},
	};

	if (w->config.protocol != SP_PROTOCOL_INGEST) {
		json_object_set_new(in.headers, "content-type",
				    json_string(w->config.protocol == SP_PROTOCOL_PUSH
							? "application/proto"
							: "application/x-protobuf"));
		json_object_set_new(in.headers, "content-encoding", json_string("gzip"));
	}
	for (size_t i = 0; i < m->body.len; i++)
		w->digest = (w->digest ^ m->body.data[i]) * UINT64_C(0x100000001b3);
	pd_route(&w->server, &in, &r);
	pd_text_adds(&r.body, "");
	cr_expect_eq(r.status, 200, "%s: %u %s: %s", what, r.status, r.note, r.body.at);
	pd_response_fini(&r);
	json_decref(in.headers);
	json_decref(in.query);
}

static void send_profile(struct way *w, const struct sp_series *series,
			 const struct sp_bytes *resource, struct sp_encoded *encoded,
			 enum sp_profile_type type, const char *what)
{
	const struct sp_request request = {
		.protocol = w->config.protocol,
		.series = series,
		.resource = resource,
		.compression = SP_COMPRESSION_GZIP,
		.type = type,
		.id = "an-id",
		.from_ns = WAY_NOW - INT64_C(15000000000),
		.until_ns = WAY_NOW,
		.rate_hz = 100,
	};
	struct sp_message m;

	cr_assert_eq(sp_request_make(&request, encoded, &m), 0);
	w->sent += encoded->samples;
	w->profiles++;
	post(w, &m, what);
	free(w->last.data);
	if (resource != NULL) {
		cr_assert_eq(sp_gzip_unpack(m.body.data, m.body.len, m.plain, &w->last), 0);
	} else {
		w->last = encoded->bytes;
		encoded->bytes.data = NULL;
	}
	cr_expect_leq(w->last.len, w->limits.bytes, "%s", what);
	sp_message_fini(&m);
}

static void label_refused(void *arg, const char *name, size_t len, const char *reason)
{
	struct way *w = arg;

	(void)name;
	(void)len;
	(void)reason;
	w->refused++;
}

static void send_type(struct way *w, struct sp_interval *interval, enum sp_profile_type type,
		      const struct sp_series *series, const struct sp_bytes *resource,
		      const char *what)
{
	struct sp_encode_range range = sp_encode_all(interval, type);
	struct sp_encoded encoded;

	range.resource = w->config.protocol == SP_PROTOCOL_OTLP ? resource : NULL;
	while (range.from < range.end && sp_encode(&range, &w->limits, &encoded) == 0) {
		send_profile(w, series, range.resource, &encoded, type, what);
		range.from = encoded.end;
		sp_encoded_fini(&encoded);
	}
}

void way_send(struct way *w, const char *what)
{
	struct sp_series series;
	struct sp_interval *interval = sp_interval_new(
		&(struct sp_interval_parts){.ops = &w->ops,
					    .map = {w->map, w->waits},
					    .threads = w->config.thread_name ? names : NULL,
					    .time_ns = WAY_NOW - INT64_C(15000000000),
					    .duration_ns = INT64_C(15000000000)});
	struct sp_bytes resource;

	cr_assert_not_null(interval);
	cr_assert(sp_interval_name(interval, symbolizer));
	w->map = sp_stack_map_new(&sp_stack_limits_default);
	cr_assert_eq(sp_series_init(&series, &w->config, w->ops.pid, label_refused, w), 0);
	cr_assert_eq(sp_resource_make(&w->config, w->ops.pid, w->ops.version, &resource), 0);
	for (int type = 0; type < SP_PROFILE_TYPES; type++)
		if (type == SP_PROFILE_CPU || w->waits != NULL)
			send_type(w, interval, (enum sp_profile_type)type, &series, &resource,
				  what);
	w->waits = NULL;
	free(resource.data);
	sp_interval_free(interval);
	sp_series_fini(&series);
}

void way_expect_all(struct way *w, const char *what)
{
	json_t *spans = pd_spans_json(&w->server);
	json_int_t arrived =
		json_integer_value(json_object_get(json_object_get(spans, "total"), "samples"));

	json_t *losses = pd_losses_json(&w->server.stats.losses);
	char *text = json_dumps(losses, JSON_COMPACT);

	cr_expect_eq(pd_losses_total(&w->server.stats.losses), 0, "%s: lost in silence: %s", what,
		     text);
	free(text);
	json_decref(losses);
	cr_expect_eq(json_object_size(w->server.stats.rejected), 0, "%s", what);
	/* In OTLP the numbers of samples are one profile, and their CPU time another. */
	cr_expect_eq(w->server.stats.profiles,
		     w->config.protocol == SP_PROTOCOL_OTLP ? 2 * w->profiles : w->profiles, "%s",
		     what);
	cr_expect_eq(w->sent, w->put, "%s: %zu of %zu encoded", what, (size_t)w->sent,
		     (size_t)w->put);
	cr_expect_eq((uint64_t)arrived, w->put, "%s: %zu of %zu arrived", what, (size_t)arrived,
		     (size_t)w->put);
	json_decref(spans);
}

void way_fini(void)
{
	sp_symbolizer_free(symbolizer);
	sp_modules_free(modules);
}

uint64_t way_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state * UINT64_C(0x2545f4914f6cdd1d);
}
