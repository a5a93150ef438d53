/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One real push by the exporter's own code: same address, credentials, labels and checks, but no
 * samples, of which the server stores nothing. Runs in spanprof-probe only. Caller: main.c.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "export/profile/pprof.h"
#include "export/push/http.h"
#include "export/push/request.h"
#include "export/push/series.h"
#include "export/util/log.h"
#include "export/util/redact.h"
#include "sampler/base/compiler.h"
#include "scripts/probe/probe.h"

#define OTHER_MS 5000

static void warn(void *arg SP_UNUSED, const char *text)
{
	sp_probe_say("warning", text);
}

static void refused(void *arg SP_UNUSED, const char *name, size_t len, const char *reason)
{
	char clean[64];
	char text[192];

	sp_export_log_clean(clean, sizeof(clean), name, len);
	(void)snprintf(text, sizeof(text), "label \"%s\" is left out: %s", clean, reason);
	sp_probe_say("warning", text);
}

/* 0, or negative when out of memory. */
static int empty_profile(struct sp_bytes *out)
{
	struct timespec now = {0, 0};
	const struct sp_pprof_limits limits = {.samples = 1, .bytes = 4096};
	struct sp_pprof_times times = {.period_ns = 10000000, .duration_ns = 1000000000};
	struct sp_pprof *p;
	int err;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	times.time_ns = (int64_t)now.tv_sec * (int64_t)SP_NS_PER_S + now.tv_nsec;
	p = sp_pprof_new(&limits, &times);
	if (p == NULL)
		return -1;
	err = sp_pprof_pack(p, out);
	sp_pprof_free(p);
	return err;
}

static int make_message(const struct sp_config *config, struct sp_message *message)
{
	struct sp_bytes profile = {NULL, 0};
	struct sp_series series;
	struct timespec now = {0, 0};
	struct sp_request request = {
		.protocol = config->protocol,
		.series = &series,
		.id = "spanprof-probe",
		.rate_hz = config->sample_rate_hz,
	};
	int err = sp_series_init(&series, config, (uint32_t)getpid(), refused, NULL);

	(void)clock_gettime(CLOCK_REALTIME, &now);
	request.from_ns = (int64_t)now.tv_sec * (int64_t)SP_NS_PER_S;
	request.until_ns = request.from_ns;
	if (err == 0)
		err = empty_profile(&profile);
	if (err == 0)
		err = sp_request_make(&request, &profile, message);
	free(profile.data);
	sp_series_fini(&series);
	return err;
}

static void post(const struct sp_config *config, const struct sp_http_hooks *hooks,
		 uint32_t timeout_ms, struct sp_reply *reply)
{
	struct sp_http *http = NULL;
	struct sp_message message = {.query = NULL};

	reply->kind = SP_REPLY_ABORTED;
	if (make_message(config, &message) == 0 &&
	    sp_http_new(config, SP_VERSION "-probe", hooks, &http) == 0) {
		sp_http_post(http, &message, timeout_ms, reply);
		sp_http_free(http);
	}
	sp_message_fini(&message);
}

static void hush(void *arg SP_UNUSED, const char *text SP_UNUSED)
{
}

/*
 * Where there was no answer, or one that blames the request: it may be the wrong one of http and
 * https. Asked with the service's name alone, because what the other way would show to whoever is in
 * between was not meant to go there.
 */
const char *sp_probe_other_scheme(const struct sp_config *config)
{
	static struct sp_reply reply;
	static char address[1024];
	const struct sp_http_hooks hooks = {hush, NULL};
	struct sp_config other = {
		.service_name = config->service_name,
		.protocol = config->protocol,
		.sample_rate_hz = config->sample_rate_hz,
		.http_proxy = config->http_proxy,
		.https_proxy = config->https_proxy,
		.all_proxy = config->all_proxy,
		.no_proxy = config->no_proxy,
		.server_address = address,
		.tls_insecure = true,
	};
	bool tls = strncasecmp(config->server_address, "https:", 6) == 0;
	const char *rest = strstr(config->server_address, "://");

	if (rest == NULL || (!tls && strncasecmp(config->server_address, "http:", 5) != 0))
		return NULL;
	(void)snprintf(address, sizeof(address), "%s%s", tls ? "http" : "https", rest);
	sp_redact(address);
	post(&other, &hooks, OTHER_MS, &reply);
	/* Servers with TLS answer in plain http as well, to say that they have it. */
	if (reply.kind != SP_REPLY_STATUS || reply.status == 400)
		return NULL;
	return tls ? "http" : "https";
}

bool sp_probe_push(const struct sp_config *config, struct sp_reply *reply)
{
	const struct sp_http_hooks hooks = {warn, NULL};

	post(config, &hooks, config->push_timeout_ms, reply);
	return reply->kind != SP_REPLY_ABORTED;
}
