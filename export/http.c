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
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "export/address.h"
#include "export/clock.h"
#include "export/credentials.h"
#include "export/keylog.h"
#include "export/openssl.h"
#include "export/redact.h"
#include "sampler/compiler.h"

#define SP_HTTP_PUSH "/push.v1.PusherService/Push"
#define SP_HTTP_INGEST "/ingest"
#define SP_HTTP_BODY_MAX ((size_t)4 << 20) /* more than that is not read */
#define SP_HTTP_FINAL 200                  /* below are those that announce another one */
#define SP_HTTP_LAST 599
#define SP_HTTP_DATE_HALF_MS 500 /* a Date is cut to whole seconds */

struct sp_http {
	const struct sp_config *config;
	struct sp_http_hooks hooks;
	struct sp_address address;
	struct sp_credentials credentials;
	char agent[64];
};

struct transfer {
	struct sp_reply *reply;
	char *url;
	struct curl_slist *headers;
	size_t received;
	bool answered; /* the head of the answer is complete */
	bool nomem;
	char date[64]; /* the header's value, "" = none */
	char error[CURL_ERROR_SIZE];
};

/* A later header of the same name takes the place of an earlier one: the user's own win. */
static void add_header(void *arg, const char *header)
{
	struct transfer *t = arg;
	size_t name = strcspn(header, ":;");
	struct curl_slist *more;
	char *copy;

	for (struct curl_slist *h = t->headers; h != NULL; h = h->next) {
		if (strcspn(h->data, ":;") != name || strncasecmp(h->data, header, name) != 0)
			continue;
		copy = strdup(header);
		t->nomem = t->nomem || copy == NULL;
		if (copy != NULL) {
			free(h->data);
			h->data = copy;
		}
		return;
	}
	more = curl_slist_append(t->headers, header);
	t->nomem = t->nomem || more == NULL;
	if (more != NULL)
		t->headers = more;
}

static void add_headers(struct sp_http *h, struct transfer *t)
{
	if (h->config->protocol == SP_PROTOCOL_PUSH) {
		add_header(t, "Content-Type: application/proto");
		add_header(t, "Content-Encoding: gzip");
		add_header(t, "Connect-Protocol-Version: 1");
	} else {
		/* /ingest takes no Content-Encoding, but knows a compressed profile when it sees one. */
		add_header(t, "Content-Type: application/octet-stream");
	}
	/* Some servers and proxies never answer it, which costs a second per request. */
	add_header(t, "Expect:");
	sp_credentials_headers(&h->credentials, add_header, t);
}

/* Whoever is in between can read along. */
static void warn_of_readers(const struct sp_http *h)
{
	bool secret =
		sp_credentials_secret(&h->credentials) || strchr(h->address.base, '@') != NULL;

	if (h->address.tls && h->config->tls_insecure)
		h->hooks.warn(h->hooks.arg,
			      "SPANPROF_TLS_INSECURE_SKIP_VERIFY: whoever is in between can "
			      "read the profiles and the credentials");
	if (secret && !h->address.tls && !h->address.local)
		h->hooks.warn(h->hooks.arg,
			      "credentials go to the server over plain http: whoever is in "
			      "between can read them; https keeps them secret");
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
	/* Counted by libcurl, so the host's own use of it is not disturbed; never undone. */
	if (err == 0 && sp_openssl_ended())
		err = -ECANCELED;
	if (err == 0 && curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK)
		err = -EIO;
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
	sp_credentials_fini(&h->credentials);
	sp_address_fini(&h->address);
	free(h);
}

