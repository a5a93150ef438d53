/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server: its address, one request to it and what becomes of it, and transfers, by libcurl's multi interface, so
 * that nobody waits for them. Connections stay open for a few seconds, so that processes and types of profiles whose
 * pushes follow each other have one for all.
 *
 * What a server answers and what the environment names is not trusted and may quote secrets: nothing of it is shown
 * before it was looked through for them. Context: the exporter.
 */
#define _GNU_SOURCE
#include "export/push/http.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>

#include "export/profile/otlp.h"
#include "export/push/credentials.h"
#include "export/push/libcurl.h"
#include "export/util/clock.h"
#include "export/util/log.h"
#include "export/util/turn.h"
#include "sampler/base/compiler.h"
#include "sampler/config/config_table.h"

#define UNIX_SCHEME "unix://"

/*
 * A proxy of the environment is meant for other hosts, and cannot reach a server on this host. The
 * host name is read as libcurl will read it: with a reading of our own, somebody could write an
 * address of a foreign host that we take for this one.
 */
static bool is_local(const char *url)
{
	CURLU *u = curl_url();
	char *host = NULL;
	struct in_addr address;
	bool local = false;

	if (u != NULL && curl_url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
	    curl_url_get(u, CURLUPART_HOST, &host, 0) == CURLUE_OK)
		local = strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0 ||
			(inet_pton(AF_INET, host, &address) == 1 &&
			 ntohl(address.s_addr) >> 24 == 127);
	curl_free(host);
	curl_url_cleanup(u);
	return local;
}

bool sp_address_is_local(const struct sp_address *a)
{
	return a->socket != NULL || (sp_libcurl_load() == NULL && is_local(a->base));
}

static int parse_socket(const char *text, struct sp_address *out, const char **why)
{
	const char *path = text + strlen(UNIX_SCHEME);

	if (path[0] != '/')
		*why = "unix:// needs an absolute path";
	else if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
		*why = "the path of the socket is too long";
	if (*why != NULL)
		return -EINVAL;
	out->socket = strdup(path);
	out->shown = strdup(text);
	out->base = strdup("http://localhost");
	return 0;
}

static int parse_url(const char *text, struct sp_address *out, const char **why)
{
	const char *scheme = strstr(text, "://");
	const char *host = scheme != NULL ? scheme + 3 : text;
	size_t len = strlen(text);

	if (scheme != NULL && strncasecmp(text, "http://", 7) != 0 &&
	    strncasecmp(text, "https://", 8) != 0)
		*why = "only http://, https:// and unix:// are possible";
	else if (strpbrk(text, "?# \t\r\n") != NULL)
		*why = "it must not contain a query, a fragment or spaces";
	else if (host[strspn(host, "/")] == '\0')
		*why = "it names no host";
	if (*why != NULL)
		return -EINVAL;
	while (len != 0 && text[len - 1] == '/')
		len--;
	out->tls = scheme != NULL && scheme - text == 5;
	if (asprintf(&out->base, "%s%.*s", scheme != NULL ? "" : "http://", (int)len, text) < 0) {
		out->base = NULL;
		return -ENOMEM;
	}
	if (asprintf(&out->shown, "%s%s", out->tls ? "https" : "http", strstr(out->base, "://")) <
	    0)
		out->shown = NULL;
	/*
	 * A "/" in a password ends the host for libcurl, but the password must not be shown even
	 * then.
	 */
	if (out->shown != NULL)
		sp_redact(out->shown);
	return 0;
}

int sp_address_parse(const char *text, struct sp_address *out, const char **why)
{
	int err;

	memset(out, 0, sizeof(*out));
	*why = NULL;
	err = strncmp(text, UNIX_SCHEME, strlen(UNIX_SCHEME)) == 0 ? parse_socket(text, out, why)
								   : parse_url(text, out, why);
	if (err == 0 && (out->base == NULL || out->shown == NULL))
		err = -ENOMEM;
	if (err != 0)
		sp_address_fini(out);
	return err;
}

