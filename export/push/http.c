/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server's address, requests to the server, and their answers. Transfers use libcurl's multi
 * interface, so no thread waits for one. Each request has its own connection: a server may close a
 * kept connection while a request is on its way, and then nobody knows whether it took the request.
 *
 * Answers of servers and variables of the environment are not trusted, and may quote secrets. Their
 * text is shown only after secrets were removed. Context: the exporter.
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
 * A proxy of the environment is meant for other hosts, and cannot reach a server on this host.
 * libcurl parses the host name here, too: if we parsed it differently, the address of a foreign
 * host could pass as local.
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

/* A host name may have several addresses; libcurl tries them side by side. */
#define SOCKETS 4U

struct transfer {
	CURL *easy;
	char *url;
	struct curl_slist *headers;
	uint64_t begun_ns;
	uint32_t timeout_ms;
	struct sp_bytes body; /* of the message */
	size_t given;         /* bytes of the body that libcurl has taken */
	bool waits;           /* the body is held back, see give_body() */
	uint64_t waits_until_ns;
	/* the last sockets opened for it; libcurl may have closed them, or use one of them */
	int socket[SOCKETS];
	unsigned sockets;
	size_t received;
	bool has_begun; /* a first byte of an answer has come */
	bool answered;  /* the head of the answer is complete */
	bool ended;
	CURLcode rc; /* how it ended */
	bool nomem;
	char refused[200]; /* why the request cannot be made; "" = out of memory */
	struct sp_tls_files files;
	char date[64]; /* the header's value, "" = none */
	char error[CURL_ERROR_SIZE];
	struct sp_reply reply;
};

/* Servers whose transfers sp_http_wait() waits for. */
struct group {
	CURLM *multi; /* of all transfers; NULL = none has begun yet */
	struct sp_http *member[SP_SERVERS_MAX];
	unsigned n;
};

struct sp_http {
	struct group *group;
	const struct sp_config *config;
	struct sp_http_hooks hooks;
	struct sp_address address;
	struct sp_credentials credentials;
	char agent[64];
	bool warned_plain;
	struct {
		bool used;
		struct transfer *transfer; /* NULL = there was no memory for the transfer */
	} slot[SP_TRANSFERS];
	unsigned used; /* slots */
};

#define PATH_PUSH "/push.v1.PusherService/Push"
#define PATH_INGEST "/ingest"
#define PATH_OTLP "/v1development/profiles"

/*
 * libcurl is loaded at run time, so it may be newer or older than its headers. It returns an error
 * for an option that it does not know.
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

/* Whether the head of a request says that its body is packed. */
static bool is_packed(const struct sp_config *config)
{
	return config->protocol == SP_PROTOCOL_PUSH ||
	       (config->protocol == SP_PROTOCOL_OTLP && config->compression == SP_COMPRESSION_GZIP);
}

static void add_headers(struct sp_http *h, struct transfer *t)
{
	static const char *const otlp_type[] = {
		[SP_OTLP_HTTP_PROTOBUF] = "Content-Type: application/x-protobuf",
	};

	if (h->config->protocol == SP_PROTOCOL_PUSH) {
		add_header(t, "Content-Type: application/proto");
		add_header(t, "Connect-Protocol-Version: 1");
	} else if (h->config->protocol == SP_PROTOCOL_OTLP) {
		add_header(t, otlp_type[h->config->otlp_protocol]);
	} else {
		/*
		 * /ingest does not support Content-Encoding, but recognises a compressed profile.
		 */
		add_header(t, "Content-Type: application/octet-stream");
	}
	if (is_packed(h->config))
		add_header(t, "Content-Encoding: gzip");
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

/* Opens a socket that no executed program inherits, and remembers it. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *addr)
{
	struct transfer *t = arg;
	int fd = socket(addr->family, addr->socktype | SOCK_CLOEXEC, addr->protocol);

	(void)purpose;
	t->socket[t->sockets++ % SOCKETS] = fd;
	return fd;
}

/* Both options are always set, so libcurl does not read the environment. */
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
 * False if the TLS library of this libcurl cannot take the files. Then nothing is sent, because the
 * defaults would trust other certificates.
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

static void set_connection(const struct sp_http *h, CURL *c, struct transfer *t)
{
	long timeout = t->timeout_ms != 0 ? (long)t->timeout_ms : 1;

	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, timeout);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, t);
	curl_easy_setopt(c, CURLOPT_FRESH_CONNECT, 1L);
	curl_easy_setopt(c, CURLOPT_FORBID_REUSE, 1L);
	if (h->address.socket != NULL)
		curl_easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, h->address.socket);
	/* libcurl must not use signals. */
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	/* A name lookup that hangs must not delay us beyond the timeout. */
	curl_easy_setopt(c, CURLOPT_QUICK_EXIT, 1L);
	set_proxy(h, c);
	set_tls(h->config, c);
}

