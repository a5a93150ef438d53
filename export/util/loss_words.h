/* SPDX-License-Identifier: Apache-2.0 */
/* What each counter of a loss counts, in words that follow the number, and what can be done about it. */
#ifndef SP_LOSS_WORDS_H
#define SP_LOSS_WORDS_H

#include <stddef.h>
#include <stdint.h>

#include "sampler/base/counters.h"

struct sp_loss_words {
	enum sp_counter counter;
	const char *one; /* behind the number 1 */
	const char *more;
	const char *remedy; /* NULL = none is known */
};

extern const struct sp_loss_words sp_loss_words[];
extern const size_t sp_loss_words_n;

/* What follows that number. */
static inline const char *sp_loss_words_for(const struct sp_loss_words *w, uint64_t n)
{
	return n == 1 ? w->one : w->more;
}

#endif
