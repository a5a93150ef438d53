/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The only user of libcurl. Each request has its own handles and its own connection: between
 * uploads no descriptor is open that the host could meet or a forked child could inherit. The
 * transfer is driven by the multi interface, so that the ring is drained while it waits. Context:
 * BG. Callers: upload.c, push.c through the transport.
 */
#define _GNU_SOURCE
#include "export/http.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "export/headers_json.h"

#define SP_HTTP_PATH "/push.v1.PusherService/Push"
#define SP_HTTP_BODY_MAX ((size_t)4 << 20) /* a reply longer than this is no reply */

struct sp_http {
	const struct sp_config *config;
	struct sp_http_hooks hooks;
	char *url;
	char agent[64];
	struct curl_slist *headers;
	bool nomem;
};

struct transfer {
	struct sp_reply *reply;
	size_t received;
};

static void add_header(void *arg, const char *header)
{
	struct sp_http *h = arg;
	struct curl_slist *more = curl_slist_append(h->headers, header);

	if (more == NULL)
		h->nomem = true;
	else
		h->headers = more;
}

static void add_named(struct sp_http *h, const char *name, const char *value)
{
	char *header = NULL;

	if (strpbrk(value, "\r\n") != NULL) {
		h->hooks.warn(h->hooks.arg, "a header value with a line break was left out");
		return;
	}
	if (asprintf(&header, "%s: %s", name, value) < 0) {
		h->nomem = true;
		return;
	}
	add_header(h, header);
	free(header);
}

static bool is_set(const char *s)
{
	return s != NULL && s[0] != '\0';
}

static void add_headers(struct sp_http *h)
{
	const struct sp_config *c = h->config;
	unsigned refused = 0;

	add_header(h, "Content-Type: application/proto");
	add_header(h, "Content-Encoding: gzip");
	add_header(h, "Connect-Protocol-Version: 1");
	/* Some servers and proxies never answer it, which costs a second per request. */
	add_header(h, "Expect:");
	if (is_set(c->auth_token) && !is_set(c->basic_auth_user)) {
		char *bearer = NULL;

		if (asprintf(&bearer, "Bearer %s", c->auth_token) < 0)
			h->nomem = true;
		else
			add_named(h, "Authorization", bearer);
		free(bearer);
	}
	if (is_set(c->tenant_id))
		add_named(h, "X-Scope-OrgID", c->tenant_id);
	if (!is_set(c->http_headers))
		return;
	if (sp_headers_parse(c->http_headers, add_header, h, &refused) != 0)
		h->hooks.warn(h->hooks.arg, "the HTTP headers are not a JSON object of strings, "
					    "none of them is sent");
	else if (refused != 0)
		h->hooks.warn(h->hooks.arg, "some HTTP headers cannot be sent and were left out");
}

/* Checks the address and appends the path. NULL: *why says what is wrong with it. */
static char *make_url(const char *address, const char **why)
{
	const char *scheme = strstr(address, "://");
	size_t len = strlen(address);
	char *url = NULL;

	if (scheme != NULL && strncasecmp(address, "http://", 7) != 0 &&
	    strncasecmp(address, "https://", 8) != 0) {
		*why = "only http:// and https:// are possible";
		return NULL;
	}
	if (strpbrk(address, "?# \t\r\n") != NULL) {
		*why = "it must not contain a query, a fragment or spaces";
		return NULL;
	}
	while (len != 0 && address[len - 1] == '/')
		len--;
	*why = NULL;
	if (asprintf(&url, "%s%.*s" SP_HTTP_PATH, scheme != NULL ? "" : "http://", (int)len,
		     address) < 0)
		return NULL;
	return url;
}

int sp_http_new(const struct sp_config *config, const char *version,
		const struct sp_http_hooks *hooks, struct sp_http **out)
{
	struct sp_http *h = calloc(1, sizeof(*h));
	const char *why = NULL;
	char text[160];
	int err = 0;

	*out = NULL;
	if (h == NULL)
		return -ENOMEM;
	h->config = config;
	h->hooks = *hooks;
	(void)snprintf(h->agent, sizeof(h->agent), "libspanprof/%s", version);
	h->url = make_url(config->server_address, &why);
	if (h->url == NULL && why != NULL) {
		(void)snprintf(text, sizeof(text), "the server address cannot be used: %s", why);
		hooks->warn(hooks->arg, text);
		err = -EINVAL;
		/* Counted by libcurl, so the host's own use of it is not disturbed; never undone. */
	} else if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		err = -EIO;
	} else {
		add_headers(h);
		if (h->nomem || h->url == NULL)
			err = -ENOMEM;
	}
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
	curl_slist_free_all(h->headers);
	free(h->url);
	free(h);
}

static size_t keep_body(char *data, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;
	size_t len = size * n;
	size_t room = SP_REPLY_BODY - t->reply->text_len;

	t->received += len;
	if (t->received > SP_HTTP_BODY_MAX)
		return 0;
	if (room > len)
		room = len;
	memcpy(t->reply->text + t->reply->text_len, data, room);
	t->reply->text_len += room;
	return len;
}

