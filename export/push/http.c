/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives transfers, by the multi interface, so that nobody waits for them. It keeps connections open for a few
 * seconds, so that processes and types of profiles whose pushes follow each other have one for all.
 */
#include "export/push/http.h"

#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "export/push/address.h"
#include "export/push/credentials.h"
#include "export/push/http_transfer.h"
#include "export/push/libcurl.h"
#include "export/util/clock.h"
#include "export/util/turn.h"
#include "sampler/base/compiler.h"
#include "sampler/config/config_table.h"

#define POLL_MS 50U

/* Whoever is in between can read along. What is in files is known when they are read, before a request. */
static void warn_of_readers(struct sp_http *h)
{
	bool secret =
		sp_credentials_secret(&h->credentials) || strchr(h->address.base, '@') != NULL;

	if (!secret || h->warned_plain || h->address.tls || sp_address_is_local(&h->address))
		return;
	h->warned_plain = true;
	h->hooks.warn(h->hooks.arg, "credentials go to the server over plain http: anybody in "
				    "between can read them; use https");
}

static void free_transfer(struct sp_http *h, struct sp_http_transfer *t)
{
	if (t->easy != NULL && h->multi != NULL)
		curl_multi_remove_handle(h->multi, t->easy);
	/* Buffers of ours must not be written to by what clean-up does. */
	if (t->easy != NULL)
		curl_easy_setopt(t->easy, CURLOPT_ERRORBUFFER, NULL);
	if (t->easy != NULL)
		curl_easy_cleanup(t->easy);
	if (t->headers != NULL)
		curl_slist_free_all(t->headers);
	free(t->url);
	sp_tls_files_wipe(&t->files);
	free(t);
}

static void end(struct sp_http *h, unsigned slot)
{
	if (!h->slot[slot].used)
		return;
	if (h->slot[slot].transfer != NULL)
		free_transfer(h, h->slot[slot].transfer);
	h->slot[slot].transfer = NULL;
	h->slot[slot].used = false;
	h->used--;
	h->idle_ns = sp_clock_mono_ns();
}

static void close_connections(struct sp_http *h)
{
	if (h->multi != NULL)
		curl_multi_cleanup(h->multi);
	h->multi = NULL;
}

void sp_http_rest(void *http, uint64_t now_ns)
{
	struct sp_http *h = http;
	bool had = sp_turn_set(false);

	if (h->used == 0 && now_ns > h->idle_ns + SP_HTTP_IDLE_S * SP_NS_PER_S)
		close_connections(h);
	(void)sp_turn_set(had);
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
		(void)snprintf(text, sizeof(text), "the server address in %s cannot be used: %s",
			       sp_config_copy_name(SP_VAR_SERVER_ADDRESS, SP_VAR_SERVER_ADDRESS),
			       why);
		hooks->warn(hooks->arg, text);
	}
	if (err == 0 && h->address.tls && config->tls_insecure)
		hooks->warn(hooks->arg,
			    "SPANPROF_TLS_INSECURE_SKIP_VERIFY: anybody between here and the "
			    "server can read the profiles and the credentials");
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
	for (unsigned slot = 0; slot < SP_TRANSFERS; slot++)
		end(h, slot);
	close_connections(h);
	sp_credentials_fini(&h->credentials);
	sp_address_fini(&h->address);
	free(h);
}

const char *sp_http_shown(const struct sp_http *h)
{
	return h->address.shown;
}

static void go_on(struct sp_http *h)
{
	int running = 0;
	int left;

	if (h->multi == NULL)
		return;
	if (curl_multi_perform(h->multi, &running) != CURLM_OK)
		for (unsigned i = 0; i < SP_TRANSFERS; i++)
			if (h->slot[i].transfer != NULL)
				h->slot[i].transfer->ended = true;
	for (CURLMsg *msg; (msg = curl_multi_info_read(h->multi, &left)) != NULL;)
		for (unsigned i = 0; i < SP_TRANSFERS && msg->msg == CURLMSG_DONE; i++) {
			struct sp_http_transfer *t = h->slot[i].transfer;

			if (t == NULL || t->easy != msg->easy_handle)
				continue;
			t->ended = true;
			t->rc = msg->data.result;
		}
}

/* False where libcurl cannot be loaded, see refused, or has no memory. */
static bool get_handles(struct sp_http *h, struct sp_http_transfer *t)
{
	const char *why = sp_libcurl_load();

	if (why != NULL) {
		(void)snprintf(t->refused, sizeof(t->refused), "%s", why);
		return false;
	}
	if (h->multi == NULL)
		h->multi = curl_multi_init();
	t->easy = curl_easy_init();
	t->begun_ns = sp_clock_mono_ns();
	return t->easy != NULL && h->multi != NULL;
}

