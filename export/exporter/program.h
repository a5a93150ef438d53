/* SPDX-License-Identifier: Apache-2.0 */
/* The program but for its main(). */
#ifndef SP_PROGRAM_H
#define SP_PROGRAM_H

#include "export/exporter/host.h"
#include "sampler/config.h"

/* What applies to all processes; valid for ever. */
typedef const struct sp_config *(*sp_program_configure)(void);

/*
 * Works for the process that has handed over these descriptors, and for those that join it by the socket
 * (-1 = nobody can), until all of them have ended. Closes the descriptors. 0, or a negative errno, which
 * the process is told of where that is possible. Once per process.
 */
int sp_program_run(const struct sp_host_descriptors *fds, int listener,
		   sp_program_configure configure);

#endif
