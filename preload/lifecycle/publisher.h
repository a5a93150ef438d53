/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who publishes the thread context (OTEP 4947) in this program: we, where no object that it was loaded with
 * defines the variable, or such an object, whose records then label samples.
 */
#ifndef SP_PUBLISHER_H
#define SP_PUBLISHER_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/config/config.h"

/*
 * INIT, before the host's main(). Asks the loader for definitions of the variable, once and for all: a forked
 * child may be the first to record a span, and another thread of its parent may have held the loader's
 * lock at the fork. A library that is opened later finds our variable.
 */
void sp_publisher_look(void);

/* Any context. An object that was there at the start defines the variable. */
bool sp_publisher_found(void);

/* APP, one thread at a time, at activation. */
void sp_publisher_prepare(const struct sp_config *config);

/*
 * APP. The memory at that address is one that the program publishes a process context (OTEP 4719) in; without a
 * name it is looked at first. True if it says that threads publish their spans: their records are to label
 * samples from now on.
 */
bool sp_publisher_announced(uintptr_t at, bool has_name);

/* APP, after that, once sampling is on. A forked child goes on with it, also where sampling was on before. */
void sp_publisher_read_on(void);

/* Any context. Samples are labelled by what others publish: a forked child goes on with that, too. */
bool sp_publisher_is_read(void);

#endif
