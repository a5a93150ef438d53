/* SPDX-License-Identifier: Apache-2.0 */
/* Which samples the report is about, and which ones they are compared with. */
#ifndef SP_REPORT_SELECT_H
#define SP_REPORT_SELECT_H

#include <stdbool.h>
#include <stddef.h>

#include "export/report/load.h"

enum sp_side {
	SP_SIDE_NONE,
	SP_SIDE_SELECTED,
	SP_SIDE_BASELINE, /* other spans of the same name */
};

/* NULL = everything. */
struct sp_selection {
	const char *span_id;
	const char *span_name;
	const char *trace_id;
	bool diff;   /* there is a baseline */
	char **name; /* of the selected spans, by learn */
	size_t names, cap;
	bool nomem;
	bool too_many; /* too many names to compare all of them for each sample */
};

/*
 * For sp_report_sink, with the selection: remembers the names of the selected spans. If there is to
 * be a baseline, all samples have to pass here before the first one is classified.
 */
void sp_selection_learn(void *arg, const struct sp_report_sample *s);
void sp_selection_fini(struct sp_selection *x);

enum sp_side sp_selection_side(const struct sp_selection *x, const struct sp_report_sample *s);

#endif
