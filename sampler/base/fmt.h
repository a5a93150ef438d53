/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bounded text formatting without libc's printf: that one may take locale locks, may allocate, and
 * hosts wrap it. Any context except SIG.
 */
#ifndef SP_FMT_H
#define SP_FMT_H

#include <stdarg.h>
#include <stddef.h>

#include "sampler/base/compiler.h"

/*
 * As snprintf for %d %i %u %x %X %c %s %p %% with the flags '0' and '-', width and precision (also
 * as '*') and the lengths hh h l ll z j t. A null %s prints "(null)"; a conversion that is not
 * listed ends the output with "%?", because its argument's size is unknown. The result is always
 * NUL-terminated when cap > 0. Returns the bytes written without the NUL: never more than cap - 1.
 */
size_t sp_fmt_vsnprintf(char *buf, size_t cap, const char *fmt, va_list args) SP_PRINTF(3, 0);
size_t sp_fmt_snprintf(char *buf, size_t cap, const char *fmt, ...) SP_PRINTF(3, 4);

#endif
