/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator whose malloc() calls another of its functions by name, as Electric Fence's does. */
#include <stddef.h>

void *__libc_memalign(size_t alignment, size_t bytes);

void *memalign(size_t alignment, size_t bytes);
void *malloc(size_t bytes);

void *memalign(size_t alignment, size_t bytes)
{
	return __libc_memalign(alignment, bytes);
}

void *malloc(size_t bytes)
{
	return memalign(16, bytes);
}
