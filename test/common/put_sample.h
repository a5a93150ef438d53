/* SPDX-License-Identifier: Apache-2.0 */
/* Puts a complete sample into a ring, which the handler never has in one piece. Context: tests. */
#ifndef TEST_COMMON_PUT_SAMPLE_H
#define TEST_COMMON_PUT_SAMPLE_H

#include "sampler/region/ring.h"

/* Copies the used part of the sample. 0, or -ENOSPC. */
static inline int put_sample(struct sp_ring *r, const struct sp_sample *s)
{
	return sp_ring_put(r, SP_RECORD_SAMPLE, s, sp_sample_bytes(s->depth));
}

#endif
