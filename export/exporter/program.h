/* SPDX-License-Identifier: Apache-2.0 */
/* The program but for its main(). */
#ifndef SP_PROGRAM_H
#define SP_PROGRAM_H

#include <stdint.h>

#include "sampler/config.h"

/* What applies to the host; valid for ever. */
typedef const struct sp_config *(*sp_program_configure)(void);

/*
 * Works for the host whose region that descriptor is, until that has ended. Closes the descriptor. 0, or
 * a negative errno, which the host is told of where that is possible. Once per process.
 */
int sp_program_run(int region_fd, sp_program_configure configure);

#endif
