/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives transfers, by the multi interface, so that nobody waits for them. Each request has its own
 * handles and its own connection: between two of them no descriptor is open.
 */
#include "export/http.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/address.h"
#include "export/clock.h"
#include "export/credentials.h"
#include "export/http_transfer.h"
#include "export/libcurl.h"
#include "sampler/compiler.h"

#define POLL_MS 50U

/* Whoever is in between can read along. */
static void warn_of_readers(const struct sp_http *h)
{
	bool secret =
		sp_credentials_secret(&h->credentials) || strchr(h->address.base, '@') != NULL;

	if (h->address.tls && h->config->tls_insecure)
		h->hooks.warn(h->hooks.arg,
			      "SPANPROF_TLS_INSECURE_SKIP_VERIFY: whoever is in between can "
			      "read the profiles and the credentials");
	if (secret && !h->address.tls && !sp_address_is_local(&h->address))
		h->hooks.warn(h->hooks.arg,
			      "credentials go to the server over plain http: whoever is in "
			      "between can read them; https keeps them secret");
}

static void end(struct sp_http *h)
{
	struct sp_http_transfer *t = h->transfer;

	if (t == NULL)
		return;
	if (t->easy != NULL && t->multi != NULL)
		curl_multi_remove_handle(t->multi, t->easy);
	/* Buffers of ours must not be written to by what clean-up does. */
	if (t->easy != NULL)
		curl_easy_setopt(t->easy, CURLOPT_ERRORBUFFER, NULL);
	if (t->easy != NULL)
		curl_easy_cleanup(t->easy);
	if (t->multi != NULL)
		curl_multi_cleanup(t->multi);
	if (t->headers != NULL)
		curl_slist_free_all(t->headers);
	free(t->url);
	sp_tls_files_wipe(&t->files);
	free(t);
	h->transfer = NULL;
}

int sp_http_new(const struct sp_config *config, const char *version,
		const struct sp_http_hooks *hooks, struct sp_http **out)
{
	struct sp_http *h = calloc(1, sizeof(*h));
	const char *why = NULL;
	char text[160];
	int err;

	*out = NULL;
	if (h == NULL)
		return -ENOMEM;
	h->config = config;
	h->hooks = *hooks;
	sp_credentials_init(&h->credentials, config, hooks->warn, hooks->arg);
	(void)snprintf(h->agent, sizeof(h->agent), "libspanprof/%s", version);
	err = sp_address_parse(config->server_address, &h->address, &why);
	if (err == -EINVAL) {
		(void)snprintf(text, sizeof(text), "the server address cannot be used: %s", why);
		hooks->warn(hooks->arg, text);
	}
	if (err == 0)
		warn_of_readers(h);
	if (err != 0)
		sp_http_free(h);
	else
		*out = h;
	return err;
}

void sp_http_free(struct sp_http *h)
{
	if (h == NULL)
		return;
	end(h);
	sp_credentials_fini(&h->credentials);
	sp_address_fini(&h->address);
	free(h);
}

const char *sp_http_shown(const struct sp_http *h)
{
	return h->address.shown;
}

/* True when it cannot go on, with what libcurl says of it. */
static bool go_on(const struct sp_http_transfer *t, CURLcode *rc)
{
	int running = 0;
	int left;

	*rc = CURLE_FAILED_INIT;
	if (curl_multi_perform(t->multi, &running) == CURLM_OK && running != 0)
		return false;
	for (CURLMsg *msg; (msg = curl_multi_info_read(t->multi, &left)) != NULL;)
		if (msg->msg == CURLMSG_DONE)
			*rc = msg->data.result;
	return true;
}

/*
 * Only after libcurl has read what there is: whoever drives the transfer may have done something else
 * for so long that the answer came in time, and was not looked at.
 */
static bool is_late(struct sp_http_transfer *t)
{
	if (sp_clock_mono_ns() - t->begun_ns < t->timeout_ms * SP_NS_PER_MS)
		return false;
	(void)snprintf(t->error, sizeof(t->error), "timed out after %u ms without an answer",
		       t->timeout_ms);
	return true;
}

/* False where libcurl cannot be loaded, see refused, or has no memory. */
static bool get_handles(struct sp_http_transfer *t)
{
	const char *why = sp_libcurl_load();

	if (why != NULL) {
		(void)snprintf(t->refused, sizeof(t->refused), "%s", why);
		return false;
	}
	t->easy = curl_easy_init();
	t->multi = curl_multi_init();
	t->begun_ns = sp_clock_mono_ns();
	return t->easy != NULL && t->multi != NULL;
}

void sp_http_start(void *http, const struct sp_message *message, uint32_t timeout_ms)
{
	struct sp_http *h = http;
	struct sp_http_transfer *t;

	end(h);
	t = calloc(1, sizeof(*t));
	h->transfer = t;
	if (t == NULL)
		return;
	t->timeout_ms = timeout_ms;
	sp_credentials_refresh(&h->credentials);
	if (!get_handles(t) || !sp_http_request(h, t, message)) {
		t->nomem = true;
		return;
	}
	sp_http_answer_keep(t);
	curl_multi_add_handle(t->multi, t->easy);
}

static void finish(struct sp_http *h, CURLcode rc, struct sp_reply *reply)
{
	sp_http_answer_read(h, h->transfer, rc);
	*reply = h->transfer->reply;
	end(h);
}

static void fail(struct sp_http *h, struct sp_reply *reply)
{
	const char *why = h->transfer != NULL && h->transfer->refused[0] != '\0'
				  ? h->transfer->refused
				  : "out of memory";

	memset(reply, 0, sizeof(*reply));
	reply->kind = SP_REPLY_UNREACHABLE;
	reply->text_len = (size_t)snprintf(reply->text, sizeof(reply->text), "%s", why);
	end(h);
}

bool sp_http_poll(void *http, uint32_t wait_ms, struct sp_reply *reply)
{
	struct sp_http *h = http;
	struct sp_http_transfer *t = h->transfer;
	CURLcode rc;

	if (t == NULL || t->nomem) {
		fail(h, reply);
		return true;
	}
	if (!go_on(t, &rc)) {
		if (wait_ms == 0 && !is_late(t))
			return false;
		(void)curl_multi_poll(t->multi, NULL, 0, (int)wait_ms, NULL);
		if (!go_on(t, &rc)) {
			if (!is_late(t))
				return false;
			rc = CURLE_OPERATION_TIMEDOUT;
		}
	}
	finish(h, rc, reply);
	return true;
}

void sp_http_stop(void *http, struct sp_reply *reply)
{
	struct sp_http *h = http;

	if (h->transfer == NULL || h->transfer->nomem) {
		fail(h, reply);
		return;
	}
	(void)snprintf(h->transfer->error, sizeof(h->transfer->error),
		       "given up before an answer came");
	finish(h, CURLE_ABORTED_BY_CALLBACK, reply);
}

void sp_http_post(struct sp_http *h, const struct sp_message *message, uint32_t timeout_ms,
		  struct sp_reply *reply)
{
	sp_http_start(h, message, timeout_ms);
	while (!sp_http_poll(h, POLL_MS, reply))
		;
}
