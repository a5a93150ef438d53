/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and answers without a network, so that unit tests can send the same requests as curl. */
#ifndef PD_ROUTES_H
#define PD_ROUTES_H

#include "test/pyroscope/double.h"

struct pd_request {
	const char *method;
	const char *path;
	json_t *headers; /* lower-case name: value */
	json_t *query;   /* decoded name: value */
	struct pd_bytes body;
	bool body_too_large; /* the body exceeded the limit, and is not complete */
};

struct pd_response {
	unsigned status;
	const char *type; /* Content-Type, or NULL */
	struct pd_text body;
	json_t *headers; /* further headers, or NULL */
	char note[64];   /* the reason, for the log */
};

void pd_response_fini(struct pd_response *r);

/* Answers any request. */
void pd_route(struct pd_double *d, const struct pd_request *in, struct pd_response *out);

/* {"code":"...","message":"..."} with the status of the code. */
void pd_response_error(struct pd_response *out, const struct pd_error *e);
void pd_response_json(struct pd_response *out, json_t *j); /* takes the reference */
void pd_response_header(struct pd_response *out, const char *name, const char *value);

/* "" when the request has none. */
const char *pd_request_header(const struct pd_request *in, const char *name);

/* The tenant, or NULL after answering 401. */
const char *pd_request_tenant(const struct pd_double *d, const struct pd_request *in,
			      struct pd_response *out);

/* Handlers, one file each. */
void pd_route_push(struct pd_double *d, const struct pd_request *in, struct pd_response *out);
void pd_route_ingest(struct pd_double *d, const struct pd_request *in, struct pd_response *out);
void pd_route_otlp(struct pd_double *d, const struct pd_request *in, struct pd_response *out);
void pd_route_query(struct pd_double *d, const struct pd_request *in, struct pd_response *out);
json_t *pd_spans_json(const struct pd_double *d); /* new reference */

#endif
