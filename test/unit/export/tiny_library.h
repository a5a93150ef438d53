/* SPDX-License-Identifier: Apache-2.0 */
/* A small library, compiled by the test: symbols, stubs, inlined functions, debug information. */
#ifndef SP_TEST_TINY_LIBRARY_H
#define SP_TEST_TINY_LIBRARY_H

#define TINY_PATH_MAX 128U

/* Writes a new path to path and the library there; "outer" of it is exported, and
 * "hidden_at", a pointer to a function that has no exported symbol. */
void tiny_library(const char *flags, char path[TINY_PATH_MAX]);

#endif