/* A program that the host starts meanwhile must not inherit the connection. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *addr)
{
	(void)arg;
	(void)purpose;
	return socket(addr->family, addr->socktype | SOCK_CLOEXEC, addr->protocol);
}

/* A proxy of the environment is for other hosts, and cannot reach this one's own server. */
static bool is_local(const char *url)
{
	static const char *const local[] = {"localhost", "127.", "[::1]"};
	const char *host = strstr(url, "://") + 3;
	const char *at = strchr(host, '@');

	if (at != NULL && at < host + strcspn(host, "/"))
		host = at + 1;
	for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
		if (strncasecmp(host, local[i], strlen(local[i])) == 0)
			return true;
	return false;
}

static void set_options(const struct sp_http *h, CURL *c, const struct sp_bytes *body,
			uint32_t timeout_ms, struct transfer *t)
{
	long timeout = timeout_ms != 0 ? (long)timeout_ms : 1;

	curl_easy_setopt(c, CURLOPT_URL, h->url);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(c, CURLOPT_POST, 1L);
	curl_easy_setopt(c, CURLOPT_POSTFIELDS, (const char *)body->data);
	curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->len);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, h->headers);
	curl_easy_setopt(c, CURLOPT_USERAGENT, h->agent);
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, timeout);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, timeout);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, keep_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(c, CURLOPT_FORBID_REUSE, 1L);
	if (is_local(h->url))
		curl_easy_setopt(c, CURLOPT_PROXY, "");
	/* No alarm(), no SIGPIPE handler: signals are the host's. */
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	/* Do not wait for a name lookup that hangs when the time is up. */
	curl_easy_setopt(c, CURLOPT_QUICK_EXIT, 1L);
	if (is_set(h->config->basic_auth_user)) {
		curl_easy_setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
		curl_easy_setopt(c, CURLOPT_USERNAME, h->config->basic_auth_user);
		curl_easy_setopt(c, CURLOPT_PASSWORD,
				 h->config->basic_auth_password != NULL
					 ? h->config->basic_auth_password
					 : "");
	}
}

static void read_result(CURL *c, CURLcode rc, const char *error, struct sp_reply *reply)
{
	long status = 0;
	curl_off_t retry_after = 0;

	if (rc != CURLE_OK) {
		reply->kind = SP_REPLY_UNREACHABLE;
		reply->text_len =
			(size_t)snprintf(reply->text, sizeof(reply->text), "%.255s",
					 error[0] != '\0' ? error : curl_easy_strerror(rc));
		return;
	}
	curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(c, CURLINFO_RETRY_AFTER, &retry_after);
	reply->kind = SP_REPLY_STATUS;
	reply->status = (int)status;
	reply->retry_after_s = retry_after < 0       ? 0
			       : retry_after > 86400 ? 86400
						     : (uint32_t)retry_after;
}

/* Runs the transfer to its end. False when idle() aborted it. */
static bool drive(const struct sp_http *h, CURLM *multi, CURLcode *rc)
{
	int running = 1;
	int left;
	int sleep_ms;

	*rc = CURLE_FAILED_INIT;
	while (curl_multi_perform(multi, &running) == CURLM_OK && running != 0) {
		sleep_ms = h->hooks.idle(h->hooks.arg);
		if (sleep_ms < 0)
			return false;
		if (sleep_ms != 0 && curl_multi_poll(multi, NULL, 0, sleep_ms, NULL) != CURLM_OK)
			return true;
	}
	for (CURLMsg *msg; (msg = curl_multi_info_read(multi, &left)) != NULL;)
		if (msg->msg == CURLMSG_DONE)
			*rc = msg->data.result;
	return true;
}

void sp_http_post(void *http, const struct sp_bytes *body, uint32_t timeout_ms,
		  struct sp_reply *reply)
{
	const struct sp_http *h = http;
	struct transfer t = {.reply = reply};
	char error[CURL_ERROR_SIZE] = "";
	CURLcode rc = CURLE_OUT_OF_MEMORY;
	CURL *easy = curl_easy_init();
	CURLM *multi = curl_multi_init();
	bool finished = true;

	reply->text_len = 0;
	reply->retry_after_s = 0;
	reply->status = 0;
	if (easy != NULL && multi != NULL) {
		set_options(h, easy, body, timeout_ms, &t);
		curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error);
		curl_multi_add_handle(multi, easy);
		finished = drive(h, multi, &rc);
		read_result(easy, rc, error, reply);
		curl_multi_remove_handle(multi, easy);
	} else {
		read_result(easy, rc, error, reply);
	}
	if (!finished)
		reply->kind = SP_REPLY_ABORTED;
	/* Buffers of ours must not be written to by what clean-up does. */
	if (easy != NULL)
		curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, NULL);
	curl_easy_cleanup(easy);
	curl_multi_cleanup(multi);
}
