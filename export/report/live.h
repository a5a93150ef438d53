/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is served: the page, its scripts, and reports as JSON. A request selects samples, and cannot
 * name files.
 */
#ifndef SP_REPORT_LIVE_H
#define SP_REPORT_LIVE_H

#include <stddef.h>
#include <stdio.h>

#include "export/report/get.h"
#include "export/report/options.h"

struct sp_live_answer {
	int status;       /* HTTP */
	const char *type; /* of the body; NULL = there is none */
	char *body;       /* malloc'ed, or NULL */
	size_t len;
};

/*
 * o: what the command line selects, which requests narrow. The answer is status 404 for paths that are
 * not known, 400 for wrong values, and 200 also for a report of nothing, which says why.
 */
void sp_live_answer(const struct sp_report_options *o, char *const *path, struct sp_get *get,
		    struct sp_live_answer *a);

/* The head of the answer, up to the empty line. */
void sp_live_print_head(FILE *out, const struct sp_live_answer *a);

#endif
