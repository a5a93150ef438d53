/* SPDX-License-Identifier: Apache-2.0 */
/* A status file (SPANPROF_STATUS_FILE) in words. */
#ifndef SP_REPORT_STATUS_H
#define SP_REPORT_STATUS_H

#include <stdio.h>
#include <time.h>

/* now: for how long ago something was. 0, or -1 with what is wrong with the file in why. */
int sp_report_status(FILE *out, const char *path, time_t now, char why[160]);

#endif
