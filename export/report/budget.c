/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the memory that a file takes (budget.h). Context: the report tool. */
#include "export/report/budget.h"

#include <malloc.h>
#include <stdlib.h>

/* Overhead of an allocation. Many small allocations are the danger. */
#define SP_BUDGET_HEAD ((size_t)16)

void *sp_budget_alloc(void *budget, size_t size)
{
	struct sp_budget *b = budget;
	void *p = size < b->left ? malloc(size) : NULL;
	size_t taken = p != NULL ? malloc_usable_size(p) + SP_BUDGET_HEAD : 0;

	if (p == NULL || taken > b->left) {
		b->exceeded = b->exceeded || size >= b->left || p != NULL;
		free(p);
		return NULL;
	}
	b->left -= taken;
	return p;
}

void sp_budget_free(void *budget, void *p)
{
	struct sp_budget *b = budget;

	if (p != NULL)
		b->left += malloc_usable_size(p) + SP_BUDGET_HEAD;
	free(p);
}
