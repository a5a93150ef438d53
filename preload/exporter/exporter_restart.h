/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts another exporter if the first one has ended, or serves the family but not this process. At
 * most three times in a process, after growing pauses: what ended it once, such as too little
 * memory, may end it again.
 */
#ifndef SP_EXPORTER_RESTART_H
#define SP_EXPORTER_RESTART_H

#include <stdbool.h>

#include "sampler/config/config.h"

enum sp_restart {
	SP_RESTART_DONE,  /* there is a new exporter, and a new region */
	SP_RESTART_LATER, /* the pause is not over: try again later */
	SP_RESTART_NEVER, /* it never worked, or ended too often */
};

/*
 * APP, one thread at a time, when sp_exporter_works() has said no. ends: the process itself does, and
 * there is no later.
 */
enum sp_restart sp_exporter_restart(const struct sp_config *cfg, bool ends);

/* Forked child: it has had no restart. */
void sp_exporter_restart_forked(void);

#endif
