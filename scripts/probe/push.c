/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One real push by the exporter's own code: same address, credentials, labels and checks, but no
 * samples, of which the server stores nothing. Runs in spanprof-probe only. Caller: main.c.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "export/http.h"
#include "export/pprof.h"
#include "export/request.h"
#include "export/say.h"
#include "export/series.h"
#include "sampler/compiler.h"
#include "scripts/probe/probe.h"

#define IDLE_MS 50

static int idle(void *arg SP_UNUSED)
{
	return IDLE_MS;
}

static void warn(void *arg SP_UNUSED, const char *text)
{
	sp_probe_say("warning", text);
}

static void refused(void *arg SP_UNUSED, const char *name, size_t len, const char *reason)
{
	char clean[64];
	char text[192];

	sp_say_clean(clean, sizeof(clean), name, len);
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

static void say_reply(const struct sp_reply *reply)
{
	char text[512];

	if (reply->kind == SP_REPLY_STATUS)
		(void)snprintf(text, sizeof(text), "%d", reply->status);
	else
		(void)snprintf(text, sizeof(text), "unreachable");
	sp_probe_say("push", text);
	sp_say_clean(text, sizeof(text), reply->text, reply->text_len);
	if (text[0] != '\0')
		sp_probe_say("answer", text);
	if (reply->retry_after_s != 0) {
		(void)snprintf(text, sizeof(text), "%u", reply->retry_after_s);
		sp_probe_say("retry_after_s", text);
	}
}

void sp_probe_push(const struct sp_config *config)
{
	static struct sp_reply reply;
	const struct sp_http_hooks hooks = {idle, warn, NULL};
	struct sp_http *http = NULL;
	struct sp_message message = {.query = NULL};

	if (make_message(config, &message) != 0 ||
	    sp_http_new(config, SP_VERSION "-probe", &hooks, &http) != 0) {
		sp_probe_say("push", "impossible");
	} else {
		sp_http_post(http, &message, config->push_timeout_ms, &reply);
		say_reply(&reply);
		sp_http_free(http);
	}
	sp_message_fini(&message);
}
