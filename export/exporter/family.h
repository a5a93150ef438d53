/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of this exporter: the one that has started it, and forked children of the same program,
 * which join by a socket. All of them have the same user and the same configuration; who has not starts
 * an exporter of its own.
 */
#ifndef SP_FAMILY_H
#define SP_FAMILY_H

#include "export/exporter/host.h"
#include "sampler/config/config.h"

/* Fewer where the limits on descriptors and on addresses say so; the others are refused. */
#define SP_FAMILY_MAX 1024U

/* The configuration for all processes; valid for ever. */
typedef const struct sp_config *(*sp_family_configure)(void);

/*
 * The program: works for the process that has handed over these descriptors, and for those that join by the
 * socket (-1 = none can), until all of them have ended. Closes the descriptors. 0, or a negative errno, which the
 * process is told if possible, and which is -EPROTO where its region is of another build. Once in a process.
 */
int sp_family_serve(const struct sp_host_descriptors *first, int listener,
		    sp_family_configure configure);

#endif
