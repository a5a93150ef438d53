/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The head of a request for a page: GET and nothing else, from a browser that was told an address of
 * this machine. Whatever is unusual is refused.
 */
#ifndef SP_REPORT_GET_H
#define SP_REPORT_GET_H

#include <stdbool.h>
#include <stddef.h>

/* A head that is longer is refused unread. */
#define SP_GET_HEAD_MAX 8192U
#define SP_GET_PATH_MAX 64U

struct sp_get {
	char path[SP_GET_PATH_MAX]; /* from "/" on */
	char *query;                /* in the head, behind "?"; NULL = none */
};

/* Whether that many bytes hold a whole head, up to the empty line. */
bool sp_get_is_whole(const char *head, size_t len);

/*
 * Reads a whole head, NUL-terminated, and writes into it. 200, or the status to answer: 400 for what
 * is malformed, 403 for a host that is not this machine and for other sites, 404 for long paths, 405
 * for other methods.
 */
int sp_get_parse(char *head, size_t len, struct sp_get *out);

/*
 * Takes the next "key=value" from the query. 1 with both decoded in place, valid as long as the head;
 * 0 at its end; -1 if it is malformed.
 */
int sp_get_pair(char **query, char **key, char **value);

#endif
