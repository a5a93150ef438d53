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
#define SP_REPLY_LABELS 24 /* a longer list of labels is cut out */

bool sp_reply_good(const struct sp_reply *r)
{
	return r->kind == SP_REPLY_STATUS && r->status >= 200 && r->status < 300 &&
	       r->rejected <= 0 && !r->is_foreign;
}

bool sp_reply_answered(const struct sp_reply *r)
{
	return r->kind == SP_REPLY_STATUS && (r->status < 502 || r->status > 504);
}

bool sp_reply_unknown(const struct sp_reply *r)
{
	return r->kind != SP_REPLY_STATUS && r->sent;
}

/* Finds words in the text, in upper or lower case; NULL = not there. */
static const char *find(const struct sp_reply *r, const char *words)
{
	size_t len = strlen(words);

	for (size_t i = 0; i + len <= r->text_len; i++)
		if (strncasecmp(r->text + i, words, len) == 0)
			return r->text + i;
	return NULL;
}

/*
 * Only the status 413 is clear without words. Pyroscope's push answers 400 to everything that it
 * refuses, including a profile over a limit of its tenant; its /ingest answers 422; a proxy may
 * answer 500 if a message exceeds gRPC's limit. So the words decide. Pyroscope 1 and 2, grpc-go and
 * connect-go all name the body or the profile. If something else is too large, such as the address,
 * the labels of a sample, or a header (nginx's "Request Header Or Cookie Too Large"), it is too
 * large for every part of the profile as well.
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

/*
 * Pyroscope 2 stores the good profiles of a request and answers with the error of one that failed,
 * as JSON of connect. An answer without such JSON comes from a proxy, or from a limit for whole
 * requests, and then nothing was stored. The same is true of connect-go's words for a request that
 * it cannot read.
 */
bool sp_reply_partial(const struct sp_reply *r)
{
	static const char *const whole[] = {
		"body too large",    "MaxBytesReader limit", "larger than max",
		"unmarshal message", "decompress",           "no profiles received",
	};

	if (r->kind != SP_REPLY_STATUS || r->is_otlp || find(r, "\"code\":") == NULL)
		return false;
	if (r->status != 400 && r->status != 422 && r->status != 429 && r->status < 500)
		return false;
	for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++)
		if (find(r, whole[i]) != NULL)
			return false;
	return true;
}

bool sp_reply_out_of_time(const struct sp_reply *r)
{
	return r->kind == SP_REPLY_STATUS && (r->status == 400 || r->status == 422) &&
	       (find(r, "ingestion window") != NULL || find(r, "too old") != NULL ||
		find(r, "too far") != NULL);
}

/*
 * Pyroscope answers a push with an empty message of connect, and /ingest with an empty body.
 * Receivers of OTLP, and other servers that speak Pyroscope's protocols, answer with an empty body,
 * protobuf or JSON. None of them answers with a page.
 */
bool sp_reply_shows_foreigner(const struct sp_reply *r, const char *type, bool is_push)
{
	size_t at = 0;

	while (at < r->text_len && strchr(" \t\r\n\xef\xbb\xbf", r->text[at]) != NULL)
		at++;
	if (type != NULL && (strncasecmp(type, "text/html", 9) == 0 ||
			     strncasecmp(type, "application/xhtml", 17) == 0))
		return true;
	if (at == r->text_len || (type != NULL && strncasecmp(type, "application/", 12) == 0 &&
				  strcasestr(type, "proto") != NULL))
		return false;
	if (!is_push || type == NULL)
		return r->text[at] == '<';
	return !(r->text_len - at == 2 && r->text[at] == '{' && r->text[at + 1] == '}');
}

/* The words of OpenSSL and its forks, and of GnuTLS. */
bool sp_reply_is_alert(const char *error)
{
	return strcasestr(error, "alert") != NULL &&
	       (strcasestr(error, "SSL") != NULL || strcasestr(error, "TLS") != NULL);
}

bool sp_reply_limited(const struct sp_reply *r)
{
	return r->kind == SP_REPLY_STATUS && r->status == 429;
}

