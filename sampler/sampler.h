/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler as a whole: its setup, and its reset in a forked child. */
#ifndef SP_SAMPLER_H
#define SP_SAMPLER_H

#include <stdbool.h>

#include "sampler/config/config.h"

/*
 * APP, at activation, one caller at a time. Makes the region and reserves the tables, finds the
 * unwinder's helper through lookup(name), installs the handler and fixes period and scopes. Arms
 * nothing. The region's descriptor (the caller closes it), or a negative errno; then nothing will be
 * sampled.
 */
int sp_sampler_prepare(const struct sp_config *cfg, void *(*lookup)(const char *name));

/*
 * Any context, one thread at a time, in a forked child of a process that was prepared: makes a region for
 * it like its parent's, by system calls alone. The same result; if it fails, nothing has changed.
 */
int sp_sampler_begin(void);

/*
 * Forked child, its only thread: no samples, timers, threads or regions of the parent are left; open
 * spans of the calling thread stay. Returns whether it has one.
 */
bool sp_sampler_forked(void);

#endif
