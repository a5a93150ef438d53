/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a request, and its meaning for the request's profiles. */
#ifndef SP_REPLY_H
#define SP_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_REPLY_BODY 4096U

enum sp_reply_kind {
	SP_REPLY_STATUS,      /* the server answered: see status */
	SP_REPLY_UNREACHABLE, /* no answer, or one that is not HTTP: see text */
	SP_REPLY_ABORTED,     /* stopped by us; says nothing about the server */
};

struct sp_reply {
	enum sp_reply_kind kind;
	bool sent;  /* the whole request was sent, and no answer shows that it was not read */
	int status; /* HTTP */
	uint32_t retry_after_s; /* 0 = not given */
	int64_t answered_ms;    /* time of the answer since the epoch, by our clock */
	bool has_skew;          /* the server sent its time */
	int64_t skew_ms;        /* the server's clock minus ours */
	bool is_foreign;        /* the answer is not that of such a server: see text */
	bool is_otlp;           /* the server follows the rules of OTLP/HTTP */
	int64_t rejected; /* profiles that the server rejected, although it took the request */
	char text[SP_REPLY_BODY + 1]; /* beginning of the body, or the error */
	size_t text_len;
};

bool sp_reply_good(const struct sp_reply *r);

/* Whether it is unknown if the server has taken the request. */
bool sp_reply_unknown(const struct sp_reply *r);

/*
 * Whether a server has read the request: any answer shows that, except those by which a forwarder
 * says that no server is there.
 */
bool sp_reply_answered(const struct sp_reply *r);

/*
 * Whether a failed request of several profiles may be stored in part: Pyroscope judges each
 * profile, and its answer reports the error of only one.
 */
bool sp_reply_partial(const struct sp_reply *r);

/* The profile was refused because of the time when it begins: too old, or in the future. */
bool sp_reply_out_of_time(const struct sp_reply *r);

/*
 * For an answer with a status of success: whether a foreign page answered, for example one for
 * signing in. type: the Content-Type; NULL = none. The body's beginning counts, too.
 */
bool sp_reply_shows_foreigner(const struct sp_reply *r, const char *type, bool is_push);

/*
 * Whether libcurl's error message reports a TLS alert. Before an answer it means that the server
 * has refused the connection, and has read no part of the request.
 */
bool sp_reply_is_alert(const char *error);

/* The request is too large, at any time; parts of it may pass. */
bool sp_reply_too_large(const struct sp_reply *r);

/* Refused for now (429): this request, or all requests together, exceed the server's budget. */
bool sp_reply_limited(const struct sp_reply *r);

/* The same request may pass later. */
bool sp_reply_again(const struct sp_reply *r);

/* The same request may pass within seconds: the server knows us, but is busy or restarts. */
bool sp_reply_soon(const struct sp_reply *r);

/* The server's words, or the reason why there is no answer; printable. */
void sp_reply_words(const struct sp_reply *r, char *out, size_t cap);

/*
 * "status 400: message", or the reason why there was no answer; printable. Then "; " and what the
 * user can do about it, if that is known. Returns the length without that remedy.
 */
size_t sp_reply_describe(const struct sp_reply *r, char *out, size_t cap);

#endif