/*
 * Besides 429 and 5xx, these statuses may be temporary: a proxy took too long to read (408), a
 * token is being replaced (401, 403), an ingress cannot find the server during a rollout (404). If
 * they last, a message says why pushes fail, and the queue has a limit.
 */
bool sp_reply_again(const struct sp_reply *r)
{
	/* A page in front of the server may answer, for example until somebody has signed in. */
	if (r->is_foreign)
		return true;
	/* After any other status OTLP/HTTP forbids to send the request again. */
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

/*
 * Puts what the user can do when there was no answer. The words are libcurl's and those of its TLS
 * libraries.
 */
static void put_remedy_of_silence(struct sp_text_out *out, const struct sp_reply *r,
				  const char *address)
{
	if (find(r, "wrong version number") != NULL || find(r, "unexpected TLS packet") != NULL)
		sp_text_out_put(out, "; the server speaks http there, not https: check %s",
				address);
	else if (find(r, "certificate") != NULL)
		sp_text_out_put(out, "; check %s",
				sp_config_copy_name(SP_VAR_TLS_CA_FILE, SP_VAR_TLS_CA_FILE));
	/* The other side closed the connection during the handshake. */
	else if (find(r, "SSL_connect") != NULL)
		sp_text_out_put(out, "; the server may speak http there, not https: check %s",
				address);
	/* This is how a server that expects TLS reacts to a request without it. */
	else if (find(r, "SSL") == NULL &&
		 (find(r, "HTTP/0.9") != NULL || find(r, "Empty reply") != NULL ||
		  find(r, "returned nothing") != NULL || find(r, "Connection reset") != NULL))
		sp_text_out_put(
			out,
			"; check %s, and that the server runs and speaks http there, not https",
			address);
	else if (find(r, "resolve") != NULL)
		sp_text_out_put(out, "; check the name in %s", address);
	else if (find(r, "connect") != NULL)
		sp_text_out_put(out, "; check %s, and that the server runs", address);
}

/*
 * Puts what the user can do; nothing if the reply says it already, or the user cannot do anything.
 */
static void put_remedy(struct sp_text_out *out, const struct sp_reply *r)
{
	const char *address = sp_config_copy_name(SP_VAR_SERVER_ADDRESS, SP_VAR_SERVER_ADDRESS);

	if (r->is_foreign) {
		sp_text_out_put(out, "; no %s answers so: check %s",
				r->is_otlp ? "receiver of OTLP" : "Pyroscope server", address);
		return;
	}
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
		else if (sp_reply_out_of_time(r))
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

/*
 * Cuts out the labels of a profile, '{name="value", ...}', which Pyroscope quotes before it says
 * what is wrong.
 */
static size_t cut_labels(char *out, const char *text, size_t len)
{
	static const char mark[] = "'{...";
	const char *end = text + len;
	size_t n = 0;

	while (text < end) {
		const char *close = text + 1 < end && text[0] == '\'' && text[1] == '{'
					    ? memmem(text, (size_t)(end - text), "}'", 2)
					    : NULL;

		if (close != NULL && close - text > SP_REPLY_LABELS) {
			for (const char *c = mark; *c != '\0'; c++)
				out[n++] = *c;
			text = close;
		} else {
			out[n++] = *text++;
		}
	}
	return n;
}

/*
 * Servers and proxies that are not Pyroscope answer with pages. Of a page, only the title is shown.
 */
void sp_reply_words(const struct sp_reply *r, char *out, size_t cap)
{
	const char *text = r->text;
	const char *end = r->text + r->text_len;
	const char *title = find(r, "<title>");
	const char *title_end = find(r, "</title>");
	char shown[SP_REPLY_BODY];

	if (title != NULL && title_end != NULL && title < title_end) {
		text = title + strlen("<title>");
		end = title_end;
	}
	if (end - text > SP_REPLY_BODY)
		end = text + SP_REPLY_BODY;
	sp_export_log_clean(out, cap, shown, cut_labels(shown, text, (size_t)(end - text)));
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
