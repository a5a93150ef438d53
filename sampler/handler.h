/* SPDX-License-Identifier: Apache-2.0 */
/* The sampling signal handler. */
#ifndef SP_HANDLER_H
#define SP_HANDLER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/compiler.h"

/* What the handler works with; written at activation before the first timer is armed. */
struct sp_handler_setup {
	bool always_snapshot; /* no walk in the handler */
	uint32_t cookie;      /* upper half of our timers' si_value */
	uint32_t depth;       /* frames kept per sample */
	uint64_t period_ns;
	bool thread_name;
	bool note_samples; /* tell the table which spans have samples */
};
extern struct sp_handler_setup sp_handler_setup;

SP_SIGSAFE void sp_handler(int signo, siginfo_t *si, void *ucontext);

#endif
