/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the sentences that spanprof-report says about the slowest orders with the server's own
 * measurements, which are attributes of the same spans. Caller: summary.c.
 */
#ifndef RIDESHARE_SENTENCES_H
#define RIDESHARE_SENTENCES_H

#include <jansson.h>

/* The report prints so many beside its page. */
#define SENTENCES 3

struct sentences_result {
	unsigned sentences;     /* printed, and in the report's JSON as well */
	unsigned missing;       /* of these: without a cause, or about no order of the server */
	unsigned figures;       /* that were compared */
	unsigned wrong;         /* of these */
	unsigned wrong_holders; /* locks that were held by somebody else */
	double off_ms, most_ms; /* the figure nearest to its bound: its difference, and the bound */
};

/*
 * Prints a row for each figure in the sentences of the file `printed`. slowest: the same report in
 * JSON, which has the span of each sentence. A file that cannot be read ends the program with a
 * message.
 */
void sentences_print(const json_t *slowest, const json_t *spans, const char *printed,
		     struct sentences_result *out);

#endif
