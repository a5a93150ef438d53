/* SPDX-License-Identifier: Apache-2.0 */
/* Interprets answers of a server (reply.h). Context: the exporter. */
#define _GNU_SOURCE
#include "export/push/reply.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "export/util/log.h"
#include "sampler/config/config_table.h"

#define SP_REPLY_SHOWN 300

bool sp_reply_good(const struct sp_reply *r)
{
	return r->kind == SP_REPLY_STATUS && r->status >= 200 && r->status < 300 &&
	       r->rejected <= 0;
}

bool sp_reply_unknown(const struct sp_reply *r)
{
	return r->kind != SP_REPLY_STATUS && r->sent;
}

/* In any case of letters; NULL = not there. */
static const char *find(const struct sp_reply *r, const char *words)
{
	size_t len = strlen(words);

	for (size_t i = 0; i + len <= r->text_len; i++)
		if (strncasecmp(r->text + i, words, len) == 0)
			return r->text + i;
	return NULL;
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
		if (find(r, words[i]) != NULL)
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
	/* OTLP/HTTP allows no other to be repeated. */
	if (r->is_otlp && r->kind == SP_REPLY_STATUS)
		return r->status == 429 || (r->status >= 502 && r->status <= 504);
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

/* The words are libcurl's, and those of the TLS libraries that it is built with. */
static void put_remedy_of_silence(struct sp_text_out *out, const struct sp_reply *r,
				  const char *address)
{
	if (find(r, "wrong version number") != NULL || find(r, "unexpected TLS packet") != NULL)
		sp_text_out_put(out, "; the server speaks http there, not https: check %s",
				address);
	else if (find(r, "certificate") != NULL)
		sp_text_out_put(out, "; check %s",
				sp_config_copy_name(SP_VAR_TLS_CA_FILE, SP_VAR_TLS_CA_FILE));
	/* The other side hung up instead of answering. */
	else if (find(r, "SSL_connect") != NULL)
		sp_text_out_put(out, "; the server may speak http there, not https: check %s",
				address);
	/* What a server that expects TLS does to a request without it. */
	else if (find(r, "SSL") == NULL &&
		 (find(r, "HTTP/0.9") != NULL || find(r, "Empty reply") != NULL ||
		  find(r, "Connection reset") != NULL))
		sp_text_out_put(
			out,
			"; check %s, and that the server runs and speaks http there, not https",
			address);
	else if (find(r, "resolve") != NULL)
		sp_text_out_put(out, "; check the name in %s", address);
	else if (find(r, "connect") != NULL)
		sp_text_out_put(out, "; check %s, and that the server runs", address);
}

/* What the user can do; "" where the words of the reply say it, or nothing can be done here. */
static void put_remedy(struct sp_text_out *out, const struct sp_reply *r)
{
	const char *address = sp_config_copy_name(SP_VAR_SERVER_ADDRESS, SP_VAR_SERVER_ADDRESS);

	switch (r->kind == SP_REPLY_STATUS ? r->status : 0) {
	case 0:
		put_remedy_of_silence(out, r, address);
		break;
	case 400:
	case 422:
		/* Go's and nginx's words, then Pyroscope's. */
		if (find(r, "HTTP request to an HTTPS") != NULL ||
		    find(r, "HTTP request was sent to HTTPS") != NULL)
			sp_text_out_put(out, "; the server speaks https there, not http: check %s",
					address);
		else if (find(r, "ingestion window") != NULL || find(r, "too old") != NULL ||
			 find(r, "too far") != NULL)
			sp_text_out_put(out, "; set this machine's clock, or the server's");
		break;
	case 401:
	case 403:
		sp_text_out_put(
			out, "; check %s, %s and %s",
			sp_config_copy_name(SP_VAR_AUTH_TOKEN_FILE, SP_VAR_AUTH_TOKEN),
			sp_config_copy_name(SP_VAR_BASIC_AUTH_USER_FILE, SP_VAR_BASIC_AUTH_USER),
			sp_config_copy_name(SP_VAR_TENANT_ID_FILE, SP_VAR_TENANT_ID));
		break;
	case 404:
	case 405:
		sp_text_out_put(out, "; check that %s is that of a %s", address,
				r->is_otlp ? "server that takes profiles in OTLP"
					   : "Pyroscope server");
		break;
	case 429:
		sp_text_out_put(out, "; raise the server's limits, or lower SPANPROF_SAMPLE_RATE");
		break;
	default:
		break;
	}
}

/* Servers and proxies that are not Pyroscope answer with pages, of which the title says what the rest shows. */
void sp_reply_words(const struct sp_reply *r, char *out, size_t cap)
{
	const char *text = r->text;
	const char *end = r->text + r->text_len;
	const char *title = find(r, "<title>");
	const char *title_end = find(r, "</title>");

	if (title != NULL && title_end != NULL && title < title_end) {
		text = title + strlen("<title>");
		end = title_end;
	}
	sp_export_log_clean(out, cap, text, (size_t)(end - text));
}

// NOLINTNEXTLINE(readability-non-const-parameter): it is written to through o
size_t sp_reply_describe(const struct sp_reply *r, char *out, size_t cap)
{
	struct sp_text_out o = {out, cap, 0};
	char text[SP_REPLY_SHOWN];
	size_t without_remedy;

	sp_reply_words(r, text, sizeof(text));
	if (r->kind == SP_REPLY_STATUS)
		sp_text_out_put(&o, "status %d%s", r->status, text[0] != '\0' ? ": " : "");
	sp_text_out_put(&o, "%s", text);
	without_remedy = o.len;
	put_remedy(&o, r);
	return without_remedy;
}
