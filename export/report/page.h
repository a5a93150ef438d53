/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The call tree as a flame graph: one HTML page that needs no other file and no network. The page
 * contains the tree as data and draws it by script, so users can switch between views: from the
 * roots, from the leaves, per span.
 */
#ifndef SP_REPORT_PAGE_H
#define SP_REPORT_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "export/report/reading.h"
#include "export/report/tally.h"

/*
 * A fixed part of a page: a file of export/report/page/, which the assembler puts into the program.
 * It contains no data of a profile.
 */
struct sp_page_file {
	const char *name; /* "/page.js" */
	const char *type; /* "text/javascript" */
	const char *text; /* NUL-terminated */
};

/*
 * Finds the file of a served page by its path; NULL = none. Prints its text; for "/" that is the
 * whole page.
 */
const struct sp_page_file *sp_page_find(const char *path);
void sp_page_print(FILE *out, const struct sp_page_file *file);

/*
 * Writes an untrusted text as a JSON string with its quotes, without control characters. It may be
 * in a script element, because it has no "<", ">" and "&".
 */
void sp_page_put_json(FILE *out, const char *s);

/*
 * Writes a page to a file and prints "wrote PATH: ". print writes the page; 0 or -1. Returns 0, or
 * SP_EXIT_DAMAGED after a message about the file.
 */
int sp_page_write(const char *path, int (*print)(FILE *out, const void *arg), const void *arg);

/* The texts above the graph. They are untrusted; sp_flame_print() cleans and escapes them. */
struct sp_flame_head {
	char title[SP_DESCRIBE_TEXT];
	char sums[SP_DESCRIBE_TEXT];
	char hint[SP_DESCRIBE_TEXT];
	const char *time; /* the kind of time or memory: "CPU" */
	const char *
		/* the label whose values are at the root instead of names of spans; NULL = none */
		label;
	bool in_bytes;
	bool diff;    /* colours show the difference to the baseline */
	bool by_span; /* the first view has names of spans, or values of the label, at the root */
};

void sp_flame_head_of(const struct sp_reading *r, struct sp_flame_head *head);

/*
 * Prints the whole page, or only its data, a JSON object. Both need a sorted tree with spans at the
 * root. Equal trees give equal bytes. -1 when out of memory; then none of the data was written.
 */
int sp_flame_print(FILE *out, const struct sp_tree *t, const struct sp_flame_head *head);
int sp_flame_print_data(FILE *out, const struct sp_tree *t, const struct sp_flame_head *head);

/*
 * Prints the page of slow requests. data() writes its data as JSON in which all texts are escaped.
 */
int sp_page_print_slow(FILE *out, const char *title, int (*data)(FILE *out, const void *arg),
		       const void *arg);

/* The same with the waterfalls of traces as its list, of which each span may have a request. */
int sp_page_print_traces(FILE *out, const char *title, int (*requests)(FILE *out, const void *arg),
			 int (*traces)(FILE *out, const void *arg), const void *arg);

#endif
