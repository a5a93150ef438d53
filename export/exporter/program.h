/* SPDX-License-Identifier: Apache-2.0 */
/* The program without its main(), for tests. */
#ifndef SP_PROGRAM_H
#define SP_PROGRAM_H

#include "export/exporter/host.h"
#include "sampler/config/config.h"

/* The configuration for all processes; valid for ever. */
typedef const struct sp_config *(*sp_program_configure)(void);

/*
 * Works for the process that has handed over these descriptors, and for those that join by the
 * socket (-1 = none can), until all of them have ended. Closes the descriptors. 0, or a negative
 * errno, which the process is told if possible. Once in a process.
 */
int sp_program_run(const struct sp_host_descriptors *fds, int listener,
		   sp_program_configure configure);

#endif
