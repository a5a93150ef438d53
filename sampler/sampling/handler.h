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
#include <stddef.h>
#include <stdint.h>

#include "sampler/base/compiler.h"

struct sp_sample;
struct sp_span_label;
struct sp_thread;

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

/* What a sample that the calling thread takes of itself says of the span and the thread. */
SP_SIGSAFE void sp_sample_label(const struct sp_thread *t, struct sp_sample *s,
				struct sp_span_label *label);

/* Bytes below that frame of the calling thread, if the size of its stack is known; else SIZE_MAX. */
SP_SIGSAFE size_t sp_thread_stack_room(const struct sp_thread *t, const void *frame);

#endif