const char *sp_http_shown(const struct sp_http *h)
{
	return h->address.shown;
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

/*
 * Notes the empty line behind the headers, also of "100 Continue", which the next status line
 * corrects, and the Date: curl_easy_header() would be a symbol that libcurl before 7.83 lacks.
 */
// NOLINTNEXTLINE(readability-non-const-parameter): libcurl's type
static size_t see_header(char *data, size_t size, size_t n, void *arg)
{
	static const char name[] = "Date:";
	struct transfer *t = arg;
	size_t len = size * n;

	t->answered = data[0] == '\r' || data[0] == '\n';
	if (len > strlen(name) && len < sizeof(t->date) &&
	    strncasecmp(data, name, strlen(name)) == 0) {
		memcpy(t->date, data + strlen(name), len - strlen(name));
		t->date[len - strlen(name)] = '\0';
	}
	return len;
}

/* A program that the host starts meanwhile must not inherit the connection. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *addr)
{
	(void)arg;
	(void)purpose;
	return socket(addr->family, addr->socktype | SOCK_CLOEXEC, addr->protocol);
}

/* "" = none. */
static const char *proxy_of(const struct sp_http *h)
{
	const struct sp_config *cfg = h->config;
	const char *proxy = h->address.tls ? cfg->https_proxy : cfg->http_proxy;

	if (proxy == NULL)
		proxy = cfg->all_proxy;
	return proxy != NULL && !h->address.local ? proxy : "";
}

/* Always told, so that libcurl does not ask the environment. */
static void set_proxy(const struct sp_http *h, CURL *c)
{
	const struct sp_config *cfg = h->config;

	curl_easy_setopt(c, CURLOPT_PROXY, proxy_of(h));
	curl_easy_setopt(c, CURLOPT_NOPROXY, cfg->no_proxy != NULL ? cfg->no_proxy : "");
}

static CURLcode no_keylog(CURL *c, void *ssl_ctx, void *arg)
{
	CURL *(*in_libcurl)(void) = curl_easy_init;
	const void *at;

	(void)c;
	(void)arg;
	memcpy(&at, &in_libcurl, sizeof(at));
	sp_keylog_off(ssl_ctx, at);
	return CURLE_OK;
}

static void set_tls(const struct sp_config *cfg, CURL *c)
{
	curl_easy_setopt(c, CURLOPT_SSL_CTX_FUNCTION, no_keylog);
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, cfg->tls_insecure ? 0L : 1L);
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, cfg->tls_insecure ? 0L : 2L);
	if (cfg->tls_ca_file != NULL) {
		curl_easy_setopt(c, CURLOPT_CAINFO, cfg->tls_ca_file);
		curl_easy_setopt(c, CURLOPT_CAPATH, NULL);
	}
	if (cfg->tls_cert_file == NULL)
		return;
	curl_easy_setopt(c, CURLOPT_SSLCERT, cfg->tls_cert_file);
	curl_easy_setopt(c, CURLOPT_SSLKEY,
			 cfg->tls_key_file != NULL ? cfg->tls_key_file : cfg->tls_cert_file);
	/* Without one OpenSSL would ask for the pass phrase of a key on the host's terminal. */
	curl_easy_setopt(c, CURLOPT_KEYPASSWD, "");
}

static void set_answer(CURL *c, struct transfer *t)
{
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, keep_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, see_header);
	curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->error);
	/* What a proxy answers to CONNECT is no answer of the server. */
	curl_easy_setopt(c, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	/* Whoever is named by a redirect must not get the profile, nor the credentials. */
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
}

static void set_connection(const struct sp_http *h, CURL *c, uint32_t timeout_ms)
{
	long timeout = timeout_ms != 0 ? (long)timeout_ms : 1;

	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, timeout);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, timeout);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(c, CURLOPT_FORBID_REUSE, 1L);
	if (h->address.socket != NULL)
		curl_easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, h->address.socket);
	/* No alarm(), no SIGPIPE handler: signals are the host's. */
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	/* Do not wait for a name lookup that hangs when the time is up. */
	curl_easy_setopt(c, CURLOPT_QUICK_EXIT, 1L);
	set_proxy(h, c);
	set_tls(h->config, c);
}

static void set_request(const struct sp_http *h, CURL *c, const struct sp_bytes *body,
			struct transfer *t)
{
	const char *user = sp_credentials_user(&h->credentials);

	curl_easy_setopt(c, CURLOPT_URL, t->url);
	curl_easy_setopt(c, CURLOPT_POST, 1L);
	curl_easy_setopt(c, CURLOPT_POSTFIELDS, (const char *)body->data);
	curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body->len);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, t->headers);
	curl_easy_setopt(c, CURLOPT_USERAGENT, h->agent);
	if (user == NULL)
		return;
	curl_easy_setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
	curl_easy_setopt(c, CURLOPT_USERNAME, user);
	curl_easy_setopt(c, CURLOPT_PASSWORD, sp_credentials_password(&h->credentials));
}

static void say(struct sp_reply *reply, const char *text)
{
	reply->text_len = (size_t)snprintf(reply->text, sizeof(reply->text), "%.255s", text);
}

static void read_date(struct transfer *t)
{
	struct sp_reply *reply = t->reply;
	time_t server = t->date[0] != '\0' ? curl_getdate(t->date, NULL) : -1;

	reply->answered_ms = sp_clock_real_ns() / (int64_t)SP_NS_PER_MS;
	if (server < 0)
		return;
	reply->has_skew = true;
	reply->skew_ms = (int64_t)server * 1000 + SP_HTTP_DATE_HALF_MS - reply->answered_ms;
}

/*
 * libcurl quotes the proxy's address, or what it takes for parts of it, password and all ("Unsupported
 * proxy syntax in ..."): then its general words have to do. An address that was cut may have lost the
 * "@" by which the rest of it is recognised.
 */
