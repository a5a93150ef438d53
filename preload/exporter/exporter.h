/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of the exporter: it is started once, and asked for a flush when the process is
 * about to end or to execute another program. Nothing in the host waits for the exporter except a
 * flush.
 */
#ifndef SP_EXPORTER_H
#define SP_EXPORTER_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/config/config.h"

/*
 * APP, at activation, one thread at a time, with a region made for this process. Starts the program
 * or joins a running one; region_fd is closed. 0, or a negative errno after a message.
 */
int sp_exporter_start(const struct sp_config *cfg, int region_fd);

/*
 * APP. The exporter exists, and works or soon will. Once false it stays false for this region, and
 * struct sp_region.exporter is no longer SP_EXPORTER_WORKING.
 */
bool sp_exporter_works(void);

/*
 * APP. Says that the exporter does not work and that there will be no other one. Once in a process.
 */
void sp_exporter_tell_ended(void);

/*
 * APP. Asks for everything sampled so far to be sent, and waits for the answer, at most timeout_ms.
 * If the exporter has ended it does not wait, and returns false.
 */
bool sp_exporter_flush(uint32_t timeout_ms);

#endif
