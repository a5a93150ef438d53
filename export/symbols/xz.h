/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks .xz data, as MiniDebugInfo (.gnu_debugdata) is stored. */
#ifndef SP_XZ_H
#define SP_XZ_H

#include <stddef.h>
#include <stdint.h>

/*
 * Unpacks into malloc'ed memory of at most max bytes. 0, -EFBIG more than that, -EINVAL damaged or
 * cut off, -ENOMEM.
 */
int sp_xz_unpack(const void *packed, size_t packed_len, size_t max, uint8_t **out, size_t *len);

#endif
