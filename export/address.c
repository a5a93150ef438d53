/* SPDX-License-Identifier: Apache-2.0 */
/* The server's address, checked once. Context: the exporter, at start. Callers: http.c, status.c. */
#include "export/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include "export/redact.h"

#define SP_UNIX "unix://"

/* Of which all are this host: four numbers of at most three digits, the first of them 127. */
static bool is_loopback(const char *host, size_t len)
{
	struct in_addr address;
	char text[INET_ADDRSTRLEN];

	if (len >= sizeof(text))
		return false;
	memcpy(text, host, len);
	text[len] = '\0';
	return inet_pton(AF_INET, text, &address) == 1 && ntohl(address.s_addr) >> 24 == 127;
}

/* A proxy of the environment is for other hosts, and cannot reach this one's own server. */
static bool is_local(const char *host)
{
	static const char *const local[] = {"localhost", "[::1]"};
	size_t len = host[0] == '[' ? strcspn(host, "]/") + 1 : strcspn(host, ":/");

	for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
		if (len == strlen(local[i]) && strncasecmp(host, local[i], len) == 0)
			return true;
	return is_loopback(host, len);
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
	out->local = true;
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
	host = strstr(out->base, "://") + 3;
	/* The last @ before the path: a password may hold one as well. */
	for (const char *at = host; *at != '\0' && *at != '/'; at++)
		if (*at == '@')
			host = at + 1;
	out->local = is_local(host);
	if (asprintf(&out->shown, "%s%s", out->tls ? "https" : "http", strstr(out->base, "://")) <
	    0)
		out->shown = NULL;
	/* A password with a "/" in it ends the host for libcurl, and must not be shown for all that. */
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
