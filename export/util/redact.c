/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Removes secrets from text. Addresses contain passwords before an "@" and tokens after a "?", and
 * they get into messages: ours, libcurl's, and those of servers that quote the request. Context:
 * the exporter.
 */
#include "export/util/redact.h"

#include <stddef.h>
#include <string.h>

void sp_redact(char *text)
{
	char *url = text;

	while ((url = strstr(url, "://")) != NULL) {
		char *begin = url + 3;
		size_t len = strcspn(begin, " \t\r\n");
		char *host = begin;
		size_t keep;

		/* A password that was not encoded may hold any of "/?#@". */
		for (size_t i = 0; i < len; i++)
			if (begin[i] == '@')
				host = begin + i + 1;
		len -= (size_t)(host - begin);
		keep = strcspn(host, "?# \t\r\n");
		memmove(begin, host, keep);
		memmove(begin + keep, host + len, strlen(host + len) + 1);
		url = begin + keep;
	}
}

size_t sp_redact_bytes(char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] == '\0')
			text[i] = ' ';
	text[len] = '\0';
	sp_redact(text);
	return strlen(text);
}