void sp_address_fini(struct sp_address *a)
{
	free(a->base);
	free(a->socket);
	free(a->shown);
	memset(a, 0, sizeof(*a));
}

/*
 * So long a connection stays open without a transfer. Servers and proxies close theirs after five seconds or
 * more, and a request that meets the end of its connection counts as lost, as the server may have it.
 */
#define IDLE_S 4

struct transfer {
	CURL *easy;
	char *url;
	struct curl_slist *headers;
	uint64_t begun_ns;
	uint32_t timeout_ms;
	struct sp_bytes body; /* of the message */
	size_t given;         /* bytes of it that libcurl has taken */
	size_t received;
	bool answered; /* the head of the answer is complete */
	bool ended;
	CURLcode rc; /* how it ended */
	bool nomem;
	char refused[200]; /* why it cannot be made; "" = out of memory */
	struct sp_tls_files files;
	char date[64]; /* the header's value, "" = none */
	char error[CURL_ERROR_SIZE];
	struct sp_reply reply;
};

struct sp_http {
	const struct sp_config *config;
	struct sp_http_hooks hooks;
	struct sp_address address;
	struct sp_credentials credentials;
	char agent[64];
	bool warned_plain;
	CURLM *multi;     /* of all transfers and open connections; NULL = there is none */
	uint64_t idle_ns; /* since when there is no transfer */
	struct {
		bool used;
		struct transfer *transfer; /* NULL = there was no memory for it */
	} slot[SP_TRANSFERS];
	unsigned used; /* slots */
};

#define PATH_PUSH "/push.v1.PusherService/Push"
#define PATH_INGEST "/ingest"
#define PATH_OTLP "/v1development/profiles"

/*
 * The library is loaded at run time, so it may know options that the headers do not, and the other way
 * round: it refuses those that it does not know.
 */
#if LIBCURL_VERSION_NUM < CURL_VERSION_BITS(7, 77, 0)
#define CURLOPT_CAINFO_BLOB ((CURLoption)(CURLOPTTYPE_BLOB + 309))
#endif
#if LIBCURL_VERSION_NUM < CURL_VERSION_BITS(7, 85, 0)
#define CURLOPT_PROTOCOLS_STR ((CURLoption)(CURLOPTTYPE_STRINGPOINT + 318))
#endif
#if LIBCURL_VERSION_NUM < CURL_VERSION_BITS(7, 87, 0)
#define CURLOPT_QUICK_EXIT ((CURLoption)(CURLOPTTYPE_LONG + 322))
#endif

/* A later header replaces an earlier one with the same name, so the user's own win. */
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
	static const char *const otlp_type[] = {
		[SP_OTLP_HTTP_PROTOBUF] = "Content-Type: application/x-protobuf",
	};

	if (h->config->protocol == SP_PROTOCOL_PUSH) {
		add_header(t, "Content-Type: application/proto");
		add_header(t, "Content-Encoding: gzip");
		add_header(t, "Connect-Protocol-Version: 1");
	} else if (h->config->protocol == SP_PROTOCOL_OTLP) {
		add_header(t, otlp_type[h->config->otlp_protocol]);
		if (h->config->compression == SP_COMPRESSION_GZIP)
			add_header(t, "Content-Encoding: gzip");
	} else {
		/*
		 * /ingest does not support Content-Encoding, but recognises a compressed profile.
		 */
		add_header(t, "Content-Type: application/octet-stream");
	}
	/*
	 * Without "Expect: 100-continue": some servers and proxies never answer it, which costs a
	 * second in each request.
	 */
	add_header(t, "Expect:");
	sp_credentials_headers(&h->credentials, add_header, t);
}

