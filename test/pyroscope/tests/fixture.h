/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A double without a network whose clock stands at FIXTURE_NOW, and a profile in the making.
 */
#ifndef PD_FIXTURE_H
#define PD_FIXTURE_H

#include "test/pyroscope/routes.h"
#include "test/pyroscope/tests/builder.h"

#define FIXTURE_NOW INT64_C(1700000000000000000)
#define FIXTURE_SPAN "9a517183f26a089d"
#define FIXTURE_TRACE "7c9e66797425440de944be07fc1f90ae"

struct fixture {
	struct pd_double d;
	struct pb_profile p; /* started */
	struct pd_error e;
	struct pd_response r;
};

void fixture_init(struct fixture *f, struct pd_options options);
void fixture_fini(struct fixture *f);

/* Finishes f->p, pushes it as process_cpu of "svc" and starts the next. 0 or -1 with f->e. */
int fixture_push(struct fixture *f);

/* headers: "name: value" lines, names in lower case. Returns the status; f->r has the rest. */
unsigned fixture_call(struct fixture *f, const char *method, const char *path, const char *headers,
		      struct pd_bytes body);
unsigned fixture_query(struct fixture *f, const char *call, const char *json);

/* The profile must be refused: with this code and reason and a message that contains the text. */
void fixture_refused(struct fixture *f, enum pd_code code, const char *reason, const char *message);
void fixture_accepted(struct fixture *f);

#endif
