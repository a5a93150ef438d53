/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The faults a test asks for: a queue of them, each good for a number of requests, then the double
 * is well again. fault_http.c carries them out.
 */
#ifndef PD_FAULTS_H
#define PD_FAULTS_H

#include <jansson.h>

#include "test/pyroscope/base.h"

#define PD_FAULTS_MAX 64

enum pd_fault_kind {
	PD_FAULT_NONE,
	PD_FAULT_STATUS,             /* answer status, with Retry-After if asked */
	PD_FAULT_CLOSE_MID_RESPONSE, /* promise a body, send half, close */
	PD_FAULT_RESET,              /* TCP reset instead of an answer */
	PD_FAULT_SLOW_DRIP,          /* a good answer, one byte per interval_ms */
	PD_FAULT_BLACKHOLE,          /* no answer until released */
	PD_FAULT_HUGE_BODY,          /* status 200 and bytes of body */
	PD_FAULT_GARBAGE,            /* bytes that are not HTTP */
	PD_FAULT_REDIRECT,           /* status (302) and Location */
	PD_FAULT_BOMB,               /* status 200 and a small body that unpacks to 1 GiB */
	PD_FAULT_RESET_EARLY,        /* TCP reset before the whole request was read */
	PD_FAULT_STORED_RESET,       /* what was asked is done, but nobody hears of it */
	PD_FAULT_REJECTED,           /* status 200, and in OTLP that a profile was not taken */
};

struct pd_fault {
	enum pd_fault_kind kind;
	unsigned status;
	unsigned retry_after; /* seconds; 0 = no header */
	unsigned count;       /* requests left; 0 = until cleared */
	unsigned interval_ms; /* of the drip */
	size_t bytes;         /* of the drip or the huge body */
	char path[128];       /* the request's path; empty = where profiles are pushed */
	char location[256];   /* of the redirect */
};

struct pd_faults {
	struct pd_fault at[PD_FAULTS_MAX];
	size_t len;
	uint64_t served;
	uint64_t releases; /* how often all were forgotten; black holes then let go */
};

/*
 * One fault from "key=value,..." or from a JSON object of the same keys; several from a JSON
 * array. 0 or -1 with the error set; then nothing was added.
 */
int pd_faults_add_spec(struct pd_faults *f, const char *spec, struct pd_error *e);
int pd_faults_add_json(struct pd_faults *f, json_t *j, struct pd_error *e);

/* The oldest fault for this path, used up by one. false = behave. */
bool pd_faults_take(struct pd_faults *f, const char *path, struct pd_fault *out);

/* The next one for this path does not wait for the whole request. */
bool pd_faults_early(struct pd_faults *f, const char *path);

const char *pd_fault_name(enum pd_fault_kind kind);
void pd_faults_fini(struct pd_faults *f); /* forgets all */

#endif
