/* SPDX-License-Identifier: Apache-2.0 */
/* The status of a process in words. */
#ifndef SP_REPORT_STATUS_H
#define SP_REPORT_STATUS_H

#include <stdio.h>
#include <time.h>

/*
 * Prints the status of a process. of: a status file, or the number of a running process, whose
 * exporter has the status in memory. now: for times such as "5 s ago". 0, or -1 with a reason in
 * why.
 */
int sp_report_status(FILE *out, const char *of, time_t now, char why[160]);

#endif
