/* SPDX-License-Identifier: Apache-2.0 */
/* One POST to the configured server. */
#ifndef SP_HTTP_H
#define SP_HTTP_H

#include <stddef.h>
#include <stdint.h>

#include "export/reply.h"
#include "export/request.h"
#include "sampler/config.h"

struct sp_http_hooks {
	/*
	 * Called all the time during a transfer, and may sleep for some milliseconds itself.
	 * Returns how many more may be slept until the next call; negative aborts the transfer.
	 */
	int (*idle)(void *arg);
	/* A sentence about the configuration, for the log. */
	void (*warn)(void *arg, const char *text);
	void *arg;
};

struct sp_http;

/*
 * 0, -EINVAL the server address cannot be used (warned), -ENOMEM, -ECANCELED the process has begun to
 * end, or -EIO libcurl does not start.
 * The strings of the configuration must outlive the result.
 */
int sp_http_new(const struct sp_config *config, const char *version,
		const struct sp_http_hooks *hooks, struct sp_http **out);
void sp_http_free(struct sp_http *h);

/* The server's address as it may be shown. */
const char *sp_http_shown(const struct sp_http *h);

/* The transport for push.h. Opens a connection and closes it again. */
void sp_http_post(void *http, const struct sp_message *message, uint32_t timeout_ms,
		  struct sp_reply *reply);

#endif
