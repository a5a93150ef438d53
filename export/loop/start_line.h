/* SPDX-License-Identifier: Apache-2.0 */
/* The line at level info that says of a process what is profiled, how, and where the profiles go. */
#ifndef SP_START_LINE_H
#define SP_START_LINE_H

#include <stdbool.h>

#include "export/export.h"

/*
 * Tells it once the SDK of the process is known, or at once if the process is not waited for any
 * longer. True = it is told, or nobody wants it. address: of the server, without secrets; NULL =
 * nothing is pushed.
 */
bool sp_start_line_tell(const struct sp_core_ops *ops, const char *address, bool at_once);

/* The name of a signal as SPANPROF_SIGNAL takes it, "" for none. */
#define SP_SIGNAL_NAME 24
void sp_signal_name(int number, char out[SP_SIGNAL_NAME]);

#endif