/* "" = none. */
static const char *proxy_of(const struct sp_http *h)
{
	const struct sp_config *cfg = h->config;
	const char *proxy = h->address.tls ? cfg->https_proxy : cfg->http_proxy;

	if (proxy == NULL)
		proxy = cfg->all_proxy;
	return proxy != NULL && !sp_address_is_local(&h->address) ? proxy : "";
}

/* A program that the host starts meanwhile must not inherit the connection. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *addr)
{
	(void)arg;
	(void)purpose;
	return socket(addr->family, addr->socktype | SOCK_CLOEXEC, addr->protocol);
}

/* Always set, so that libcurl does not read the environment. */
static void set_proxy(const struct sp_http *h, CURL *c)
{
	const struct sp_config *cfg = h->config;

	curl_easy_setopt(c, CURLOPT_PROXY, proxy_of(h));
	curl_easy_setopt(c, CURLOPT_NOPROXY, cfg->no_proxy != NULL ? cfg->no_proxy : "");
}

static void set_tls(const struct sp_config *cfg, CURL *c)
{
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYPEER, cfg->tls_insecure ? 0L : 1L);
	curl_easy_setopt(c, CURLOPT_SSL_VERIFYHOST, cfg->tls_insecure ? 0L : 2L);
}

/* libcurl copies the data. */
static bool set_file(CURL *c, CURLoption option, const struct sp_tls_text *text)
{
	struct curl_blob blob = {text->data, text->len, CURL_BLOB_NOCOPY};

	return text->data == NULL || curl_easy_setopt(c, option, &blob) == CURLE_OK;
}

/*
 * False if the TLS library of this libcurl cannot take them: other certificates must not be used
 * instead.
 */
static bool set_tls_files(CURL *c, const struct sp_tls_files *files)
{
	/* The system's folder of certificates belongs to the system's file. */
	if (files->ca.data != NULL)
		curl_easy_setopt(c, CURLOPT_CAPATH, NULL);
	/* Without a pass phrase OpenSSL would ask for one on the terminal. */
	if (files->key.data != NULL)
		curl_easy_setopt(c, CURLOPT_KEYPASSWD, "");
	return set_file(c, CURLOPT_CAINFO_BLOB, &files->ca) &&
	       set_file(c, CURLOPT_SSLCERT_BLOB, &files->cert) &&
	       set_file(c, CURLOPT_SSLKEY_BLOB, &files->key);
}

static void set_connection(const struct sp_http *h, CURL *c, uint32_t timeout_ms)
{
	long timeout = timeout_ms != 0 ? (long)timeout_ms : 1;

	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, timeout);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(c, CURLOPT_MAXAGE_CONN, (long)IDLE_S);
	if (h->address.socket != NULL)
		curl_easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, h->address.socket);
	/* libcurl shall use no signals. */
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	/* Do not wait for a name lookup that is stuck when the time is over. */
	curl_easy_setopt(c, CURLOPT_QUICK_EXIT, 1L);
	set_proxy(h, c);
	set_tls(h->config, c);
}

/*
 * When a connection that was open already ends without an answer, libcurl sends the request again on another
 * one. But the server may have it. So libcurl is given the body once, and cannot begin it anew.
 */
static size_t give_body(char *to, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;
	size_t left = t->body.len - t->given;
	size_t len = size * n < left ? size * n : left;

	if (len != 0)
		memcpy(to, t->body.data + t->given, len);
	t->given += len;
	return len;
}

static void set_request(const struct sp_http *h, CURL *c, struct transfer *t)
{
	const char *user = sp_credentials_user(&h->credentials);

	curl_easy_setopt(c, CURLOPT_URL, t->url);
	curl_easy_setopt(c, CURLOPT_POST, 1L);
	curl_easy_setopt(c, CURLOPT_READFUNCTION, give_body);
	curl_easy_setopt(c, CURLOPT_READDATA, t);
	curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)t->body.len);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, t->headers);
	curl_easy_setopt(c, CURLOPT_USERAGENT, h->agent);
	if (user == NULL)
		return;
	curl_easy_setopt(c, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
	curl_easy_setopt(c, CURLOPT_USERNAME, user);
	curl_easy_setopt(c, CURLOPT_PASSWORD, sp_credentials_password(&h->credentials));
}

