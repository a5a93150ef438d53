/* SPDX-License-Identifier: Apache-2.0 */
/* Collects a request, gets the answer from faults and routes, sends and logs it; see http.h. */
#include "test/pyroscope/http.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "test/pyroscope/codec.h"

#define HEADERS_MAX 100
#define IDLE_TIMEOUT_S 60

int64_t pd_http_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

void pd_exchange_park(struct pd_exchange *x, int64_t wake_ms)
{
	MHD_suspend_connection(x->connection);
	x->parked = true;
	x->wake_ms = wake_ms;
	x->next = x->http->parked;
	x->http->parked = x;
}

static void unpark(struct pd_exchange *x)
{
	struct pd_exchange **at = &x->http->parked;

	while (*at != NULL && *at != x)
		at = &(*at)->next;
	if (*at == x)
		*at = x->next;
	x->parked = false;
}

/* Resumes the connections whose time has come; all: also black holes. */
static void resume(struct pd_http *h, bool all)
{
	int64_t now = pd_http_now_ms();
	struct pd_exchange *x = h->parked;

	while (x != NULL) {
		struct pd_exchange *next = x->next;

		if (all || x->wake_ms <= now) {
			x->given_up = x->wake_ms == INT64_MAX;
			unpark(x);
			MHD_resume_connection(x->connection);
		}
		x = next;
	}
}

void pd_exchange_log(struct pd_exchange *x, unsigned status, const char *note)
{
	struct pd_text line = {0};
	char code[16];

	snprintf(code, sizeof(code), "%u", status);
	pd_stats_count(x->http->d->stats.statuses, status != 0 ? code : note);
	if (x->http->d->log == NULL)
		return;
	pd_text_addf(&line, "%" PRIu64 " %s ", x->number, x->method);
	pd_text_quote(&line, pd_bytes_of(x->path));
	pd_text_addf(&line, " %u %zu %s\n", status, x->body.len, note[0] != '\0' ? note : "-");
	fwrite(line.at, 1, line.len, x->http->d->log);
	fflush(x->http->d->log);
	pd_text_fini(&line);
}

static void add_headers(struct MHD_Response *mhd, const struct pd_response *r)
{
	const char *name = NULL;
	json_t *value = NULL;

	if (r->type != NULL)
		MHD_add_response_header(mhd, "Content-Type", r->type);
	json_object_foreach(r->headers, name, value)
		MHD_add_response_header(mhd, name, json_string_value(value));
}

enum MHD_Result pd_exchange_answer(struct pd_exchange *x, const struct pd_response *r)
{
	struct MHD_Response *mhd =
		MHD_create_response_from_buffer(r->body.len, r->body.at, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result rc;

	add_headers(mhd, r);
	pd_exchange_log(x, r->status, r->note);
	rc = MHD_queue_response(x->connection, r->status, mhd);
	MHD_destroy_response(mhd);
	return rc;
}

void pd_exchange_route(struct pd_exchange *x, struct pd_response *r)
{
	struct pd_request in = {
		.method = x->method,
		.path = x->path,
		.headers = x->headers,
		.query = x->query,
		.body = pd_text_bytes(&x->body),
		.body_too_large = x->too_large,
	};

	pd_route(x->http->d, &in, r);
}

static enum MHD_Result add_value(void *into, enum MHD_ValueKind kind, const char *key,
				 const char *value)
{
	struct pd_text name = {0};
	json_t *clean = NULL;

	if (json_object_size(into) >= HEADERS_MAX)
		return MHD_NO;
	for (const char *c = key; *c != '\0'; c++) {
		char lower = (char)(kind == MHD_HEADER_KIND ? tolower((unsigned char)*c) : *c);

		pd_text_add(&name, &lower, 1);
	}
	clean = pd_json_bytes(pd_text_bytes(&name));
	json_object_set_new(into, json_string_value(clean),
			    pd_json_bytes(pd_bytes_of(value != NULL ? value : "")));
	json_decref(clean);
	pd_text_fini(&name);
	return MHD_YES;
}

/* Remembers for each connection whether it was counted. */
static void on_connection(void *cls, struct MHD_Connection *connection, void **is_counted,
			  enum MHD_ConnectionNotificationCode what)
{
	(void)cls;
	(void)connection;
	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		*is_counted = calloc(1, sizeof(bool));
	} else {
		free(*is_counted);
		*is_counted = NULL;
	}
}

static void count_connection(struct pd_http *h, struct MHD_Connection *connection,
			     const char *method)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	bool *is_counted = info != NULL ? info->socket_context : NULL;

	if (is_counted == NULL || *is_counted || strcmp(method, "POST") != 0)
		return;
	*is_counted = true;
	h->d->stats.connections++;
}

static struct pd_exchange *exchange_new(struct pd_http *h, struct MHD_Connection *connection,
					const char *method, const char *path)
{
	struct pd_exchange *x = calloc(1, sizeof(*x));

	if (x == NULL)
		return NULL;
	x->http = h;
	x->connection = connection;
	count_connection(h, connection, method);
	x->number = ++h->requests;
	x->method = strdup(method);
	x->path = strdup(path);
	x->headers = json_object();
	x->query = json_object();
	MHD_get_connection_values(connection, MHD_HEADER_KIND, add_value, x->headers);
	MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, add_value, x->query);
	return x;
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **context,
			 enum MHD_RequestTerminationCode why)
{
	struct pd_exchange *x = *context;

