/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Label selectors of a query, {name="value",other!="value"}, and the request around them.
 */
#ifndef PD_SELECTOR_H
#define PD_SELECTOR_H

#include "test/pyroscope/double.h"

struct pd_matcher {
	struct pd_bytes name;
	struct pd_bytes value;
	bool negated;
};

struct pd_selector {
	struct pd_matcher *at;
	size_t len;
};

/* Adds the selector's matchers; = and != only. 0 or -1 with the error set. */
int pd_selector_parse(struct pd_arena *a, struct pd_bytes text, struct pd_selector *s,
		      struct pd_error *e);

/* A label that is absent matches "". */
bool pd_selector_matches(const struct pd_selector *s, struct pd_labels l);

/* The stored data that a query may see. */
struct pd_scope {
	const char *tenant;
	bool timed; /* start and end apply */
	int64_t start_ms;
	int64_t end_ms;
	struct pd_selector selector;
};

/* One series under one profile type, as the server's index has it. */
struct pd_view {
	const struct pd_record *record;
	size_t series;
	size_t sample_type;
	struct pd_labels labels; /* with __profile_type__ and its parts; sorted */
};

/* Calls see() for each series in the scope; the view is valid during the call. */
void pd_scope_visit(const struct pd_double *d, const struct pd_scope *scope,
		    void (*see)(const struct pd_view *v, void *arg), void *arg);

#endif
