/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an answer, or the reason why there is none, from libcurl. Context: the exporter. */
#define _GNU_SOURCE
#include "export/push/http_transfer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "export/util/clock.h"
#include "export/util/log.h"
#include "sampler/base/compiler.h"

#define SP_HTTP_BODY_MAX ((size_t)4 << 20) /* more than that is not read */
#define SP_HTTP_FINAL 200                  /* smaller ones announce another answer */
#define SP_HTTP_LAST 599
#define SP_HTTP_DATE_HALF_MS 500 /* a Date is cut to whole seconds */

static size_t keep_body(char *data, size_t size, size_t n, void *arg)
{
	struct sp_http_transfer *t = arg;
	size_t len = size * n;
	size_t room = SP_REPLY_BODY - t->reply.text_len;

	t->received += len;
	if (t->received > SP_HTTP_BODY_MAX)
		return 0;
	if (room > len)
		room = len;
	memcpy(t->reply.text + t->reply.text_len, data, room);
	t->reply.text_len += room;
	return len;
}

/*
 * Notes the empty line after the headers (also that of "100 Continue", which the next status line
 * corrects) and the Date header. curl_easy_header() would do, but libcurl has it only since 7.83.
 */
// NOLINTNEXTLINE(readability-non-const-parameter): libcurl's type
static size_t see_header(char *data, size_t size, size_t n, void *arg)
{
	static const char name[] = "Date:";
	struct sp_http_transfer *t = arg;
	size_t len = size * n;

	t->answered = data[0] == '\r' || data[0] == '\n';
	if (len > strlen(name) && len < sizeof(t->date) &&
	    strncasecmp(data, name, strlen(name)) == 0) {
		memcpy(t->date, data + strlen(name), len - strlen(name));
		t->date[len - strlen(name)] = '\0';
	}
	return len;
}

void sp_http_answer_keep(struct sp_http_transfer *t)
{
	CURL *c = t->easy;

	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, keep_body);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
	curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, see_header);
	curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->error);
	/* A proxy's answer to CONNECT is not the server's. */
	curl_easy_setopt(c, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
	/* Neither profile nor credentials may go to the target of a redirect. */
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
}

static void say(struct sp_reply *reply, const char *text)
{
	reply->text_len = (size_t)snprintf(reply->text, sizeof(reply->text), "%.255s", text);
}

static void read_date(struct sp_http_transfer *t)
{
	struct sp_reply *reply = &t->reply;
	time_t server = t->date[0] != '\0' ? curl_getdate(t->date, NULL) : -1;

	reply->answered_ms = sp_clock_real_ns() / (int64_t)SP_NS_PER_MS;
	if (server < 0)
		return;
	reply->has_skew = true;
	reply->skew_ms = (int64_t)server * 1000 + SP_HTTP_DATE_HALF_MS - reply->answered_ms;
}

/*
 * libcurl's detailed message quotes the proxy's address, or a part of it, with the password
 * ("Unsupported proxy syntax in ..."). Then only the general message is used. An address that was
 * cut may have lost the "@" by which the rest of it is recognised.
 */
static void say_trouble(const struct sp_http *h, CURL *c, CURLcode rc, struct sp_http_transfer *t)
{
	bool quotes = strpbrk(sp_http_proxy(h), "@?") != NULL ||
		      (strchr(h->address.base, '@') != NULL && strstr(t->error, "://") != NULL);
	char proxy[48] = "";
	long connect = 0;
	char text[200];

	if (rc == CURLE_SEND_FAIL_REWIND) {
		say(&t->reply, "the server closed the connection without an answer");
		return;
	}
	if (t->error[0] != '\0' && !quotes) {
		sp_redact(t->error);
		say(&t->reply, t->error);
		return;
	}
	if (c != NULL)
		curl_easy_getinfo(c, CURLINFO_HTTP_CONNECTCODE, &connect);
	if (connect != 0)
		(void)snprintf(proxy, sizeof(proxy), "the proxy answered %ld: ", connect);
	(void)snprintf(text, sizeof(text), "%s%s", proxy, curl_easy_strerror(rc));
	say(&t->reply, text);
}

static void say_redirect(CURL *c, struct sp_reply *reply)
{
	char *url = NULL;
	char *shown;
	char text[200];

	curl_easy_getinfo(c, CURLINFO_REDIRECT_URL, &url);
	shown = url != NULL ? strdup(url) : NULL;
	if (shown == NULL)
		return;
	/* Before it is cut. The target may contain our own user information. */
	sp_redact(shown);
	(void)snprintf(text, sizeof(text), "redirects are not followed, this one names %.120s",
		       shown);
	say(reply, text);
	free(shown);
}

/*
 * Only the head of an answer counts, even if the rest never ends, breaks off or comes too slowly:
 * it says what became of the profile, which must not be sent twice.
 */
static bool has_answer(const struct sp_http_transfer *t, CURLcode rc, long status)
{
	return rc == CURLE_OK || (t->answered && status >= SP_HTTP_FINAL);
}

/* A server of another protocol has not taken the profile. */
static bool is_no_http(CURLcode rc)
{
	return rc == CURLE_UNSUPPORTED_PROTOCOL || rc == CURLE_WEIRD_SERVER_REPLY;
}

void sp_http_answer_read(const struct sp_http *h, struct sp_http_transfer *t, CURLcode rc)
{
	struct sp_reply *reply = &t->reply;
	curl_off_t retry_after = 0;
	curl_off_t sent = 0;
	long status = 0;

	curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_getinfo(t->easy, CURLINFO_SIZE_UPLOAD_T, &sent);
	reply->kind = rc == CURLE_ABORTED_BY_CALLBACK ? SP_REPLY_ABORTED : SP_REPLY_UNREACHABLE;
	if (!has_answer(t, rc, status)) {
		/* When it ought to begin anew, libcurl has forgotten how much it had sent. */
		if (rc == CURLE_SEND_FAIL_REWIND)
			sent = (curl_off_t)t->given;
		reply->sent = (size_t)sent >= t->body.len && !is_no_http(rc);
		say_trouble(h, t->easy, rc, t);
		return;
	}
	/* libcurl accepts any number, even one that overflows, from a server that claims HTTP/2. */
	if (status < SP_HTTP_FINAL || status > SP_HTTP_LAST) {
		reply->kind = SP_REPLY_UNREACHABLE;
		say(reply, "the answer has no valid HTTP status");
		return;
	}
	curl_easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &retry_after);
	reply->kind = SP_REPLY_STATUS;
	reply->status = (int)status;
	reply->retry_after_s = retry_after < 0       ? 0
			       : retry_after > 86400 ? 86400
						     : (uint32_t)retry_after;
	read_date(t);
	/* A server or a proxy may quote the request. */
	reply->text_len = sp_redact_bytes(reply->text, reply->text_len);
	if (status >= 300 && status < 400)
		say_redirect(t->easy, reply);
}
