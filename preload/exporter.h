/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's dealings with its exporter: it is started once, asked for a flush where the process is about
 * to end or to be replaced, and answered when it asks for something by the region's work bits. Nothing
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
 * APP. It is there, and can work or will soon. Once false it stays so for this region, and
 * struct sp_region.exporter is not SP_EXPORTER_WORKING any more.
 */
bool sp_exporter_works(void);

/* APP. It does not work, and there will be no other one. Said once in a process. */
void sp_exporter_tell_ended(void);

/*
 * APP. Everything sampled up to now is to be sent; waits for the answer, at most timeout_ms, and not at
 * all for an exporter that has ended: then it returns false.
 */
bool sp_exporter_flush(uint32_t timeout_ms);

#endif
