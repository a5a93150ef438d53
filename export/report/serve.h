/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Serves reports to browsers on this machine: a socket at 127.0.0.1 and one at ::1, and a process of
 * its own for each connection, with limits on its time, memory and number. Nothing of a request
 * reaches the file system.
 */
#ifndef SP_REPORT_SERVE_H
#define SP_REPORT_SERVE_H

#include "export/report/options.h"

/* Does not return before it fails: an exit status, after a message. */
int sp_serve(const struct sp_report_options *o, char *const *path);

#endif
