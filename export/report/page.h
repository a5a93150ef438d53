/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fixed parts of pages: the files of export/report/page/, which are put into the program when it
 * is assembled. None of them contains anything of a profile.
 */
#ifndef SP_REPORT_PAGE_H
#define SP_REPORT_PAGE_H

#include <stddef.h>
#include <stdio.h>

struct sp_page_file {
	const char *name; /* "/draw.js" */
	const char *type; /* "text/javascript" */
	const char *text; /* NUL-terminated */
};

extern const struct sp_page_file sp_page_style;

/* The elements that the scripts fill; begins with <body> and does not end it. */
extern const struct sp_page_file sp_page_body;

/* Scripts of every page, in the order in which they have to be loaded. */
extern const struct sp_page_file *const sp_page_script[];
extern const size_t sp_page_scripts;

/* Of served pages: the file at that path, NULL = there is none; and its text, which of "/" is the whole page. */
const struct sp_page_file *sp_page_find(const char *path);
void sp_page_print(FILE *out, const struct sp_page_file *file);

/* Untrusted texts in pages: cleaned of control characters, and escaped. */
/* A string of JSON with its quotes, which may stand in a script element: it has no "<", ">" and "&". */
void sp_page_put_json(FILE *out, const char *s);

/* Text of HTML, or of an attribute in double quotes. */
void sp_page_put_html(FILE *out, const char *s);

#endif
