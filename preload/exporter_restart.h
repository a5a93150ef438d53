/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another exporter where the first one has ended, or serves the family but not this process. Three times in
 * a process, after growing pauses: what ends it once, as too little memory, may do so again.
 */
#ifndef SP_EXPORTER_RESTART_H
#define SP_EXPORTER_RESTART_H

#include "sampler/config.h"

enum sp_restart {
	SP_RESTART_DONE,  /* there is a new exporter, and a new region */
	SP_RESTART_LATER, /* the pause is not over: ask again */
	SP_RESTART_NEVER, /* it could never work, or ends too often */
};

/* APP, one thread at a time, when sp_exporter_works() has said no. */
enum sp_restart sp_exporter_restart(const struct sp_config *cfg);

/* Forked child: it has had none. */
void sp_exporter_restart_forked(void);

#endif
