/* SPDX-License-Identifier: Apache-2.0 */
/* Maps ids to indexes by binary search. Context: the report tool. */
#include "export/report/id_index.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
	const struct sp_id_at *x = a;
	const struct sp_id_at *y = b;

	return (x->id > y->id) - (x->id < y->id);
}

bool sp_id_index_init(struct sp_id_index *x, struct sp_id_at *row, size_t n)
{
	size_t i = 0;

	x->row = row;
	x->n = n;
	while (i < n && row[i].id == i + 1)
		i++;
	if (i == n) {
		sp_id_index_fini(x);
		return true;
	}
	qsort(row, n, sizeof(*row), compare);
	for (i = 1; i < n; i++)
		if (row[i].id == row[i - 1].id)
			return false;
	return true;
}

void sp_id_index_fini(struct sp_id_index *x)
{
	free(x->row);
	x->row = NULL;
}

size_t sp_id_index_find(const struct sp_id_index *x, uint64_t id)
{
	size_t lo = 0;
	size_t hi = x->n;

	if (x->row == NULL)
		return id >= 1 && id <= x->n ? (size_t)id - 1 : SIZE_MAX;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (x->row[mid].id < id)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < x->n && x->row[lo].id == id ? x->row[lo].at : SIZE_MAX;
}
