/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call tree as a flame graph: one HTML page that needs no other file and no network. The page
 * draws what it has as data, so that it can be looked at from the roots, from the leaves and per
 * span.
 */
#ifndef SP_REPORT_PAGE_H
#define SP_REPORT_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "export/report/reading.h"
#include "export/report/tally.h"

/*
 * A fixed part of the page, a file of export/report/page/, which is put into the program when it is assembled. None
 * contains anything of a profile.
 */
struct sp_page_file {
	const char *name; /* "/page.js" */
	const char *type; /* "text/javascript" */
	const char *text; /* NUL-terminated */
};

/* Of served pages: the file at that path, NULL = there is none; and its text, which of "/" is the whole page. */
const struct sp_page_file *sp_page_find(const char *path);
void sp_page_print(FILE *out, const struct sp_page_file *file);

/*
 * An untrusted text, cleaned of control characters, as a string of JSON with its quotes, which may stand in a script
 * element: it has no "<", ">" and "&".
 */
void sp_page_put_json(FILE *out, const char *s);

/* Untrusted texts; they are cleaned and escaped here. */
struct sp_flame_head {
	char title[SP_DESCRIBE_TEXT];
	char sums[SP_DESCRIBE_TEXT];
	char hint[SP_DESCRIBE_TEXT];
	const char *time; /* what the nanoseconds or bytes are of: "CPU" */
	const char *
		label; /* whose values are at the root instead of the names of spans; NULL = none */
	bool in_bytes;
	bool diff;    /* colours tell the difference to the baseline */
	bool by_span; /* the first view has the names of spans at the root, or these values */
};

void sp_flame_head_of(const struct sp_reading *r, struct sp_flame_head *head);

/*
 * The whole page, and its data alone, an object of JSON. Both expect a sorted tree with spans at the
 * root. Equal trees give equal bytes. -1 when out of memory; of the data nothing is written then.
 */
int sp_flame_print(FILE *out, const struct sp_tree *t, const struct sp_flame_head *head);
int sp_flame_print_data(FILE *out, const struct sp_tree *t, const struct sp_flame_head *head);

#endif