static void say_trouble(const struct sp_http *h, CURL *c, CURLcode rc, struct transfer *t)
{
	bool quotes = strpbrk(proxy_of(h), "@?") != NULL ||
		      (strchr(h->address.base, '@') != NULL && strstr(t->error, "://") != NULL);
	char proxy[48] = "";
	long connect = 0;
	char text[200];

	if (t->error[0] != '\0' && !quotes) {
		sp_redact(t->error);
		say(t->reply, t->error);
		return;
	}
	if (c != NULL)
		curl_easy_getinfo(c, CURLINFO_HTTP_CONNECTCODE, &connect);
	if (connect != 0)
		(void)snprintf(proxy, sizeof(proxy), "the proxy answered %ld: ", connect);
	(void)snprintf(text, sizeof(text), "%s%s", proxy, curl_easy_strerror(rc));
	say(t->reply, text);
}

static void say_redirect(CURL *c, struct sp_reply *reply)
{
	char *url = NULL;
	char *shown;
	char text[200];

	curl_easy_getinfo(c, CURLINFO_REDIRECT_URL, &url);
	shown = url != NULL ? strdup(url) : NULL;
	if (shown == NULL)
		return;
	/* Before it is cut. What it leads to may hold our own user information. */
	sp_redact(shown);
	(void)snprintf(text, sizeof(text), "redirects are not followed, this one names %.120s",
		       shown);
	say(reply, text);
	free(shown);
}

/*
 * The rest of an answer that never ends, or drips until the time is up, is of no interest: its head
 * says what became of the profile, which must not be sent twice.
 */
static bool has_answer(const struct transfer *t, CURLcode rc, long status)
{
	return rc == CURLE_OK || (t->answered && status >= SP_HTTP_FINAL &&
				  (rc == CURLE_WRITE_ERROR || rc == CURLE_OPERATION_TIMEDOUT));
}

static void read_result(const struct sp_http *h, CURL *c, CURLcode rc, struct transfer *t)
{
	struct sp_reply *reply = t->reply;
	curl_off_t retry_after = 0;
	long status = 0;

	if (c != NULL)
		curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
	reply->kind = SP_REPLY_UNREACHABLE;
	if (!has_answer(t, rc, status)) {
		say_trouble(h, c, rc, t);
		return;
	}
	/* libcurl takes any number, also one that overflows, from a server that claims HTTP/2. */
	if (status < SP_HTTP_FINAL || status > SP_HTTP_LAST) {
		say(reply, "the answer has no status that HTTP knows");
		return;
	}
	curl_easy_getinfo(c, CURLINFO_RETRY_AFTER, &retry_after);
	reply->kind = SP_REPLY_STATUS;
	reply->status = (int)status;
	reply->retry_after_s = retry_after < 0       ? 0
			       : retry_after > 86400 ? 86400
						     : (uint32_t)retry_after;
	read_date(t);
	/* A server, or a proxy before it, may quote what it was asked for. */
	reply->text_len = sp_redact_bytes(reply->text, reply->text_len);
	if (status >= 300 && status < 400)
		say_redirect(c, reply);
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

static void transfer(const struct sp_http *h, const struct sp_bytes *body, uint32_t timeout_ms,
		     struct transfer *t)
{
	CURLcode rc = CURLE_OUT_OF_MEMORY;
	CURL *easy = curl_easy_init();
	CURLM *multi = curl_multi_init();
	bool finished = true;

	if (easy != NULL && multi != NULL && t->url != NULL && !t->nomem) {
		set_connection(h, easy, timeout_ms);
		set_request(h, easy, body, t);
		set_answer(easy, t);
		curl_multi_add_handle(multi, easy);
		finished = drive(h, multi, &rc);
		read_result(h, easy, rc, t);
		curl_multi_remove_handle(multi, easy);
		/* Buffers of ours must not be written to by what clean-up does. */
		curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, NULL);
	} else {
		read_result(h, easy, rc, t);
	}
	if (!finished)
		t->reply->kind = SP_REPLY_ABORTED;
	curl_easy_cleanup(easy);
	curl_multi_cleanup(multi);
}

void sp_http_post(void *http, const struct sp_message *message, uint32_t timeout_ms,
		  struct sp_reply *reply)
{
	struct sp_http *h = http;
	struct transfer t = {.reply = reply};

	memset(reply, 0, sizeof(*reply));
	sp_credentials_refresh(&h->credentials);
	add_headers(h, &t);
	if (asprintf(&t.url, "%s%s%s", h->address.base,
		     h->config->protocol == SP_PROTOCOL_PUSH ? SP_HTTP_PUSH : SP_HTTP_INGEST,
		     message->query != NULL ? message->query : "") < 0)
		t.url = NULL;
	transfer(h, &message->body, timeout_ms, &t);
	curl_slist_free_all(t.headers);
	free(t.url);
}
