/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The double on the network: libmicrohttpd on one thread, driven by the caller's loop.
 */
#ifndef PD_HTTP_H
#define PD_HTTP_H

#include <microhttpd.h>

#include "test/pyroscope/routes.h"

/* One request from its first byte to its last answer byte. */
struct pd_exchange {
	struct pd_http *http;
	struct MHD_Connection *connection;
	struct pd_exchange *next; /* next in the list of parked exchanges */
	uint64_t number;
	char *method;
	char *path;
	json_t *headers;
	json_t *query;
	struct pd_text body;
	bool too_large;
	struct pd_fault fault;
	struct pd_text answer;    /* the bytes of a slow drip */
	struct pd_response taken; /* to be sent at wake_ms; status 0 = none */
	bool parked;              /* suspended, in the list */
	bool given_up;            /* a black hole that was released: close without an answer */
	int64_t wake_ms;          /* monotonic; INT64_MAX = when released */
};

struct pd_http {
	struct pd_double *d;
	struct MHD_Daemon *daemon;
	struct pd_exchange *parked;
	uint64_t requests;
	uint64_t releases; /* value of pd_faults.releases that was carried out */
};

/* Listens on 127.0.0.1; port 0 = any. 0 or -1. */
int pd_http_start(struct pd_http *h, struct pd_double *d, uint16_t port);
uint16_t pd_http_port(const struct pd_http *h);
int pd_http_fd(const struct pd_http *h);      /* readable = pd_http_run() has something to do */
int pd_http_timeout(const struct pd_http *h); /* milliseconds for poll(); -1 = none */
void pd_http_run(struct pd_http *h);
void pd_http_stop(struct pd_http *h);

/* Sends the answer and counts it. */
enum MHD_Result pd_exchange_answer(struct pd_exchange *x, const struct pd_response *r);
void pd_exchange_log(struct pd_exchange *x, unsigned status, const char *note);
void pd_exchange_route(struct pd_exchange *x, struct pd_response *r);

/* fault_http.c: carries out x->fault instead of, or around, the true answer. */
enum MHD_Result pd_exchange_misbehave(struct pd_exchange *x);

/* Suspends the exchange until wake_ms or a release. */
void pd_exchange_park(struct pd_exchange *x, int64_t wake_ms);
int64_t pd_http_now_ms(void);

#endif
