/* SPDX-License-Identifier: Apache-2.0 */
/* Interprets answers of a server (reply.h). Context: the exporter. */
#define _GNU_SOURCE
#include "export/push/reply.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "export/util/log.h"

#define SP_REPLY_SHOWN 300

bool sp_reply_good(const struct sp_reply *r)
{
	return r->kind == SP_REPLY_STATUS && r->status >= 200 && r->status < 300;
}

bool sp_reply_unknown(const struct sp_reply *r)
{
	return r->kind != SP_REPLY_STATUS && r->sent;
}

static bool says(const struct sp_reply *r, const char *words)
{
	size_t len = strlen(words);

	for (size_t i = 0; i + len <= r->text_len; i++)
		if (strncasecmp(r->text + i, words, len) == 0)
			return true;
	return false;
}

/*
 * Only the status 413 is clear by itself. Pyroscope's push answers 400 for all that it refuses and
 * its /ingest 422, and a proxy may answer 429 or 500 if gRPC's limit for a message is exceeded. So
 * the words decide: those of Pyroscope 1 and 2, grpc-go and connect-go. A limit of labels in a
 * sample does not count: it applies to every part.
 */
bool sp_reply_too_large(const struct sp_reply *r)
{
	static const char *const words[] = {
		"too large",
		"larger than",
		"size exceeds",
		"exceeds the size limit",
		"samples count limit",
		"max_profile_stacktrace_samples",
		"MaxBytesReader limit",
	};

	if (r->kind != SP_REPLY_STATUS || r->status < 400)
		return false;
	if (r->status == 413)
		return true;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (says(r, words[i]))
			return true;
	return false;
}

bool sp_reply_limited(const struct sp_reply *r)
{
	return r->kind == SP_REPLY_STATUS && r->status == 429;
}

bool sp_reply_again(const struct sp_reply *r)
{
	return r->kind == SP_REPLY_UNREACHABLE || r->status == 429 || r->status >= 500;
}

void sp_reply_describe(const struct sp_reply *r, char *out, size_t cap)
{
	char text[SP_REPLY_SHOWN];

	sp_export_log_clean(text, sizeof(text), r->text, r->text_len);
	if (r->kind == SP_REPLY_STATUS)
		(void)snprintf(out, cap, "status %d%s%s", r->status, text[0] != '\0' ? ": " : "",
			       text);
	else
		(void)snprintf(out, cap, "%s", text);
}
