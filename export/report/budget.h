/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a file may make us take: two bytes of protobuf can ask for more than a hundred. */
#ifndef SP_REPORT_BUDGET_H
#define SP_REPORT_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

struct sp_budget {
	size_t left;
	bool exceeded; /* something was refused */
};

/* As malloc() and free(), and as protobuf-c calls them: NULL when the budget does not allow it. */
void *sp_budget_alloc(void *budget, size_t size);
void sp_budget_free(void *budget, void *p);

#endif
