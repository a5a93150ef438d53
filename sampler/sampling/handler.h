/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampling signal handler. A thread's CPU timer sends our signal to that thread, and the
 * handler writes one sample: the frames of the stack and the label of the active span. Context:
 * SIG.
 */
#ifndef SP_HANDLER_H
#define SP_HANDLER_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

/*
 * What the handler works with. Written at activation, before the first timer is armed; only read
 * after that.
 */
struct sp_handler_setup {
	bool always_snapshot; /* never walk here, always copy a snapshot for the exporter */
	uint32_t cookie;      /* upper half of our timers' si_value */
	uint32_t depth;       /* frames kept per sample */
	uint64_t period_ns;
	bool thread_name;
	bool note_samples; /* note in the span table which spans have samples */
	/*
	 * Gives a forked child its region, if that can be done now. It is called by a handler that finds
	 * none; NULL = there is nobody to ask.
	 */
	void (*begin)(void);
};
extern struct sp_handler_setup sp_handler_setup;

SP_SIGSAFE void sp_handler(int signo, siginfo_t *si, void *ucontext);

#endif
