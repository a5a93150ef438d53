/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that spanprof-run prints passes through here: names of files, words of
 * environments and of servers could otherwise drive the terminal of whoever reads them.
 */
#include "scripts/run/line.h"

#include <stdarg.h>
#include <string.h>

#include "sampler/base/text.h"

static void put(FILE *out, char *text, size_t len)
{
	sp_text_printable(text, len);
	(void)fwrite(text, 1, len, out);
	(void)putc('\n', out);
}

void sp_line(FILE *out, const char *fmt, ...)
{
	char text[SP_LINE_MAX];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	put(out, text, sp_text_boundary(text, strlen(text)));
}

void sp_line_copy(FILE *in, FILE *out, size_t max)
{
	char text[SP_LINE_MAX];
	size_t len = 0;
	int c;

	while (max-- != 0 && (c = getc(in)) != EOF) {
		if (c != '\n')
			text[len++] = (char)c;
		if (c == '\n' || len == sizeof(text)) {
			put(out, text, len);
			len = 0;
		}
	}
	if (len != 0)
		put(out, text, len);
}
