/* SPDX-License-Identifier: Apache-2.0 */
/* Readable forms of the names in symbol tables. */
#ifndef SP_DEMANGLE_H
#define SP_DEMANGLE_H

#include <stddef.h>

#define SP_FUNCTION_NAME_MAX 1024U
/* Bytes of a symbol. The demangler needs memory in proportion to it. */
#define SP_MANGLED_MAX ((size_t)16 << 10)

/*
 * Writes the readable form of a symbol of C++ or Rust, or the symbol itself when it is not mangled, to out as clean
 * UTF-8, at most SP_FUNCTION_NAME_MAX bytes and a NUL. Text from an "@" on stays unchanged. Returns the length.
 */
size_t sp_demangle(const char *symbol, char out[SP_FUNCTION_NAME_MAX + 1]);

/*
 * Copies a text of len bytes to out as clean UTF-8, at most `most` bytes, which are 64 or more, and a NUL. If the
 * text is longer, "[...", eight digits of a hash of the whole and "...]" replace its middle, so that two different
 * texts stay different. Returns the length.
 */
size_t sp_shorten(const char *text, size_t len, char *out, size_t most);

#endif
