/* SPDX-License-Identifier: Apache-2.0 */
/* Says which of the texts of a selection no sample has, and what is nearest to it. */
#ifndef SP_REPORT_SUGGEST_H
#define SP_REPORT_SUGGEST_H

#include <stddef.h>

#include "export/report/select.h"
#include "export/report/tally.h"

/* all: sums of all samples that there are. One sentence into why, which is cut if it is too long. */
void sp_suggest(const struct sp_tally *all, const struct sp_selection *x, char *why, size_t cap);

/*
 * How many characters have to be changed, added or taken away to make b of a, without regard to
 * case; 0 also if one is the beginning of the other. Only the first 64 bytes are compared.
 */
unsigned sp_suggest_distance(const char *a, const char *b);

#endif
