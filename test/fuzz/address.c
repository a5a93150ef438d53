/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes SPANPROF_SERVER_ADDRESS after the configuration has accepted it: the loggable form has no user information,
 * and only this host's names count as local, for which no proxy is used.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <strings.h>

#include "export/push/http.h"
#include "test/fuzz/fuzz.h"

/* The host of a URL by RFC 3986, without the port; false if it has none, or it is ambiguous. */
static bool host_of(const char *url, char *out, size_t cap)
{
	const char *s = strstr(url, "://");
	const char *end;
	size_t len;

	if (s == NULL)
		return false;
	/* libcurl accepts one slash or three in place of two. */
	s += 1 + strspn(s + 1, "/");
	end = s + strcspn(s, "/");
	for (const char *at = s; at < end; at++) {
		/* With a second one, readers of the URL may differ. */
		if (*at == '@' && memchr(at + 1, '@', (size_t)(end - at - 1)) != NULL)
			return false;
		if (*at == '@')
			s = at + 1;
	}
	len = *s == '[' ? strcspn(s, "]/") + 1 : strcspn(s, ":/");
	if (len >= cap || s + len > end)
		return false;
	memcpy(out, s, len);
	out[len] = '\0';
	return true;
}

static bool names_this_host(const char *host)
{
	struct in6_addr six = {0};
	struct in_addr four;
	char text[64];

	/* An encoded name would have to be decoded before a comparison. */
	if (strcasecmp(host, "localhost") == 0 || strchr(host, '%') != NULL)
		return true;
	if (sscanf(host, "[%63[^]]]", text) == 1)
		return inet_pton(AF_INET6, text, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
	return inet_aton(host, &four) != 0 && ntohl(four.s_addr) >> 24 == 127;
}

static void check(const char *text, const struct sp_address *a)
{
	char host[256];
	const char *path;

	FUZZ_CHECK(a->base != NULL && a->shown != NULL);
	FUZZ_CHECK(strncasecmp(a->base, a->tls ? "https://" : "http://", a->tls ? 8 : 7) == 0);
	if (a->socket != NULL) {
		FUZZ_CHECK(a->socket[0] == '/' && sp_address_is_local(a) &&
			   strstr(text, a->socket) != NULL);
		return;
	}
	FUZZ_CHECK(strpbrk(a->base, "?# \t\r\n") == NULL);
	path = strchr(strstr(a->shown, "://") + 3, '/');
	FUZZ_CHECK(memchr(a->shown, '@',
			  path != NULL ? (size_t)(path - a->shown) : strlen(a->shown)) == NULL);
	if (sp_address_is_local(a) && host_of(a->base, host, sizeof(host)))
		FUZZ_CHECK(names_this_host(host));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = fuzz_text(&data, &size);
	const char *why = NULL;
	struct sp_address a;
	int err = sp_address_parse(text, &a, &why);

	FUZZ_CHECK(err == 0 || err == -EINVAL);
	FUZZ_CHECK((err == 0) == (why == NULL));
	if (err == 0)
		check(text, &a);
	else
		FUZZ_CHECK(a.base == NULL && a.shown == NULL && a.socket == NULL);
	sp_address_fini(&a);
	free(text);
	return 0;
}
