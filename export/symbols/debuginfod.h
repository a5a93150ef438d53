/* SPDX-License-Identifier: Apache-2.0 */
/* Asks debuginfod servers for debug files; used only if the user configured some. */
#ifndef SP_DEBUGINFOD_H
#define SP_DEBUGINFOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sp_debuginfod;

/* Called during a download; false cancels it. */
typedef bool (*sp_debuginfod_go_on)(void *arg);

/* NULL when libdebuginfod.so.1 is not installed, or out of memory. */
struct sp_debuginfod *sp_debuginfod_new(sp_debuginfod_go_on go_on, void *arg);
void sp_debuginfod_free(struct sp_debuginfod *d);

/*
 * The debug file of a build as a descriptor, which the caller closes, and its path in the library's cache. Or a
 * negative errno, after at most SP_DEBUGINFOD_MS; -EAGAIN: go_on() returned false, or servers are not asked for a
 * while because they did not answer the last time.
 */
#define SP_DEBUGINFOD_MS 10000U
int sp_debuginfod_fetch(struct sp_debuginfod *d, const uint8_t *id, size_t id_len, char *path,
			size_t cap);

/* The message to the user about such an answer; false: no message, because a file that no server has is no fault. */
bool sp_debuginfod_complains(int answer, char *text, size_t cap);

#endif
