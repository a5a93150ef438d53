/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of the double: options, stored profiles, statistics. One thread uses all of it, so it
 * needs no locks.
 */
#ifndef PD_DOUBLE_H
#define PD_DOUBLE_H

#include <stdio.h>

#include "test/pyroscope/faults.h"
#include "test/pyroscope/record.h"

struct pd_options {
	const char *store;    /* directory for accepted profiles, or NULL */
	const char *basic;    /* "user:password" that a request must have, or NULL */
	const char *token;    /* bearer token that a request must have, or NULL */
	bool multitenancy;    /* X-Scope-OrgID is required */
	bool lenient;         /* only the server's checks apply */
	unsigned ack_ms[2];   /* from .. to: delay of the answer to a push that was taken */
	int64_t now_offset_s; /* difference to the clock */
	int64_t now_ns;       /* the time in tests, instead of the clock */
};

struct pd_stats {
	uint64_t profiles;
	uint64_t requests;    /* accepted requests with profiles, even if the answer was lost */
	uint64_t connections; /* connections with at least one POST */
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

/*
 * Stores the record in memory, and in the store's directory. Refuses it when the double has stored
 * as much as it may. 0 or -1.
 */
int pd_store_add(struct pd_double *d, struct pd_record *r, struct pd_error *e);

/* One RawSample, with its tenant, labels and other facts. */
struct pd_delivery {
	const char *tenant;
	struct pd_labels labels;
	struct pd_bytes id;
	struct pd_bytes raw; /* pprof, gzipped or plain */
	json_t *headers;
	/*
	 * A profile that was converted from another format. Its memory comes from this arena, which
	 * the store takes over.
	 */
	struct pd_arena *made;
	struct pd_profile profile;
	size_t bytes; /* size of the profile as pprof */
};

/* Checks and stores a profile as the server does. 0 or -1; both are counted. */
int pd_push(struct pd_double *d, const struct pd_delivery *in, struct pd_error *e);

#endif
