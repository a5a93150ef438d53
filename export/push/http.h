/* SPDX-License-Identifier: Apache-2.0 */
/* Sends requests to one server, several at a time. */
#ifndef SP_HTTP_H
#define SP_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/push/reply.h"
#include "export/push/request.h"
#include "sampler/config/config.h"

/* The parts of SPANPROF_SERVER_ADDRESS. */
struct sp_address {
	char *base;   /* http:// or https://, without slashes at its end; user information kept */
	char *socket; /* path of a Unix socket to connect to, or NULL */
	char *shown;  /* for messages: without user information */
	bool tls;
};

/* 0, -ENOMEM, or -EINVAL with the reason in *why. */
int sp_address_parse(const char *text, struct sp_address *out, const char **why);

/* Whether the server is on this host. Loads libcurl; if that fails the answer is no. */
bool sp_address_is_local(const struct sp_address *a);

void sp_address_fini(struct sp_address *a);

struct sp_http_hooks {
	/* A sentence about the configuration, for the log. */
	void (*warn)(void *arg, const char *text);
	void *arg;
};

struct sp_http;

/*
 * 0, -EINVAL if the server address cannot be used (a warning says why), or -ENOMEM. The strings of
 * the configuration must outlive the result.
 */
int sp_http_new(const struct sp_config *config, const char *version,
		const struct sp_http_hooks *hooks, struct sp_http **out);
void sp_http_free(struct sp_http *h);

/*
 * From now on sp_http_wait() waits for transfers of both. Call this before h has a transfer. One
 * thread must use both.
 */
void sp_http_join(struct sp_http *h, struct sp_http *other);

/* The server's address for messages, without user information. */
const char *sp_http_shown(const struct sp_http *h);

/*
 * The transport for push.h. These functions give the exporter's turn away while they work (turn.h).
 *
 * Begins a transfer in a free slot, 0 to SP_TRANSFERS - 1. The message's bytes must stay valid
 * until sp_http_poll() has returned the slot, or the transfer was stopped. message = NULL: an empty
 * push.
 */
void sp_http_start(void *http, unsigned slot, const struct sp_message *message,
		   uint32_t timeout_ms);

/* Advances all transfers. True: the transfer in *slot has ended with *reply; there may be more. */
bool sp_http_poll(void *http, unsigned *slot, struct sp_reply *reply);

/*
 * Sleeps until a transfer of h, or of a server joined with it, can go on, or the descriptor `wake`
 * is readable, at most wait_ms. The timeout of a transfer does not end the sleep. h = NULL: there
 * are no transfers.
 */
void sp_http_wait(struct sp_http *h, int wake, uint32_t wait_ms);

/*
 * Stops the transfer in the slot. reply->kind is SP_REPLY_ABORTED, unless an answer has come
 * already.
 */
void sp_http_stop(void *http, unsigned slot, struct sp_reply *reply);

#endif