static void start(struct sp_http *h, unsigned slot, const struct sp_message *message,
		  uint32_t timeout_ms)
{
	struct sp_http_transfer *t = calloc(1, sizeof(*t));

	h->slot[slot].used = true;
	h->slot[slot].transfer = t;
	h->used++;
	if (t == NULL)
		return;
	t->timeout_ms = timeout_ms;
	t->rc = CURLE_FAILED_INIT;
	sp_credentials_refresh(&h->credentials);
	warn_of_readers(h);
	if (!get_handles(h, t) || !sp_http_request(h, t, message)) {
		t->nomem = true;
		return;
	}
	sp_http_answer_keep(t);
	t->nomem = curl_multi_add_handle(h->multi, t->easy) != CURLM_OK;
}

void sp_http_start(void *http, unsigned slot, const struct sp_message *message, uint32_t timeout_ms)
{
	bool had = sp_turn_set(false);

	start(http, slot, message, timeout_ms);
	(void)sp_turn_set(had);
}

static bool has_ended(const struct sp_http *h, unsigned slot)
{
	const struct sp_http_transfer *t = h->slot[slot].transfer;

	return h->slot[slot].used && (t == NULL || t->nomem || t->ended);
}

/*
 * Only after libcurl has read what there is: whoever drives the transfer may have done something else
 * for so long that the answer came in time, and was not looked at.
 */
static bool is_late(const struct sp_http *h, unsigned slot)
{
	struct sp_http_transfer *t = h->slot[slot].transfer;

	if (t == NULL || sp_clock_mono_ns() - t->begun_ns < t->timeout_ms * SP_NS_PER_MS)
		return false;
	t->rc = CURLE_OPERATION_TIMEDOUT;
	(void)snprintf(t->error, sizeof(t->error), "timed out after %u ms without an answer",
		       t->timeout_ms);
	return true;
}

static bool find(const struct sp_http *h, bool (*is)(const struct sp_http *h, unsigned slot),
		 unsigned *slot)
{
	for (*slot = 0; *slot < SP_TRANSFERS; ++*slot)
		if (is(h, *slot))
			return true;
	return false;
}

static void finish(struct sp_http *h, unsigned slot, struct sp_reply *reply)
{
	struct sp_http_transfer *t = h->slot[slot].transfer;

	if (t != NULL && !t->nomem) {
		sp_http_answer_read(h, t, t->rc);
		*reply = t->reply;
	} else {
		memset(reply, 0, sizeof(*reply));
		reply->kind = SP_REPLY_UNREACHABLE;
		reply->text_len = (size_t)snprintf(
			reply->text, sizeof(reply->text), "%s",
			t != NULL && t->refused[0] != '\0' ? t->refused : "out of memory");
	}
	end(h, slot);
}

static bool proceed(struct sp_http *h, uint32_t wait_ms, unsigned *slot, struct sp_reply *reply)
{
	go_on(h);
	if (!find(h, has_ended, slot) && wait_ms != 0 && h->multi != NULL) {
		(void)curl_multi_poll(h->multi, NULL, 0, (int)wait_ms, NULL);
		go_on(h);
	}
	if (!find(h, has_ended, slot) && !find(h, is_late, slot))
		return false;
	finish(h, *slot, reply);
	return true;
}

bool sp_http_poll(void *http, uint32_t wait_ms, unsigned *slot, struct sp_reply *reply)
{
	bool had = sp_turn_set(false);
	bool is_one = proceed(http, wait_ms, slot, reply);

	(void)sp_turn_set(had);
	return is_one;
}

void sp_http_wait(struct sp_http *h, int wake, uint32_t wait_ms)
{
	bool had = sp_turn_set(false);
	int most = wait_ms < INT32_MAX ? (int)wait_ms : INT32_MAX;

	if (h != NULL && h->used != 0 && h->multi != NULL) {
		struct curl_waitfd either = {.fd = wake, .events = CURL_WAIT_POLLIN};

		(void)curl_multi_poll(h->multi, &either, 1, most, NULL);
	} else {
		struct pollfd only = {.fd = wake, .events = POLLIN};

		(void)poll(&only, 1, most);
	}
	(void)sp_turn_set(had);
}

void sp_http_stop(void *http, unsigned slot, struct sp_reply *reply)
{
	struct sp_http *h = http;
	struct sp_http_transfer *t = h->slot[slot].transfer;
	bool had = sp_turn_set(false);

	if (t != NULL && !t->ended) {
		t->rc = CURLE_ABORTED_BY_CALLBACK;
		(void)snprintf(t->error, sizeof(t->error), "stopped before an answer came");
	}
	finish(h, slot, reply);
	(void)sp_turn_set(had);
}

void sp_http_post(struct sp_http *h, const struct sp_message *message, uint32_t timeout_ms,
		  struct sp_reply *reply)
{
	unsigned slot;

	sp_http_start(h, 0, message, timeout_ms);
	while (!sp_http_poll(h, POLL_MS, &slot, reply))
		;
}
