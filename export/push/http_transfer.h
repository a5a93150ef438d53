/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request: shared by the files that set it up (http_request.c), drive it (http.c) and read its
 * answer (http_answer.c), and by no others.
 */
#ifndef SP_HTTP_TRANSFER_H
#define SP_HTTP_TRANSFER_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/push/address.h"
#include "export/push/credentials.h"
#include "export/push/http.h"
#include "export/push/tls_files.h"

/*
 * So long a connection stays open without a transfer. Servers and proxies close theirs after five seconds or
 * more, and a request that meets the end of its connection counts as lost, as the server may have it.
 */
#define SP_HTTP_IDLE_S 4

struct sp_http_transfer {
	CURL *easy;
	char *url;
	struct curl_slist *headers;
	uint64_t begun_ns;
	uint32_t timeout_ms;
	struct sp_bytes body; /* of the message */
	size_t given;         /* bytes of it that libcurl has taken */
	size_t received;
	bool answered; /* the head of the answer is complete */
	bool ended;
	CURLcode rc; /* how it ended */
	bool nomem;
	char refused[200]; /* why it cannot be made; "" = out of memory */
	struct sp_tls_files files;
	char date[64]; /* the header's value, "" = none */
	char error[CURL_ERROR_SIZE];
	struct sp_reply reply;
};

struct sp_http {
	const struct sp_config *config;
	struct sp_http_hooks hooks;
	struct sp_address address;
	struct sp_credentials credentials;
	char agent[64];
	bool warned_plain;
	CURLM *multi;     /* of all transfers and open connections; NULL = there is none */
	uint64_t idle_ns; /* since when there is no transfer */
	struct {
		bool used;
		struct sp_http_transfer *transfer; /* NULL = there was no memory for it */
	} slot[SP_TRANSFERS];
	unsigned used; /* slots */
};

/* "" = none. */
const char *sp_http_proxy(const struct sp_http *h);

/* Sets all of the request. False when that cannot be, see refused. */
bool sp_http_request(struct sp_http *h, struct sp_http_transfer *t,
		     const struct sp_message *message);

/* Before the transfer: what to keep of the answer. */
void sp_http_answer_keep(struct sp_http_transfer *t);

/* After the transfer ended with rc: makes t->reply of what was kept. */
void sp_http_answer_read(const struct sp_http *h, struct sp_http_transfer *t, CURLcode rc);

#endif
