/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Anonymous memory straight from the kernel. The core never calls malloc: the host may have
 * replaced it, may be inside it, or may count it. Pages cost nothing until they are touched.
 */
#ifndef SP_ARENA_H
#define SP_ARENA_H

#include <stddef.h>

/* size bytes of zeroed, private, lazily backed memory, or NULL. APP and BG; errno preserved. */
void *sp_arena_map(size_t size);

/* Makes the range read as zero again and gives its pages back. For a forked child. */
void sp_arena_wipe(void *base, size_t size);

#endif
