/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One-line messages on stderr: "spanprof[pid]: text\n", one write(2) each, no stdio, no heap.
 * Contexts: INIT and APP. Never from a signal handler: SIG code counts instead.
 * errno is preserved. Text is cut at 1,000 bytes and made printable (text.h).
 */
#ifndef SP_LOG_H
#define SP_LOG_H

#include <stdbool.h>

#include "sampler/base/compiler.h"

enum sp_log_level {
	SP_LOG_NONE,
	SP_LOG_ERROR,
	SP_LOG_WARN,
	SP_LOG_INFO,
	SP_LOG_DEBUG,
};

/*
 * Messages up to this level are printed. sp_config_parse() calls this; the default is SP_LOG_WARN.
 */
void sp_log_set_level(enum sp_log_level level);

/*
 * APP, at activation. Remembers which file stderr is; later messages go to descriptor 2 only if it
 * is still that file, or looks like another log. errno preserved.
 */
void sp_log_begin(void);

/* Whether a message of that level would be printed; for messages that are costly to make. */
bool sp_log_prints(enum sp_log_level level);

void sp_log(enum sp_log_level level, const char *fmt, ...) SP_PRINTF(2, 3);

#endif
