/* SPDX-License-Identifier: Apache-2.0 */
/* The two forms of the report. Both expect a sorted tally. */
#ifndef SP_REPORT_PRINT_H
#define SP_REPORT_PRINT_H

#include <stdio.h>

#include "export/report/tally.h"

/* For people; top = how many functions. */
void sp_report_print_table(FILE *out, const struct sp_tally *t, size_t files, size_t top);

/* For programs; all functions unless top is not 0. 0 or -1 when out of memory. */
int sp_report_print_json(FILE *out, const struct sp_tally *t, size_t files, size_t top);

#endif
