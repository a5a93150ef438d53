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

/* Gives back what sp_arena_map() has given. errno preserved. */
void sp_arena_unmap(void *base, size_t size);

/*
 * How much of `most` one table may reserve. Address space costs nothing unless the host is limited in
 * it (RLIMIT_AS); then each table gets a small part of what the host has. APP; errno preserved.
 */
uint64_t sp_arena_share(uint64_t most);

/* Makes the range read as zero again and gives its pages back. For a forked child. */
void sp_arena_wipe(void *base, size_t size);

#endif
