/* SPDX-License-Identifier: Apache-2.0 */
/* gzip in memory, both ways. */
#ifndef SP_GZIP_H
#define SP_GZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "export/profile/pprof.h"

/* Compresses. The result has no time stamp, so equal input gives equal bytes. 0 or -ENOMEM. */
int sp_gzip_pack(const struct sp_bytes *in, struct sp_bytes *out);

/*
 * Makes one gzip file with the content of several, in their order, without compressing again; each must come from
 * sp_gzip_pack(). The result has one member, because many readers overlook a second one. 0, -ENOMEM or -EINVAL.
 */
int sp_gzip_join(const struct sp_bytes *const part[], size_t n, struct sp_bytes *out);

bool sp_gzip_is(const uint8_t *data, size_t len);

/*
 * Expands to at most max bytes, including all members that follow each other, as gzip does. 0; -ENOMEM; -EINVAL:
 * damaged or cut short; -EBADMSG: other data follows; -E2BIG.
 */
int sp_gzip_unpack(const uint8_t *data, size_t len, size_t max, struct sp_bytes *out);

#endif
