/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many timers we may have. Each timer holds one entry of RLIMIT_SIGPENDING as long as it
 * exists. All processes of the user share these entries, and sigqueue(3) and timer_create(2) of the
 * host fail when none is left. So we take no more than half of them. Context: APP.
 */
#ifndef SP_TIMER_LIMIT_H
#define SP_TIMER_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The limit by the text of /proc/PID/status, for a process that has `ours` timers of ours. False if
 * the text does not tell.
 */
bool sp_timer_limit_of(const char *status, uint32_t ours, uint64_t *timers);

/*
 * Asks the kernel and sets the limit that thread.h obeys. Without /proc the limit stays as it was.
 */
void sp_timer_limit_look(void);

#endif
