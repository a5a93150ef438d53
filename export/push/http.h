/* SPDX-License-Identifier: Apache-2.0 */
/* POST to the configured server, several at a time. */
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
	char *shown;  /* as it may be logged: without user information */
	bool tls;
};

/* 0, -ENOMEM, or -EINVAL with what is wrong with it in *why. */
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
 * 0, -EINVAL the server address cannot be used (warned), or -ENOMEM.
 * The strings of the configuration must outlive the result.
 */
int sp_http_new(const struct sp_config *config, const char *version,
		const struct sp_http_hooks *hooks, struct sp_http **out);
void sp_http_free(struct sp_http *h);

/* The server's address as it may be shown. */
const char *sp_http_shown(const struct sp_http *h);

/*
 * The transport for push.h. None of these has the exporter's turn (turn.h) while it works. Begins a transfer, on an
 * open connection if one is free, in a slot that is not in use: 0 to SP_TRANSFERS - 1. The message's bytes must stay
 * until poll said that it ended, or it was stopped.
 */
void sp_http_start(void *http, unsigned slot, const struct sp_message *message,
		   uint32_t timeout_ms);

/* Goes on with all of them. True: the one in that slot ended, and so; there may be more. */
bool sp_http_poll(void *http, unsigned *slot, struct sp_reply *reply);

/*
 * Sleeps up to wait_ms, until something of the transfers can go on, or the descriptor can be read: not because the
 * time of one is up. NULL = there are no transfers.
 */
void sp_http_wait(struct sp_http *h, int wake, uint32_t wait_ms);

/* Ends that one. SP_REPLY_ABORTED, unless there is an answer already. */
void sp_http_stop(void *http, unsigned slot, struct sp_reply *reply);

/*
 * Closes connections that have been idle for long by then (CLOCK_MONOTONIC), if nothing is under way. When it has
 * something to close next; UINT64_MAX = nothing is open.
 */
uint64_t sp_http_rest(void *http, uint64_t now_ns);

#endif
