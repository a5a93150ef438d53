/* SPDX-License-Identifier: Apache-2.0 */
/* Untrusted texts in pages: cleaned of control characters, and escaped. */
#ifndef SP_REPORT_PAGE_TEXT_H
#define SP_REPORT_PAGE_TEXT_H

#include <stdio.h>

/* A string of JSON with its quotes, which may stand in a script element: it has no "<", ">" and "&". */
void sp_page_put_json(FILE *out, const char *s);

/* Text of HTML, or of an attribute in double quotes. */
void sp_page_put_html(FILE *out, const char *s);

#endif
