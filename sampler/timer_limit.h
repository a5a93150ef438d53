/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many timers we may have. Each holds one entry of RLIMIT_SIGPENDING from its creation on, which
 * all processes of the user share with every sigqueue(3) and timer_create(2) of theirs: when it is
 * used up, those fail in the host. We leave half of it to others. APP.
 */
#ifndef SP_TIMER_LIMIT_H
#define SP_TIMER_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

/*
 * By the text of /proc/PID/status, for a process that has so many timers of ours. False if it does not
 * tell.
 */
bool sp_timer_limit_of(const char *status, uint32_t ours, uint64_t *timers);

/* Asks the kernel, and sets what thread.h obeys. Without /proc all stays as it was. */
void sp_timer_limit_look(void);

#endif
