/* SPDX-License-Identifier: Apache-2.0 */
/* A small library that the test compiles: symbols, stubs, inlined functions, debug information. */
#ifndef SP_TEST_TINY_LIBRARY_H
#define SP_TEST_TINY_LIBRARY_H

#define TINY_PATH_MAX 128U

/*
 * Writes the library to a new path, which is returned in path. It exports "outer", and "hidden_at", a pointer to a
 * function without an exported symbol.
 */
void tiny_library(const char *flags, char path[TINY_PATH_MAX]);

#endif
