/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one background thread: loads the exporter and runs it. Created with all signals blocked, never
 * sampled; hooks pass straight through on it.
 */
#ifndef SP_BACKGROUND_H
#define SP_BACKGROUND_H

#include <stdbool.h>
#include <stdint.h>

#include "sampler/config.h"

/* APP, at activation and in a forked child. 0 or a negative errno. */
int sp_background_start(const struct sp_config *cfg);

/* INIT. Start-up is over: the exporter may be loaded. */
void sp_background_may_load(void);

/* APP. The initial thread ends before the others: look for the end of the last one often. */
void sp_background_main_ended(void);

/* Forked child: the parent's thread is not here. */
void sp_background_forked(void);

/* Any context. There is a background thread. */
bool sp_background_present(void);

/*
 * APP, around a call of the host that one thread more would spoil (leave_gate.h): the thread ends,
 * with what the exporter has kept, and is made again. 0 or a negative errno: then there is none.
 */
void sp_background_leave(void);
int sp_background_return(void);

/* APP. Asks for a flush and waits for the answer, at most timeout_ms. */
void sp_background_flush(uint32_t timeout_ms);

#endif
