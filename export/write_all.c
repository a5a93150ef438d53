/* SPDX-License-Identifier: Apache-2.0 */
/* The loop around write(2). Context: BG. */
#include "export/write_all.h"

#include <errno.h>
#include <unistd.h>

int sp_write_all(int fd, const void *data, size_t len)
{
	const char *at = data;

	while (len != 0) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}
