/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's dealings with its exporter: it is started once, asked for a flush where the process is about
 * to end or to be replaced, and answered when it asks for something by the region's upkeep bits. Nothing
 * in the host waits for it but a flush.
 */
#ifndef SP_EXPORTER_H
#define SP_EXPORTER_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/config.h"

/*
 * APP, at activation, one thread at a time, with a region made for this process. Starts the program;
 * region_fd is closed. 0, or a negative errno after saying why.
 */
int sp_exporter_start(const struct sp_config *cfg, int region_fd);

/*
 * APP. It is there, and can work or will soon. If not, that is said the first time.
 */
bool sp_exporter_works(void);

/*
 * APP. Everything sampled up to now is to be sent; waits for the answer, at most timeout_ms, and not at
 * all for an exporter that has ended.
 */
void sp_exporter_flush(uint32_t timeout_ms);

#endif
