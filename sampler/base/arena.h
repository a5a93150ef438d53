/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Anonymous memory straight from the kernel. The sampler never calls malloc: the host may have
 * replaced it, may be inside it, or may count it. Pages cost nothing until they are touched.
 */
#ifndef SP_ARENA_H
#define SP_ARENA_H

#include <stddef.h>
#include <stdint.h>

/* size bytes of zeroed, private, lazily backed memory, or NULL. APP; errno preserved. */
void *sp_arena_map(size_t size);

/* Unmaps memory of sp_arena_map(). errno preserved. */
void sp_arena_unmap(void *base, size_t size);

/*
 * How many of `most` bytes one table may reserve. Address space costs nothing unless the host has a
 * limit (RLIMIT_AS); then each table gets a small share of the limit. APP; errno preserved.
 */
uint64_t sp_arena_share(uint64_t most);

/*
 * Gives the pages of the range back to the kernel, so that they read as zero. For a forked child.
 */
void sp_arena_wipe(void *base, size_t size);

#endif
