/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The faults that a test requests: a queue, in which each fault applies to a number of requests.
 * fault_http.c carries them out.
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
	/* the request is carried out, then TCP reset instead of an answer */
	PD_FAULT_STORED_RESET,
	/* status 200, and in OTLP an answer that a profile was rejected */
	PD_FAULT_REJECTED,
};

struct pd_fault {
	enum pd_fault_kind kind;
	unsigned status;
	unsigned retry_after; /* seconds; 0 = no header */
	unsigned count;       /* requests left; 0 = until cleared */
	unsigned interval_ms; /* between two bytes of the slow drip */
	size_t bytes;         /* size of the slow drip or the huge body */
	char path[128];       /* path of the requests; empty = the paths for profiles */
	char location[256];   /* target of the redirect */
};

struct pd_faults {
	struct pd_fault at[PD_FAULTS_MAX];
	size_t len;
	uint64_t served;
	uint64_t releases; /* how often all faults were dropped, which ends black holes */
};

/*
 * Adds a fault from "key=value,..." or a JSON object of the same keys, or several from a JSON
 * array. 0; or -1 with the error set, and then nothing was added.
 */
int pd_faults_add_spec(struct pd_faults *f, const char *spec, struct pd_error *e);
int pd_faults_add_json(struct pd_faults *f, json_t *j, struct pd_error *e);

/*
 * Takes the oldest fault for this path, which has one request less from then on. False = there is
 * no fault.
 */
bool pd_faults_take(struct pd_faults *f, const char *path, struct pd_fault *out);

/* Whether the next fault for this path applies before the whole request has come. */
bool pd_faults_early(struct pd_faults *f, const char *path);

const char *pd_fault_name(enum pd_fault_kind kind);
void pd_faults_fini(struct pd_faults *f); /* drops all faults */

#endif
