/* SPDX-License-Identifier: Apache-2.0 */
/* The command line of spanprof-report. */
#ifndef SP_REPORT_OPTIONS_H
#define SP_REPORT_OPTIONS_H

#include <stdbool.h>

#include "export/report/print.h"
#include "export/report/select.h"

/* Exit status, also in the help. */
#define SP_EXIT_USAGE 1
#define SP_EXIT_DAMAGED 2

enum sp_report_form { SP_FORM_TABLE, SP_FORM_JSON, SP_FORM_FOLDED };

struct sp_report_options {
	struct sp_selection selection;
	enum sp_report_form form;
	const char *type;       /* of profiles: that sample type; NULL = CPU time */
	const char *flamegraph; /* file to write, NULL = none */
	bool lines;
	bool threads;
	size_t top; /* 0 = all */
};

/* -1 = go on with the paths from optind on; else the exit status, after all messages. */
int sp_report_options_read(int argc, char **argv, struct sp_report_options *o);

#endif
