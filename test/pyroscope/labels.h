/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Label sets of a series and the server's rules for them (its ValidateLabels).
 */
#ifndef PD_LABELS_H
#define PD_LABELS_H

#include "test/pyroscope/base.h"
#include "test/pyroscope/limits.h"

struct pd_pair {
	struct pd_bytes name;
	struct pd_bytes value;
};

struct pd_labels {
	struct pd_pair *at;
	size_t len;
};

/* Makes a copy with room for more pairs, with all text in the arena. */
struct pd_labels pd_labels_copy(struct pd_arena *a, struct pd_labels l, size_t room);

/* Adds a pair. The caller has made room for it. */
void pd_labels_add(struct pd_labels *l, const char *name, struct pd_bytes value);

/* The first value of the name; empty when there is none. */
struct pd_bytes pd_labels_get(struct pd_labels l, const char *name);
bool pd_labels_has(struct pd_labels l, struct pd_bytes name);
void pd_labels_remove(struct pd_labels *l, const char *name);
void pd_labels_sort(struct pd_labels *l); /* by name, then value */
int pd_labels_compare(struct pd_labels a, struct pd_labels b);
void pd_labels_text(struct pd_labels l, struct pd_text *out); /* {a="b", c="d"} */

/* Makes the server's checks in the server's order, and sorts. 0, or -1 with the error set. */
int pd_labels_validate(const struct pd_limits *limits, struct pd_labels *l, struct pd_error *e);

/* Whether servers before 2.0 take the name, too: [A-Za-z_][A-Za-z0-9_.]*. */
bool pd_labels_name_safe(struct pd_bytes name);

#endif
