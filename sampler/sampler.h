/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler as a whole: its setup, and its reset in a forked child. */
#ifndef SP_SAMPLER_H
#define SP_SAMPLER_H

#include <stdbool.h>

#include "sampler/config/config.h"

/*
 * APP, at activation, one caller at a time. Creates the region and reserves the tables, finds the
 * unwinder's helper by lookup(name), installs the handler and fixes period and scopes. Starts no
 * timer. Returns the region's descriptor, which the caller closes, or a negative errno; then
 * nothing will be sampled.
 */
int sp_sampler_prepare(const struct sp_config *cfg, void *(*lookup)(const char *name));

/*
 * Any context, one thread at a time, in a forked child of a prepared process: creates a region like
 * the parent's, by system calls alone. Returns the same as sp_sampler_prepare(); a failure changes
 * nothing.
 */
int sp_sampler_begin(void);

/*
 * In a forked child, by its only thread: removes the parent's samples, timers, threads and regions;
 * open spans of the calling thread stay. Returns whether the thread has an open span.
 */
bool sp_sampler_forked(void);

#endif
