/* SPDX-License-Identifier: Apache-2.0 */
/* Sets the options of a transfer. Context: the exporter. */
#define _GNU_SOURCE
#include "export/push/http_transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define SP_HTTP_PUSH "/push.v1.PusherService/Push"
#define SP_HTTP_INGEST "/ingest"

/*
 * The library is loaded at run time, so it may know options that the headers do not, and the other way
 * round: it refuses those that it does not know.
 */
#if LIBCURL_VERSION_NUM < CURL_VERSION_BITS(7, 65, 0)
#define CURLOPT_MAXAGE_CONN ((CURLoption)(CURLOPTTYPE_LONG + 288))
#endif
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
	struct sp_http_transfer *t = arg;
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

static void add_headers(struct sp_http *h, struct sp_http_transfer *t)
{
	if (h->config->protocol == SP_PROTOCOL_PUSH) {
		add_header(t, "Content-Type: application/proto");
		add_header(t, "Content-Encoding: gzip");
		add_header(t, "Connect-Protocol-Version: 1");
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

const char *sp_http_proxy(const struct sp_http *h)
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

	curl_easy_setopt(c, CURLOPT_PROXY, sp_http_proxy(h));
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
	curl_easy_setopt(c, CURLOPT_MAXAGE_CONN, (long)SP_HTTP_IDLE_S);
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
	struct sp_http_transfer *t = arg;
	size_t left = t->body.len - t->given;
	size_t len = size * n < left ? size * n : left;

	if (len != 0)
		memcpy(to, t->body.data + t->given, len);
	t->given += len;
	return len;
}

static void set_request(const struct sp_http *h, CURL *c, struct sp_http_transfer *t)
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

bool sp_http_request(struct sp_http *h, struct sp_http_transfer *t,
		     const struct sp_message *message)
{
	add_headers(h, t);
	if (asprintf(&t->url, "%s%s%s", h->address.base,
		     h->config->protocol == SP_PROTOCOL_PUSH ? SP_HTTP_PUSH : SP_HTTP_INGEST,
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