/* What follows the address, which has lost the slashes at its end. */
static const char *path_of(const struct sp_config *config)
{
	size_t len = strlen(config->server_address);

	if (config->server_path)
		return config->server_address[len - 1] == '/' ? "/" : "";
	if (config->protocol == SP_PROTOCOL_OTLP)
		return PATH_OTLP;
	return config->protocol == SP_PROTOCOL_PUSH ? PATH_PUSH : PATH_INGEST;
}

/* Sets all of the request. False when that cannot be, see refused. */
static bool set_all(struct sp_http *h, struct transfer *t, const struct sp_message *message)
{
	add_headers(h, t);
	if (asprintf(&t->url, "%s%s%s", h->address.base, path_of(h->config),
		     message->query != NULL ? message->query : "") < 0)
		t->url = NULL;
	if (t->url == NULL || t->nomem)
		return false;
	t->body = message->body;
	set_connection(h, t->easy, t->timeout_ms);
	set_request(h, t->easy, t);
	/* Never without the files: that would trust other servers than those that they name. */
	if (h->address.tls &&
	    sp_tls_files_read(&t->files, h->config, t->refused, sizeof(t->refused)) != 0)
		return false;
	if (set_tls_files(t->easy, &t->files))
		return true;
	(void)snprintf(t->refused, sizeof(t->refused), "%s",
		       curl_easy_strerror(CURLE_NOT_BUILT_IN));
	return false;
}

#define BODY_MAX ((size_t)4 << 20) /* more than that is not read */
#define FINAL 200                  /* smaller ones announce another answer */
#define LAST 599
#define DATE_HALF_MS 500 /* a Date is cut to whole seconds */

static size_t keep_body(char *data, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;
	size_t len = size * n;
	size_t room = SP_REPLY_BODY - t->reply.text_len;

	t->received += len;
	if (t->received > BODY_MAX)
		return 0;
	if (room > len)
		room = len;
	memcpy(t->reply.text + t->reply.text_len, data, room);
	t->reply.text_len += room;
	return len;
}

/*
 * Notes the empty line after the headers (also that of "100 Continue", which the next status line
 * corrects) and the Date header. What comes behind a body is no head any more.
 * curl_easy_header() would do, but libcurl has it only since 7.83.
 */
// NOLINTNEXTLINE(readability-non-const-parameter): libcurl's type
static size_t see_header(char *data, size_t size, size_t n, void *arg)
{
	static const char name[] = "Date:";
	struct transfer *t = arg;
	size_t len = size * n;

	if (t->answered && (len < 5 || memcmp(data, "HTTP/", 5) != 0))
		return len;
	t->answered = data[0] == '\r' || data[0] == '\n';
	if (len > strlen(name) && len < sizeof(t->date) &&
	    strncasecmp(data, name, strlen(name)) == 0) {
		memcpy(t->date, data + strlen(name), len - strlen(name));
		t->date[len - strlen(name)] = '\0';
	}
	return len;
}

/* Before the transfer: what to keep of the answer. */
static void keep_answer(struct transfer *t)
{
	CURL *c = t->easy;

	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, keep_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, see_header);
	curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->error);
	/* A proxy's answer to CONNECT is not the server's. */
	curl_easy_setopt(c, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	/* Neither profile nor credentials may go to the target of a redirect. */
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
}

static void say(struct sp_reply *reply, const char *text)
{
	reply->text_len = (size_t)snprintf(reply->text, sizeof(reply->text), "%.255s", text);
}

static void read_date(struct transfer *t)
{
	struct sp_reply *reply = &t->reply;
	time_t server = t->date[0] != '\0' ? curl_getdate(t->date, NULL) : -1;

	reply->answered_ms = sp_clock_real_ns() / (int64_t)SP_NS_PER_MS;
	if (server < 0)
		return;
	reply->has_skew = true;
	reply->skew_ms = (int64_t)server * 1000 + DATE_HALF_MS - reply->answered_ms;
}

