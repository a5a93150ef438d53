/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short names of C++ and Rust functions: without arguments, template arguments and, if there is no
 * room, outer namespaces. The page has the same rule (names of page/page.js), and a test compares
 * both.
 */
#ifndef SP_REPORT_SHORT_NAME_H
#define SP_REPORT_SHORT_NAME_H

/* Bytes; the same as SP_REPORT_TEXT_MAX. */
#define SP_SHORT_NAME_MAX 4096U

/* A name in both lengths; each is the whole name if nothing can be left out. */
struct sp_short_name {
	char with_namespaces[SP_SHORT_NAME_MAX + 1]; /* "shop::cart::Handler::handle" */
	char last_parts[SP_SHORT_NAME_MAX + 1];      /* "Handler::handle": class and function */
};

/*
 * full: at most SP_SHORT_NAME_MAX bytes, without control characters; sp_report_clean() makes such
 * texts.
 */
void sp_short_name(const char *full, struct sp_short_name *name);

#endif