/*
 * The pause between the head of a request and its body: this and two round trips, at most
 * WAIT_MAX_NS.
 */
#define WAIT_NS (20 * SP_NS_PER_MS)
#define WAIT_MAX_NS (300 * SP_NS_PER_MS)
#define WAIT_STEP_MS 10

static uint64_t first_wait_ns(const struct transfer *t)
{
	curl_off_t looked_up = 0;
	curl_off_t connected = 0;
	uint64_t ns;

	curl_easy_getinfo(t->easy, CURLINFO_NAMELOOKUP_TIME_T, &looked_up);
	curl_easy_getinfo(t->easy, CURLINFO_CONNECT_TIME_T, &connected);
	ns = connected > looked_up ? (uint64_t)(connected - looked_up) * 2000 : 0;
	return ns < WAIT_MAX_NS - WAIT_NS ? WAIT_NS + ns : WAIT_MAX_NS;
}

/*
 * Gives libcurl a piece of the body. If a server refuses a stream, or a proxy asks for credentials,
 * libcurl may send a request again, although the server may have it. So libcurl gets the body once,
 * and has no means to start over.
 *
 * A forwarder of layer 4 without a server behind it accepts a connection and closes it at once. So
 * the body goes out after a pause: if the connection ends before that, nothing was taken, and
 * nothing is lost. With TLS no pause is needed, because the handshake proves that a server is
 * there.
 */
