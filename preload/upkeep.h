/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the background thread looks after about once a second: the host's threads, the sampling
 * signal, spans that never end. BG context, except where noted.
 */
#ifndef SP_UPKEEP_H
#define SP_UPKEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/config.h"

/*
 * Does it if it is due. True when the threads of the host have all ended: then ours has to end too,
 * so that the C library ends the process.
 */
bool sp_upkeep_run(const struct sp_config *config);

/* When it is due next, on the monotonic clock. */
uint64_t sp_upkeep_due_ns(void);

/* Threads of the host without a timer, at the last look. */
uint32_t sp_upkeep_unarmed(void);

/* APP. The initial thread ends before the others: look for the end of the last one often. */
void sp_upkeep_main_ended(void);

/* Forked child. */
void sp_upkeep_forked(void);

#endif
