/* SPDX-License-Identifier: Apache-2.0 */
/* Checks and takes apart the server's address, once. Context: the exporter, at start. */
#include "export/push/address.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include "export/push/libcurl.h"
#include "export/util/log.h"

#define SP_UNIX "unix://"

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
	const char *path = text + strlen(SP_UNIX);

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
	err = strncmp(text, SP_UNIX, strlen(SP_UNIX)) == 0 ? parse_socket(text, out, why)
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
