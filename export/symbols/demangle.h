/* SPDX-License-Identifier: Apache-2.0 */
/* Readable names of C++ and Rust functions. */
#ifndef SP_DEMANGLE_H
#define SP_DEMANGLE_H

#include <stddef.h>

#define SP_FUNCTION_NAME_MAX 1024U

/*
 * Writes the readable form of a symbol, or the symbol itself when it is not mangled, to out as
 * clean UTF-8, at most SP_FUNCTION_NAME_MAX bytes and a NUL. Returns the length.
 */
size_t sp_demangle(const char *symbol, char out[SP_FUNCTION_NAME_MAX + 1]);

#endif
