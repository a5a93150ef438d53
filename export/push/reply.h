/* SPDX-License-Identifier: Apache-2.0 */
/* What became of a request, and what follows from it. */
#ifndef SP_REPLY_H
#define SP_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SP_REPLY_BODY 4096U

enum sp_reply_kind {
	SP_REPLY_STATUS,      /* the server answered: see status */
	SP_REPLY_UNREACHABLE, /* no answer, or none that is HTTP: see text */
	SP_REPLY_ABORTED,     /* stopped by us; says nothing about the server */
};

struct sp_reply {
	enum sp_reply_kind kind;
	bool sent;              /* all of the request was sent, and no answer denies it */
	int status;             /* HTTP */
	uint32_t retry_after_s; /* 0 = not given */
	int64_t answered_ms;    /* when, since the epoch, by our clock */
	bool has_skew;          /* the server sent its time */
	int64_t skew_ms;        /* how much later it was there */
	bool is_otlp;           /* the rules of OTLP/HTTP are those of the server */
	int64_t rejected;       /* profiles that it has not taken, though it took the request */
	char text[SP_REPLY_BODY + 1]; /* begin of the body, or what went wrong */
	size_t text_len;
};

bool sp_reply_good(const struct sp_reply *r);

/* The server may have taken it, now or later, and nothing tells. */
bool sp_reply_unknown(const struct sp_reply *r);

/* The request itself is too large, whenever it is sent; parts of it may pass. */
bool sp_reply_too_large(const struct sp_reply *r);

/*
 * Refused for now: the request may be too large for the server's budget, or all requests together.
 */
bool sp_reply_limited(const struct sp_reply *r);

/* The same request may pass later. */
bool sp_reply_again(const struct sp_reply *r);

/* Within seconds, as the server is there and knows us: it is busy, or being restarted. */
bool sp_reply_soon(const struct sp_reply *r);

/* What the server said, or why it did not; printable. */
void sp_reply_words(const struct sp_reply *r, char *out, size_t cap);

/*
 * "status 400: message", or the reason why there was no answer; printable. Then "; " and what the user can
 * do about it, where that is known. Returns how long the text is without that.
 */
size_t sp_reply_describe(const struct sp_reply *r, char *out, size_t cap);

#endif
