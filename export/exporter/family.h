/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of this exporter: the one that started it, and forked children of the same program,
 * which join by a socket. All have the same user and the same configuration; other processes start
 * an exporter of their own.
 */
#ifndef SP_FAMILY_H
#define SP_FAMILY_H

#include "export/exporter/host.h"
#include "sampler/config/config.h"

/* Limits on descriptors and on addresses may allow fewer; further processes are refused. */
#define SP_FAMILY_MAX 1024U

/* Returns the configuration for all processes, which is never freed. */
typedef const struct sp_config *(*sp_family_configure)(void);

/*
 * Runs the program: serves the process that handed over these descriptors, and those that join by
 * the socket (-1 = none can), until all have ended. Closes the descriptors. Returns 0 or a negative
 * errno, which the process is told if possible; -EPROTO if its region is of another build. Once in
 * a process.
 */
int sp_family_serve(const struct sp_host_descriptors *first, int listener,
		    sp_family_configure configure);

#endif
