/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call tree as a flame graph: one HTML page that needs no other file and no network. The page
 * draws what it has as data, so that it can be looked at from the roots, from the leaves and per
 * span.
 */
#ifndef SP_REPORT_FLAME_H
#define SP_REPORT_FLAME_H

#include <stdbool.h>
#include <stdio.h>

#include "export/report/describe.h"
#include "export/report/tree.h"

/* Untrusted texts; they are cleaned and escaped here. */
struct sp_flame_head {
	char title[SP_DESCRIBE_TEXT];
	char sums[SP_DESCRIBE_TEXT];
	char hint[SP_DESCRIBE_TEXT];
	const char *time; /* what the nanoseconds are of: "CPU" */
	bool diff;        /* colours tell the difference to the baseline */
	bool by_span;     /* the first view has the names of spans at the root */
};

void sp_flame_head_of(const struct sp_reading *r, struct sp_flame_head *head);

/*
 * The whole page, and its data alone, an object of JSON. Both expect a sorted tree with spans at the
 * root. Equal trees give equal bytes.
 */
void sp_flame_print(FILE *out, const struct sp_tree *t, const struct sp_flame_head *head);
void sp_flame_print_data(FILE *out, const struct sp_tree *t, const struct sp_flame_head *head);

#endif
