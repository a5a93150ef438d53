/* SPDX-License-Identifier: Apache-2.0 */
/* Grows arrays by doubling, from about a page on. */
#include "export/util/grow.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SP_GROW_BYTES ((size_t)4096)
#define SP_GROW_ITEMS ((size_t)16)

bool sp_grow(void *array, size_t *cap, size_t want, size_t most, size_t size)
{
	size_t first = SP_GROW_BYTES / size > SP_GROW_ITEMS ? SP_GROW_BYTES / size : SP_GROW_ITEMS;
	size_t bigger;
	void *old, *more;

	if (want <= *cap)
		return true;
	if (most > (size_t)PTRDIFF_MAX / size)
		most = (size_t)PTRDIFF_MAX / size;
	if (want > most)
		return false;
	bigger = *cap < most / 2 ? *cap * 2 : most;
	if (bigger < first)
		bigger = first < most ? first : most;
	if (bigger < want)
		bigger = want;
	/*
	 * Copied, because a pointer of another type must not be accessed as void pointer
	 * (aliasing).
	 */
	memcpy(&old, array, sizeof(old));
	more = realloc(old, bigger * size);
	if (more == NULL)
		return false;
	memcpy(array, &more, sizeof(more));
	*cap = bigger;
	return true;
}
