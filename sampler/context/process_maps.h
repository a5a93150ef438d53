/* SPDX-License-Identifier: Apache-2.0 */
/* Looks for a mapping of the process context in /proc/self/maps. APP, one thread at a time. */
#ifndef SP_PROCESS_MAPS_H
#define SP_PROCESS_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Reads at most so much, some 5,000 mappings: the kernel needs about 1 us for each, and a thread of
 * the host waits for it.
 */
#define SP_PROCESS_MAPS_MAX 524288U

/*
 * *at is where such a mapping begins, except one at that address; 0 = there is none. 0, -E2BIG if
 * there are too many mappings to tell, or why they cannot be read. errno is not preserved.
 */
int sp_process_maps_find(uintptr_t except, uintptr_t *at);

/* Whether a line, without its newline, is of such a mapping, and where that begins. */
bool sp_process_maps_line(const char *line, size_t len, uintptr_t *at);

#endif