/*
 * libcurl's detailed message quotes the proxy's address, or a part of it, with the password
 * ("Unsupported proxy syntax in ..."). Then only the general message is used. An address that was
 * cut may have lost the "@" by which the rest of it is recognised.
 */
static void say_trouble(const struct sp_http *h, CURL *c, CURLcode rc, struct transfer *t)
{
	bool quotes = strpbrk(proxy_of(h), "@?") != NULL ||
		      (strchr(h->address.base, '@') != NULL && strstr(t->error, "://") != NULL);
	char proxy[48] = "";
	long connect = 0;
	char text[200];

	if (rc == CURLE_SEND_FAIL_REWIND) {
		say(&t->reply, "the server closed the connection without an answer");
		return;
	}
	if (t->error[0] != '\0' && !quotes) {
		sp_redact(t->error);
		say(&t->reply, t->error);
		return;
	}
	if (c != NULL)
		curl_easy_getinfo(c, CURLINFO_HTTP_CONNECTCODE, &connect);
	if (connect != 0)
		(void)snprintf(proxy, sizeof(proxy), "the proxy answered %ld: ", connect);
	(void)snprintf(text, sizeof(text), "%s%s", proxy, curl_easy_strerror(rc));
	say(&t->reply, text);
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
	/* Before it is cut. The target may contain our own user information. */
	sp_redact(shown);
	(void)snprintf(text, sizeof(text), "redirects are not followed, this one names %.120s",
		       shown);
	say(reply, text);
	free(shown);
}

/*
 * Only the head of an answer counts, even if the rest never ends, breaks off or comes too slowly:
 * it says what became of the profile, which must not be sent twice.
 */
static bool has_answer(const struct transfer *t, CURLcode rc, long status)
{
	return rc == CURLE_OK || (t->answered && status >= FINAL);
}

/* A server of another protocol has not taken the profile. */
static bool is_no_http(CURLcode rc)
{
	return rc == CURLE_UNSUPPORTED_PROTOCOL || rc == CURLE_WEIRD_SERVER_REPLY;
}

/* What OTLP says of a request, and of what is wrong with it, is in protobuf, if it is not a proxy that says so. */
static void read_otlp(struct transfer *t)
{
	struct sp_reply *reply = &t->reply;
	bool is_good = reply->status < 300;
	char text[SP_REPLY_BODY];
	char *type = NULL;

	reply->is_otlp = true;
	curl_easy_getinfo(t->easy, CURLINFO_CONTENT_TYPE, &type);
	if ((type == NULL || strstr(type, "protobuf") == NULL) && !is_good)
		return;
	if (!sp_otlp_answer(reply->text, reply->text_len, is_good, &reply->rejected, text,
			    sizeof(text)))
		text[0] = '\0';
	say(reply, text);
}

/* After the transfer ended with rc: makes t->reply of what was kept. */
static void read_answer(const struct sp_http *h, struct transfer *t, CURLcode rc)
{
	struct sp_reply *reply = &t->reply;
	curl_off_t retry_after = 0;
	curl_off_t sent = 0;
	long status = 0;

	curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(t->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
	reply->kind = rc == CURLE_ABORTED_BY_CALLBACK ? SP_REPLY_ABORTED : SP_REPLY_UNREACHABLE;
	if (!has_answer(t, rc, status)) {
		/* When it ought to begin anew, libcurl has forgotten how much it had sent. */
		if (rc == CURLE_SEND_FAIL_REWIND)
			sent = (curl_off_t)t->given;
		reply->sent = (size_t)sent >= t->body.len && !is_no_http(rc);
		say_trouble(h, t->easy, rc, t);
		return;
	}
	/* libcurl accepts any number, even one that overflows, from a server that claims HTTP/2. */
	if (status < FINAL || status > LAST) {
		reply->kind = SP_REPLY_UNREACHABLE;
		say(reply, "the answer has no valid HTTP status");
		return;
	}
	curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &retry_after);
	reply->kind = SP_REPLY_STATUS;
	reply->status = (int)status;
	reply->retry_after_s = retry_after < 0       ? 0
			       : retry_after > 86400 ? 86400
						     : (uint32_t)retry_after;
	read_date(t);
	if (h->config->protocol == SP_PROTOCOL_OTLP)
		read_otlp(t);
	/* A server or a proxy may quote the request. */
	reply->text_len = sp_redact_bytes(reply->text, reply->text_len);
	if (status >= 300 && status < 400)
		say_redirect(t->easy, reply);
}

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

