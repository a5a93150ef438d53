/* SPDX-License-Identifier: Apache-2.0 */
#include "export/util/sorted.h"

#include <string.h>

size_t sp_sorted_upto(const void *array, size_t n, size_t size, size_t key, uint64_t value)
{
	size_t low = 0;

	for (size_t high = n; low < high;) {
		size_t mid = low + (high - low) / 2;
		uint64_t at;

		memcpy(&at, (const char *)array + mid * size + key, sizeof(at));
		if (at <= value)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}
