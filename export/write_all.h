/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a whole buffer to a file. Context: BG. Callers: what writes files. */
#ifndef SP_WRITE_ALL_H
#define SP_WRITE_ALL_H

#include <stddef.h>

/* 0, or a negative errno; then an unknown part was written. Goes on after EINTR. */
int sp_write_all(int fd, const void *data, size_t len);

#endif
