/* SPDX-License-Identifier: Apache-2.0 */
/* A frame as one text. */
#ifndef SP_REPORT_FRAME_H
#define SP_REPORT_FRAME_H

#include <stdbool.h>
#include <stddef.h>

#include "export/report/load.h"

#define SP_REPORT_TEXT_MAX 4096U

/*
 * Writes the function's name, with lines and as far as known followed by " (file:line)", cut to that
 * size and NUL-terminated. Returns its length.
 */
size_t sp_report_frame_text(const struct sp_report_frame *f, bool lines,
			    char out[SP_REPORT_TEXT_MAX + 1]);

/* Any text as valid UTF-8 without control characters. Returns its length. */
size_t sp_report_clean(const char *s, char out[SP_REPORT_TEXT_MAX + 1]);

/* One line on stderr about a file, or "" for none. */
void sp_report_complain(const char *path, const char *why);

#endif
