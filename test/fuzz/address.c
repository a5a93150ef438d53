/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fuzzes SPANPROF_SERVER_ADDRESS after the configuration has taken it: what may be logged has no user
 * information, and only names of this host are this host, for which no proxy is asked.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <strings.h>

#include "export/address.h"
#include "test/fuzz/fuzz.h"

/* The host of a URL as RFC 3986 has it, without the port; false if it has none. */
static bool host_of(const char *url, char *out, size_t cap)
{
	const char *s = strstr(url, "://");
	const char *end;
	size_t len;

	if (s == NULL)
		return false;
	s += 3;
	end = s + strcspn(s, "/");
	for (const char *at = s; at < end; at++)
		if (*at == '@')
			s = at + 1;
	len = *s == '[' ? strcspn(s, "]/") + 1 : strcspn(s, ":/");
	if (len >= cap || s + len > end)
		return false;
	memcpy(out, s, len);
	out[len] = '\0';
	return true;
}

static bool names_this_host(const char *host)
{
	unsigned n[4];
	char end;

	if (strcasecmp(host, "localhost") == 0 || strcmp(host, "[::1]") == 0)
		return true;
	return sscanf(host, "%3u.%3u.%3u.%3u%c", &n[0], &n[1], &n[2], &n[3], &end) == 4 &&
	       n[0] == 127;
}

static void check(const char *text, const struct sp_address *a)
{
	char host[256];
	const char *path;

	FUZZ_CHECK(a->base != NULL && a->shown != NULL);
	FUZZ_CHECK(strncasecmp(a->base, a->tls ? "https://" : "http://", a->tls ? 8 : 7) == 0);
	if (a->socket != NULL) {
		FUZZ_CHECK(a->socket[0] == '/' && a->local && strstr(text, a->socket) != NULL);
		return;
	}
	FUZZ_CHECK(strpbrk(a->base, "?# \t\r\n") == NULL);
	path = strchr(strstr(a->shown, "://") + 3, '/');
	FUZZ_CHECK(memchr(a->shown, '@',
			  path != NULL ? (size_t)(path - a->shown) : strlen(a->shown)) == NULL);
	if (a->local && host_of(a->base, host, sizeof(host)))
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
