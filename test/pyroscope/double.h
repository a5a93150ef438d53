/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The double as one value: its options, what it holds, what it counts. One thread runs all of it,
 * so nothing here is locked.
 */
#ifndef PD_DOUBLE_H
#define PD_DOUBLE_H

#include <stdio.h>

#include "test/pyroscope/faults.h"
#include "test/pyroscope/record.h"

struct pd_options {
	const char *store;    /* directory for accepted profiles, or NULL */
	const char *basic;    /* "user:password" a request must bring, or NULL */
	const char *token;    /* bearer token a request must bring, or NULL */
	bool multitenancy;    /* X-Scope-OrgID is required */
	bool lenient;         /* the server's checks alone */
	unsigned ack_ms[2];   /* from .. to: how long a push that was taken is not answered */
	int64_t now_offset_s; /* added to the clock */
	int64_t now_ns;       /* tests: the time, instead of the clock */
};

struct pd_stats {
	uint64_t profiles;
	uint64_t connections; /* that something was posted over */
	uint64_t samples;     /* after merging */
	uint64_t bytes;       /* uncompressed */
	json_t *rejected;     /* reason: count */
	json_t *statuses;     /* HTTP status: count */
	json_t *reasons;      /* the last rejections' messages, newest last */
	struct pd_losses losses;
};

struct pd_double {
	struct pd_options options;
	struct pd_limits limits;
	struct pd_stats stats;
	struct pd_faults faults;
	struct pd_record *first; /* in order of acceptance */
	struct pd_record *last;
	size_t stored_bytes;
	FILE *log;
};

void pd_double_init(struct pd_double *d, const struct pd_options *options);
void pd_double_fini(struct pd_double *d);
int64_t pd_double_now(const struct pd_double *d);

/* Adds one to a named counter. */
void pd_stats_count(json_t *counters, const char *name);
void pd_stats_reject(struct pd_stats *s, const struct pd_error *e);
json_t *pd_stats_json(const struct pd_double *d); /* new reference */

/* Keeps the record (and writes it to the store directory), or refuses it when full. 0 or -1. */
int pd_store_add(struct pd_double *d, struct pd_record *r, struct pd_error *e);

/* One RawSample, with what was said about it. */
struct pd_delivery {
	const char *tenant;
	struct pd_labels labels;
	struct pd_bytes id;
	struct pd_bytes raw; /* pprof, gzipped or plain */
	json_t *headers;
	/* Made of another format already: what is in it comes from this arena, which the store takes over. */
	struct pd_arena *made;
	struct pd_profile profile;
	size_t bytes; /* of it as pprof */
};

/* From bytes to store, the server's way. 0 or -1; both are counted. */
int pd_push(struct pd_double *d, const struct pd_delivery *in, struct pd_error *e);

#endif