static void free_transfer(struct sp_http *h, struct transfer *t)
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

uint64_t sp_http_rest(void *http, uint64_t now_ns)
{
	struct sp_http *h = http;
	uint64_t until_ns = h->idle_ns + IDLE_S * SP_NS_PER_S;
	bool had = sp_turn_set(false);

	if (h->used == 0 && now_ns >= until_ns)
		close_connections(h);
	(void)sp_turn_set(had);
	return h->multi != NULL ? until_ns : UINT64_MAX;
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
			struct transfer *t = h->slot[i].transfer;

			if (t == NULL || t->easy != msg->easy_handle)
				continue;
			t->ended = true;
			t->rc = msg->data.result;
		}
}

/* False where libcurl cannot be loaded, see refused, or has no memory. */
static bool get_handles(struct sp_http *h, struct transfer *t)
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
	struct transfer *t = calloc(1, sizeof(*t));

	h->slot[slot].used = true;
	h->slot[slot].transfer = t;
	h->used++;
	if (t == NULL)
		return;
	t->timeout_ms = timeout_ms;
	t->rc = CURLE_FAILED_INIT;
	sp_credentials_refresh(&h->credentials);
	warn_of_readers(h);
	if (!get_handles(h, t) || !set_all(h, t, message)) {
		t->nomem = true;
		return;
	}
	keep_answer(t);
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
	const struct transfer *t = h->slot[slot].transfer;

	return h->slot[slot].used && (t == NULL || t->nomem || t->ended);
}

/*
 * Only after libcurl has read what there is: whoever drives the transfer may have done something else
 * for so long that the answer came in time, and was not looked at.
 */
static bool is_late(const struct sp_http *h, unsigned slot)
{
	struct transfer *t = h->slot[slot].transfer;

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
	struct transfer *t = h->slot[slot].transfer;

	if (t != NULL && !t->nomem) {
		read_answer(h, t, t->rc);
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

bool sp_http_poll(void *http, unsigned *slot, struct sp_reply *reply)
{
	struct sp_http *h = http;
	bool had = sp_turn_set(false);
	bool is_one;

	go_on(h);
	is_one = find(h, has_ended, slot) || find(h, is_late, slot);
	if (is_one)
		finish(h, *slot, reply);
	(void)sp_turn_set(had);
	return is_one;
}

void sp_http_wait(struct sp_http *h, int wake, uint32_t wait_ms)
{
	bool had = sp_turn_set(false);
	int most = wait_ms < INT32_MAX ? (int)wait_ms : INT32_MAX;
	unsigned slot;

	/* What has ended, and nobody has asked for, wakes nobody. */
	if (h != NULL && find(h, has_ended, &slot))
		most = 0;
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
	struct transfer *t = h->slot[slot].transfer;
	bool had = sp_turn_set(false);

	if (t != NULL && !t->ended) {
		t->rc = CURLE_ABORTED_BY_CALLBACK;
		(void)snprintf(t->error, sizeof(t->error), "stopped before an answer came");
	}
	finish(h, slot, reply);
	(void)sp_turn_set(had);
}
