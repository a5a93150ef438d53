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
 * Only the status 413 is clear by itself. Pyroscope's push answers 400 for all that it refuses, a
 * profile over a limit of its tenant among it, and its /ingest 422; a proxy may answer 500 if gRPC's
 * limit for a message is exceeded. So the words decide: those of Pyroscope 1 and 2, grpc-go and
 * connect-go, all of which name the body or the profile. What is too large of something else is so for
 * every part: nginx's "Request Header Or Cookie Too Large", an address, the labels of a sample.
 */
bool sp_reply_too_large(const struct sp_reply *r)
{
	static const char *const words[] = {
		"body too large",         "larger than",         "size exceeds",
		"exceeds the size limit", "samples count limit", "max_profile_stacktrace_samples",
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

/*
 * Besides 429 and 5xx these are answers of the moment as well: a proxy took too long to read (408), a token
 * is being replaced (401, 403), an ingress has lost its way to the server during a rollout (404). Where
 * they last, the message of the failed push says why, and the queue bounds what is kept.
 */
bool sp_reply_again(const struct sp_reply *r)
{
	switch (r->status) {
	case 401:
	case 403:
	case 404:
	case 408:
	case 429:
		return true;
	default:
		return r->kind == SP_REPLY_UNREACHABLE || r->status >= 500;
	}
}

bool sp_reply_soon(const struct sp_reply *r)
{
	return r->kind == SP_REPLY_STATUS &&
	       (r->status == 408 || r->status == 429 || r->status >= 500);
}

static const char *remedy_by_words(const struct sp_reply *r)
{
	static const struct {
		const char *words; /* libcurl's */
		const char *remedy;
	} all[] = {
		{"certificate", "check SPANPROF_TLS_CA_FILE"},
		{"resolve", "check the name in SPANPROF_SERVER_ADDRESS"},
		{"connect", "check SPANPROF_SERVER_ADDRESS, and that the server runs"},
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (says(r, all[i].words))
			return all[i].remedy;
	return "";
}

/* What the user can do; "" where the words of the reply say it, or nothing can be done here. */
static const char *remedy_of(const struct sp_reply *r)
{
	if (r->kind != SP_REPLY_STATUS)
		return remedy_by_words(r);
	switch (r->status) {
	case 401:
	case 403:
		return "check SPANPROF_AUTH_TOKEN, SPANPROF_BASIC_AUTH_USER and "
		       "SPANPROF_TENANT_ID";
	case 404:
	case 405:
		return "check that SPANPROF_SERVER_ADDRESS is that of a Pyroscope server";
	case 429:
		return "raise the server's limits, or lower SPANPROF_SAMPLE_RATE";
	default:
		return "";
	}
}

void sp_reply_describe(const struct sp_reply *r, char *out, size_t cap)
{
	const char *remedy = remedy_of(r);
	const char *before = remedy[0] != '\0' ? "; " : "";
	char text[SP_REPLY_SHOWN];

	sp_export_log_clean(text, sizeof(text), r->text, r->text_len);
	if (r->kind == SP_REPLY_STATUS)
		(void)snprintf(out, cap, "status %d%s%s%s%s", r->status,
			       text[0] != '\0' ? ": " : "", text, before, remedy);
	else
		(void)snprintf(out, cap, "%s%s%s", text, before, remedy);
}
