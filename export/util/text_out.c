/* SPDX-License-Identifier: Apache-2.0 */
/* See text_out.h. */
#include "export/util/text_out.h"

#include <stdarg.h>
#include <stdio.h>

void sp_text_out_put(struct sp_text_out *t, const char *format, ...)
{
	size_t left = t->cap - t->len;
	va_list ap;
	int n;

	va_start(ap, format);
	n = vsnprintf(t->text + t->len, left, format, ap);
	va_end(ap);
	if (n > 0)
		t->len += (size_t)n < left ? (size_t)n : left - 1;
}