static size_t give_body(char *to, size_t size, size_t n, void *arg)
{
	struct transfer *t = arg;
	size_t left = t->body.len - t->given;
	size_t len = size * n < left ? size * n : left;

	if (t->waits) {
		if (t->waits_until_ns == 0)
			t->waits_until_ns = sp_clock_mono_ns() + first_wait_ns(t);
		return CURL_READFUNC_PAUSE;
	}
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

/* The path to append to the address, from which slashes at the end were removed. */
static const char *path_of(const struct sp_config *config)
{
	size_t len = strlen(config->server_address);

	if (config->server_path)
		return config->server_address[len - 1] == '/' ? "/" : "";
	if (config->protocol == SP_PROTOCOL_OTLP)
		return PATH_OTLP;
	return config->protocol == SP_PROTOCOL_PUSH ? PATH_PUSH : PATH_INGEST;
}

/* An empty file in gzip's format: the body of an empty push. */
static uint8_t packed_nothing[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3,
				   3,    0,    0, 0, 0, 0, 0, 0, 0, 0};

/* Sets all options of the request. False: the request cannot be made, t->refused says why. */
static bool set_all(struct sp_http *h, struct transfer *t, const struct sp_message *message)
{
	add_headers(h, t);
	if (asprintf(&t->url, "%s%s%s", h->address.base, path_of(h->config),
		     message != NULL && message->query != NULL ? message->query : "") < 0)
		t->url = NULL;
	if (t->url == NULL || t->nomem)
		return false;
	t->waits = message != NULL && !h->address.tls && h->address.socket == NULL;
	if (message != NULL)
		t->body = message->body;
	else if (is_packed(h->config))
		t->body = (struct sp_bytes){packed_nothing, sizeof(packed_nothing)};
	set_connection(h, t->easy, t);
	set_request(h, t->easy, t);
	/* If the files cannot be read, nothing is sent: the defaults would trust other servers. */
	if (h->address.tls &&
	    sp_tls_files_read(&t->files, h->config, t->refused, sizeof(t->refused)) != 0)
		return false;
	if (set_tls_files(t->easy, &t->files))
		return true;
	(void)snprintf(t->refused, sizeof(t->refused), "%s",
		       curl_easy_strerror(CURLE_NOT_BUILT_IN));
	return false;
}

#define BODY_MAX ((size_t)4 << 20) /* no more is read */
#define FINAL 200                  /* a lower status announces another answer */
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
 * Recognises the end of the answer's head, which is an empty line, and keeps the Date header. "100
 * Continue" has an empty line as well; the next status line undoes it. Lines after a body are not
 * part of the head. curl_easy_header() does the same, but libcurl has it only since 7.83.
 */
// NOLINTNEXTLINE(readability-non-const-parameter): libcurl's type
static size_t see_header(char *data, size_t size, size_t n, void *arg)
{
	static const char name[] = "Date:";
	struct transfer *t = arg;
	size_t len = size * n;

	t->has_begun = true;
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

/* Sets the options, before the transfer, that keep the answer. */
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
 * Puts libcurl's error into the reply. Its detailed message may quote the proxy's address, or a
 * part of it, with the password ("Unsupported proxy syntax in ..."). If there is such an address,
 * only the general message is used. An address that was cut may have lost the "@" by which the rest
 * of it is recognised.
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
	/* Redacted before it is cut: the target may contain our own user information. */
	sp_redact(shown);
	(void)snprintf(text, sizeof(text), "redirects are not followed, this one names %.120s",
		       shown);
	say(reply, text);
	free(shown);
}

/*
 * Whether the server has answered. Only the head of an answer counts, even if the body never ends,
 * breaks off or comes too slowly: the head says whether the profile was taken, which must not be
 * sent twice.
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

/*
 * Reads an answer of OTLP, which is in protobuf. A proxy's answer is not; its text stays as it is.
 */
static void read_otlp(struct transfer *t)
{
	struct sp_reply *reply = &t->reply;
	bool is_good = reply->status < 300;
	char text[SP_REPLY_BODY];
	char *type = NULL;

	curl_easy_getinfo(t->easy, CURLINFO_CONTENT_TYPE, &type);
	if ((type == NULL || strstr(type, "protobuf") == NULL) && !is_good)
		return;
	if (!sp_otlp_answer(reply->text, reply->text_len, is_good, &reply->rejected, text,
			    sizeof(text)))
		text[0] = '\0';
	say(reply, text);
}

/* The transfer has ended with rc: makes t->reply from the answer that was kept. */
static void read_answer(const struct sp_http *h, struct transfer *t, CURLcode rc)
{
	struct sp_reply *reply = &t->reply;
	curl_off_t retry_after = 0;
	curl_off_t sent = 0;
	long status = 0;
	char *type = NULL;

	curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(t->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
	reply->kind = rc == CURLE_ABORTED_BY_CALLBACK ? SP_REPLY_ABORTED : SP_REPLY_UNREACHABLE;
	if (!has_answer(t, rc, status)) {
		/* After this error libcurl's count of sent bytes is no longer right. */
		if (rc == CURLE_SEND_FAIL_REWIND)
			sent = (curl_off_t)t->given;
		/*
		 * With TLS 1.3 a server refuses our certificate only after we have sent the
		 * request.
		 */
		reply->sent = (size_t)sent >= t->body.len && !is_no_http(rc) &&
			      (t->has_begun || !sp_reply_is_alert(t->error));
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
	reply->is_otlp = h->config->protocol == SP_PROTOCOL_OTLP;
	read_date(t);
	if (sp_reply_good(reply)) {
		curl_easy_getinfo(t->easy, CURLINFO_CONTENT_TYPE, &type);
		reply->is_foreign = sp_reply_shows_foreigner(
			reply, type, h->config->protocol == SP_PROTOCOL_PUSH);
	}
	if (reply->is_otlp && !reply->is_foreign)
		read_otlp(t);
	/* A server or a proxy may quote the request. */
	reply->text_len = sp_redact_bytes(reply->text, reply->text_len);
	if (status >= 300 && status < 400)
		say_redirect(t->easy, reply);
}

/*
 * Warns once if secrets go over plain http, where others can read them. Called again before each
 * request, because secrets in files may have changed.
 */
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
	if (t->easy != NULL && h->group->multi != NULL)
		curl_multi_remove_handle(h->group->multi, t->easy);
	/* Clean-up must not write into our buffer. */
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
	h->group = calloc(1, sizeof(*h->group));
	if (h->group == NULL) {
		free(h);
		return -ENOMEM;
	}
	h->group->member[h->group->n++] = h;
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

static void leave_group(struct sp_http *h)
{
	struct group *g = h->group;
	unsigned i = 0;

	while (g->member[i] != h)
		i++;
	g->member[i] = g->member[--g->n];
	if (g->n != 0)
		return;
	if (g->multi != NULL)
		curl_multi_cleanup(g->multi);
	free(g);
}

void sp_http_join(struct sp_http *h, struct sp_http *other)
{
	leave_group(h);
	h->group = other->group;
	h->group->member[h->group->n++] = h;
}

void sp_http_free(struct sp_http *h)
{
	if (h == NULL)
		return;
	for (unsigned slot = 0; slot < SP_TRANSFERS; slot++)
		end(h, slot);
	leave_group(h);
	sp_credentials_fini(&h->credentials);
	sp_address_fini(&h->address);
	free(h);
}

const char *sp_http_shown(const struct sp_http *h)
{
	return h->address.shown;
}

static long port_of(int fd)
{
	struct sockaddr_storage address = {.ss_family = AF_UNSPEC};
	socklen_t len = sizeof(address);

	if (fd < 0 || getsockname(fd, (struct sockaddr *)&address, &len) != 0)
		return -1;
	if (address.ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)&address)->sin6_port);
	return address.ss_family == AF_INET
		       ? ntohs(((const struct sockaddr_in *)&address)->sin_port)
		       : -1;
}

/*
 * Whether the other side has closed the connection in use. libcurl does not check that while a
 * request is paused before its body.
 */
static bool is_closed(const struct transfer *t)
{
	long port = 0;

	curl_easy_getinfo(t->easy, CURLINFO_LOCAL_PORT, &port);
	for (unsigned i = 0; i < SOCKETS && i < t->sockets; i++) {
		ssize_t got;
		char byte;

		if (port == 0 || port_of(t->socket[i]) != port)
			continue;
		got = recv(t->socket[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT);
		return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
	}
	return false;
}

/* Sends the bodies whose pause is over, unless the connection was closed meanwhile. */
static void send_bodies(struct sp_http *h)
{
	uint64_t now = sp_clock_mono_ns();

	for (unsigned i = 0; i < SP_TRANSFERS; i++) {
		struct transfer *t = h->slot[i].transfer;

		if (t == NULL || t->ended || !t->waits || t->waits_until_ns == 0 ||
		    now < t->waits_until_ns)
			continue;
		t->waits = false;
		if (is_closed(t)) {
			t->ended = true;
			t->rc = CURLE_SEND_ERROR;
			(void)snprintf(t->error, sizeof(t->error), "%s",
				       curl_easy_strerror(CURLE_GOT_NOTHING));
		} else {
			(void)curl_easy_pause(t->easy, CURLPAUSE_CONT);
		}
	}
}

static void go_on(struct sp_http *h)
{
	CURLM *multi = h->group->multi;
	int running = 0;
	int left;

	if (multi == NULL)
		return;
	send_bodies(h);
	if (curl_multi_perform(multi, &running) != CURLM_OK)
		for (unsigned i = 0; i < SP_TRANSFERS; i++)
			if (h->slot[i].transfer != NULL)
				h->slot[i].transfer->ended = true;
	/* Some of these transfers may belong to other servers of the group. */
	for (CURLMsg *msg; (msg = curl_multi_info_read(multi, &left)) != NULL;) {
		CURLcode rc = msg->data.result;
		struct transfer *t = NULL;

		if (msg->msg != CURLMSG_DONE)
			continue;
		curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, &t);
		t->ended = true;
		t->rc = rc;
	}
}

/*
 * Loads libcurl and makes its handles. False: this failed; t->refused has the reason, or there is
 * no memory.
 */
static bool get_handles(struct sp_http *h, struct transfer *t)
{
	const char *why = sp_libcurl_load();

	if (why != NULL) {
		(void)snprintf(t->refused, sizeof(t->refused), "%s", why);
		return false;
	}
	if (h->group->multi == NULL)
		h->group->multi = curl_multi_init();
	t->easy = curl_easy_init();
	t->begun_ns = sp_clock_mono_ns();
	return t->easy != NULL && h->group->multi != NULL;
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
	curl_easy_setopt(t->easy, CURLOPT_PRIVATE, t);
	keep_answer(t);
	t->nomem = curl_multi_add_handle(h->group->multi, t->easy) != CURLM_OK;
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
 * Whether the timeout of the transfer has passed. Called only after libcurl has read everything
 * that has arrived: the thread may have been busy elsewhere, while an answer came in time.
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

/* How long to sleep for one server of the group, at most `most`. */
static int longest_ms(const struct sp_http *h, int most)
{
	unsigned slot;

	for (slot = 0; slot < SP_TRANSFERS; slot++)
		if (h->slot[slot].transfer != NULL && h->slot[slot].transfer->waits &&
		    h->slot[slot].transfer->waits_until_ns != 0)
			most = most < WAIT_STEP_MS ? most : WAIT_STEP_MS;
	/*
	 * If a transfer ended before this call, no descriptor becomes ready for it, so do not
	 * sleep.
	 */
	return find(h, has_ended, &slot) ? 0 : most;
}

void sp_http_wait(struct sp_http *h, int wake, uint32_t wait_ms)
{
	bool had = sp_turn_set(false);
	const struct group *g = h != NULL ? h->group : NULL;
	int most = wait_ms < INT32_MAX ? (int)wait_ms : INT32_MAX;
	unsigned used = 0;

	for (unsigned i = 0; g != NULL && i < g->n; i++) {
		most = longest_ms(g->member[i], most);
		used += g->member[i]->used;
	}
	if (used != 0 && g->multi != NULL) {
		struct curl_waitfd either = {.fd = wake, .events = CURL_WAIT_POLLIN};

		(void)curl_multi_poll(g->multi, &either, 1, most, NULL);
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
