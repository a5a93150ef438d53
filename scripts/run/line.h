/* SPDX-License-Identifier: Apache-2.0 */
/* What our programs print: a line, whose words may be anybody's. */
#ifndef SP_LINE_H
#define SP_LINE_H

#include <stdio.h>

#define SP_LINE_MAX 16384U

/* One line, made printable and cut at SP_LINE_MAX bytes. */
void sp_line(FILE *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Copies lines, each made printable, up to that many bytes. */
void sp_line_copy(FILE *in, FILE *out, size_t max);

#endif
