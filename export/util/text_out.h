/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text that is put together piece by piece, and is cut where it does not fit. Contexts: the exporter, and
 * spanprof-report.
 */
#ifndef SP_TEXT_OUT_H
#define SP_TEXT_OUT_H

#include <stddef.h>

#include "sampler/base/compiler.h"

struct sp_text_out {
	char *text; /* of the caller; NUL-terminated after the first piece */
	size_t cap; /* more than 0 */
	size_t len;
};

void sp_text_out_put(struct sp_text_out *t, const char *format, ...) SP_PRINTF(2, 3);

#endif
