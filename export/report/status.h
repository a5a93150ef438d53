/* SPDX-License-Identifier: Apache-2.0 */
/* The status of a process in words. */
#ifndef SP_REPORT_STATUS_H
#define SP_REPORT_STATUS_H

#include <stdio.h>
#include <time.h>

/*
 * of: a file, or the number of a running process, whose exporter has its status in memory. now: for how long
 * ago something was. 0, or -1 with what is wrong in why.
 */
int sp_report_status(FILE *out, const char *of, time_t now, char why[160]);

#endif
