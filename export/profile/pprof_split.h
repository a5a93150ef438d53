/* SPDX-License-Identifier: Apache-2.0 */
/* Takes a part of the samples of a packed profile into a profile of its own. */
#ifndef SP_PPROF_SPLIT_H
#define SP_PPROF_SPLIT_H

#include <stddef.h>
#include <stdint.h>

#include "export/profile/pprof.h"

/* What a profile counts, as far as splitting it is concerned. */
struct sp_pprof_count {
	size_t records;   /* samples as pprof has them: a stack with labels */
	uint64_t samples; /* taken for them: the sum of their first values */
};

/* 0, or -EINVAL: no profile. */
int sp_pprof_count(const struct sp_bytes *whole, struct sp_pprof_count *out);

/*
 * The records from..to-1 with what they refer to; times, types, comments and the first mapping are in
 * every part. Its numbers are as dense as those of the whole. 0, -ENOMEM or -EINVAL.
 */
int sp_pprof_part(const struct sp_bytes *whole, size_t from, size_t to, struct sp_bytes *out);

#endif
