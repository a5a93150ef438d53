/* SPDX-License-Identifier: Apache-2.0 */
/* A part of a packed profile, as a profile of its own, for a server that finds the whole too large. */
#ifndef SP_CUT_H
#define SP_CUT_H

#include <stdint.h>

#include "export/profile/pprof.h"

/*
 * Makes a profile of the samples from first to end - 1. It has the locations, functions and texts of these samples alone,
 * and the times, comments and first mapping of the whole. 0; -EINVAL: the profile is not one of pprof.c, or it does not
 * have these samples; -ENOMEM. Free out->data.
 */
int sp_cut(const struct sp_bytes *whole, uint32_t first, uint32_t end, struct sp_bytes *out);

#endif