	(void)cls;
	(void)connection;
	(void)why;
	if (x == NULL)
		return;
	if (x->parked)
		unpark(x);
	json_decref(x->headers);
	json_decref(x->query);
	pd_text_fini(&x->body);
	pd_text_fini(&x->answer);
	pd_response_fini(&x->taken);
	free(x->method);
	free(x->path);
	free(x);
	*context = NULL;
}

static void add_body(struct pd_exchange *x, const char *data, size_t len)
{
	if (x->body.len + len > x->http->d->limits.body_bytes)
		x->too_large = true;
	else
		pd_text_add(&x->body, data, len);
}

/* The server answers when it has written the segment with the profile. */
static unsigned ack_delay(const struct pd_exchange *x)
{
	const unsigned *ms = x->http->d->options.ack_ms;

	/* Different for each request, but the same in each run. */
	return ms[0] + (unsigned)(x->number * 2654435761U % (ms[1] - ms[0] + 1));
}

static bool is_push(const struct pd_exchange *x)
{
	return strcmp(x->method, "POST") == 0 &&
	       (strcmp(x->path, "/push.v1.PusherService/Push") == 0 ||
		strcmp(x->path, "/ingest") == 0 || strcmp(x->path, "/pyroscope/ingest") == 0 ||
		strcmp(x->path, "/v1development/profiles") == 0);
}

static enum MHD_Result finish(struct pd_exchange *x)
{
	unsigned delay_ms;

	if (x->given_up)
		return MHD_NO;
	if (x->taken.status != 0)
		return pd_exchange_answer(x, &x->taken);
	if (pd_faults_take(&x->http->d->faults, x->path, &x->fault))
		return pd_exchange_misbehave(x);
	pd_exchange_route(x, &x->taken);
	delay_ms = ack_delay(x);
	if (x->taken.status != 200 || delay_ms == 0 || !is_push(x))
		return pd_exchange_answer(x, &x->taken);
	pd_exchange_park(x, pd_http_now_ms() + delay_ms);
	return MHD_YES;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *data,
				  size_t *data_len, void **context)
{
	struct pd_exchange *x = *context;

	(void)version;
	if (x == NULL) {
		*context = exchange_new(cls, connection, method, url);
		return *context != NULL ? MHD_YES : MHD_NO;
	}
	if (*data_len > 0 && pd_faults_early(&x->http->d->faults, x->path))
		return finish(x);
	if (*data_len > 0) {
		add_body(x, data, *data_len);
		*data_len = 0;
		return MHD_YES;
	}
	return finish(x);
}

int pd_http_start(struct pd_http *h, struct pd_double *d, uint16_t port)
{
	struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};

	*h = (struct pd_http){.d = d};
	h->daemon = MHD_start_daemon(
		MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, port, NULL, NULL, on_request, h,
		MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address, MHD_OPTION_NOTIFY_COMPLETED,
		on_completed, NULL, MHD_OPTION_NOTIFY_CONNECTION, on_connection, NULL,
		MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)IDLE_TIMEOUT_S,
		MHD_OPTION_LISTENING_ADDRESS_REUSE, 1U, MHD_OPTION_END);
	return h->daemon != NULL ? 0 : -1;
}

uint16_t pd_http_port(const struct pd_http *h)
{
	const union MHD_DaemonInfo *info =
		MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_BIND_PORT);

	return info != NULL ? info->port : 0;
}

int pd_http_fd(const struct pd_http *h)
{
	const union MHD_DaemonInfo *info = MHD_get_daemon_info(h->daemon, MHD_DAEMON_INFO_EPOLL_FD);

	return info != NULL ? info->listen_fd : -1;
}

int pd_http_timeout(const struct pd_http *h)
{
	MHD_UNSIGNED_LONG_LONG mhd = 0;
	int64_t wait = INT64_MAX;

	if (MHD_get_timeout(h->daemon, &mhd) == MHD_YES)
		wait = mhd < INT_MAX ? (int64_t)mhd : INT_MAX;
	for (const struct pd_exchange *x = h->parked; x != NULL; x = x->next)
		if (x->wake_ms != INT64_MAX) {
			int64_t left = x->wake_ms - pd_http_now_ms();

			wait = left < wait ? left : wait;
		}
	if (wait == INT64_MAX)
		return -1;
	return wait > 0 ? (int)(wait < INT_MAX ? wait : INT_MAX) : 0;
}

void pd_http_run(struct pd_http *h)
{
	bool released = h->releases != h->d->faults.releases;

	h->releases = h->d->faults.releases;
	resume(h, released);
	MHD_run(h->daemon);
}

void pd_http_stop(struct pd_http *h)
{
	/* MHD_stop_daemon() must not find suspended connections. */
	while (h->parked != NULL) {
		h->parked->fault.kind = PD_FAULT_NONE;
		resume(h, true);
	}
	MHD_run(h->daemon);
	MHD_stop_daemon(h->daemon);
}
